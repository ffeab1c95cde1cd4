"""What would be read, and what is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modelkin.comparison.cost import ComparisonPrice, ReadingBound
from modelkin.document.blocks import Block, Paragraph, Section, table
from modelkin.document.language import ENGLISH, Language
from modelkin.document.numbers import about_text, size_text
from modelkin.source import BytePlan, StoreInfo


def plan_view(plan: BytePlan, language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return a byte plan as blocks."""
    say = language.say
    rows = []
    for file in plan.files:
        ranges = [item for name, item in plan.requests if name == file]
        rows.append((file, str(len(ranges)), f"{sum(item.length for item in ranges):,}"))
    needed = say("cost.needed", needed=f"{plan.bytes_needed:,}", stored=f"{plan.bytes_stored:,}")
    fetched = size_text(plan.bytes_to_fetch)
    return (
        Paragraph(say("cost.requests_for", n=str(plan.n_requests), size=fetched), "strong"),
        Paragraph(needed),
        table([say(f"cost.{key}") for key in ("file", "requests", "bytes")], rows, numeric=(1, 2)),
    )


def plans_view(
    plans: Mapping[str, BytePlan],
    language: Language = ENGLISH,
    *,
    differences: Mapping[str, int] | None = None,
) -> tuple[Block, ...]:
    """Return the byte plans of several models, each under its name."""
    whole = size_text(sum(plan.bytes_to_fetch for plan in plans.values()))
    end = [Paragraph(language.say("cost.together_to_fetch", size=whole))]
    if further := sum((differences or {}).values()):
        end.append(Paragraph(language.say("cost.of_relatives", size=size_text(further))))
    return (
        *(Section(title=name, blocks=plan_view(plan, language)) for name, plan in plans.items()),
        *end,
    )


def price_view(
    names: Sequence[str], price: ComparisonPrice, language: Language = ENGLISH
) -> tuple[Block, ...]:
    """Return what a comparison reads at most, and about how long it takes; `names` are of all models."""
    say, every = language.say, (*price.at_most, *price.controls)
    walks = sum(bound.walk for bound in every)
    whole = sum(bound.total for bound in every) - walks
    end = [say("cost.together", size=size_text(whole), time=about_text(price.seconds))]
    if further := sum(bound.differences for bound in every):
        end.append(say("cost.strangers", size=size_text(whole - further)))
    if walks:
        end.append(say("cost.walks", size=size_text(walks)))
    end.append(say("cost.may_stop"))
    sides = zip(names, price.plans, price.at_most, price.unpaired, strict=False)
    controls = zip(names[len(price.plans) :], price.controls, strict=True)
    return (
        *(
            Section(
                title=name,
                blocks=(
                    *plan_view(plan, language),
                    Paragraph(_bound_text(bound, language)),
                    *([Paragraph(say("cost.unpaired", size=size_text(unpaired)))] if unpaired else ()),
                ),
            )
            for name, plan, bound, unpaired in sides
        ),
        *(Section(title=name, blocks=(Paragraph(_bound_text(bound, language)),)) for name, bound in controls),
        Paragraph(" ".join(end)),
    )


def _bound_text(bound: ReadingBound, language: Language) -> str:
    parts = {
        "tensors": bound.tensors,
        "differences": bound.differences,
        "controls": bound.controls,
        "beside": bound.beside,
    }
    shown = [language.say(f"cost.of_{name}", size=size_text(n)) for name, n in parts.items() if n]
    return language.say("cost.at_most", size=size_text(bound.total - bound.walk), parts=", ".join(shown))


def store_view(found: StoreInfo, language: Language = ENGLISH, *, removed: bool = False) -> tuple[Block, ...]:
    """Return what the store holds, or held."""
    held = language.say(
        "cost.removed" if removed else "cost.holds",
        size=size_text(found.n_bytes),
        ranges=str(found.n_objects),
        files=str(found.n_files),
        limit=size_text(found.limit),
    )
    if found.n_drafts:
        drafts = language.say("cost.drafts", n=str(found.n_drafts), size=size_text(found.draft_bytes))
        held += f"\n{drafts}"
    return (Paragraph(f"{found.path}\n{held}", lines=True),)
