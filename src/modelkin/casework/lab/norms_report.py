"""What follows from the norm experiment, computed from its results: sentences, a document, tables, files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from pathlib import Path
from statistics import fmean
from typing import Final

from modelkin.document import ENGLISH, Language, render_markdown, to_json
from modelkin.document.blocks import Block, Bullets, Heading, Marked, Paragraph, Section, table
from modelkin.document.codec import from_json, schemas
from modelkin.errors import FormatError
from modelkin.figures import draw
from modelkin.message import Message, say
from modelkin.untrusted import records_csv

from .norms import (
    ALPHA,
    RELATIONS,
    GainInit,
    NormsResult,
    PairRelation,
    PairResult,
    TestResult,
    relation_words,
)
from .norms_figures import norms_figures

schemas[NormsResult] = "modelkin.norms/1"

_CLOSE: Final = 0.01
"""A cosine this close to its expectation is called explained."""

_HIGH: Final = 0.9
_MOSTLY: Final = 0.7
"""Gains that correlate more than this with their start still share half of its variance."""

_COLUMNS: Final = (
    "norms.head-init",
    "norms.head-relation",
    "norms.head-pairs",
    "norms.head-cosine",
    "norms.head-expected",
    "norms.head-r",
    "norms.head-largest",
    "norms.head-gains",
    "norms.head-units",
    "norms.head-found",
    "norms.head-verdicts",
)
_BEGIN: Final[dict[GainInit, str]] = {
    "ones": "norms.begin-ones",
    "near-one": "norms.begin-near-one",
    "random": "norms.begin-random",
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


def _conclusion(result: NormsResult) -> tuple[Message, ...]:
    """Say what was found, arm by arm and over all arms."""
    found = [_arm(result, init) for init in result.options.inits]
    if "near-one" in result.options.inits:
        found.append(_cause(result))
    return (*found, _threshold(result), _tests(result), _start(result), _verdicts(result))


def _limits(result: NormsResult) -> tuple[Message, ...]:
    """Say what the experiment cannot show."""
    options = result.options
    limits = [
        say(
            "norms.tiny",
            family=options.family,
            width=options.width,
            layers=options.layers,
            steps=options.steps,
            moved=max(run.gain_moved for run in result.models),
        ),
        say("norms.fast"),
        say("norms.shared-models"),
        say("norms.absence"),
    ]
    limits += [_kept(result, init) for init in options.inits if init != "ones"]
    if options.seeds < 4:
        limits.append(say("norms.few-seeds", seeds=options.seeds))
    return tuple(limits)


def _kept(result: NormsResult, init: GainInit) -> Message:
    """Say how much of an arm's outcome comes from its start."""
    values = [
        run.start_kept
        for run in result.models
        if (run.init, run.relation) == (init, "base") and run.start_kept is not None
    ]
    if not values:
        return say("norms.kept-unknown", init=init)
    code = "norms.kept-mostly" if min(values) > _MOSTLY else "norms.kept"
    return say(code, init=init, low=min(values), high=max(values))


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


def _arm(result: NormsResult, init: GainInit) -> Message:
    strangers, children = _unrelated(result, init), _related(result, "fine-tuned", init)
    gap = max(abs(p.cosine - p.expected) for p in strangers)
    return say(
        "norms.arm",
        init=init,
        begin=say(_BEGIN[init]),
        strangers=len(strangers),
        cosine=fmean([p.cosine for p in strangers]),
        expected=fmean([p.expected for p in strangers]),
        differ=say("norms.none-differs" if gap <= _CLOSE else "norms.some-differ", gap=gap),
        correlation=_correlation(strangers),
        tuned_cosine=fmean([p.cosine for p in children]),
        tuned_expected=fmean([p.expected for p in children]),
        tuned_correlation=_correlation(children),
    )


def _correlation(pairs: Sequence[PairResult]) -> Message:
    values = [pair.pearson for pair in pairs if pair.pearson is not None]
    if not values:
        return say("norms.no-correlation")
    return say("norms.correlation", mean=fmean(values), low=min(values), high=max(values))


