"""A comparison in a Python session: three lines, a card, tables of other libraries, figures."""

from __future__ import annotations

import html
from dataclasses import dataclass, fields
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from modelkin.comparison import Comparison
from modelkin.errors import MissingExtra, UsageError, not_written
from modelkin.message import say

from .blocks import LayerFigures
from .evidence import evidence_class, evidence_row
from .language import ENGLISH
from .numbers import effect_text, p_text, size_text
from .views.comparison import verdict_card

if TYPE_CHECKING:
    from modelkin.figures import Figure, Format

_HEIGHT = 520
_SHORT = 160


def three_lines(result: Comparison) -> str:
    """Return what a person at a prompt wants to see first."""
    verdict, ledger, about = result.verdict, result.ledger, result.environment
    found = [p_text(verdict.log10_p)] if verdict.log10_p is not None else ["nothing could be tested"]
    if verdict.effect is not None:
        found.append(f"effect {effect_text(verdict.effect)}")
    shared = [name for name, part in verdict.components.items() if part.conclusion.related]
    if shared:
        found.append(f"shared: {', '.join(shared)}")
    lines = (
        f"Comparison of {result.candidate.ref} with {result.base.ref}: {verdict.conclusion.value}",
        ", ".join(found),
        f"stage {verdict.stage} of depth {about.depth}, seed {about.seed}; "
        f"{size_text(ledger.bytes_fetched)} read, evidence {len(result.evidence)}",
    )
    return "\n  ".join(line if len(line) <= _SHORT else f"{line[: _SHORT - 1]}…" for line in lines)


def notebook_html(result: Comparison) -> str:
    """Return the card and the layers in a frame: neither side's styles affect the other."""
    from .html import render_html

    page = render_html(
        (verdict_card(result), LayerFigures(result)),
        title=ENGLISH.say("title.question", candidate=result.candidate.ref, base=result.base.ref),
        language=ENGLISH,
        version=result.environment.modelkin,
    )
    quoted = html.escape(page, quote=True)
    style = f"width:100%;height:{_HEIGHT}px;border:0"
    return f'<iframe srcdoc="{quoted}" sandbox="allow-scripts" style="{style}" title="modelkin"></iframe>'


def evidence_columns(result: Comparison) -> dict[str, list[object]]:
    """Return the evidence as columns of plain values: one row per piece, None if there is no number."""
    columns: dict[str, list[object]] = {}
    for test in result.evidence:
        row = evidence_row(test)
        cells: dict[str, object] = {item.name: getattr(row, item.name) for item in fields(row)}
        effect, reason = row.effect, row.reason
        del cells["details"]
        cells |= {
            "class": evidence_class(test),
            "layers": list(row.layers),
            "base_layers": list(row.base_layers),
            "flags": list(row.flags),
            "null": str(row.null),
            "reason": None if reason is None else str(reason),
            "effect": None if effect is None else effect.value,
            "effect_low": None if effect is None else effect.low,
            "effect_high": None if effect is None else effect.high,
        }
        for name, value in cells.items():
            columns.setdefault(name, []).append(value)
    return columns


def to_pandas(result: Comparison) -> Any:  # noqa: ANN401  pandas is no dependency
    """Return the evidence as a ``pandas.DataFrame``."""
    return _imported("pandas").DataFrame(evidence_columns(result))


def to_arrow(result: Comparison) -> Any:  # noqa: ANN401  nor is Arrow
    """Return the evidence as a ``pyarrow.Table``."""
    return _imported("pyarrow").table(evidence_columns(result))


def _imported(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtra(
            name, say("problem.not-installed"), hint=say("hint.install", command=f"pip install {name}")
        ) from error


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure that notebooks show."""

    figure: Figure

    def _repr_svg_(self) -> str:
        from modelkin.figures import rendered

        return rendered(self.figure, "svg").decode()

    def save(self, path: str, *, dpi: int = 150) -> None:
        """Write it as a PNG or SVG file, by the suffix of the name."""
        from modelkin.figures import rendered

        kinds: dict[str, Format] = {".png": "png", ".svg": "svg"}
        if (ending := Path(path).suffix.lower()) not in kinds:
            raise UsageError(path, say("problem.png-or-svg"))
        try:
            Path(path).write_bytes(rendered(self.figure, kinds[ending], dpi=dpi))
        except OSError as error:
            raise not_written(path, say("part.the-figure"), error) from error


def plot(result: Comparison, name: str) -> Plot:
    """Return a figure of a comparison: ``layers``, or one of those that reports have."""
    from modelkin.figures.comparison import comparison_figures, effects_by_layer

    if name == "layers":
        return Plot(effects_by_layer(result))
    figures = comparison_figures(result)
    if name not in figures:
        known = ["layers", *figures]
        near = get_close_matches(name, known, n=1)
        problem = say("problem.no-figure-near", near=near[0]) if near else say("problem.no-figure")
        raise UsageError(name, problem, hint=say("hint.there-are", names=tuple(known)))
    return Plot(figures[name])
