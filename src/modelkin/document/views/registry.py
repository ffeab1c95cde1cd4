"""Fingerprints and registries of them."""

from __future__ import annotations

from modelkin.document.blocks import Block, Bullets, Facts, Paragraph, Section, Strong, table
from modelkin.document.numbers import count_text, p_text, size_text
from modelkin.fingerprint import Fingerprint
from modelkin.registry import RegistryCheck, RegistryInfo, RegistryPairs, SyncResult

_MOST_LISTED = 20


def fingerprint_view(made: Fingerprint) -> tuple[Block, ...]:
    """Return a fingerprint as blocks: what it was made of, and which parts it has."""
    model = made.model
    commit = f" @ {model.revision[:12]}" if model.revision else ""
    shape = (
        f"{model.family or 'unknown'}, {model.layers or '?'} layers, width {model.hidden_size or '?'}, "
        f"{count_text(model.parameters)} parameters"
    )
    rows = []
    for slot in made.slots:
        rows.append(
            (
                slot.kind,
                "" if slot.layer is None else str(slot.layer),
                str(slot.n_units) if slot.n_units else "",
                str(slot.reason) if slot.reason is not None else ", ".join(slot.marks),
            )
        )
    gram = "yes, proposes permuted and rotated copies" if made.token_gram else "none"
    return (
        Paragraph((Strong(model.ref), commit)),
        Facts(
            rows=(
                ("model", shape),
                ("recipe", made.recipe),
                ("size", size_text(len(made.data))),
                ("blocks", f"{made.n_blocks} of {len(made.slots)}"),
                ("token Gram", gram),
                ("digest", made.digest),
            )
        ),
        table(("block", "layer", "units", "remark"), rows, numeric=(1, 2)),
    )


def registry_view(found: RegistryInfo) -> tuple[Block, ...]:
    """Return what a registry holds."""
    facts: list[tuple[str, str]] = [
        ("fingerprints", f"{found.n_fingerprints:,} of {found.n_models:,} models"),
        ("recipe", found.recipe),
        ("commits", f"{found.n_commits:,}"),
    ]
    if found.first and found.last:
        facts.append(("written", f"{found.first} to {found.last}"))
    blocks: list[Block] = [Paragraph(Strong(found.place)), Facts(rows=tuple(facts))]
    if found.reasons:
        rows = [(code, f"{count:,}") for code, count in found.reasons.items()]
        blocks.append(
            Section(
                title="Models without a fingerprint",
                blocks=(table(("reason", "models"), rows, numeric=(1,)),),
            )
        )
    return tuple(blocks)


def check_view(found: RegistryCheck) -> tuple[Block, ...]:
    """Return what a check of a registry found."""
    if found.damaged:
        state = f"{len(found.damaged)} of {found.n_commits} segments are damaged"
    else:
        state = f"all {found.n_commits} segments are as they were committed"
    blocks: list[Block] = [
        Paragraph(Strong(found.place)),
        Paragraph(f"{state}; {found.n_rows:,} rows", "strong"),
    ]
    for title, items in (
        ("Damaged", [f"{item.segment} ({item.n_rows} rows): {item.problem}" for item in found.damaged]),
        ("Made anew from their segments", list(found.repaired)),
        ("Left over by a writer that was stopped; the next one removes them", list(found.left_over)),
    ):
        if items:
            blocks.append(Section(title=title, blocks=(Bullets(tuple(items[:_MOST_LISTED])),)))
    return tuple(blocks)


def sync_view(found: SyncResult) -> tuple[Block, ...]:
    """Return what a run of `sync` did."""
    without = f", {found.n_without:,} of them without a fingerprint" if found.n_without else ""
    blocks: list[Block] = [
        Paragraph(f"{found.n_added:,} models added{without}", "strong"),
        Paragraph(
            f"{found.n_seen:,} seen, {found.n_known:,} known at their revision, "
            f"{len(found.later):,} to be tried again; the registry holds {found.n_models:,}"
        ),
    ]
    if found.later:
        rows = [(item.ref, str(item.reason)) for item in found.later[:_MOST_LISTED]]
        blocks.append(table(("model", "reason"), rows))
    return tuple(blocks)


def pairs_view(found: RegistryPairs) -> tuple[Block, ...]:
    """Return the related pairs of a registry."""
    rows = [
        (
            pair.first,
            pair.second,
            p_text(pair.log10_p) if pair.found else "tokens look alike",
            "" if pair.token_gram is None else f"{pair.token_gram:.2f}",
        )
        for pair in found.pairs
    ]
    n_found = sum(pair.found for pair in found.pairs)
    return (
        Paragraph(
            f"{n_found:,} of {found.n_pairs:,} pairs of {found.n_models:,} models have a common origin",
            "strong",
        ),
        table(("model", "model", "p", "token Gram"), rows, numeric=(3,)),
        Paragraph("p is corrected for all blocks of a pair and for a registry of 10^8 models", "note"),
    )