def _cause(result: NormsResult) -> Message:
    """Say whether a common mean is enough for a high cosine, without a common start."""
    strangers = _unrelated(result, "near-one")
    cosines = [pair.cosine for pair in strangers]
    low, high = min(cosines), max(cosines)
    gap = max(abs(pair.cosine - pair.expected) for pair in strangers)
    if low > _HIGH and gap <= _CLOSE:
        return say("norms.mean-is-enough", low=low, high=high)
    return say("norms.mean-is-not-all", low=low, high=high, gap=gap)


def _threshold(result: NormsResult) -> Message:
    """Say whether any one threshold on the cosine would tell strangers from children."""
    strangers, children = _unrelated(result), _related(result, "fine-tuned")
    most, least = max(strangers, key=lambda p: p.cosine), min(children, key=lambda p: p.cosine)
    high, low = most.cosine, least.cosine
    if high >= low:
        return say("norms.no-threshold", high=high, high_init=most.init, low=low, low_init=least.init)
    return say(
        "norms.threshold", high=high, high_init=most.init, low=low, low_init=least.init, gap=low - high
    )


def _tests(result: NormsResult) -> Message:
    needed = result.needed_log10_p
    strangers, children = _unrelated(result), _related(result, "fine-tuned")

    def count(pairs: Sequence[PairResult], name: str) -> int:
        return sum(found(getattr(pair, name), needed) for pair in pairs)

    ranges = [_range([getattr(p, name) for p in strangers]) for name in ("norm_test", "unit_test")]
    least = [say("norms.untested") if values is None else p_text(values[0]) for values in ranges]
    return say(
        "norms.tests",
        alpha=ALPHA,
        children=len(children),
        children_gains=count(children, "norm_test"),
        children_units=count(children, "unit_test"),
        strangers=len(strangers),
        strangers_gains=count(strangers, "norm_test"),
        strangers_units=count(strangers, "unit_test"),
        least_gains=least[0],
        least_units=least[1],
    )


def _start(result: NormsResult) -> Message:
    pairs = _related(result, "same start")
    needed = result.needed_log10_p
    gains = sum(found(pair.norm_test, needed) for pair in pairs)
    units = sum(found(pair.unit_test, needed) for pair in pairs)
    code = "norms.start-found" if gains or units else "norms.start"
    return say(code, pairs=len(pairs), gains=gains, units=units)


def _verdicts(result: NormsResult) -> Message:
    strangers, children = _unrelated(result), _related(result, "fine-tuned")
    accused = sum(pair.verdict not in ("no-evidence", "not-testable") for pair in strangers)
    known = sum(pair.verdict not in ("no-evidence", "not-testable") for pair in children)
    return say("norms.found", known=known, children=len(children), accused=accused, strangers=len(strangers))


def p_text(log10_p: float) -> str:
    """Write a p-value, rounded up: with two digits, or a small one as a power of ten."""
    if log10_p <= -4:
        return f"1e{math.ceil(log10_p)}"
    log10_p = min(log10_p, 0.0)  # a file may contain anything
    unit = 10.0 ** (math.floor(log10_p) - 1)
    # An integer number of units, up to the last bits of the logarithm, stays one.
    return f"{math.ceil(10**log10_p / unit - 1e-9) * unit:.2g}"


def _range(tests: Sequence[TestResult]) -> tuple[float, float] | None:
    values = [test.log10_p for test in tests if test.log10_p is not None]
    return (min(values), max(values)) if values else None


def write_norms(result: NormsResult, out: Path, language: Language = ENGLISH) -> None:
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
        "NORMS.md": norms_document(result, language),
    }
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")
    for name, figure in norms_figures(result).items():
        draw(figure, out, name, language=language)


