"""What a kind of figure is, the options that figures share, and how they find their numbers in saved data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from modelkin.casework.studies._bench import Bench, Skipped
from modelkin.casework.studies._node import Node
from modelkin.casework.studies._spec import Fields, Scope
from modelkin.casework.studies.kinds._reading import read_layers, read_measure, read_roles
from modelkin.describe.matrix import parse_layer_list
from modelkin.describe.measures import LayerMatrix, Table, find_measure
from modelkin.figures import Animation, Chance, Figure, pearson_chance, series_styles
from modelkin.figures._style import Style

_ROLES = {
    "attention_norm": "input norm",
    "mlp_norm": "post-attention norm",
    "attention_query": "q_proj",
    "attention_key": "k_proj",
    "attention_value": "v_proj",
    "attention_output": "o_proj",
    "router_bias": "router bias",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """All options that a figure may have; each kind of figure names those it takes."""

    data: str
    """Experiment that the numbers are of."""
    vectors: str | None = None
    random: str | None = None
    pair: tuple[str, str] | None = None
    pairs: tuple[tuple[str, str], ...] = ()
    model: str | None = None
    models: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    measure: str = "cosine"
    layer: int | None = None
    layers: tuple[int, ...] = ()
    layers_of: Mapping[str, int] | None = None
    layer_pairs: tuple[tuple[int, int], ...] = ()
    distance: int = 5
    every: int = 3
    dimensions: int = 100
    groups: bool = False
    zoom: bool = False
    steps: int = 45

    @property
    def both(self) -> tuple[str, str]:
        """The pair, where a figure needs one."""
        if self.pair is None:
            raise Skipped("it needs a pair of models")
        return self.pair

    @property
    def role(self) -> str:
        """The first role."""
        return self.roles[0] if self.roles else "attention_norm"


def read_options(parts: dict[str, Node], scope: Scope) -> Options:
    """Read what is there; which keys may be there was checked before."""
    found: dict[str, object] = {"data": scope.experiment(parts["data"])}
    readers: dict[str, Callable[[Node], object]] = {
        "vectors": scope.experiment,
        "random": scope.experiment,
        "pair": scope.pair,
        "pairs": lambda node: tuple(scope.pair(item) for item in node.items(most=60, least=1)),
        "model": scope.alias,
        "models": scope.aliases,
        "controls": scope.aliases,
        "roles": read_roles,
        "measure": read_measure,
        "layer": lambda node: node.whole(low=0, high=9_999),
        "layers": lambda node: parse_layer_list(read_layers(node)),
        "layers_of": lambda node: {
            alias: item.whole(low=0, high=9_999)
            for alias, item in node.fields(optional=tuple(scope.models)).items()
        },
        "layer_pairs": lambda node: tuple(_two(item) for item in node.items(most=40, least=1)),
        "distance": lambda node: node.whole(low=1, high=999),
        "every": lambda node: node.whole(low=1, high=999),
        "dimensions": lambda node: node.whole(low=2, high=4096),
        "groups": Node.flag,
        "zoom": Node.flag,
        "steps": lambda node: node.whole(low=2, high=200),
    }
    found |= {key: reader(parts[key]) for key, reader in readers.items() if key in parts}
    return Options(**found)  # type: ignore[arg-type]  # each was read by its reader


def _two(node: Node) -> tuple[int, int]:
    both = [item.whole(low=0, high=9_999) for item in node.items(most=2, least=2)]
    return both[0], both[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A kind of figure: from saved data to a description."""

    name: str
    required: tuple[str, ...]
    optional: tuple[str, ...]
    make: Callable[[Bench, Options], Figure | Animation]

    @property
    def fields(self) -> Fields:
        """Which options it has."""
        return Fields(required=("data", *self.required), optional=self.optional, read=read_options)


# -- numbers of a table --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A measure over facing layers."""

    layers: tuple[int, ...]
    values: tuple[float | None, ...]
    expected: tuple[float | None, ...]
    sd: tuple[float | None, ...]
    n: int


