"""A report folder, checked again: its files, every byte that was read, and everything that follows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from modelkin._version import __version__
from modelkin.comparison import Comparison, ModelSummary, compare
from modelkin.comparison.case import weight_digests
from modelkin.comparison.record import RangeRecord
from modelkin.document import LANGUAGES, document_files
from modelkin.errors import FormatError, ModelkinError, NotFound, UsageError
from modelkin.message import Message, joined, said_by, say, told
from modelkin.model import Model, open_model
from modelkin.options import READING, CompareOptions, FetchOptions
from modelkin.progress import Progress
from modelkin.source import ByteRange, pinned
from modelkin.untrusted import JsonRefused, path_problem, quoted, strict_object

SCHEMA = "modelkin.verification/1"
_BATCH = 64_000_000
_SAME = ("evidence", "alignment", "relation", "config")
"""Parts of the record that must be the same when everything is recomputed, besides the verdict."""
_MOST_TOLD = 3
"""Most problems of one part that are listed one by one."""
_Found = tuple[list[Message], Message]
"""What does not hold, and what to say if everything does."""
_OF_VERDICT = ("conclusion", "related", "log10_p", "effect", "detection_limit", "components", "stage")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedPart:
    """One thing that the report states, and whether it holds."""

    name: str
    status: Literal["ok", "failed", "skipped"]
    text: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportCheck:
    """What ``modelkin verify`` found."""

    schema: str
    folder: str
    parts: tuple[VerifiedPart, ...]
    holds: bool
    """Whether nothing failed."""


def verify_folder(
    folder: Path,
    *,
    with_models: bool = True,
    fetch: FetchOptions | None = None,
    progress: Progress | None = None,
) -> ReportCheck:
    """Check a report folder: its files, its documents, bytes of the ledger, digests of weights, numbers.

    Nothing is taken from the store: bytes are read where the record says that they came from.
    """
    if not (folder / "manifest.json").is_file() or not (folder / "comparison.json").is_file():
        raise UsageError(str(folder), say("problem.report-manifest"))
    parts = [_files(folder)]
    try:
        result = Comparison.from_json((folder / "comparison.json").read_text(encoding="utf-8"))
    except (ModelkinError, UnicodeDecodeError) as error:
        parts.append(VerifiedPart(name="record", status="failed", text=_error(error)))
        return _whole(folder, parts)
    parts.append(_documents(folder, result))
    if with_models:
        fetch = replace(fetch or FetchOptions(), use_store=False)
        parts += _of_models(result, fetch, progress)
    else:
        parts.append(VerifiedPart(name="models", status="skipped", text=say("verify-not-read")))
    return _whole(folder, parts)


def _whole(folder: Path, parts: list[VerifiedPart]) -> ReportCheck:
    holds = all(part.status != "failed" for part in parts)
    return ReportCheck(schema=SCHEMA, folder=str(folder), parts=tuple(parts), holds=holds)


def _part(name: str, problems: list[Message], fine: Message) -> VerifiedPart:
    if not problems:
        return VerifiedPart(name=name, status="ok", text=fine)
    more = [say("verify-more", n=len(problems) - _MOST_TOLD)] if len(problems) > _MOST_TOLD else []
    return VerifiedPart(name=name, status="failed", text=joined([*problems[:_MOST_TOLD], *more]))


def _error(error: Exception) -> Message:
    if isinstance(error, ModelkinError):
        return told(error)
    return say("verify-unreadable", file="comparison.json", why=said_by(error))


def _files(folder: Path) -> VerifiedPart:
    """Check every file against the manifest."""
    try:
        listed = strict_object((folder / "manifest.json").read_bytes())["files"]
        digests = {name: item["sha256"] for name, item in listed.items()}  # type: ignore[attr-defined]
    except (JsonRefused, LookupError, TypeError, AttributeError) as error:
        why = say("verify-unreadable", file="manifest.json", why=said_by(error))
        return VerifiedPart(name="files", status="failed", text=why)
    problems = []
    for name, digest in digests.items():
        if path_problem(name) is not None:
            problems.append(say("verify-no-name", file=quoted(name)))
        elif not (folder / name).is_file():
            problems.append(say("verify-missing", file=name))
        elif hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
            problems.append(say("verify-changed", file=name))
    return _part("files", problems, say("verify-files", n=len(digests)))


def _documents(folder: Path, result: Comparison) -> VerifiedPart:
    """Write the documents again from the record: they must say the same, in one of the languages."""
    if result.environment.modelkin != __version__:
        text = say("verify-version", made=result.environment.modelkin, this=__version__)
        return VerifiedPart(name="documents", status="skipped", text=text)
    found = []
    for language in LANGUAGES:
        made = document_files(result, language)
        found.append([say("verify-document", file=name) for name in made if not _equal(folder, name, made)])
    return _part("documents", min(found, key=len), say("verify-documents"))


def _equal(folder: Path, name: str, made: dict[str, str | bytes]) -> bool:
    path, text = folder / name, made[name]
    data = text if isinstance(text, bytes) else text.encode("utf-8", errors="backslashreplace")
    return path.is_file() and path.read_bytes() == data


def _of_models(result: Comparison, fetch: FetchOptions, progress: Progress | None) -> Iterator[VerifiedPart]:
    with ExitStack() as stack:
        opened: dict[str, Model] = {}
        for side, about in (("candidate", result.candidate), ("base", result.base)):
            try:
                opened[side] = stack.enter_context(_opened(about, fetch, progress))
            except ModelkinError as error:
                yield VerifiedPart(name=side, status="failed", text=told(error))
        for side, model in opened.items():
            ranges = [item for item in result.ledger.ranges if item.model == side]
            yield _checked(f"bytes of the {side}", lambda m=model, r=ranges: _bytes(m, r))  # type: ignore[misc]
        if result.case is not None:
            for side, model in opened.items():
                yield _checked(f"weights of the {side}", lambda s=side, m=model: _weights(result, s, m))  # type: ignore[misc]
        if len(opened) == 2:
            yield _checked("numbers", lambda: _numbers(result, fetch, progress))


def _checked(name: str, check: Callable[[], _Found]) -> VerifiedPart:
    try:
        return _part(name, *check())
    except ModelkinError as error:
        return VerifiedPart(name=name, status="failed", text=told(error))


def _opened(about: ModelSummary, fetch: FetchOptions, progress: Progress | None) -> Model:
    """Open a model where the record says it was, at the commit that was read."""
    ref = pinned(about.ref, about.revision) if about.kind == "hub" and about.revision else about.ref
    try:
        model = open_model(ref, fetch, progress=progress)
    except NotFound:
        if about.kind != "local":
            raise
        model = open_model(about.origin, fetch, progress=progress)
    _ = model.location
    return model


def _bytes(model: Model, ranges: list[RangeRecord]) -> _Found:
    """Read every range of the ledger again and compare digests, in bounded memory."""
    problems: list[Message] = []
    n_bytes = 0
    for item in ranges:
        info = model.fetcher.source.find(item.file)
        if info is None or info.size < item.stop:
            problems.append(say("verify-shorter", file=item.file))
            continue
        digest = hashlib.sha256()
        for start in range(item.start, item.stop, _BATCH):
            piece = ByteRange(start, min(start + _BATCH, item.stop))
            digest.update(model.fetcher.source.read_range(info, piece))
        n_bytes += item.n_bytes
        if digest.hexdigest() != item.sha256:
            problems.append(say("verify-others", start=item.start, stop=item.stop, file=item.file))
    return problems, say("verify-bytes", n=len(ranges), size=n_bytes)


def _weights(result: Comparison, side: str, model: Model) -> _Found:
    assert result.case is not None
    now = {item.file: item.sha256 for item in weight_digests(side, model)}
    stated = [item for item in result.case.weights if item.model == side and item.sha256 is not None]
    problems = [say("verify-digest", file=item.file) for item in stated if now.get(item.file) != item.sha256]
    return problems, say("verify-weights", n=len(stated))


def _numbers(result: Comparison, fetch: FetchOptions, progress: Progress | None) -> _Found:
    """Recompute everything."""
    about = result.environment
    if about.depth not in READING:
        raise FormatError("comparison.json", say("problem.depth-unknown", depth=quoted(about.depth)))
    fetch = replace(fetch, byte_budget=about.byte_budget)
    options = CompareOptions(depth=about.depth, seed=about.seed, fetch=fetch)
    sides = [_opened(side, fetch, progress) for side in (result.candidate, result.base)]
    with ExitStack() as stack:
        for model in sides:
            stack.enter_context(model)
        again = compare(*sides, options=options, controls=about.controls, progress=progress)
    problems = [
        say("verify-verdict", name=name)
        for name in _OF_VERDICT
        if getattr(result.verdict, name) != getattr(again.verdict, name)
    ]
    problems += [
        say("verify-part", name=name) for name in _SAME if getattr(result, name) != getattr(again, name)
    ]
    stated, found = ([(c.pair, c.conclusion, c.log10_p) for c in item.controls] for item in (result, again))
    problems += [say("verify-part", name="controls")] if stated != found else []
    return problems, say("verify-numbers", n=len(result.evidence))
