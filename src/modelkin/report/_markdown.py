"""``REPORT.md``: the whole record of a comparison as a document. Every number in it is in the JSON."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from modelkin._comparison import Comparison, ModelSummary
from modelkin.evidence import Evidence
from modelkin.verdict import Conclusion

from ._numbers import (
    bound_text,
    count_text,
    effect_text,
    limit_text,
    p_text,
    runs_text,
    size_text,
    value_text,
)
from ._words import (
    HEADLINE,
    SCALE,
    SHORT,
    STRENGTH,
    details_text,
    layers_text,
    limits_text,
    not_examined,
    relation_text,
    strongest_component,
    tested_components,
    visible,
)

_SPECIAL = re.compile(r"([\\`*\[\]<>|#~&!$])|(?<![A-Za-z0-9])(_)|(_)(?![A-Za-z0-9])")
_LIST_MARK = re.compile(r"^[-+]|(?<=^\d)[.)]")


def report_markdown(result: Comparison) -> str:
    """Write the report, from the question to how to repeat it."""
    names = [_text(model.ref) for model in (result.candidate, result.base)]
    parts = [
        [f"# Was {names[0]} derived from {names[1]}?"],
        _verdict(result),
        ["## What this verdict does not say", _list(result.verdict.limitations)],
        _components(result),
        _relation(result),
        _controls(result),
        _models(result),
        _evidence(result),
        _missing(result),
        _reading(result),
        _repeat(result),
    ]
    return "\n\n".join(block for part in parts for block in part if block) + "\n"


# -- the answer ----------------------------------------------------------------------------------------


def _verdict(result: Comparison) -> Iterator[str]:
    verdict = result.verdict
    yield "## Verdict"
    yield f"**{HEADLINE[verdict.conclusion]}.** {_text(verdict.summary)}"
    rows = [("conclusion", f"`{verdict.conclusion.value}`")]
    if verdict.log10_p is not None:
        corrected = "corrected for the number of components and for when reading may stop"
        rows.append(("strength", f"{p_text(verdict.log10_p)}: {STRENGTH[verdict.conclusion]}; {corrected}"))
    if verdict.related and verdict.log10_p_extrapolated is not None:
        far = bound_text(verdict.log10_p_extrapolated)
        rows.append(
            ("extrapolated", f"p about {far}: normal tail of the strongest test, no part of the verdict")
        )
    if verdict.effect is not None:
        where = strongest_component(result)
        place = f" in {_text(where)}, the strongest component" if where else ""
        rows.append(("effect", f"{effect_text(verdict.effect)}{place} (excess cosine; {SCALE})"))
    if limits_text(result):
        rows.append(("would have been found", f"{_text(limits_text(result))} (with 99.9 % power)"))
    rows.append(("decided", f"at stage {verdict.stage} by {_text(verdict.rule)}"))
    yield _table(("", ""), [(f"**{name}**", value) for name, value in rows])


def _components(result: Comparison) -> Iterator[str]:
    rows = [
        (
            _text(name),
            SHORT[item.conclusion],
            effect_text(item.effect) if item.effect else "-",
            bound_text(item.log10_p) if item.log10_p is not None else "-",
            str(item.n_tests),
            layers_text(name, item, result),
            limit_text(item.detection_limit) if item.detection_limit is not None else "-",
        )
        for name, item in tested_components(result)
    ]
    yield "## Components"
    if not rows:
        yield "No component was tested."
        return
    yield _table(("component", "verdict", "effect", "p at most", "tests", "layers", "found from"), rows)
    yield (
        "*effect*: cosine in excess of chance between parts of the same number, with its interval. "
        "*p at most*: combined over the tests of the component, rounded upwards. *found from*: the smallest "
        "effect that its most sensitive test finds with 99.9 % power."
    )


def _relation(result: Comparison) -> Iterator[str]:
    relation, alignment = result.relation, result.alignment
    yield "## Relation"
    sentences = (relation_text(result), *relation.direction.reasons)
    yield " ".join(_sentence(_text(sentence)) for sentence in sentences)
    rows = [(_text(name.replace("_", " ")), _value(value)) for name, value in relation.details.items()]
    rows.append(("residual dimensions were paired by", _text(alignment.residual)))
    rows.append(("units were paired by", _text(alignment.units)))
    yield _table(("what", "value"), rows)


def _controls(result: Comparison) -> Iterator[str]:
    yield "## Controls"
    if not result.controls:
        yield "No control was given. `--control MODEL` repeats every test with a model known to be unrelated."
        return
    rows = [
        (
            _text(item.pair[1]),
            _text(item.pair[0]),
            SHORT[Conclusion(item.conclusion)] if item.conclusion else "-",
            effect_text(item.effect) if item.effect else "-",
            bound_text(item.log10_p) if item.log10_p is not None else "-",
            "yes" if item.usable else f"**no**: {_text(item.reason or 'no reason given')}",
        )
        for item in result.controls
    ]
    yield _table(("control", "compared with", "verdict", "effect", "p at most", "serves as a negative"), rows)


# -- what it rests on ----------------------------------------------------------------------------------


def _models(result: Comparison) -> Iterator[str]:
    mine, theirs = result.candidate, result.base
    yield "## The models"
    pairs = zip(_model_rows(mine), _model_rows(theirs), strict=True)
    yield _table(("", "candidate", "base"), [(name, left, right) for (name, left), (_, right) in pairs])
    yield "### Tokenizers"
    rows = [(_text(name.replace("_", " ")), _value(value)) for name, value in result.tokenizer.items()]
    yield _table(("what", "value"), rows)
    yield "### Configurations"
    if not result.config:
        yield "No field of the configurations differs."
        return
    differing = [(_text(name), _text(left), _text(right)) for name, (left, right) in result.config.items()]
    yield _table(("field that differs", "candidate", "base"), differing)


def _model_rows(model: ModelSummary) -> Iterator[tuple[str, str]]:
    yield "reference", _text(model.ref)
    yield "found at", _text(f"{model.kind}: {model.origin}")
    yield "commit", _text(model.revision or "-")
    yield "architecture", _text(model.family or "unknown")
    yield "model type", _text(model.model_type or "-")
    yield "layers", _value(model.layers)
    yield "hidden size", _value(model.hidden_size)
    yield "vocabulary", _value(model.vocab_size)
    yield "parameters", f"{count_text(model.parameters)} ({model.parameters:,})"
    yield "stored as", ", ".join(f"{_text(name)} {number:,}" for name, number in model.dtypes.items()) or "-"


def _evidence(result: Comparison) -> Iterator[str]:
    yield "## Evidence"
    titles = (
        *("method", "component", "role", "layers", "units", "features", "z", "effect", "p at most"),
        *("extrapolated", "matched", "found from", "remarks"),
    )
    if not result.evidence:
        yield "No test was made: none was needed."
        return
    yield _table(titles, [_evidence_row(test) for test in result.evidence])
    yield (
        "*units* of the axis whose order was tested, each described by *features*; *matched*: units whose "
        "best match is the unit of the same number. `tensors.csv` has all numbers unrounded."
    )
    used = {(test.method, test.version): test for test in result.evidence}
    yield "### Methods and their null hypotheses"
    yield "\n".join(_method_line(test) for test in used.values())


def _evidence_row(test: Evidence) -> tuple[str, ...]:
    remarks = [f"not made: {test.reason or 'no reason given'}"] if not test.ok else []
    remarks += [details_text(test)] if test.details else []
    return (
        _text(test.method),
        _text(test.component),
        _text(test.role or "-"),
        runs_text(test.layers) or "-",
        _value(test.n),
        _value(test.n_features),
        f"{test.z:.1f}" if test.z is not None else "-",
        effect_text(test.effect) if test.effect else "-",
        bound_text(test.log10_p) if test.log10_p is not None else "-",
        bound_text(test.log10_p_extrapolated) if test.log10_p_extrapolated is not None else "-",
        _value(test.n_matched),
        limit_text(test.detection_limit) if test.detection_limit is not None else "-",
        _text("; ".join([*remarks, *test.flags])) or "-",
    )


def _method_line(test: Evidence) -> str:
    kind = "exact" if test.exact else "not exact"
    return (
        f"- {_text(test.method)} (version {_text(test.version)}, {kind}): {_text(test.null) or 'none stated'}"
    )


def _missing(result: Comparison) -> Iterator[str]:
    yield "## What was not examined"
    yield _list(not_examined(result)) or "Every method could be applied to every part it looks at."
    yield f"Reading stopped at stage {result.verdict.stage}; depth {result.environment.depth} was allowed."


def _reading(result: Comparison) -> Iterator[str]:
    ledger = result.ledger
    yield "## What was read"
    origins: dict[str, list[int]] = {}
    for entry in ledger.ranges:
        origins.setdefault(entry.origin, []).append(entry.n_bytes)
    rows = [
        ("bytes fetched", f"{size_text(ledger.bytes_fetched)} ({ledger.bytes_fetched:,})"),
        ("bytes needed", f"{size_text(ledger.bytes_needed)} ({ledger.bytes_needed:,})"),
        ("requests", f"{ledger.requests:,}"),
        ("ranges from the store", f"{ledger.cache_hits:,}"),
        ("seconds of reading", f"{ledger.seconds:.2f}"),
    ]
    rows += [
        (f"ranges from {_text(origin)}", f"{len(sizes):,} ({size_text(sum(sizes))})")
        for origin, sizes in origins.items()
        if origin != "store"
    ]
    yield _table(("of both models", ""), rows)
    yield "Every range with its SHA-256 is in `comparison.json` under `ledger.ranges`."


# -- how to repeat it ----------------------------------------------------------------------------------


def _repeat(result: Comparison) -> Iterator[str]:
    environment = result.environment
    yield "## How to repeat it"
    words = ["modelkin", "compare", _pinned(result.candidate), _pinned(result.base)]
    words += ["--depth", environment.depth, "--seed", str(environment.seed)]
    for control in dict.fromkeys(item.pair[1] for item in result.controls):
        words += ["--control", control]
    yield f"```console\n$ {visible(shlex.join(words))}\n```"
    methods = ", ".join(f"{_text(name)} {_text(version)}" for name, version in environment.methods.items())
    yield f"modelkin {_text(environment.modelkin)}, {_text(environment.rule)}, methods {methods}."
    yield "The same seed reads the same bytes and gives the same numbers."


def _pinned(model: ModelSummary) -> str:
    """Name a model so that the same folder or commit is found again."""
    if model.kind == "local":
        return model.origin
    if model.kind != "hub" or model.revision is None:
        return model.ref
    return f"{model.ref.partition('@')[0]}@{model.revision}"


# -- Markdown ------------------------------------------------------------------------------------------


def _text(text: str) -> str:
    """Show a text as it is: nothing in it is markup, and nothing in it ends a cell or a line."""
    return _SPECIAL.sub(r"\\\g<0>", visible(text))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _value(value: str | float | bool | None) -> str:
    return _text(value_text(value))


def _list(lines: Iterable[str]) -> str:
    return "\n".join("- " + _LIST_MARK.sub(r"\\\g<0>", _text(line)) for line in lines)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)
