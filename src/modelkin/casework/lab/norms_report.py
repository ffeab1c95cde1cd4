"""What follows from the norm experiment, computed from its results: sentences, a document, tables, files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Final

from modelkin.document import render_markdown, to_json
from modelkin.document.blocks import Block, Bullets, Heading, Marked, Paragraph, Section, table
from modelkin.document.codec import from_json, schemas
from modelkin.errors import FormatError
from modelkin.figures import draw
from modelkin.message import say
from modelkin.untrusted import records_csv

from .norms import ALPHA, RELATIONS, GainInit, NormsResult, PairRelation, PairResult, TestResult
from .norms_figures import norms_figures

schemas[NormsResult] = "modelkin.norms/1"

_CLOSE: Final = 0.01
"""A cosine this close to its expectation is called explained."""

_HIGH: Final = 0.9
_MOSTLY: Final = 0.7
"""Gains that correlate more than this with their start still share half of its variance."""

_COLUMNS: Final = (
    *("init", "relation", "pairs", "cosine", "expected", "r", "largest abs r"),
    *("p gains", "p units", "found", "verdicts"),
)
_INIT: Final[dict[GainInit, str]] = {
    "ones": "gains that begin at one",
    "near-one": "gains drawn around one",
    "random": "gains drawn around zero",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A summary of all pairs of one arm and relation."""

    init: GainInit
    relation: PairRelation
    n: int
    cosine: float
    expected: float
    pearson: float | None
    largest_pearson: float | None
    """Largest absolute value."""
    log10_p_norms: tuple[float, float] | None
    """Smallest and largest; None if no pair could be tested."""
    log10_p_units: tuple[float, float] | None
    found_by_norms: int
    found_by_units: int
    verdicts: tuple[tuple[str, int], ...]
    """Conclusion of `modelkin.compare`, and how often."""


def found(test: TestResult, needed: float) -> bool:
    """Say whether a test finds a common origin; one that was not made finds nothing."""
    return test.log10_p is not None and test.log10_p <= needed


def groups_of(result: NormsResult) -> tuple[Group, ...]:
    """Summarise the pairs by arm and relation; empty groups are left out."""
    return tuple(
        _group(result, init, relation, pairs)
        for init in result.options.inits
        for relation in RELATIONS
        if (pairs := result.group(init, relation))
    )


def conclude(result: NormsResult) -> NormsResult:
    """Return the result with its conclusion and limits, derived from its numbers."""
    return replace(result, conclusion=_conclusion(result), limits=_limits(result))


def _conclusion(result: NormsResult) -> tuple[str, ...]:
    """Say what was found, arm by arm and over all arms."""
    sentences = [_arm(result, init) for init in result.options.inits]
    if "near-one" in result.options.inits:
        sentences.append(_cause(result))
    return (*sentences, _threshold(result), _tests(result), _start(result), _verdicts(result))


def _limits(result: NormsResult) -> tuple[str, ...]:
    """Say what the experiment cannot show."""
    options = result.options
    moved = max(run.gain_moved for run in result.models)
    limits = [
        f"Tiny models of one family ({options.family}, {options.width} dimensions, {options.layers} "
        f"layers), invented languages, {options.steps} steps: gains moved by {moved:.2f} at most (root mean "
        "square of a model). Those of published models, which begin at one, have means from 0.02 to 2.3.",
        "Gains learn three times as fast as matrices here, without weight decay, so that they move at all.",
        "Pairs of an arm share models: their spread is no standard error. Each p-value holds all the same, "
        "and so does the correction for their number.",
        "Absence of evidence in a pair does not prove that it is unrelated.",
    ]
    limits += [_kept(result, init) for init in options.inits if init != "ones"]
    if options.seeds < 4:
        limits.append(
            f"With {options.seeds} seeds there are few pairs: this run shows that it works, and no more."
        )
    return tuple(limits)


