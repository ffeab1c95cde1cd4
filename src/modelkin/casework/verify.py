"""A report folder, checked again: its files, every byte that was read, and all that follows from them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from modelkin._version import __version__
from modelkin.comparison import Comparison, compare
from modelkin.comparison.case import weight_digests
from modelkin.comparison.record import ModelSummary, RangeRecord
from modelkin.document import LANGUAGES, document_files
from modelkin.errors import FormatError, ModelkinError, NotFound, UsageError
from modelkin.model import Model, open_model
from modelkin.options import READING, CompareOptions, FetchOptions
from modelkin.progress import Progress
from modelkin.source import ByteRange, pinned
from modelkin.untrusted import JsonRefused, path_problem, quoted, strict_object

SCHEMA = "modelkin.verification/1"
_BATCH = 64_000_000
_SAME = ("evidence", "alignment", "relation", "config")
"""Parts of the record that have to be the same when everything is computed anew, beside the verdict."""
_OF_VERDICT = ("conclusion", "related", "log10_p", "effect", "detection_limit", "components", "stage")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedPart:
    """One thing that the report states, and whether it holds."""

    name: str
    status: Literal["ok", "failed", "skipped"]
    text: str


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

    Raises
    ------
    UsageError
        It is no report folder.
    """
    if not (folder / "manifest.json").is_file() or not (folder / "comparison.json").is_file():
        raise UsageError(str(folder), "expected a report folder with manifest.json and comparison.json")
    parts = [_files(folder)]
    try:
        result = Comparison.from_json((folder / "comparison.json").read_text(encoding="utf-8"))
    except (ModelkinError, UnicodeDecodeError) as error:
        parts.append(VerifiedPart(name="record", status="failed", text=str(error)))
        return _whole(folder, parts)
    parts.append(_documents(folder, result))
    if with_models:
        fetch = replace(fetch or FetchOptions(), use_store=False)
        parts += _of_models(result, fetch, progress)
    else:
        parts.append(VerifiedPart(name="models", status="skipped", text="the models were not to be read"))
    return _whole(folder, parts)


def _whole(folder: Path, parts: list[VerifiedPart]) -> ReportCheck:
    holds = all(part.status != "failed" for part in parts)
    return ReportCheck(schema=SCHEMA, folder=str(folder), parts=tuple(parts), holds=holds)


def _part(name: str, problems: list[str], fine: str) -> VerifiedPart:
    if not problems:
        return VerifiedPart(name=name, status="ok", text=fine)
    more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
    return VerifiedPart(name=name, status="failed", text="; ".join(problems[:3]) + more)


def _files(folder: Path) -> VerifiedPart:
    """Hold every file against the manifest."""
    try:
        listed = strict_object((folder / "manifest.json").read_bytes())["files"]
        digests = {name: item["sha256"] for name, item in listed.items()}  # type: ignore[attr-defined]
    except (JsonRefused, LookupError, TypeError, AttributeError) as error:
        return VerifiedPart(name="files", status="failed", text=f"manifest.json cannot be read: {error}")
    problems = []
    for name, digest in digests.items():
        if path_problem(name) is not None:
            problems.append(f"{quoted(name)} is no name of a file here")
        elif not (folder / name).is_file():
            problems.append(f"{name} is missing")
        elif hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
            problems.append(f"{name} was changed")
    return _part("files", problems, f"{len(digests)} files are as they were written")


def _documents(folder: Path, result: Comparison) -> VerifiedPart:
    """Write the documents anew from the record: they say the same, in one of the languages."""
    if result.environment.modelkin != __version__:
        text = f"made with modelkin {result.environment.modelkin}, this is {__version__}"
        return VerifiedPart(name="documents", status="skipped", text=text)
    found = []
    for language in LANGUAGES:
        made = document_files(result, language)
        found.append(
            [f"{name} does not follow from the record" for name in made if not _equal(folder, name, made)]
        )
    return _part("documents", min(found, key=len), "page, document and table follow from the record")


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
                yield VerifiedPart(name=side, status="failed", text=str(error))
        for side, model in opened.items():
            ranges = [item for item in result.ledger.ranges if item.model == side]
            yield _checked(f"bytes of the {side}", lambda m=model, r=ranges: _bytes(m, r))  # type: ignore[misc]
        if result.case is not None:
            for side, model in opened.items():
                yield _checked(f"weights of the {side}", lambda s=side, m=model: _weights(result, s, m))  # type: ignore[misc]
        if len(opened) == 2:
            yield _checked("numbers", lambda: _numbers(result, opened, fetch, progress))


def _checked(name: str, check: Callable[[], tuple[list[str], str]]) -> VerifiedPart:
    try:
        return _part(name, *check())
    except ModelkinError as error:
        return VerifiedPart(name=name, status="failed", text=str(error))


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


def _bytes(model: Model, ranges: list[RangeRecord]) -> tuple[list[str], str]:
    """Read every range of the ledger again and compare digests, in bounded memory."""
    problems: list[str] = []
    n_bytes = 0
    for item in ranges:
        info = model.fetcher.source.find(item.file)
        if info is None or info.size < item.stop:
            problems.append(f"{item.file} is not there, or shorter")
            continue
        digest = hashlib.sha256()
        for start in range(item.start, item.stop, _BATCH):
            piece = ByteRange(start, min(start + _BATCH, item.stop))
            digest.update(model.fetcher.source.read_range(info, piece))
        n_bytes += item.n_bytes
        if digest.hexdigest() != item.sha256:
            problems.append(f"bytes {item.start}-{item.stop} of {item.file} are others")
    return problems, f"{len(ranges)} ranges, {n_bytes:,} bytes, have the digests of the ledger"


def _weights(result: Comparison, side: str, model: Model) -> tuple[list[str], str]:
    assert result.case is not None
    now = {item.file: item.sha256 for item in weight_digests(side, model)}
    stated = [item for item in result.case.weights if item.model == side and item.sha256 is not None]
    problems = [f"{item.file} has another digest" for item in stated if now.get(item.file) != item.sha256]
    return problems, f"{len(stated)} weight files have the digests of the case"


def _numbers(
    result: Comparison, opened: dict[str, Model], fetch: FetchOptions, progress: Progress | None
) -> tuple[list[str], str]:
    """Compute everything anew."""
    about = result.environment
    if about.depth not in READING:
        raise FormatError("comparison.json", f"the depth {quoted(about.depth)} is not known")
    fetch = replace(fetch, byte_budget=about.byte_budget)
    options = CompareOptions(depth=about.depth, seed=about.seed, fetch=fetch)
    sides = [_opened(side, fetch, progress) for side in (result.candidate, result.base)]
    with ExitStack() as stack:
        for model in sides:
            stack.enter_context(model)
        again = compare(*sides, options=options, controls=about.controls, progress=progress)
    problems = [
        f"{name} of the verdict differs"
        for name in _OF_VERDICT
        if getattr(result.verdict, name) != getattr(again.verdict, name)
    ]
    problems += [f"{name} differs" for name in _SAME if getattr(result, name) != getattr(again, name)]
    stated, found = ([(c.pair, c.conclusion, c.log10_p) for c in item.controls] for item in (result, again))
    problems += ["controls differ"] if stated != found else []
    return problems, f"verdict, {len(result.evidence)} pieces of evidence and controls come out the same"
