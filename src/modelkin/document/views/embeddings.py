"""Embedding rows of shared tokens: cosines, beside what wrong pairings give."""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.describe import EmbeddingComparison, RowView
from modelkin.document.blocks import Block, Bullets, Paragraph, Section, Table, table


def embeddings_view(found: EmbeddingComparison) -> tuple[Block, ...]:
    """Return a comparison of embedding rows as blocks."""
    return tuple(_blocks(found))


def _blocks(found: EmbeddingComparison) -> Iterator[Block]:
    if found.raw is None or found.centred is None:
        yield Paragraph(f"The rows were not compared: {found.reason}", "strong")
        return
    mean, expected = found.raw.all.mean, found.raw.permuted_tokens.expected
    yield Paragraph(
        f"{found.used:,} of {found.matching:,} tokens that both have ({found.tokens}), {found.width:,} "
        f"values each: mean cosine {mean:.4f}; other tokens' rows instead: {expected:.4f}",
        "strong",
    )
    yield Section(title="Rows of the same token", blocks=(_views(found.raw, found.centred),))
    yield Section(title="Same id, and another id", blocks=(_by_id(found.raw),))
    for title, listed in (("Nearest", found.nearest), ("Farthest", found.farthest)):
        rows = [
            (repr(item.token), f"{item.candidate_id:,}", f"{item.base_id:,}", f"{item.cosine:+.4f}")
            for item in listed
        ]
        titles = ("token", "candidate's id", "base's id", "cosine")
        yield Section(title=title, blocks=(table(titles, rows, numeric=(1, 2, 3)),))
    if found.geometry is not None:
        yield Paragraph(
            f"Correlation of the cosines between tokens: {found.geometry:.3f} (a rotation does not change "
            "it; separately trained models agree too)"
        )
    yield Section(title="How to read this", blocks=(Bullets(tuple(map(str, found.limits))),))


def _views(raw: RowView, centred: RowView) -> Table:
    views = (raw, centred)
    rows = (
        ("mean cosine", *(f"{view.all.mean:.5f}" for view in views)),
        ("standard deviation", *(f"{view.all.std:.5f}" for view in views)),
        ("least, largest", *(f"{view.all.low:.4f}, {view.all.high:.4f}" for view in views)),
        ("above 0.9, above 0.5", *(f"{view.all.above_0_9:,}, {view.all.above_0_5:,}" for view in views)),
        ("mean with other tokens' rows", *(f"{view.permuted_tokens.expected:.5f}" for view in views)),
        ("  deviations from it", *(_z(view.permuted_tokens.z) for view in views)),
        ("mean with dimensions reordered", *(f"{view.permuted_dimensions.expected:.5f}" for view in views)),
        ("  deviations from it", *(_z(view.permuted_dimensions.z) for view in views)),
        ("two tokens of the candidate", *(f"{view.within_candidate:.5f}" for view in views)),
        ("two tokens of the base", *(f"{view.within_base:.5f}" for view in views)),
    )
    return table(("", "as stored", "mean row taken off"), rows, numeric=(1, 2))


def _by_id(raw: RowView) -> Table:
    rows = [
        (name, "0", "-", "-")
        if part is None
        else (name, f"{part.n:,}", f"{part.mean:.5f}", f"{part.std:.5f}")
        for name, part in (("same id in both", raw.same_id), ("another id", raw.other_id))
    ]
    return table(("", "tokens", "mean cosine", "standard deviation"), rows, numeric=(1, 2, 3))


def _z(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1f}"
