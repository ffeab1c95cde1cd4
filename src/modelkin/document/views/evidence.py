"""What a comparison rests on: every test, what was not examined, what was read, and how to repeat it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from modelkin.comparison import Comparison
from modelkin.comparison.methods import Evidence, Skipped
from modelkin.document.blocks import (
    Block,
    Bullets,
    Cell,
    Code,
    Facts,
    Literally,
    Marked,
    PageOnly,
    Paragraph,
    Runs,
    Section,
    Table,
    Text,
    table,
)
from modelkin.document.evidence import evidence_row
from modelkin.document.language import Language
from modelkin.document.numbers import (
    bound_text,
    effect_text,
    limit_text,
    runs_text,
    size_text,
    value_text,
    z_text,
)

from .words import (
    command_text,
    details_text,
    facing_layers,
    labels,
    method_lines,
    not_examined,
    remarks_text,
    told_value,
    undone,
)

_MOST_RANGES = 300


def evidence_blocks(result: Comparison, language: Language) -> Iterator[Block]:
    """Yield every test, made or not, and the null hypotheses."""
    if not result.evidence:
        yield Paragraph(language.say("text.no_evidence"))
        return
    titles = (
        *("method", "component", "role", "layers", "units", "features", "z", "effect", "p_at_most"),
        *("extrapolated", "matched", "found_from", "remarks"),
    )
    yield Table(
        columns=labels(language, *titles),
        rows=tuple(_test(test, language) for test in result.evidence),
        numeric=frozenset(range(4, 12)),
        kind="evidence",
        sortable=True,
        muted=frozenset(number for number, test in enumerate(result.evidence) if isinstance(test, Skipped)),
    )
    yield Paragraph(Marked(language.say("text.about_evidence")), "note")
    lines = tuple(method_lines(result, language))
    yield Section(title=language.say("title.nulls"), closed=True, blocks=(Bullets(lines),))


def _test(found: Evidence, language: Language) -> tuple[Text | Cell, ...]:
    test = evidence_row(found)
    effect = test.effect.value if test.effect else None
    return (
        test.method,
        language.word("component", test.component),
        test.role or "-",
        Cell(text=_runs(test.layers), sort=min(test.layers, default=None)),
        _number(test.n, value_text),
        _number(test.n_features, value_text),
        _number(test.z, z_text),
        Cell(text=Marked(effect_text(test.effect)) if test.effect else "-", sort=effect),
        _number(test.log10_p, bound_text),
        _number(test.log10_p_extrapolated, bound_text),
        _number(test.n_matched, value_text),
        _number(test.detection_limit, limit_text),
        remarks_text(found, language) or "-",
    )


def test_blocks(result: Comparison, language: Language) -> Iterator[Block]:
    """Yield the tests with their numbers, then what has no p-value."""
    made = [(test, evidence_row(test)) for test in result.evidence if not isinstance(test, Skipped)]
    rows = [
        (
            test.method,
            test.role or "-",
            _facing(test, language),
            f"{row.effect.value:.3f}" if row.effect else "-",
            bound_text(row.log10_p),
            bound_text(row.log10_p_extrapolated) if row.log10_p_extrapolated is not None else "-",
            limit_text(row.detection_limit) if row.detection_limit is not None else "-",
        )
        for test, row in made
        if row.log10_p is not None
    ]
    titles = ("method", "role", "layers", "effect", "p_at_most", "extrapolated", "found_from")
    if rows:
        yield table(labels(language, *titles), rows, numeric=(3, 4, 5, 6))
    described = [
        language.say("text.no_p_value", method=test.method, details=details_text(test, language))
        for test, row in made
        if row.log10_p is None
    ]
    if described:
        yield Bullets(tuple(described))


def _facing(test: Evidence, language: Language) -> str:
    """Write the layers of a test: both sides if they differ, and changed coordinates."""
    others, coordinates = facing_layers(test), undone(test.frame)
    both = [runs_text(test.layers) or "-", *([runs_text(others)] if others else [])]
    return " -> ".join(both) + (f" ({language.word('frame', coordinates)})" if coordinates else "")


def missing_blocks(result: Comparison, language: Language) -> Iterator[Block]:
    """Yield what was not examined, with reasons."""
    left_out = tuple(not_examined(result, language))
    yield Bullets(left_out) if left_out else Paragraph(language.say("text.nothing_missing"))
    stage, depth = result.verdict.stage, result.environment.depth
    yield Paragraph(language.say("text.stopped", stage=stage, depth=depth), "note")


def _runs(layers: tuple[int, ...]) -> Text:
    return Runs(runs_text(layers) or "-")


def _number(value: float | None, write: Callable[[float], str]) -> Cell:
    return Cell(text="-" if value is None else write(value), sort=value)


# -- what was read, and how to repeat it ---------------------------------------------------------------


def reading_blocks(result: Comparison, language: Language) -> Iterator[Block]:
    """Yield what was read: sums first, files and ranges on demand."""
    ranges = result.ledger.ranges
    yield Facts(rows=tuple(_read(result, language)), columns=(language.say("label.of_both"), ""))
    if ranges:
        title = language.say("text.show_ranges", number=f"{len(ranges):,}")
        files = (_files(result, language), *_ranges(result, language))
        listed = Section(title=title, closed=True, button=True, blocks=files)
        yield PageOnly(blocks=(listed,))
    yield Paragraph(Marked(language.say("text.in_json")), "note")


def _read(result: Comparison, language: Language) -> Iterator[tuple[str, Text]]:
    ledger = result.ledger
    rows = {
        "bytes_fetched": f"{size_text(ledger.bytes_fetched)} ({ledger.bytes_fetched:,})",
        "bytes_needed": f"{size_text(ledger.bytes_needed)} ({ledger.bytes_needed:,})",
        "requests": f"{ledger.requests:,}",
        "from_store": f"{ledger.cache_hits:,}",
        "seconds": f"{ledger.seconds:.2f}",
    }
    for key, value in rows.items():
        yield language.say(f"label.{key}"), value
    for state, names in _by_state(result).items():
        yield language.word("file_state", state), f"{len(names):,}"
    origins: dict[str, list[int]] = {}
    for entry in ledger.ranges:
        origins.setdefault(entry.origin, []).append(entry.n_bytes)
    for origin, sizes in origins.items():
        if origin != "store":
            size = size_text(sum(sizes))
            shown = language.say("text.ranges_of", number=f"{len(sizes):,}", size=size)
            yield language.say("label.ranges_from", origin=language.word("origin", origin)), shown


def _by_state(result: Comparison) -> dict[str, list[str]]:
    """Return the files by how they were read, those checked against a digest first."""
    found: dict[str, list[str]] = {"verified": [], "whole": [], "sampled": []}
    for entry in result.ledger.files:
        found[entry.state].append(entry.file)
    return {state: names for state, names in found.items() if names}


def _files(result: Comparison, language: Language) -> Table:
    sums: dict[tuple[str, str], list[int]] = {}
    for entry in result.ledger.ranges:
        sums.setdefault((entry.model, entry.file), []).append(entry.n_bytes)
    states = {(entry.model, entry.file): entry.state for entry in result.ledger.files}
    rows = [
        (
            language.word("side", side),
            file,
            f"{len(sizes):,}",
            size_text(sum(sizes)),
            language.word("file_state", states[side, file]) if (side, file) in states else "-",
        )
        for (side, file), sizes in sums.items()
    ]
    return table(labels(language, "model", "file", "ranges", "bytes", "checked"), rows, numeric=(2, 3))


def _ranges(result: Comparison, language: Language) -> Iterator[Block]:
    ranges = result.ledger.ranges
    rows = [
        (
            language.word("side", entry.model),
            entry.file,
            f"{entry.start:,}",
            f"{entry.stop:,}",
            Literally(entry.sha256),
        )
        for entry in ranges[:_MOST_RANGES]
    ]
    yield table((*labels(language, "model", "file", "from", "to"), "SHA-256"), rows, numeric=(2, 3))
    if len(ranges) > _MOST_RANGES:
        number = f"{len(ranges) - _MOST_RANGES:,}"
        yield Paragraph(Marked(language.say("text.more_ranges", number=number)), "note")


def reading_lines(result: Comparison, language: Language) -> Iterator[Block]:
    """Yield what was read and how it was decided, in two lines."""
    ledger, environment, verdict = result.ledger, result.environment, result.verdict
    read = language.say(
        "text.read_line",
        size=size_text(ledger.bytes_fetched),
        seconds=f"{ledger.seconds:.1f}",
        ranges=str(len(ledger.ranges)),
        stored=str(ledger.cache_hits),
        requests=str(ledger.requests),
    )
    decided = language.say(
        "text.decided_line",
        stage=verdict.stage,
        depth=environment.depth,
        seed=str(environment.seed),
        rule=told_value(verdict.rule, language),
        version=environment.modelkin,
    )
    yield Paragraph(read, "note")
    if ledger.files and any(entry.origin != "disk" for entry in ledger.ranges):  # disks publish no digests
        counts = {state: str(len(names)) for state, names in _by_state(result).items()}
        told = {state: counts.get(state, "0") for state in ("verified", "whole", "sampled")}
        yield Paragraph(language.say("text.files_line", **told), "note")
    yield Paragraph(decided, "note")


def repeat_blocks(result: Comparison, language: Language) -> Iterator[Block]:
    """Yield the command, and everything that fixes its result."""
    environment = result.environment
    methods = ", ".join(f"{name} {version}" for name, version in environment.methods.items())
    rule = told_value(environment.rule, language)
    yield Code(command_text(result))
    yield Paragraph(language.say("text.versions", version=environment.modelkin, rule=rule, methods=methods))
    yield PageOnly(blocks=(Facts(rows=tuple(_fixed(result, language))),))
    yield Paragraph(language.say("text.same_bytes"), "note")


def _fixed(result: Comparison, language: Language) -> Iterator[tuple[str, Text]]:
    """Yield what else fixes the result: thresholds of the rule, seed, depth, commits."""
    environment = result.environment
    thresholds = "; ".join(
        f"{language.word('threshold', name)} {value_text(value)}"
        for name, value in environment.thresholds.items()
    )
    rows = {"thresholds": thresholds, "seed": str(environment.seed), "depth": environment.depth}
    yield from ((language.say(f"label.{key}"), value) for key, value in rows.items())
    commits = {model.ref: model.revision for model in (result.candidate, result.base)}
    commits |= {item.pair[1]: item.revision for item in result.controls}
    for ref, revision in commits.items():
        if revision:
            yield language.say("label.commit"), (ref, " @ ", Literally(revision))
