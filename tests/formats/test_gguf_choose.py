"""Which GGUF file of a model is taken, what is said about the others, and sets of parts."""

import struct

import numpy as np
import pytest

import modelkin as mk
from modelkin.errors import HeaderError, NotFound
from modelkin.formats.gguf.reading import choose, precision
from modelkin.source import FileInfo, MemorySource

from .gguf_bytes import GgufBytes, scalar, small, string, tensor

MODEL = small().build()


def chosen(*names):
    return choose({name: FileInfo(name=name, size=100) for name in names})


def test_the_most_precise_file_is_taken():
    names = [f"m.{kind}.gguf" for kind in ("Q4_K_M", "Q8_0", "IQ2_XXS", "Q6_K")]
    assert chosen(*names) == "m.Q8_0.gguf"
    assert chosen(*names, "m-f16.gguf") == "m-f16.gguf"
    assert chosen(*names, "m-f16.gguf", "m-BF16.gguf") == "m-BF16.gguf"


def test_types_in_names_are_ranked():
    kinds = (
        *("F32", "BF16", "fp16", "Q8_0", "Q6_K", "Q5_K_L", "Q5_K_M", "Q5_K_S", "Q5_0", "Q4_K_XL", "Q4_K_M"),
        *("Q4_K_S", "Q4_1", "IQ4_NL", "IQ4_XS", "Q4_0", "Q3_K_L", "Q3_K_M", "IQ3_M", "IQ3_XXS", "Q2_K"),
        *("IQ2_M", "IQ2_XXS", "TQ1_0", "IQ1_S"),
    )
    places = [precision(f"Llama-3-8B-Instruct.{kind}.gguf") for kind in kinds]
    assert places == sorted(places)
    assert len(set(places)) == len(places)
    assert all(place < precision("model.gguf") for place in places)


def test_a_size_in_the_name_of_the_model_is_no_type():
    assert precision("Q3-Coder-7B-L-Q8_0.gguf") == precision("x.Q8_0.gguf")
    assert precision("model-i1-Q4_K_M.gguf") == precision("x.Q4_K_M.gguf")
    assert precision("model-UD-Q2_K_XL.gguf") == precision("x.Q2_K_XL.gguf")


def test_projectors_matrices_of_importance_and_later_parts_are_no_models():
    assert chosen("mmproj-model-f16.gguf", "m.imatrix.gguf", "m-00002-of-00002.gguf") is None
    assert chosen("mmproj-F32.gguf", "m-Q4_0-00001-of-00002.gguf") == "m-Q4_0-00001-of-00002.gguf"


def test_files_at_the_top_come_before_those_in_folders():
    assert chosen("BF16/m-BF16.gguf", "m-Q4_0.gguf") == "m-Q4_0.gguf"
    assert chosen("BF16/m-BF16.gguf", "Q4_0/m-Q4_0.gguf") == "BF16/m-BF16.gguf"


def test_the_other_files_are_named_in_a_note():
    files = {"m.Q8_0.gguf": MODEL, "m.Q4_0.gguf": MODEL, "mmproj.gguf": b"x"}
    notes = mk.open_model(MemorySource(files)).weights.notes
    assert "m.Q8_0.gguf was taken; there are also m.Q4_0.gguf" in list(map(str, notes))


def test_many_other_files_are_counted():
    files = {f"m{number}.Q4_0.gguf": MODEL for number in range(12)}
    notes = mk.open_model(MemorySource(files)).weights.notes
    assert any(note.endswith("and 7 more") for note in map(str, notes))


def test_safetensors_come_before_gguf():
    from tests.support import llama_files

    assert mk.open_model(MemorySource({**llama_files(), "m.gguf": MODEL})).weights.format == "safetensors"


# -- sets of parts ---------------------------------------------------------------------------------------


def part(number, count, tensors, *, total=2, first=False):
    made = GgufBytes(
        keys={
            **({"general.architecture": string("llama")} if first else {}),
            "split.no": scalar(2, number),
            "split.count": scalar(2, count),
            "split.tensors.count": scalar(5, total),
        },
        tensors=tensors,
        data=struct.pack("<8f", *range(8)),
    )
    return made.build()


PARTS = {
    "m-00001-of-00002.gguf": part(0, 2, [tensor("output_norm.weight", (4,), 0, 0)], first=True),
    "m-00002-of-00002.gguf": part(1, 2, [tensor("token_embd.weight", (4, 2), 0, 0)]),
}


def parts(**changes):
    return mk.open_model(MemorySource({**PARTS, **changes}))


def test_parts_are_one_model():
    model = parts()
    assert set(model.index) == {"model.norm.weight", "model.embed_tokens.weight"}
    assert model.index["model.embed_tokens.weight"].file == "m-00002-of-00002.gguf"
    np.testing.assert_array_equal(model.tensor("model.embed_tokens.weight"), [[0, 1, 2, 3], [4, 5, 6, 7]])
    assert model.config["vocab_size"] == 2


def test_any_part_names_the_set(tmp_path):
    for name, data in PARTS.items():
        (tmp_path / name).write_bytes(data)
    model = mk.open_model(str(tmp_path / "m-00002-of-00002.gguf"))
    assert len(model.index) == 2


def test_a_missing_part_is_named():
    files = {"m-00001-of-00003.gguf": part(0, 3, [], first=True)}
    with pytest.raises(HeaderError, match=r"2 of 3 parts are missing, starting with 'm-00002-of-00003.gguf'"):
        _ = mk.open_model(MemorySource(files)).index


def test_parts_of_another_set_are_refused():
    wrong = part(0, 2, [tensor("token_embd.weight", (4, 2), 0, 0)])
    with pytest.raises(HeaderError, match="expected part 1 of 2, got a header of part 0 of 2"):
        _ = parts(**{"m-00002-of-00002.gguf": wrong}).index


def test_a_set_with_other_tensors_than_stated_is_refused():
    wrong = part(0, 2, [tensor("output_norm.weight", (4,), 0, 0)], total=5, first=True)
    with pytest.raises(HeaderError, match="expected 5 tensors in all parts, got 2"):
        _ = parts(**{"m-00001-of-00002.gguf": wrong}).index


def test_a_renamed_part_is_refused_as_such():
    files = {"renamed.gguf": part(0, 2, [], first=True)}
    with pytest.raises(HeaderError, match="got part 0 of 2"):
        _ = mk.open_model(MemorySource(files)).index


def test_an_absurd_number_of_parts_is_refused():
    files = {"m-00001-of-99999.gguf": part(0, 2, [], first=True)}
    with pytest.raises(HeaderError, match="at most 1024"):
        _ = mk.open_model(MemorySource(files)).index


def test_a_file_that_is_not_there_is_said_so(tmp_path):
    (tmp_path / "a.gguf").write_bytes(MODEL)
    with pytest.raises(NotFound, match="no such file"):
        mk.open_model(str(tmp_path / "b.gguf"))