def _kept(result: NormsResult, init: GainInit) -> str:
    """Say how much of an arm's outcome comes from its start."""
    values = [
        run.start_kept
        for run in result.models
        if (run.init, run.relation) == (init, "base") and run.start_kept is not None
    ]
    if not values:
        return f"{init}: how much gains resemble their own start was not measured."
    told = f"{init}: after training, gains correlate with their own start, r from {_span(values)}"
    if min(values) > _MOSTLY:
        told += ", so this arm shows how gains begin rather than what training makes of them"
    return f"{told}."


def _group(result: NormsResult, init: GainInit, relation: PairRelation, pairs: Sequence[PairResult]) -> Group:
    needed = result.needed_log10_p
    correlations = [pair.pearson for pair in pairs if pair.pearson is not None]
    words = [pair.verdict for pair in pairs]
    return Group(
        init=init,
        relation=relation,
        n=len(pairs),
        cosine=fmean([pair.cosine for pair in pairs]),
        expected=fmean([pair.expected for pair in pairs]),
        pearson=fmean(correlations) if correlations else None,
        largest_pearson=max((abs(r) for r in correlations), default=None),
        log10_p_norms=_range([pair.norm_test for pair in pairs]),
        log10_p_units=_range([pair.unit_test for pair in pairs]),
        found_by_norms=sum(found(pair.norm_test, needed) for pair in pairs),
        found_by_units=sum(found(pair.unit_test, needed) for pair in pairs),
        verdicts=tuple((word, words.count(word)) for word in dict.fromkeys(words)),
    )


def _unrelated(result: NormsResult, init: GainInit | None = None) -> list[PairResult]:
    return [p for p in result.pairs if p.relation.startswith("unrelated") and init in (None, p.init)]


def _related(result: NormsResult, relation: PairRelation, init: GainInit | None = None) -> list[PairResult]:
    return [p for p in result.pairs if p.relation == relation and init in (None, p.init)]


def _arm(result: NormsResult, init: GainInit) -> str:
    strangers, children = _unrelated(result, init), _related(result, "fine-tuned", init)
    cosine, expected = fmean([p.cosine for p in strangers]), fmean([p.expected for p in strangers])
    gap = max(abs(p.cosine - p.expected) for p in strangers)
    told = (
        f"{init} ({_INIT[init]}): unrelated pairs ({len(strangers)}) have a mean cosine of {cosine:.4f}; "
        f"the means of the gains alone give {expected:.4f}"
    )
    told += (
        f" (no pair differs by more than {gap:.4f})"
        if gap <= _CLOSE
        else f" (pairs differ by up to {gap:.4f})"
    )
    told += f"; {_correlation(strangers)}. "
    told += (
        f"Fine-tuned pairs: cosine {fmean([p.cosine for p in children]):.4f}, means alone "
        f"{fmean([p.expected for p in children]):.4f}, {_correlation(children)}."
    )
    return told


def _correlation(pairs: Sequence[PairResult]) -> str:
    values = [pair.pearson for pair in pairs if pair.pearson is not None]
    if not values:
        return "no correlation could be computed"
    return f"r is {fmean(values):+.3f} on average ({_span(values)})"


def _span(values: Sequence[float]) -> str:
    return f"{min(values):+.3f} to {max(values):+.3f}"


def _cause(result: NormsResult) -> str:
    """Say whether a common mean is enough for a high cosine, without a common start."""
    strangers = _unrelated(result, "near-one")
    cosines = [pair.cosine for pair in strangers]
    gap = max(abs(pair.cosine - pair.expected) for pair in strangers)
    told = (
        "Gains of near-one share nothing at the start but their mean, and unrelated pairs have cosines of "
        f"{min(cosines):.4f} to {max(cosines):.4f}"
    )
    if min(cosines) > _HIGH and gap <= _CLOSE:
        return f"{told}, as their means say: a common mean makes a high cosine, and needs no common start."
    return f"{told}; means alone give up to {gap:.4f} more or less."


