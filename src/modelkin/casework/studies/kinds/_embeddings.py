"""``embeddings``: rows of shared tokens, beside the same rows paired wrongly across the models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from modelkin.casework.studies._bench import Bench, Skipped, said, shown_table
from modelkin.casework.studies._folder import FILE
from modelkin.casework.studies._node import Node
from modelkin.casework.studies._spec import Fields, Scope
from modelkin.describe.embeddings import FILTERS, RowsNotComparable, compare_rows, shared_rows, token_cosines
from modelkin.describe.measures import MEASURES, Stack, measured, permuted_pairs
from modelkin.document import plain

from ._kind import Kind

_PAIRINGS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings:
    """Options of the experiment."""

    pair: tuple[str, str]
    tokens: str
    count: int
    rows_file: str | None
    file: str | None


def read(parts: dict[str, Node], scope: Scope) -> Embeddings:
    """Read the options."""
    return Embeddings(
        pair=scope.pair(parts["pair"]),
        tokens=parts["tokens"].choice(FILTERS) if "tokens" in parts else "all",
        count=parts["count"].whole(low=8, high=20_000) if "count" in parts else 512,
        rows_file=parts["rows_file"].text(form=FILE, what="a path") if "rows_file" in parts else None,
        file=parts["file"].text(form=FILE, what="a path") if "file" in parts else None,
    )


def run(bench: Bench, options: Embeddings) -> None:
    """Compare the rows, and keep every cosine and some of wrong pairings."""
    a, b = options.pair
    models = bench.available(options.pair, least=2)
    try:
        rows = shared_rows(
            models[a],
            models[b],
            role="embedding",
            tokens=options.tokens,
            n_tokens=options.count,
            seed=bench.seed,
        )
    except RowsNotComparable as reason:
        raise Skipped(str(reason)) from reason
    found = compare_rows(rows)
    columns = ("token", f"{a}_id", f"{b}_id", "same_id", "cosine")
    listed = [
        [item.token, item.candidate_id, item.base_id, item.candidate_id == item.base_id, item.cosine]
        for item in token_cosines(rows)
    ]
    for path in (bench.data(".csv"), *([options.rows_file] if options.rows_file else [])):
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
    if options.file is not None:
        bench.folder.json(options.file, document)
    assert found.raw is not None
    assert found.centred is not None
    views = [
        [
            name,
            view.all.n,
            view.all.mean,
            view.all.std,
            view.all.low,
            view.all.high,
            view.permuted_tokens.expected,
            view.permuted_tokens.low,
            view.permuted_tokens.high,
            view.permuted_dimensions.expected,
            view.permuted_dimensions.sd,
        ]
        for name, view in (("raw", found.raw), ("centred", found.centred))
    ]
    split = [
        [name, view.n if view else 0, view.mean if view else None]
        for name, view in (("same_id", found.raw.same_id), ("other_id", found.raw.other_id))
    ]
    extremes = [[item.token, item.cosine] for item in (*found.nearest[:5], *found.farthest[:5])]
    bench.document(
        document,
        tables=[
            shown_table(
                "embeddings",
                (
                    "view",
                    "tokens",
                    "mean",
                    "std",
                    "min",
                    "max",
                    "permuted",
                    "permuted_low",
                    "permuted_high",
                    "dimensions",
                    "dimensions_sd",
                ),
                views,
            ),
            shown_table("embeddings_ids", ("split", "tokens", "mean"), split),
            shown_table("embeddings_extremes", ("token", "cosine"), extremes),
        ],
        said=[said("embeddings", mean=found.raw.all.mean, expected=found.raw.permuted_tokens.expected)],
    )


KIND = Kind(
    name="embeddings",
    meaning="embedding rows of shared tokens, beside wrong pairings",
    fields=Fields(required=("pair",), optional=("tokens", "count", "rows_file", "file"), read=read),
    run=run,
)
