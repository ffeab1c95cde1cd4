"""``embeddings``: rows of shared tokens, next to the same rows wrongly paired across the models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, TypeVar

import numpy as np
from msgspec import Meta

from modelkin.casework.studies.bench import Bench, NotDone, said, shown
from modelkin.casework.studies.reading import AliasPair, File, TokenFilter
from modelkin.casework.studies.spec import Experiment
from modelkin.describe import (
    RowsNotComparable,
    RowView,
    choose_rows,
    compare_rows,
    shared_rows,
    token_cosines,
)
from modelkin.describe.measures import MEASURES, Stack, measured, permuted_pairs
from modelkin.document import plain_object
from modelkin.tensors import TensorSlice

_Rows = TypeVar("_Rows")

_PAIRINGS = 5
_SAMPLES = 50
_HIGH, _LOW = 0.9, 0.1
"""What the published summary counts as high and low."""


class Embeddings(Experiment, tag="embeddings"):
    """Embedding rows of shared tokens, next to wrong pairings."""

    pair: AliasPair
    tokens: TokenFilter = TokenFilter("all")
    count: Annotated[int, Meta(ge=8, le=20_000)] = 512
    """How many tokens are drawn."""
    summary_file: File | None = None
    """A further file in published form: sums over the tokens, and the first of them."""
    rows_file: File | None = None
    """A further file in published form: every token with its ids and its cosine."""

    def wanted(self, bench: Bench) -> Mapping[str, Sequence[TensorSlice]]:
        """Return the rows of the chosen tokens."""
        a, b = self.pair
        found = self._rows(bench, choose_rows)
        return {a: [found.slices[0]], b: [found.slices[1]]}

    def _rows(self, bench: Bench, of_models: Callable[..., _Rows]) -> _Rows:
        """Choose the rows, or read them; a pair without common rows is left out."""
        models = bench.available(self.pair, least=2)
        try:
            return of_models(
                *(models[alias] for alias in self.pair),
                role="embedding",
                tokens=self.tokens,
                n_tokens=self.count,
                seed=bench.seed,
            )
        except RowsNotComparable as error:
            raise NotDone(error.reason) from error

    def run(self, bench: Bench) -> None:
        """Compare the rows, and keep every cosine and some of wrong pairings."""
        a, b = self.pair
        rows = self._rows(bench, shared_rows)
        found = compare_rows(rows)
        columns = ("token", f"{a}_id", f"{b}_id", "same_id", "cosine")
        listed = [
            [item.token, item.candidate_id, item.base_id, item.candidate_id == item.base_id, item.cosine]
            for item in token_cosines(rows)
        ]
        for path in (bench.data(".csv"), *([self.rows_file] if self.rows_file else [])):
            bench.folder.csv(path, columns, listed)
        one, other = Stack(rows.candidate), Stack(rows.base)
        wrong = np.concatenate(
            [
                measured(MEASURES["cosine"], one, other, pairs).values.filled(np.nan)
                for pairs in permuted_pairs(len(one), draws=_PAIRINGS, seed=bench.seed)
            ]
        )
        bench.folder.csv(bench.data("-permuted.csv"), ("cosine",), [[value] for value in wrong])
        assert found.raw is not None
        if self.summary_file is not None:
            bench.folder.json(self.summary_file, _summary(found.raw, columns, listed))
        assert found.centred is not None
        views = [
            {
                "view": name,
                "tokens": view.all.n,
                "mean": view.all.mean,
                "std": view.all.std,
                "min": view.all.low,
                "max": view.all.high,
                "permuted": view.permuted_tokens.expected,
                "permuted_low": view.permuted_tokens.low,
                "permuted_high": view.permuted_tokens.high,
                "dimensions": view.permuted_dimensions.expected,
                "dimensions_sd": view.permuted_dimensions.sd,
            }
            for name, view in (("raw", found.raw), ("centred", found.centred))
        ]
        split = [
            {"split": name, "tokens": view.n if view else 0, "mean": view.mean if view else None}
            for name, view in (("same_id", found.raw.same_id), ("other_id", found.raw.other_id))
        ]
        extremes = [
            {"token": item.token, "cosine": item.cosine} for item in (*found.nearest[:5], *found.farthest[:5])
        ]
        bench.document(
            plain_object(found),
            tables=[
                shown("embeddings", views),
                shown("embeddings_ids", split),
                shown("embeddings_extremes", extremes, ("token", "cosine")),
            ],
            said=[said("embeddings", mean=found.raw.all.mean, expected=found.raw.permuted_tokens.expected)],
        )


def _summary(found: RowView, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> dict[str, object]:
    """Summarise cosines as published; the baseline is wrong pairings across the models, not within one."""
    sample = [
        {name: cell for name, cell in zip(columns, row, strict=True) if name != "same_id"}
        for row in rows[:_SAMPLES]
    ]
    values = [float(str(row[-1])) for row in rows]
    return {
        "num_tokens": found.all.n,
        "mean_cosine": found.all.mean,
        "std_cosine": found.all.std,
        "min_cosine": found.all.low,
        "max_cosine": found.all.high,
        "baseline_mean": found.permuted_tokens.expected,
        "high_similarity_count": sum(value > _HIGH for value in values),
        "low_similarity_count": sum(value < _LOW for value in values),
        "sample_results": sample,
    }
