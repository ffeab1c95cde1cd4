"""A comparison for a person at a terminal: the verdict first, its limits always."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from modelkin.comparison import Comparison, ModelSummary
from modelkin.comparison.methods import Effect, Evidence, Skipped
from modelkin.comparison.verdict import Conclusion
from modelkin.untrusted import visible

from ._alignment import (
    frame_rows,
    layer_rows,
    ranked_text,
    reordered_lines,
    silent_maps,
    was_looked_for,
)
from ._beside import config_lines, config_rows, tokenizer_lines
from ._evidence import evidence_row
from ._words import (
    HEADLINE,
    SCALE,
    SHORT,
    STRENGTH,
    details_text,
    facing_layers,
    layers_text,
    limits_text,
    not_examined,
    relation_text,
    strongest_component,
    tested_components,
    undone,
)
from .language import ENGLISH
from .numbers import bound_text, count_text, effect_text, limit_text, p_text, runs_text, size_text

# Neither red nor green: a common origin is no crime, and no evidence of one is no acquittal.
_COLOUR = {
    Conclusion.IDENTICAL: "magenta",
    Conclusion.SHARED: "magenta",
    Conclusion.SHARED_PARTIAL: "magenta",
    Conclusion.SHARED_REPARAMETRISED: "magenta",
    Conclusion.NO_EVIDENCE: "cyan",
    Conclusion.NOT_TESTABLE: "yellow",
}
_BAR_WIDTH = 8
_NARROW = 100


def comparison_view(result: Comparison, *, verbose: bool = False) -> RenderableType:
    """Draw a comparison.

    Parameters
    ----------
    result
        What was found.
    verbose
        Also show p-values that are extrapolated, and every piece of evidence.
    """
    parts: list[RenderableType] = [verdict_panel(result, verbose=verbose)]
    if result.flags:
        parts += [_title("Worth a closer look (no part of the verdict)"), _list(map(str, result.flags))]
    if any(tested_components(result)):
        parts += [_title("Components"), *_components(result)]
    if was_looked_for(result):
        parts += [_title("Which parts face each other"), *_alignment(result)]
    if verbose:
        parts += [_title("Evidence"), *_evidence(result)]
    if result.controls:
        parts += [_title("Controls"), *_controls(result)]
    parts += _beside(result)
    parts += [_title("What this does not say"), _list(map(str, result.verdict.limitations))]
    left_out = list(not_examined(result))
    if left_out:
        parts += [_title("Not examined"), _list(left_out)]
    parts += [Text(), *(Text(visible(line), style="dim") for line in _reading(result))]
    return Group(*parts)


def verdict_panel(result: Comparison, *, verbose: bool = False) -> Panel:
    """Draw the verdict at a glance."""
    verdict = result.verdict
    colour = _COLOUR[verdict.conclusion]
    ranked = ranked_text(result) is not None
    headline = ENGLISH.say("text.ranked_headline") if ranked else HEADLINE[verdict.conclusion]
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in _facts(result, verbose=verbose):
        facts.add_row(name, Text(visible(value)))
    return Panel(
        Group(Text(visible(str(verdict.summary)), style="bold"), Text(), facts),
        title=Text(headline, style=f"bold {colour}"),
        title_align="left",
        border_style=colour,
        padding=(1, 2),
    )


def _facts(result: Comparison, *, verbose: bool) -> Iterable[tuple[str, str]]:
    verdict = result.verdict
    yield "candidate", _model(result.candidate)
    yield "base", _model(result.base)
    if verdict.log10_p is not None:
        chance = ranked_text(result) or STRENGTH[verdict.conclusion]
        yield "strength", f"{p_text(verdict.log10_p)}  ({chance})"
    if verbose and verdict.related and verdict.log10_p_extrapolated is not None:
        far = bound_text(verdict.log10_p_extrapolated)
        yield "extrapolated", f"p about {far}  (normal tail of the strongest test; not part of the verdict)"
    if verdict.effect is not None:
        where = strongest_component(result)
        yield "effect", f"{effect_text(verdict.effect)}{f' in {where}' if where else ''}  ({SCALE})"
    if verdict.related:
        yield "relation", relation_text(result)
    limits = limits_text(result)
    if limits:
        yield "detectable", limits


def _model(model: ModelSummary) -> str:
    facts = [model.family or "unknown architecture"]
    facts += [f"{model.layers} layers"] if model.layers is not None else []
    facts += [f"width {model.hidden_size}"] if model.hidden_size is not None else []
    facts.append(f"{count_text(model.parameters)} parameters")
    commit = f" @ {model.revision[:12]}" if model.revision else ""
    return f"{model.ref}{commit}  ({', '.join(facts)})"


def _components(result: Comparison) -> Iterable[RenderableType]:
    table = _table("component", "verdict", "effect", "", "p at most", "tests", "layers", right=(4, 5))
    for name, item in tested_components(result):
        shared = item.conclusion is not Conclusion.NO_EVIDENCE
        table.add_row(
            Text(visible(name), style="bold" if shared else ""),
            Text(SHORT[item.conclusion], style=_COLOUR[item.conclusion]),
            Text(effect_text(item.effect)) if item.effect else Text("-"),
            _Bar(item.effect) if item.effect else Text(),
            Text(
                f"{bound_text(item.log10_p)}{' *' if item.calibrated else ''}"
                if item.log10_p is not None
                else "-"
            ),
            str(item.n_tests),
            layers_text(name, item, result),
        )
    yield _Fitting(table)
    for name, item in tested_components(result):
        if item.calibrated:
            yield Text(f"  * {visible(name)}: {ranked_text(result, name=name)}")


def _alignment(result: Comparison) -> Iterable[RenderableType]:
    """Draw what faces what: layers, then coordinates and units."""
    layers = layer_rows(result)
    if layers:
        table = _table("candidate layers", "base layers", "effect", right=(2,))
        for row in layers:
            table.add_row(*row)
        yield _Fitting(table)
    paired = (("residual dimensions", result.alignment.residual), ("units", result.alignment.units))
    facts = [f"{what}: {ENGLISH.word('pairing', how)}" for what, how in paired if result.verdict.related]
    yield _list([*facts, *reordered_lines(result), *silent_maps(result)])
    tried = frame_rows(result)
    if tried:
        yield _title("Coordinates that were tried (how well they fit is no evidence by itself)")
        table = _table("kind", "learned from", "rows", "fit", "chance", right=(2, 3, 4))
        for cells in tried:
            table.add_row(*(Text(visible(cell)) for cell in cells))
        yield _Fitting(table)


def _evidence(result: Comparison) -> Iterable[RenderableType]:
    titles = ("method", "role", "layers", "effect", "p at most", "extrapolated", "limit")
    table = _table(*titles, right=(3, 4, 5, 6))
    for test in result.evidence:
        row = evidence_row(test)
        if row.log10_p is not None:
            far, limit = row.log10_p_extrapolated, row.detection_limit
            table.add_row(
                Text(visible(test.method)),
                Text(visible(test.role or "-")),
                _facing(test),
                f"{row.effect.value:.3f}" if row.effect else "-",
                bound_text(row.log10_p),
                bound_text(far) if far is not None else "-",
                limit_text(limit) if limit is not None else "-",
            )
    if table.row_count:
        yield _Fitting(table)
    described = [
        test
        for test in result.evidence
        if not isinstance(test, Skipped) and evidence_row(test).log10_p is None
    ]
    if described:
        yield _list(f"{test.method} (no p-value): {details_text(test)}" for test in described)


def _facing(test: Evidence) -> str:
    """Write the layers of a test: both sides where they differ, and coordinates that were changed."""
    others, coordinates = facing_layers(test), undone(test.frame)
    both = [runs_text(test.layers) or "-", *([runs_text(others)] if others else [])]
    return " -> ".join(both) + (f" ({coordinates})" if coordinates else "")


def _controls(result: Comparison) -> Iterable[RenderableType]:
    table = _table("control", "compared with", "verdict", "effect", "p at most", "usable", right=(4,))
    for item in result.controls:
        conclusion = Conclusion(item.conclusion) if item.conclusion else None
        table.add_row(
            Text(visible(item.pair[1])),
            Text(visible(item.pair[0])),
            Text(SHORT[conclusion], style=_COLOUR[conclusion]) if conclusion else Text("-"),
            Text(effect_text(item.effect)) if item.effect else Text("-"),
            Text(bound_text(item.log10_p)) if item.log10_p is not None else Text("-"),
            Text("yes") if item.usable else Text("no", style="yellow"),
        )
    yield _Fitting(table)
    reasons = [
        f"{item.pair[1]} with {item.pair[0]}: {item.reason}" for item in result.controls if item.reason
    ]
    if reasons:
        yield _list(reasons)


def _beside(result: Comparison) -> Iterable[RenderableType]:
    """Draw tokenizers, configs and claims: facts beside the verdict, of which it uses none."""
    yield _title("Beside the weights (no part of the verdict)")
    yield _list([*tokenizer_lines(result), *config_lines(result)])
    differing = config_rows(result)
    if differing:
        table = _table("config field", "candidate", "base", "what it is")
        for row in differing:
            table.add_row(*(Text(visible(cell)) for cell in row))
        yield _Fitting(table)
    said = [f"{side}: {text}" for side, texts in result.claims.items() for text in texts]
    if said:
        yield _title("Declared by the makers (claims, not checked)")
        yield _list(said)


def _reading(result: Comparison) -> Iterable[str]:
    ledger, environment = result.ledger, result.environment
    yield (
        f"read {size_text(ledger.bytes_fetched)} of both models in {ledger.seconds:.1f} s "
        f"({len(ledger.ranges)} ranges, {ledger.cache_hits} stored before, {ledger.requests} requests)"
    )
    yield (
        f"decided at stage {result.verdict.stage} of depth {environment.depth}, seed {environment.seed}, "
        f"{result.verdict.rule}, modelkin {environment.modelkin}"
    )


def _title(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _list(lines: Iterable[str]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(width=3, justify="right")
    table.add_column(overflow="fold")
    for line in lines:
        table.add_row("-", Text(visible(line)))
    return table


def _table(*titles: str, right: tuple[int, ...] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for number, title in enumerate(titles):
        justify: JustifyMethod = "right" if number in right else "left"
        table.add_column(title, justify=justify, overflow="fold", no_wrap=title == "effect")
    return table


class _Fitting:
    """A table, a little to the right, with narrower gaps on a narrow terminal."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.table.collapse_padding = options.max_width < _NARROW
        yield Padding(self.table, (0, 0, 0, 2))


class _Bar:
    """An effect between chance and identity, as a bar; negative effects are drawn hollow."""

    def __init__(self, effect: Effect) -> None:
        self.effect = effect

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # Rounded down: only an identical part fills the bar.
        length = min(_BAR_WIDTH, int(abs(self.effect.value) * _BAR_WIDTH + 1e-6))
        full, hollow, rest = ("#", "o", ".") if options.ascii_only else ("█", "▒", "·")
        drawn = (full if self.effect.value > 0 else hollow) * length
        yield Segment(drawn + rest * (_BAR_WIDTH - length))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(_BAR_WIDTH, _BAR_WIDTH)
