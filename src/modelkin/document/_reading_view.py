"""What would be read, and what is stored, for a person at a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from modelkin.source import BytePlan, StoreInfo
from modelkin.untrusted import visible

from .numbers import size_text


def plan_view(plan: BytePlan) -> RenderableType:
    """Draw a byte plan."""
    table = Table(box=None, pad_edge=False)
    for title in ("file", "requests", "bytes"):
        table.add_column(title, justify="left" if title == "file" else "right", header_style="bold")
    for file in plan.files:
        ranges = [item for name, item in plan.requests if name == file]
        table.add_row(Text(visible(file)), str(len(ranges)), f"{sum(item.length for item in ranges):,}")
    return Group(
        Text(f"{plan.n_requests} requests for {size_text(plan.bytes_to_fetch)}", style="bold"),
        Text(f"{plan.bytes_needed:,} bytes are needed, {plan.bytes_stored:,} of them are stored already\n"),
        table,
    )


def store_view(found: StoreInfo, *, removed: bool = False) -> RenderableType:
    """Draw what the store holds, or held."""
    verb = "removed" if removed else "holds"
    return Text(
        f"{found.path}\n{verb} {size_text(found.n_bytes)} in {found.n_objects} ranges "
        f"of {found.n_files} files (limit {size_text(found.limit)})"
    )


def plans_view(plans: Mapping[str, BytePlan]) -> RenderableType:
    """Draw the byte plans of several models, each under its name."""
    parts: list[RenderableType] = []
    for name, plan in plans.items():
        parts += [Text(visible(name), style="bold cyan"), plan_view(plan), Text()]
    whole = sum(plan.bytes_to_fetch for plan in plans.values())
    parts.append(
        Text(f"together at most {size_text(whole)} to fetch; no tensor was read, reading may stop earlier")
    )
    return Group(*parts)
