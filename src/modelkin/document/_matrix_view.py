"""A matrix for a person at a terminal: every number beside what chance makes of it."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from modelkin.describe.matrix import MatrixResult
from modelkin.describe.measures import MEASURES
from modelkin.untrusted import visible

from ._matrix_words import (
    BRACKETS,
    FOLLOWS,
    FOLLOWS_NOT,
    Section,
    baseline_lines,
    lines,
    measure_groups,
    missing_lines,
    sections,
)
from .numbers import runs_text, size_text

_MOST_REASONS = 20


def matrix_view(result: MatrixResult, *, verbose: bool = False) -> RenderableType:
    """Draw a matrix; `verbose` adds every single baseline."""
    parts: list[RenderableType] = [Padding(_models(result), (0, 0, 1, 0))]
    parts += [_section(section, names) for section in sections(result) for names in measure_groups(result)]
    parts.append(Text(BRACKETS, style="dim"))
    if result.baselines:
        parts.append(Padding(_baselines(result, verbose=verbose), (1, 0, 0, 0)))
    reasons = list(missing_lines(result)) + list(result.notes)
    if reasons:
        shown = reasons if verbose else reasons[:_MOST_REASONS]
        more = [f"and {len(reasons) - len(shown)} more (-v)"] if len(shown) < len(reasons) else []
        parts.append(Text("\nNot measured, and remarks", style="bold"))
        parts += [Text(f"  - {visible(text)}") for text in (*shown, *more)]
    parts.append(Text(f"\n{FOLLOWS}\n{FOLLOWS_NOT}"))
    read = result.read
    parts.append(
        Text(
            f"\nread {size_text(read.bytes_fetched)} in {read.requests} requests; "
            f"seed {result.options.seed}, modelkin {result.modelkin}",
            style="dim",
        )
    )
    return Group(*parts)


def _models(result: MatrixResult) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("model", "where", "family", "layers", "width"):
        table.add_column(title, style="cyan" if title == "model" else None, overflow="fold")
    for model in result.models:
        mtp = f", MTP {runs_text(model.mtp_layers)}" if model.mtp_layers else ""
        commit = f" @ {model.revision[:12]}" if model.revision else ""
        table.add_row(
            escape(visible(model.name)),
            escape(visible(model.ref + commit)),
            escape(visible(model.family or "unknown")),
            f"{runs_text(model.layers) or '-'}{mtp}",
            "-" if model.hidden_size is None else f"{model.hidden_size:,}",
        )
    return table


def _section(section: Section, names: tuple[str, ...]) -> RenderableType:
    where = (
        section.model_a if section.model_a == section.model_b else f"{section.model_a} x {section.model_b}"
    )
    view = "" if section.view == "whole" else f", {section.view}"
    title = Text(f"{visible(section.role)}{view}: {visible(where)}", style="bold")
    title.append(f"  {visible(section.note)}", style="dim")
    table = Table(box=None, pad_edge=False)
    table.add_column("layer", style="cyan", no_wrap=True)
    for name in names:
        table.add_column(MEASURES[name].title, justify="right", overflow="fold")
    for first, *cells in lines(section, names):
        style = "bold" if first.startswith("mean") else None
        table.add_row(first, *cells, style=style)
    return Group(title, Padding(table, (0, 0, 1, 2)))


def _baselines(result: MatrixResult, *, verbose: bool) -> RenderableType:
    table = Table(box=None, pad_edge=False, title="Baselines", title_justify="left", title_style="bold")
    for name in ("baseline", "role", "measure", "of", "observed", "mean", "5 % to 95 %", "n"):
        right = name in ("observed", "mean", "n")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for cells in baseline_lines(result, every=verbose):
        table.add_row(*(escape(visible(cell)) for cell in cells))
    return table
