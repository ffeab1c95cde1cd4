"""``embeddings``: rows of shared tokens, beside the same rows paired wrongly across the models."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta

from modelkin.casework.studies.bench import Bench, NotDone, said, shown
from modelkin.casework.studies.reading import AliasPair, File, TokenFilter
from modelkin.casework.studies.spec import Experiment
from modelkin.describe import RowsNotComparable, compare_rows, shared_rows, token_cosines
from modelkin.describe.measures import MEASURES, Stack, measured, permuted_pairs
from modelkin.document import plain

_PAIRINGS = 5


class Embeddings(Experiment, tag="embeddings"):
    """Embedding rows of shared tokens, beside wrong pairings."""

    pair: AliasPair
    tokens: TokenFilter = TokenFilter("all")
    count: Annotated[int, Meta(ge=8, le=20_000)] = 512
    """How many tokens are drawn."""
    file: File | None = None
    """Another place for the document."""
    rows_file: File | None = None
    """Another place for the cosines of the tokens."""

    def run(self, bench: Bench) -> None:
        """Compare the rows, and keep every cosine and some of wrong pairings."""
        a, b = self.pair
        models = bench.available(self.pair, least=2)
        try:
            rows = shared_rows(
                models[a],
                models[b],
                role="embedding",
                tokens=self.tokens,
                n_tokens=self.count,
                seed=bench.seed,
            )
        except RowsNotComparable as error:
            raise NotDone(error.reason) from error
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
        document = plain(found)
        assert isinstance(document, dict)
        if self.file is not None:
            bench.folder.json(self.file, document)
        assert found.raw is not None
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
            document,
            tables=[
                shown("embeddings", views),
                shown("embeddings_ids", split),
                shown("embeddings_extremes", extremes, ("token", "cosine")),
            ],
            said=[said("embeddings", mean=found.raw.all.mean, expected=found.raw.permuted_tokens.expected)],
        )
