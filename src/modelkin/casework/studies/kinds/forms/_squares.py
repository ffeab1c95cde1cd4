"""Forms that are squares: models against models, layers against layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from modelkin.casework.studies.bench import Bench
from modelkin.casework.studies.folder import filled_path
from modelkin.casework.studies.reading import Aliases, LayerOf, Layers, MeasureNames
from modelkin.casework.studies.saved import square
from modelkin.describe.measures import MeasureTable, find_measure
from modelkin.message import say

from .form import TENSOR_NAMES, Form


class Squares(Form, tag="squares"):
    """One file per measure."""

    names: MeasureNames = ()
    """Names of measures in file names; several may mean one measure."""

    def measures(self, table: MeasureTable) -> Iterator[tuple[str, str]]:
        """Yield measures: what a file calls them, and what they are."""
        for name in self.names or table.distinct("measure"):
            measure = find_measure(name).name
            if measure in table.distinct("measure"):
                yield name.replace("-", "_"), measure


class Confusion(Squares, tag="confusion"):
    """Models against models, one file for each measure and layer, or for one mixed set of layers.

    A model with itself is left out: it was not measured, and nothing is filled in by hand.
    """

    layers: Layers | None = None
    layers_of: LayerOf = LayerOf()

    def write(self, bench: Bench, table: MeasureTable) -> None:
        wanted: Sequence[int | Mapping[str, int]] = self.layers.numbers if self.layers else [self.layers_of]
        models = {*table.distinct("model_a"), *table.distinct("model_b")}
        if not self.layers and not models <= self.layers_of.keys():
            bench.leave(self.file, say("study.layer-of-each"))
            return
        for called, measure in self.measures(table):
            for layer in wanted:
                mats = {}
                present: tuple[str, ...] = ()
                for role in self.roles_of(table):
                    names, values = table.model_matrix(measure=measure, role=role, layer=layer)
                    present = present or names
                    mats[TENSOR_NAMES.get(role, role)] = values
                if not any(cells.count() for cells in mats.values()):
                    bench.leave(
                        say("study.at-layer", what=called, layer=str(layer)), say("study.no-two-models")
                    )
                    continue
                mixed = None if isinstance(layer, int) else layer
                number = "_".join(f"{alias[0]}{at}" for alias, at in mixed.items()) if mixed else layer
                document = {
                    "metric": called,
                    **({f"{alias}_layer": at for alias, at in mixed.items()} if mixed else {"layer": layer}),
                    "models": present,
                    "mats": mats,
                }
                bench.folder.json(filled_path(self.file, measure=called, layer=number), document)


class Within(Squares, tag="within"):
    """Layers of each model against each other, one file for each measure and model."""

    models: Aliases = Aliases()

    def write(self, bench: Bench, table: MeasureTable) -> None:
        for called, measure in self.measures(table):
            for model in self.models or bench.study.models:
                mats = {}
                layers: tuple[int, ...] = ()
                for role in self.roles_of(table):
                    grid = table.matrix(measure=measure, role=role, model_a=model, model_b=model)
                    mats[TENSOR_NAMES.get(role, role)], layers, _ = square(grid, measure)
                if not layers:
                    continue
                document = {
                    "metric": called,
                    "model": model,
                    "layers": layers,
                    "params": list(mats),
                    "mats": mats,
                }
                numbers = "_".join(map(str, layers))
                file = filled_path(self.file, measure=called, model=model, layers=numbers)
                bench.folder.json(file, document)
