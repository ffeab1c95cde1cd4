"""The embedded model is what its builder makes."""

import modelkin as mk
from modelkin.demo import demo_model
from modelkin.demo._build import SHAPE, build_files


def test_the_shipped_files_are_those_of_the_builder():
    with demo_model() as folder:
        shipped = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert shipped == build_files()


def test_it_is_a_model_that_modelkin_knows():
    with demo_model() as folder, mk.open_model(str(folder)) as model:
        assert model.architecture.family == "llama"
        assert model.architecture.n_layers == SHAPE.layers
        assert model.architecture.unknown == ()
