"""The published measurements, as they ship with the package: read, never changed."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .record import Chapter, Check, FactTable, plain_numbers

Floats = npt.NDArray[np.float64]
WIDTH = 4096
"""Values of a vector of gains: the width of the residual stream of all models here."""
EXPERTS = 128
HEAD_ROWS = 1024
"""Rows of the key and value projections of all models here."""
ROLES = ("input", "post")
PAIRS = ("GLM-INTELLECT", "GLM-Phi", "INTELLECT-Phi", "Solar-GLM", "Solar-INTELLECT", "Solar-Phi")
_PIXELS = 1e-4
"""Unit of the numbers read from figures."""


@dataclass(frozen=True)
class Norms:
    """Gains of one norm, by layer. A is Solar, B is GLM."""

    layers: Floats = field(repr=False)
    cosine: Floats = field(repr=False)
    shuffled: Floats = field(repr=False)
    pearson: Floats = field(repr=False)
    mean_a: Floats = field(repr=False)
    std_a: Floats = field(repr=False)
    mean_b: Floats = field(repr=False)
    std_b: Floats = field(repr=False)
    claim_cosine: Floats = field(repr=False)
    claim_pearson: Floats = field(repr=False)

    @cached_property
    def rms_a(self) -> Floats:
        """Root mean square of Solar's gains."""
        return np.hypot(self.mean_a, self.std_a)

    @cached_property
    def rms_b(self) -> Floats:
        """Root mean square of GLM's gains."""
        return np.hypot(self.mean_b, self.std_b)

    @cached_property
    def rho_a(self) -> Floats:
        """Cosine of Solar's gains with the vector of ones."""
        return self.mean_a / self.rms_a

    @cached_property
    def rho_b(self) -> Floats:
        """Cosine of GLM's gains with the vector of ones."""
        return self.mean_b / self.rms_b

    @cached_property
    def expected(self) -> Floats:
        """Mean of the cosine over all orders of one side's values."""
        return self.rho_a * self.rho_b

    @cached_property
    def room(self) -> Floats:
        """What a correlation of 1 would add to it."""
        return (self.std_a / self.rms_a) * (self.std_b / self.rms_b)

    @cached_property
    def identity(self) -> Floats:
        """The cosine as means, deviations and correlation give it."""
        return self.expected + self.pearson * self.room


@dataclass(frozen=True)
class LayerTable:
    """Correlations of input norms, all layers of one model against all of another, read from a figure.

    The figure drew the prediction layer of GLM as if it were its decoder layer 46.
    """

    published: Floats = field(repr=False)
    """As it was drawn."""
    decoders: Floats = field(repr=False)
    """Only decoder layers: the prediction layer faces nothing."""

    @property
    def facing(self) -> Floats:
        """Decoder layers with the same number."""
        return self.decoders.diagonal()

    @property
    def others(self) -> Floats:
        """Decoder layers of different numbers."""
        found: Floats = self.decoders[np.eye(*self.decoders.shape) == 0]
        return found


class PublishedClaim(NamedTuple):
    """A published number that can be computed; see `Check`."""

    published: float
    tolerance: float
    source: str
    kind: str


@dataclass(frozen=True)
class PublishedFacts:
    """Everything that ships, as arrays and plain values."""

    norms: Mapping[str, Norms] = field(repr=False)
    router: Mapping[str, Floats] = field(repr=False)
    windows: tuple[Mapping[str, str], ...] = field(repr=False)
    three_models: Mapping[tuple[str, str, str, str], float] = field(repr=False)
    """(measure, layers, tensor, models) -> value."""
    embedding_rows: Mapping[str, Floats] = field(repr=False)
    pearson: LayerTable = field(repr=False)
    """Input norms of Solar (rows) and GLM (columns)."""
    abs_pearson: Mapping[str, LayerTable] = field(repr=False)
    """By pair, without sign."""
    configs: Mapping[str, Mapping[str, Any]] = field(repr=False)
    single: Mapping[str, Any] = field(repr=False)
    claims: Mapping[str, PublishedClaim] = field(repr=False)
    claimed: Mapping[str, Mapping[str, str]] = field(repr=False)
    """Chapter -> the keys of the claims that it checks, with the names of its numbers."""

    def chapter(
        self, key: str, values: Mapping[str, Any], *grids: FactTable, more: Mapping[str, Any] | None = None
    ) -> Chapter:
        """Make a chapter, in which every published number is checked against the same number of the chapter.

        `values` are those that its words refer to; `more` are only checked.
        """
        numbers = {**values, **(more or {})}
        checks = tuple(
            Check(key=claim, computed=float(numbers[name]), **self.claims[claim]._asdict())
            for claim, name in self.claimed.get(key, {}).items()
        )
        return Chapter(key=key, values=plain_numbers(values), grids=grids, checks=checks)

    def window(self, tensor: str, column: str) -> Floats:
        """Return one column of the tensors that were read in windows, if it was measured."""
        found = [row[column] for row in self.windows if row["tensor"] == tensor and row[column]]
        return np.array([float(value) for value in found])


@cache
def load_facts() -> PublishedFacts:
    """Read the files of the package."""
    norms = _rows("norms.csv")
    router = _rows("router.csv")
    embedding = _rows("embedding_rows.csv")
    configs = json.loads(_file("configs.json").read_text("utf-8"))
    claims = _rows("claims.csv")
    claimed: dict[str, dict[str, str]] = {}
    for row in claims:  # a number that no words refer to has the key of its claim
        claimed.setdefault(row["chapter"], {})[row["key"]] = row["name"] or row["key"]
    depth = {"GLM": int(configs["glm"]["num_hidden_layers"])}
    return PublishedFacts(
        norms={
            role: Norms(
                layers=_column(norms, "layer", role),
                **{name: _column(norms, name, role) for name in norms[0] if name not in ("layer", "role")},
            )
            for role in ROLES
        },
        router={name: _column(router, name) for name in router[0]},
        windows=tuple(_rows("windows.csv")),
        three_models={
            (row["measure"], row["layers"], row["tensor"], row["models"]): float(row["value"])
            for row in _rows("three_models.csv")
        },
        embedding_rows={name: _column(embedding, name) for name in embedding[0]},
        pearson=_layers("pearson_solar_glm.csv", "Solar-GLM", depth),
        abs_pearson={pair: _layers(f"abs_pearson_{pair}.csv", pair, depth) for pair in PAIRS},
        configs=configs,
        single=json.loads(_file("facts.json").read_text("utf-8")),
        claims={
            row["key"]: PublishedClaim(
                float(row["value"]), float(row["tolerance"]), row["source"], row["kind"]
            )
            for row in claims
        },
        claimed=claimed,
    )


def _file(name: str) -> Traversable:
    return resources.files("modelkin.casework.replay").joinpath("data", name)


def _rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(_file(name).read_text("utf-8").splitlines()))


def _column(rows: list[dict[str, str]], name: str, role: str | None = None) -> Floats:
    return np.array([float(row[name]) for row in rows if role is None or row["role"] == role])


def _layers(name: str, pair: str, depth: Mapping[str, int]) -> LayerTable:
    """Read a table of layers; `depth` gives the decoder layers of models that were drawn with one more."""
    lines = _file(name).read_text("utf-8").split()
    published = np.array([[int(cell) for cell in line.split(",")] for line in lines]) * _PIXELS
    rows, columns = (depth.get(model) for model in pair.split("-"))
    return LayerTable(published=published, decoders=published[:rows, :columns])
