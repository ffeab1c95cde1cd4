"""The options that figures share, and how figures find their numbers in saved data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from msgspec import Meta
from msgspec.structs import fields

from modelkin.casework.catalogue.parts import Curve
from modelkin.casework.studies.bench import Bench, NotDone
from modelkin.casework.studies.folder import number
from modelkin.casework.studies.reading import Aliases, AliasPair, LayerNumber, Roles
from modelkin.casework.studies.spec import Drawing
from modelkin.describe.measures import LayerMatrix, MeasureTable, find_measure
from modelkin.figures import Animation, Figure, Numbers, Style, series_styles
from modelkin.message import Message, phrase, say
from modelkin.structs import Refused, meant, missing, no_such_key

LayerPairs = Annotated[tuple[tuple[LayerNumber, LayerNumber], ...], Meta(min_length=1, max_length=40)]
PairList = Annotated[tuple[AliasPair, ...], Meta(min_length=1, max_length=60)]
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


class FigureView(NamedTuple):
    """One figure of a kind: what draws it, and which options of the kind it takes."""

    draw: Callable[..., Figure | Animation]
    """Its first line of documentation says what is drawn."""
    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    reads: str = "measures"
    """The kind of experiment whose data it draws."""


class Viewed(Drawing):
    """A kind of figures with several views."""

    VIEWS: ClassVar[Mapping[str, FigureView]]
    view: str
    roles: Roles = ()
    """All of the data, or the norm before attention if a figure shows only one."""

    def __post_init__(self) -> None:
        if self.view not in self.VIEWS:
            one = say("part.one-of", known=tuple(self.VIEWS))
            raise Refused(one, self.view, inside="view", hint=meant(self.view, self.VIEWS))
        _, needs, uses, _ = self.VIEWS[self.view]
        known = (*(option.name for option in fields(type(self)) if option.required), *needs, *uses)
        for option in fields(type(self)):
            given = getattr(self, option.name) != option.default
            if option.name in needs and not given:
                raise missing(option.name)
            if given and option.name not in (*known, *Drawing.__struct_fields__):
                raise no_such_key(option.name, known)

    @property
    def reads(self) -> str:
        """The kind of experiment whose data it draws."""
        return self.VIEWS[self.view].reads

    @property
    def name(self) -> str:
        """Its kind and its view, as files call them."""
        return f"{self.kind} ({self.view})"

    def make(self, bench: Bench) -> Figure | Animation:
        """Describe the view."""
        return self.VIEWS[self.view].draw(self, bench)

    @property
    def role(self) -> str:
        """The first role."""
        return self.roles[0] if self.roles else "attention_norm"

    def table(self, bench: Bench) -> MeasureTable:
        """Read the table of the experiment."""
        return bench.folder.read_table(bench.earlier(self.data, ".csv"))


class OfModels(Viewed):
    """Figures of some models."""

    models: Aliases = Aliases()
    """All of the study, if none is named."""

    def present(self, bench: Bench) -> list[str]:
        """Return the models that could be read."""
        return [alias for alias in self.models or bench.study.models if alias not in bench.missing]


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


def best_view(table: MeasureTable, role: str, a: str, b: str, measure: str) -> Curve:
    """Return whole tensors, or the cut ones if only these can be compared."""
    views = ("whole", *(view for view in table.where(role=role).distinct("view") if view != "whole"))
    found = [curve(table, role, a, b, measure, view) for view in views]
    return next((item for item in found if item.known), found[0])


def columns(rows: Sequence[Mapping[str, str]]) -> dict[str, Numbers]:
    """Turn rows of a table into columns of numbers; a column of text has none."""
    return {name: tuple(_number(row[name]) for row in rows) for name in rows[0]}


def _number(text: str) -> float | None:
    try:
        return number(text)
    except ValueError:
        return None


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


def reason(table: MeasureTable, role: str, *pair: str) -> Message:
    """Return why a pair, or anything of a role, was not measured."""
    part = table.where(role=role)
    both = [part.where(model_a=a, model_b=b) for a, b in (pair, pair[::-1])] if pair else [part]
    found = (row.reason for rows in both for row in rows if row.reason)
    return next(found, say("catalogue.it-was-not"))