def norms_from_json(text: str) -> NormsResult:
    """Read what `to_json` wrote; the result is equal."""
    hint = say("hint.norms-json")
    found = from_json(NormsResult, text, where="norms.json", hint=hint)
    if not found.models or not found.pairs:
        raise FormatError("norms.json", say("problem.no-model-pairs"), hint=hint)
    return found


def norms_blocks(result: NormsResult, language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return the conclusion, its limits and the table of groups."""
    tell = language.tell
    rows = (
        (
            group.init,
            language.wording(relation_words(group.relation)),
            str(group.n),
            f"{group.cosine:.4f}",
            f"{group.expected:.4f}",
            _number(group.pearson, "+.3f", language),
            _number(group.largest_pearson, ".3f", language),
            _p_range(group.log10_p_norms, language),
            _p_range(group.log10_p_units, language),
            f"{group.found_by_norms}, {group.found_by_units}",
            ", ".join(_counted(word, count, language) for word, count in group.verdicts),
        )
        for group in groups_of(result)
    )
    columns = [tell(say(code)) for code in _COLUMNS]
    pairs = (table(columns, rows, numeric=range(2, 7)), Paragraph(tell(say("norms.about")), "note"))
    limits = Bullets(tuple(Marked(tell(message)) for message in result.limits))
    return (
        Heading(tell(say("norms.title")), 1),
        Paragraph(f"{tell(_made(result))}\n{tell(_learnt(result))}", lines=True),
        Bullets(tuple(Marked(tell(message)) for message in result.conclusion)),
        Section(title=tell(say("norms.pairs-title")), blocks=pairs),
        Section(title=tell(say("norms.limits-title")), blocks=(limits,)),
    )


def norms_document(result: NormsResult, language: Language = ENGLISH) -> str:
    """Write the same as Markdown."""
    return render_markdown(norms_blocks(result, language))


def _made(result: NormsResult) -> Message:
    """Say what was trained, and with what."""
    options = result.options
    return say(
        "norms.made",
        models=len(result.models),
        family=options.family,
        width=options.width,
        layers=options.layers,
        steps=options.steps,
        minutes=result.cpu_minutes,
        seed=options.seed,
        versions=tuple(f"{name} {version}" for name, version in result.versions),
    )


def _learnt(result: NormsResult) -> Message:
    """Say how well models know their own corpus and the other one."""
    scratch = [run for run in result.models if run.relation != "fine-tuned"]
    own, other = [run.held_out for run in scratch], [run.held_out_other for run in scratch]
    chance = [say("norms.chance-of", loss=loss, corpus=corpus) for corpus, loss in result.chance_losses]
    return say(
        "norms.learnt",
        own_low=min(own),
        own_high=max(own),
        other_low=min(other),
        other_high=max(other),
        chance=reduce(lambda first, second: say("norms.both", first=first, second=second), chance)
        if chance
        else say("norms.unmeasured"),
    )


def _pair_row(pair: PairResult) -> dict[str, object]:
    row = _without(asdict(pair), "norms", "norm_test", "unit_test")
    for name, test in (("norm_test", pair.norm_test), ("unit_test", pair.unit_test)):
        row |= {f"{name}_log10_p": test.log10_p, f"{name}_effect": test.effect}
        row[f"{name}_reason"] = None if test.reason is None else str(test.reason)
    return row


def _without(row: dict[str, object], *names: str) -> dict[str, object]:
    return {key: value for key, value in row.items() if key not in names}


def _number(value: float | None, form: str, language: Language) -> str:
    return language.tell(say("norms.unmeasured")) if value is None else f"{value:{form}}"


def _p_range(values: tuple[float, float] | None, language: Language) -> str:
    if values is None:
        return language.tell(say("norms.untested"))
    low, high = map(p_text, values)
    return low if low == high else language.tell(say("norms.p-range", low=low, high=high))


def _counted(verdict: str, count: int, language: Language) -> str:
    told = language.word("norms_verdict", verdict)
    return language.tell(say("norms.verdict-count", count=count, verdict=told))
