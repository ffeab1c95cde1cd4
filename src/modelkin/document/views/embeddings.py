"""Embedding rows of shared tokens: cosines, compared with wrong pairings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from modelkin.describe import EmbeddingComparison, RowView
from modelkin.document.blocks import Block, Bullets, Paragraph, Section, Table, table
from modelkin.document.language import ENGLISH, Language


def embeddings_view(found: EmbeddingComparison, language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return a comparison of embedding rows as blocks."""
    return tuple(_blocks(found, language))


def _blocks(found: EmbeddingComparison, language: Language) -> Iterator[Block]:
    say = language.of("embeddings")
    if found.raw is None or found.centred is None:
        yield Paragraph(say("not_compared", reason=language.told(found.reason)), "strong")
        return
    mean, expected = found.raw.all.mean, found.raw.permuted_tokens.expected
    answer = say(
        "answer",
        used=f"{found.used:,}",
        matching=f"{found.matching:,}",
        tokens=language.word("script", found.tokens),
        width=f"{found.width:,}",
        mean=f"{mean:.4f}",
        expected=f"{expected:.4f}",
    )
    yield Paragraph(answer, "strong")
    yield Section(title=say("same_token"), blocks=(_views(found.raw, found.centred, say),))
    yield Section(title=say("by_id"), blocks=(_by_id(found.raw, say),))
    for title, listed in ((say("nearest"), found.nearest), (say("farthest"), found.farthest)):
        rows = [
            (repr(item.token), f"{item.candidate_id:,}", f"{item.base_id:,}", f"{item.cosine:+.4f}")
            for item in listed
        ]
        titles = [say(key) for key in ("token", "candidate_id", "base_id", "cosine")]
        yield Section(title=title, blocks=(table(titles, rows, numeric=(1, 2, 3)),))
    if found.geometry is not None:
        yield Paragraph(say("geometry", value=f"{found.geometry:.3f}"))
    limits = tuple(map(language.tell, found.limits))
    yield Section(title=say("how_to_read"), blocks=(Bullets(limits),))


def _views(raw: RowView, centred: RowView, say: Callable[..., str]) -> Table:
    views = (raw, centred)
    rows = (
        (say("mean_cosine"), *(f"{view.all.mean:.5f}" for view in views)),
        (say("deviation"), *(f"{view.all.std:.5f}" for view in views)),
        (say("reach"), *(f"{view.all.low:.4f}, {view.all.high:.4f}" for view in views)),
        (say("above"), *(f"{view.all.above_0_9:,}, {view.all.above_0_5:,}" for view in views)),
        (say("other_tokens"), *(f"{view.permuted_tokens.expected:.5f}" for view in views)),
        ("  " + say("from_it"), *(_z(view.permuted_tokens.z) for view in views)),
        (say("reordered"), *(f"{view.permuted_dimensions.expected:.5f}" for view in views)),
        ("  " + say("from_it"), *(_z(view.permuted_dimensions.z) for view in views)),
        (say("within_candidate"), *(f"{view.within_candidate:.5f}" for view in views)),
        (say("within_base"), *(f"{view.within_base:.5f}" for view in views)),
    )
    return table([say(key) for key in ("", "as_stored", "centred")], rows, numeric=(1, 2))


def _by_id(raw: RowView, say: Callable[..., str]) -> Table:
    rows = [
        (name, "0", "-", "-")
        if part is None
        else (name, f"{part.n:,}", f"{part.mean:.5f}", f"{part.std:.5f}")
        for name, part in ((say("same_id"), raw.same_id), (say("other_id"), raw.other_id))
    ]
    return table([say(key) for key in ("", "tokens", "mean_cosine", "deviation")], rows, numeric=(1, 2, 3))


def _z(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1f}"