def load_table(bench: Bench, options: Options) -> Table:
    """Read the table of the experiment."""
    return bench.folder.read_table(bench.earlier(options.data, ".csv"))


def curve(table: Table, role: str, a: str, b: str, measure: str, view: str = "whole") -> Curve:
    """Return facing layers in order, whichever way round the pair was measured."""
    name = find_measure(measure).name
    part = table.where(role=role, measure=name, view=view)
    straight = part.where(model_a=a, model_b=b)
    rows = straight if len(straight) else part.where(model_a=b, model_b=a)
    found = sorted(
        (row for row in rows if row.layer_a is not None and row.layer_a == row.layer_b),
        key=lambda row: row.layer_a or 0,
    )
    return Curve(
        layers=tuple(row.layer_a or 0 for row in found),
        values=tuple(row.value for row in found),
        expected=tuple(row.expected for row in found),
        sd=tuple(row.expected_sd for row in found),
        n=max((row.n for row in found), default=0),
    )


def measured_curves(
    bench: Bench, table: Table, options: Options, measure: str, roles: Sequence[str] | None = None
) -> dict[str, Curve]:
    """Return a curve for each role of the pair, over the same layers, gaps where there is nothing."""
    a, b = options.both
    need(bench, a, b)
    every = {
        role: curve(table, role, a, b, measure) for role in roles or options.roles or table.distinct("role")
    }
    found = {role: item for role, item in every.items() if any(value is not None for value in item.values)}
    if not found:
        raise Skipped(f"nothing was measured of {bench.name(a)} and {bench.name(b)}")
    layers = tuple(sorted({layer for item in found.values() for layer in item.layers}))
    return {role: _spread(item, layers) for role, item in found.items()}


def _spread(item: Curve, layers: tuple[int, ...]) -> Curve:
    place = {layer: at for at, layer in enumerate(item.layers)}

    def over(values: Sequence[float | None]) -> tuple[float | None, ...]:
        return tuple(values[place[layer]] if layer in place else None for layer in layers)

    return Curve(
        layers=layers, values=over(item.values), expected=over(item.expected), sd=over(item.sd), n=item.n
    )


def need(bench: Bench, *aliases: str) -> None:
    """Say which model is missing, if one is."""
    for alias in aliases:
        if alias in bench.missing:
            raise Skipped(f"{bench.name(alias)} is missing: {bench.missing[alias]}")


def grid_of(bench: Bench, table: Table, role: str, a: str, b: str, measure: str) -> LayerMatrix:
    """Return a measure over all layers of two models."""
    need(bench, a, b)
    grid = table.matrix(measure=find_measure(measure).name, role=role, model_a=a, model_b=b)
    if not grid.values.count():
        raise Skipped(f"nothing was measured of {bench.name(a)} and {bench.name(b)}")
    return grid


def plain_layers(layers: Sequence[int | None]) -> list[int]:
    """Return numbers of layers; tensors outside the layers have none."""
    return [layer for layer in layers if layer is not None]


def filled(
    values: np.ma.MaskedArray[tuple[int, ...], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return an array in which NaN stands for what was not measured."""
    return np.asarray(values.filled(np.nan), dtype=np.float64)


def role_name(role: str) -> str:
    """Return what people call a role."""
    return _ROLES.get(role, role.replace("_", " "))


def pair_name(bench: Bench, a: str, b: str) -> str:
    """Return the name of a pair, as figures write it."""
    return f"{bench.name(a)} | {bench.name(b)}"


def model_styles(bench: Bench) -> dict[str, Style]:
    """Give each model of the study its look, the same in all figures."""
    return series_styles(model.name for model in bench.study.models.values())


def chance_of(n: int) -> Chance:
    """Return the range of a correlation by chance."""
    if n < 3:
        raise Skipped("vectors are too short for a range of chance")
    return pearson_chance(n)
