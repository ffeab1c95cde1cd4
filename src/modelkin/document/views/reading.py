"""What would be read, and what is stored."""

from __future__ import annotations

from collections.abc import Mapping

from modelkin.document.blocks import Block, Paragraph, Section, table
from modelkin.document.numbers import size_text
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


def store_view(found: StoreInfo, *, removed: bool = False) -> tuple[Block, ...]:
    """Return what the store holds, or held."""
    verb = "removed" if removed else "holds"
    held = (
        f"{verb} {size_text(found.n_bytes)} in {found.n_objects} ranges "
        f"of {found.n_files} files (limit {size_text(found.limit)})"
    )
    return (Paragraph(f"{found.path}\n{held}", lines=True),)
