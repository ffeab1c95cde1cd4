"""Fingerprints and registries of them."""

from __future__ import annotations

from modelkin.document.blocks import Block, Bullets, Facts, Paragraph, Section, Strong, table
from modelkin.document.language import ENGLISH, Language
from modelkin.document.numbers import count_text, p_text, size_text
from modelkin.fingerprint import Fingerprint
from modelkin.registry import RegistryCheck, RegistryInfo, RegistryPairs, SyncResult

_MOST_LISTED = 20


def fingerprint_view(made: Fingerprint, language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return a fingerprint as blocks: what it was made from, and which parts it has."""
    model = made.model
    commit = f" @ {model.revision[:12]}" if model.revision else ""
    say = language.of("registry")
    shape = say(
        "shape",
        family=model.family or say("unknown"),
        layers=str(model.layers or "?"),
        width=str(model.hidden_size or "?"),
        parameters=count_text(model.parameters),
    )
    rows = []
    for slot in made.slots:
        rows.append(
            (
                language.word("block", slot.kind),
                "" if slot.layer is None else str(slot.layer),
                str(slot.n_units) if slot.n_units else "",
                ", ".join(language.word("mark", mark) for mark in slot.marks)
                if slot.reason is None
                else language.tell(slot.reason),
            )
        )
    gram = say("gram" if made.token_gram else "no_gram")
    return (
        Paragraph((Strong(model.ref), commit)),
        Facts(
            rows=(
                (say("model"), shape),
                (say("recipe"), made.recipe),
                (say("size"), size_text(len(made.data))),
                (say("blocks"), say("n_of", n=str(made.n_blocks), all=str(len(made.slots)))),
                (say("token_gram"), gram),
                (say("digest"), made.digest),
            )
        ),
        table([say(key) for key in ("block", "layer", "units", "remark")], rows, numeric=(1, 2)),
    )


def registry_view(found: RegistryInfo, language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return what a registry holds."""
    say = language.of("registry")
    facts: list[tuple[str, str]] = [
        (say("fingerprints"), say("n_of_models", n=f"{found.n_fingerprints:,}", all=f"{found.n_models:,}")),
        (say("recipe"), found.recipe),
        (say("commits"), f"{found.n_commits:,}"),
    ]
    if found.first and found.last:
        facts.append((say("written"), say("from_to", first=found.first, last=found.last)))
    blocks: list[Block] = [Paragraph(Strong(found.place)), Facts(rows=tuple(facts))]
    if found.reasons:
        rows = [(code, f"{count:,}") for code, count in found.reasons.items()]
        blocks.append(
            Section(
                title=say("without"),
                blocks=(table((say("reason"), say("models")), rows, numeric=(1,)),),
            )
        )
    return tuple(blocks)


def check_view(found: RegistryCheck, language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return what a check of a registry found."""
    say = language.of("registry")
    if found.damaged:
        state = say("damaged", n=str(len(found.damaged)), all=str(found.n_commits))
    else:
        state = say("whole", n=str(found.n_commits))
    blocks: list[Block] = [
        Paragraph(Strong(found.place)),
        Paragraph(say("state", state=state, rows=f"{found.n_rows:,}"), "strong"),
    ]
    for title, items in (
        (
            say("damaged_ones"),
            [
                say(
                    "damage",
                    segment=item.segment,
                    rows=str(item.n_rows),
                    problem=language.tell(item.problem),
                )
                for item in found.damaged
            ],
        ),
        (say("repaired"), list(found.repaired)),
        (say("not_repaired"), [language.tell(item) for item in found.not_repaired]),
        (say("left_over"), list(found.left_over)),
    ):
        if items:
            blocks.append(Section(title=title, blocks=(Bullets(tuple(items[:_MOST_LISTED])),)))
    return tuple(blocks)


def sync_view(found: SyncResult, language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return what a run of `sync` did."""
    say = language.of("registry")
    without = say("of_them_without", n=f"{found.n_without:,}") if found.n_without else ""
    blocks: list[Block] = [
        Paragraph(say("added", n=f"{found.n_added:,}") + without, "strong"),
        Paragraph(
            say(
                "seen",
                seen=f"{found.n_seen:,}",
                known=f"{found.n_known:,}",
                later=f"{len(found.later):,}",
                all=f"{found.n_models:,}",
            )
        ),
    ]
    if found.later:
        rows = [(item.ref, language.tell(item.reason)) for item in found.later[:_MOST_LISTED]]
        blocks.append(table((say("model"), say("reason")), rows))
    return tuple(blocks)


def pairs_view(found: RegistryPairs, language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return the related pairs of a registry."""
    say = language.of("registry")
    rows = [
        (
            pair.first,
            pair.second,
            p_text(pair.log10_p) if pair.found else say("alike"),
            "" if pair.token_gram is None else f"{pair.token_gram:.2f}",
        )
        for pair in found.pairs
    ]
    n_found = sum(pair.found for pair in found.pairs)
    return (
        Paragraph(
            say("pairs", n=f"{n_found:,}", pairs=f"{found.n_pairs:,}", models=f"{found.n_models:,}"),
            "strong",
        ),
        table([say(key) for key in ("model", "model", "p", "token_gram")], rows, numeric=(3,)),
        Paragraph(say("about_p"), "note"),
    )