def _threshold(result: NormsResult) -> str:
    """Say whether any one threshold on the cosine would tell strangers from children."""
    strangers, children = _unrelated(result), _related(result, "fine-tuned")
    high, low = max(strangers, key=lambda p: p.cosine), min(children, key=lambda p: p.cosine)
    told = (
        f"The most alike unrelated pair has a cosine of {high.cosine:.4f} ({high.init}), the least alike "
        f"fine-tuned pair {low.cosine:.4f} ({low.init}): "
    )
    if high.cosine >= low.cosine:
        return told + "no threshold on the cosine tells them apart in all arms."
    gap = low.cosine - high.cosine
    return told + (
        f"a threshold between them, {gap:.4f} wide, would tell these pairs apart, but nobody knows it "
        "beforehand: it depends on means and deviations of the gains."
    )


def _tests(result: NormsResult) -> str:
    needed = result.needed_log10_p
    strangers, children = _unrelated(result), _related(result, "fine-tuned")

    def count(pairs: Sequence[PairResult], name: str) -> int:
        return sum(found(getattr(pair, name), needed) for pair in pairs)

    ranges = [_range([getattr(p, name) for p in strangers]) for name in ("norm_test", "unit_test")]
    least = [p_text(None if values is None else values[0]) for values in ranges]
    return (
        f"Exact tests, at a chance of {ALPHA:.0%} of any false alarm: of {len(children)} fine-tuned pairs "
        f"the gains find {count(children, 'norm_test')} and the MLP units {count(children, 'unit_test')}; "
        f"of {len(strangers)} unrelated pairs {count(strangers, 'norm_test')} and "
        f"{count(strangers, 'unit_test')}. The smallest p of an unrelated pair is {least[0]} (gains) and "
        f"{least[1]} (units), before any correction for their number."
    )


def _start(result: NormsResult) -> str:
    pairs = _related(result, "same start")
    needed = result.needed_log10_p
    norms = sum(found(pair.norm_test, needed) for pair in pairs)
    units = sum(found(pair.unit_test, needed) for pair in pairs)
    told = (
        f"Of {len(pairs)} pairs that share only their initialisation, the gains find {norms} and the MLP "
        f"units {units}"
    )
    if norms or units:
        told += ": a common origin may be no more than common random numbers, and the tests do not say which"
    return f"{told}."


def _verdicts(result: NormsResult) -> str:
    strangers, children = _unrelated(result), _related(result, "fine-tuned")
    accused = sum(pair.verdict not in ("no-evidence", "not-testable") for pair in strangers)
    known = sum(pair.verdict not in ("no-evidence", "not-testable") for pair in children)
    return (
        f"`modelkin compare` finds a common origin in {known} of {len(children)} fine-tuned and in "
        f"{accused} of {len(strangers)} unrelated pairs."
    )


def p_text(log10_p: float | None) -> str:
    """Write a p-value, rounded up: with two digits, or a small one as a power of ten."""
    if log10_p is None:
        return "not tested"
    if log10_p <= -4:
        return f"1e{math.ceil(log10_p)}"
    log10_p = min(log10_p, 0.0)  # a file may contain anything
    unit = 10.0 ** (math.floor(log10_p) - 1)
    # An integer number of units, up to the last bits of the logarithm, stays one.
    return f"{math.ceil(10**log10_p / unit - 1e-9) * unit:.2g}"


def _range(tests: Sequence[TestResult]) -> tuple[float, float] | None:
    values = [test.log10_p for test in tests if test.log10_p is not None]
    return (min(values), max(values)) if values else None


