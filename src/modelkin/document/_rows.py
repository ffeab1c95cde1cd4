"""What both reports show, the document and the page: rows of texts, not yet escaped."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from modelkin.comparison import Comparison, ModelSummary
from modelkin.comparison.alignment import LayerMap
from modelkin.comparison.methods import Evidence, Skipped
from modelkin.message import Message
from modelkin.source import pinned
from modelkin.untrusted import visible

from ._evidence import evidence_row
from ._words import details_text, facing_layers, reason_text, strongest_component, undone
from .language import ENGLISH, Language
from .numbers import count_text, effect_text, runs_text, size_text, value_text


def command_text(result: Comparison) -> str:
    """Write the command that repeats a comparison, with commits and folders pinned."""
    environment = result.environment
    words = ["modelkin", "compare", _pinned(result.candidate), _pinned(result.base)]
    words += ["--depth", environment.depth, "--seed", str(environment.seed)]
    for control in dict.fromkeys(item.pair[1] for item in result.controls):
        words += ["--control", control]
    return visible(shlex.join(words))


def remarks_text(test: Evidence, language: Language = ENGLISH) -> str:
    """Write what is to be said of a piece of evidence beside its numbers."""
    say = language.say
    remarks = (
        [say("text.not_made", reason=reason_text(test.reason, language))] if isinstance(test, Skipped) else []
    )
    coordinates, others = undone(test.frame), facing_layers(test)
    remarks += [say("text.frame", frame=language.word("frame", coordinates))] if coordinates else []
    remarks += [say("text.faces", layers=runs_text(others))] if others else []
    details = details_text(test, language)
    remarks += [details] if details else []
    remarks += [language.word("flag", flag) for flag in evidence_row(test).flags]
    return "; ".join(remarks)


def effect_place(result: Comparison, language: Language) -> str:
    """Write the effect of the verdict and the component that shows it."""
    effect, where = result.verdict.effect, strongest_component(result)
    assert effect is not None
    scale = language.say("text.scale")
    if where is None:
        return language.say("text.in_no_component", effect=effect_text(effect), scale=scale)
    component = language.word("component", where)
    return language.say("text.in_component", effect=effect_text(effect), component=component, scale=scale)


def model_rows(model: ModelSummary, language: Language) -> Iterator[tuple[str, str]]:
    """Yield what is known of a model; the same names for every model."""
    stored = ", ".join(f"{name} {number:,}" for name, number in model.dtypes.items())
    rows = {
        "reference": model.ref,
        "found_at": f"{model.kind}: {model.origin}",
        "commit": model.revision or "-",
        "architecture": model.family or language.say("word.unknown"),
        "model_type": model.model_type or "-",
        "layers": value_text(model.layers),
        "hidden_size": value_text(model.hidden_size),
        "vocabulary": value_text(model.vocab_size),
        "parameters": f"{count_text(model.parameters)} ({model.parameters:,})",
        "stored_as": f"{model.format}: {stored or '-'}",
        "notes": "; ".join(model.notes) or "-",
    }
    for key, value in rows.items():
        yield language.say(f"label.{key}"), value


def method_lines(result: Comparison, language: Language) -> Iterator[str]:
    """Yield one line for each method that was used, with its null hypothesis."""
    for test in {(test.method, test.version): test for test in result.evidence}.values():
        yield language.say(
            "text.method_line",
            method=test.method,
            version=test.version,
            exact=language.say("word.exact" if test.exact else "word.not_exact"),
            null=language.tell(test.null),
        )


def reading_rows(result: Comparison, language: Language) -> Iterator[tuple[str, str]]:
    """Yield what was read of both models together."""
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
    origins: dict[str, list[int]] = {}
    for entry in ledger.ranges:
        origins.setdefault(entry.origin, []).append(entry.n_bytes)
    for origin, sizes in origins.items():
        if origin != "store":
            number, size = f"{len(sizes):,}", size_text(sum(sizes))
            name = language.say("label.ranges_from", origin=origin)
            yield name, language.say("text.ranges_of", number=number, size=size)


def lineage_lines(
    declared: Mapping[str, tuple[Message, ...]], language: Language
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what is claimed of each model, sentence by sentence."""
    for side, said in declared.items():
        yield language.word("side", side), tuple(language.tell(line) for line in said)


def map_place(item: LayerMap, language: Language) -> str:
    """Say by which method, in which coordinates and against which threshold a map was made."""
    parts = [item.method]
    coordinates = undone(item.frame)
    if coordinates:
        parts.append(language.say("text.frame", frame=language.word("frame", coordinates)))
    parts.append(f"{language.say('label.threshold')}: z {item.threshold:.2f}")
    return "; ".join(parts)


def glossary(language: Language) -> Iterator[tuple[str, str]]:
    """Yield the words of a report with their meanings."""
    table = language.table("glossary")
    for key in table:
        name, _, part = key.partition(".")
        if part == "word":
            yield table[key], table[f"{name}.meaning"]


def _pinned(model: ModelSummary) -> str:
    """Name a model so that the same folder or commit is found again."""
    if model.kind == "local":
        return model.origin
    if model.kind != "hub" or model.revision is None:
        return model.ref
    return pinned(model.ref, model.revision)
