"""The options that figures share, and how figures find their numbers in saved data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta

from modelkin.casework.studies.bench import Bench, NotDone
from modelkin.casework.studies.reading import Aliases, AliasPair, LayerNumber, Roles
from modelkin.casework.studies.spec import Drawing
from modelkin.describe.measures import LayerMatrix, MeasureTable, find_measure
from modelkin.figures import Chance, Style, pearson_chance, series_styles
from modelkin.message import phrase, say

LayerPairs = Annotated[tuple[tuple[LayerNumber, LayerNumber], ...], Meta(min_length=1, max_length=40)]
PairList = Annotated[tuple[AliasPair, ...], Meta(min_length=1, max_length=60)]
Values = tuple[float | None, ...]
COSINE = phrase("catalogue.cosine")
_ROLES = {
    "attention_norm": phrase("catalogue.input-norm"),
    "mlp_norm": phrase("catalogue.post-norm"),
    "norm_pre": phrase("catalogue.input-norm"),
    "norm_post": phrase("catalogue.post-norm"),
    "attention_query": "q_proj",
    "attention_key": "k_proj",
    "attention_value": "v_proj",
    "attention_output": "o_proj",
    "router_bias": phrase("catalogue.router-bias"),
}


class OfRoles(Drawing):
    """A figure of some roles."""

    roles: Roles = ()
    """All of the data, or the norm before attention if a figure shows only one."""

    @property
    def role(self) -> str:
        """The first role."""
        return self.roles[0] if self.roles else "attention_norm"

    def table(self, bench: Bench) -> MeasureTable:
        """Read the table of the experiment."""
        return bench.folder.read_table(bench.earlier(self.data, ".csv"))


class OfModels(OfRoles):
    """A figure of some roles of some models."""

    models: Aliases = Aliases()
    """All of the study, if none is named."""

    def present(self, bench: Bench) -> list[str]:
        """Return the models that could be read."""
        return [alias for alias in self.models or bench.study.models if alias not in bench.missing]


class OfPair(OfRoles):
    """A figure of some roles of two models."""

    pair: AliasPair

    def both(self, bench: Bench) -> tuple[str, str]:
        """Return the display names of the two models."""
        return bench.name(self.pair[0]), bench.name(self.pair[1])

    def curves(
        self, bench: Bench, table: MeasureTable, measure: str, roles: Sequence[str] | None = None
    ) -> dict[str, Curve]:
        """Return one curve per role of the pair, over the same layers, with gaps for missing values."""
        a, b = self.pair
        need(bench, a, b)
        every = {
            role: curve(table, role, a, b, measure) for role in roles or self.roles or table.distinct("role")
        }
        found = {role: item for role, item in every.items() if item.known}
        if not found:
            raise NotDone(say("study.not-measured-of", a=bench.name(a), b=bench.name(b)))
        layers = tuple(sorted({layer for item in found.values() for layer in item.layers}))
        return {role: item.over(layers) for role, item in found.items()}


def is_correlation(measure: str) -> bool:
    """Say whether chance has one range around zero."""
    return find_measure(measure).name in ("pearson", "spearman")


def title_of(measure: str) -> str:
    """Return the title of a measure, given any of its names."""
    found = find_measure(measure)
    return COSINE if found.name == "cosine" else found.title


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A measure over facing layers."""

    layers: tuple[int, ...]
    values: Values
    expected: Values
    sd: Values
    n: int

    @property
    def known(self) -> bool:
        """Whether anything was measured."""
        return any(value is not None for value in self.values)

    @property
    def mean_expected(self) -> float | None:
        """Mean over layers of what was expected."""
        known = [value for value in self.expected if value is not None]
        return float(np.mean(known)) if known else None

    def over(self, layers: Sequence[int]) -> Curve:
        """Return it over other layers, with gaps for missing values."""
        place = {layer: at for at, layer in enumerate(self.layers)}
        values, expected, sd = (
            tuple(many[place[layer]] if layer in place else None for layer in layers)
            for many in (self.values, self.expected, self.sd)
        )
        return Curve(layers=tuple(layers), values=values, expected=expected, sd=sd, n=self.n)


def curve(table: MeasureTable, role: str, a: str, b: str, measure: str, view: str = "whole") -> Curve:
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


def by_role(found: Mapping[str, Curve], what: str = "values") -> dict[str, Values]:
    """Return one part of curves, by display name of the role."""
    return {role_name(role): getattr(item, what) for role, item in found.items()}


def need(bench: Bench, *aliases: str) -> None:
    """Say which model is missing, if one is."""
    for alias in aliases:
        if alias in bench.missing:
            raise NotDone(say("study.model-missing", model=bench.name(alias), reason=bench.missing[alias]))


def grid_of(bench: Bench, table: MeasureTable, role: str, pair: AliasPair, measure: str) -> LayerMatrix:
    """Return a measure over all layers of two models."""
    a, b = pair
    need(bench, a, b)
    grid = table.matrix(measure=find_measure(measure).name, role=role, model_a=a, model_b=b)
    if not grid.values.count():
        raise NotDone(say("study.not-measured-of", a=bench.name(a), b=bench.name(b)))
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
    """Return the display name of a role."""
    return _ROLES.get(role, role.replace("_", " "))


def model_styles(bench: Bench) -> dict[str, Style]:
    """Give each model of the study its style, the same in all figures."""
    return series_styles(model.name for model in bench.study.models.values())


def chance_of(n: int) -> Chance:
    """Return the range of a correlation by chance."""
    if n < 3:
        raise NotDone(say("study.too-short"))
    return pearson_chance(n)
