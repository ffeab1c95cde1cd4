"""What would be read, and what is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modelkin.comparison.cost import ComparisonPrice, ReadingBound
from modelkin.document.blocks import Block, Paragraph, Section, table
from modelkin.document.numbers import about_text, size_text
from modelkin.source import BytePlan, StoreInfo


def plan_view(plan: BytePlan) -> tuple[Block, ...]:
    """Return a byte plan as blocks."""
    rows = []
    for file in plan.files:
        ranges = [item for name, item in plan.requests if name == file]
        rows.append((file, str(len(ranges)), f"{sum(item.length for item in ranges):,}"))
    return (
        Paragraph(f"{plan.n_requests} requests for {size_text(plan.bytes_to_fetch)}", "strong"),
        Paragraph(
            f"{plan.bytes_needed:,} bytes are needed, {plan.bytes_stored:,} of them are stored already"
        ),
        table(("file", "requests", "bytes"), rows, numeric=(1, 2)),
    )


def plans_view(plans: Mapping[str, BytePlan]) -> tuple[Block, ...]:
    """Return the byte plans of several models, each under its name."""
    whole = size_text(sum(plan.bytes_to_fetch for plan in plans.values()))
    return (
        *(Section(title=name, blocks=plan_view(plan)) for name, plan in plans.items()),
        Paragraph(f"together at most {whole} to fetch; no tensor was read, reading may stop earlier"),
    )


def price_view(names: Sequence[str], price: ComparisonPrice) -> tuple[Block, ...]:
    """Return what a comparison reads at most, and about how long it takes, model by model."""
    sides = zip(names, price.plans, price.at_most, strict=True)
    walks = sum(bound.walk for bound in price.at_most)
    whole = sum(bound.total for bound in price.at_most)
    end = f"together at most {size_text(whole - walks)}, in about {about_text(price.seconds)}"
    if walks:
        end += (
            f"; and up to {size_text(walks)} more from disk, if the models are relatives whose samples are "
            "equal or nearly so: then they are read from end to end"
        )
    return (
        *(
            Section(title=name, blocks=(*plan_view(plan), Paragraph(_bound_text(bound))))
            for name, plan, bound in sides
        ),
        Paragraph(f"{end}. No tensor was read, and reading may stop earlier."),
    )


def _bound_text(bound: ReadingBound) -> str:
    return (
        f"at most {size_text(bound.total - bound.walk)}: {size_text(bound.tensors)} of tensors (some more "
        f"than once), {size_text(bound.beside)} of headers, config, tokenizer and card"
    )


def store_view(found: StoreInfo, *, removed: bool = False) -> tuple[Block, ...]:
    """Return what the store holds, or held."""
    verb = "removed" if removed else "holds"
    held = (
        f"{verb} {size_text(found.n_bytes)} in {found.n_objects} ranges "
        f"of {found.n_files} files (limit {size_text(found.limit)})"
    )
    if found.n_drafts:
        held += f"\n{found.n_drafts} of it half-written ({size_text(found.draft_bytes)}): kept for an hour"
    return (Paragraph(f"{found.path}\n{held}", lines=True),)