def write_norms(result: NormsResult, out: Path) -> None:
    """Write ``norms.json``, ``models.csv``, ``pairs.csv``, ``gains.csv``, ``NORMS.md`` and the figures."""
    out.mkdir(parents=True, exist_ok=True)
    texts = {
        "norms.json": to_json(result) + "\n",
        "models.csv": records_csv(_without(asdict(run), "losses") for run in result.models),
        "pairs.csv": records_csv(_pair_row(pair) for pair in result.pairs),
        "gains.csv": records_csv(
            {"candidate": pair.candidate, "base": pair.base, "relation": pair.relation} | asdict(norm)
            for pair in result.pairs
            for norm in pair.norms
        ),
        "NORMS.md": norms_document(result),
    }
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")
    for name, figure in norms_figures(result).items():
        draw(figure, out, name)


def norms_from_json(text: str) -> NormsResult:
    """Read what `to_json` wrote; the result is equal."""
    hint = "It takes what the norm experiment wrote."
    found = from_json(NormsResult, text, where="norms.json", hint=hint)
    if not found.models or not found.pairs:
        raise FormatError("norms.json", say("problem.no-model-pairs"), hint=hint)
    return found


def norms_blocks(result: NormsResult) -> tuple[Block, ...]:
    """Return the conclusion, its limits and the table of groups."""
    options = result.options
    versions = ", ".join(f"{name} {version}" for name, version in result.versions)
    made = (
        f"{len(result.models)} {options.family} models ({options.width} dimensions, {options.layers} "
        f"layers), {options.steps} steps, {result.cpu_minutes:.1f} CPU minutes of training, seed "
        f"{options.seed}; {versions}."
    )
    rows = (
        (
            group.init,
            group.relation,
            str(group.n),
            f"{group.cosine:.4f}",
            f"{group.expected:.4f}",
            _number(group.pearson, "+.3f"),
            _number(group.largest_pearson, ".3f"),
            _p_range(group.log10_p_norms),
            _p_range(group.log10_p_units),
            f"{group.found_by_norms}, {group.found_by_units}",
            ", ".join(f"{count} {word}" for word, count in group.verdicts),
        )
        for group in groups_of(result)
    )
    about = (
        "Cosine, expected (the product of both mean directions) and r are means over pairs and norms. "
        "p: smallest and largest of the group, rounded up, not corrected for the number of pairs. "
        "Found: pairs found by the gains, and by the MLP units."
    )
    return (
        Heading("Norm gains by how they begin", 1),
        Paragraph(f"{made}\n{_learnt(result)}", lines=True),
        Bullets(tuple(map(Marked, result.conclusion))),
        Section(title="Pairs", blocks=(table(_COLUMNS, rows, numeric=range(2, 7)), Paragraph(about, "note"))),
        Section(title="Limits", blocks=(Bullets(tuple(map(Marked, result.limits))),)),
    )


def norms_document(result: NormsResult) -> str:
    """Write the same as Markdown."""
    return render_markdown(norms_blocks(result))


def _learnt(result: NormsResult) -> str:
    """Say how well models know their own corpus and the other one."""
    scratch = [run for run in result.models if run.relation != "fine-tuned"]
    own, other = [run.held_out for run in scratch], [run.held_out_other for run in scratch]
    chance = " and ".join(f"{loss:.2f} ({corpus})" for corpus, loss in result.chance_losses)
    return (
        f"Loss of models from scratch on new text: {min(own):.2f} to {max(own):.2f} of their own corpus, "
        f"{min(other):.2f} to {max(other):.2f} of the other one; knowing only how frequent letters are gives "
        f"{chance}."
    )


def _pair_row(pair: PairResult) -> dict[str, object]:
    row = _without(asdict(pair), "norms", "norm_test", "unit_test")
    for name in ("norm_test", "unit_test"):
        row |= {f"{name}_{key}": value for key, value in asdict(getattr(pair, name)).items()}
    return row


def _without(row: dict[str, object], *names: str) -> dict[str, object]:
    return {key: value for key, value in row.items() if key not in names}


def _number(value: float | None, form: str) -> str:
    return "not measured" if value is None else f"{value:{form}}"


def _p_range(values: tuple[float, float] | None) -> str:
    if values is None:
        return "not tested"
    texts = [p_text(value) for value in values]
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} to {texts[1]}"
