"""The code of two repositories: files, licence headers, copyright lines, commits. As text only.

Nothing here is run, imported or parsed as a program, and nothing here is evidence about weights: code of
language models is copied between projects as a matter of course, often by licence and with credit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

import numpy as np

from modelkin.errors import ModelkinError
from modelkin.message import Message, say, told
from modelkin.model import Model, ModelLike, open_models
from modelkin.source import Commit

if TYPE_CHECKING:
    from modelkin.options import FetchOptions
    from modelkin.progress import Progress

REPOSITORIES_SCHEMA = "modelkin.repositories/1"
FileKind = Literal["modelling", "configuration", "tokenization", "processing", "licence", "other code"]
MAX_FILE_BYTES = 1 << 20
"""The longest modelling files of transformers are about 200 kB."""
_MOST_FILES = 64
"""Files of code that are read of one repository; the rest is reported as left out."""
_MOST_LINES = 6_000
"""Lines of a file that are compared."""
_MOST_LISTED = 20
"""Names of one kind that are listed for a file."""
_LONGEST = 200
"""Characters of a name that are shown: its author is unknown."""
_COMMITS = 50
"""Commits that are reported, newest first: enough to see how a repository came about."""
_HEAD = 6_000
"""Characters at the beginning of a file in which licence and copyright are looked for."""
_KINDS: Mapping[str, FileKind] = {
    "modeling_": "modelling",
    "modelling_": "modelling",
    "modular_": "modelling",
    "configuration_": "configuration",
    "tokenization_": "tokenization",
    "processing_": "processing",
    "image_processing_": "processing",
}
_LICENCE_FILE = re.compile(r"(?i)(?:licen[cs]e|copying|notice)(?:[._-][a-z0-9._-]{0,40})?")
_LICENCES = (
    ("Apache-2.0", re.compile(r"Apache License,?\s{1,4}Version 2\.0")),
    ("MIT", re.compile(r"MIT License|Permission is hereby granted, free of charge")),
    ("LGPL", re.compile(r"(?i)GNU Lesser General Public License")),
    ("AGPL", re.compile(r"(?i)GNU Affero General Public License")),
    ("GPL", re.compile(r"(?i)GNU General Public License")),
    ("BSD", re.compile(r"Redistribution and use in source and binary forms")),
    ("Llama community licence", re.compile(r"(?i)Llama [0-9.]{0,4} ?Community License")),
    ("all rights reserved", re.compile(r"(?i)all rights reserved")),
)
_SPDX = re.compile(r"SPDX-License-Identifier:[ \t]{0,4}([A-Za-z0-9.+() -]{1,60})")
_COPYRIGHT = re.compile(r"(?i)copyright\b[^\n]{0,200}")
_COPIED = re.compile(r"# Copied from ([A-Za-z0-9_.]{1,120})")
_GENERATED = re.compile(r"automatically generated from ([A-Za-z0-9_./-]{1,160}\.py)\b")
_LAYER_NUMBER = re.compile(r"layers\\{0,2}\.\\{0,2}([0-9]{1,4})(?![0-9])")
_CLASS = re.compile(
    r"^class ([A-Z][A-Za-z0-9]{1,40}?)"
    r"(?:PreTrainedModel|ForCausalLM|Config|DecoderLayer|RMSNorm|Attention|Tokenizer(?:Fast)?)\b",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFile:
    """One text file: what its header says, and what it says about where it comes from."""

    name: str
    kind: FileKind
    bytes: int
    sha256: str
    lines: int
    """Lines of substance: no blanks, comments or imports."""
    licence: str | None
    """As its header or text states it; None if none was recognised."""
    copyrights: tuple[str, ...]
    """Lines that claim a copyright, as written."""
    copied_from: tuple[str, ...]
    """What its comments say parts were copied from."""
    generated_from: str | None
    layer_numbers: tuple[int, ...]
    """Layers that the code names by number: models differ in these, and programs rarely need them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryFacts:
    """The text files of one repository."""

    ref: str
    revision: str | None
    files: tuple[CodeFile, ...]
    commits: tuple[Commit, ...] | None
    """Newest first; None if the source has no history."""
    notes: tuple[Message, ...]
    """What was not read, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePair:
    """A file and the most similar one of its kind in the other repository."""

    candidate: str
    base: str
    kind: FileKind
    identical: bool
    of_candidate: float | None
    """Share of its distinct lines that the other file has too."""
    of_base: float | None
    renamed_of_candidate: float | None
    """The same after removing each side's own model name."""
    renamed_of_base: float | None
    longest_run: int
    """Most consecutive lines that both have, with names removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlLikeness:
    """What the candidate's files have in common with an unconnected repository."""

    ref: str
    pairs: tuple[FilePair, ...]
    reason: Message | None = None
    """Why there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryComparison:
    """The code of two repositories, side by side: claims about history, not evidence about weights."""

    candidate: RepositoryFacts
    base: RepositoryFacts
    pairs: tuple[FilePair, ...]
    controls: tuple[ControlLikeness, ...]
    limits: tuple[Message, ...]


def compare_repositories(
    candidate: ModelLike,
    base: ModelLike,
    options: FetchOptions | None = None,
    *,
    controls: Sequence[ModelLike] = (),
    progress: Progress | None = None,
) -> RepositoryComparison:
    """Compare the code and licence files of two repositories as text. No weights are read.

    Parameters
    ----------
    candidate, base
        Model references, sources, or opened models; two revisions of one repository show what became of its
        headers. A folder with code but no weights is enough.
    options
        How to fetch.
    controls
        Repositories unconnected to the candidate: what code has in common anyway.
    progress
        Told about long reads.

    Examples
    --------
    >>> from modelkin.source import MemorySource
    >>> head = b"# Copyright 2025 Some Lab" + bytes([10])
    >>> one = MemorySource({"modeling_a.py": head + b"class AConfig: pass"})
    >>> other = MemorySource({"modeling_b.py": b"class BConfig: pass"})
    >>> found = compare_repositories(one, other)
    >>> found.pairs[0].of_candidate, found.pairs[0].renamed_of_candidate, found.candidate.files[0].copyrights
    (0.0, 1.0, ('Copyright 2025 Some Lab',))
    """
    with open_models([candidate, base, *controls], options, progress=progress) as models:
        mine, theirs, *others = (_read(model) for model in models)
    return RepositoryComparison(
        candidate=mine.facts,
        base=theirs.facts,
        pairs=_paired(mine, theirs),
        controls=tuple(
            ControlLikeness(
                ref=other.facts.ref,
                pairs=(pairs := _paired(mine, other)),
                reason=None if pairs else say("code-none", model=other.facts.ref),
            )
            for other in others
        ),
        limits=tuple(say(code) for code in ("code-no-evidence", "code-copied", "code-dates")),
    )


@dataclass(frozen=True, slots=True)
class _Texts:
    facts: RepositoryFacts
    plain: Mapping[str, list[str]]
    renamed: Mapping[str, list[str]]


def _read(model: Model) -> _Texts:
    notes: list[Message] = []
    files, plain, renamed = [], {}, {}
    kinds = {name: kind for name in model.file_names() if (kind := _kind(name)) is not None}
    chosen = sorted(kinds, key=lambda name: (kinds[name] == "other code", name))[:_MOST_FILES]
    if len(kinds) > len(chosen):
        notes.append(say("code-many", n=len(chosen), all=len(kinds)))
    for name in chosen:
        data = model.read_file(name, limit=MAX_FILE_BYTES)
        if data is None:
            notes.append(say("file-too-long", file=name, n=model.file_size(name) or 0, limit=MAX_FILE_BYTES))
            continue
        text = data.decode("utf-8", "replace")
        files.append(_code_file(name, kinds[name], data, text))
        plain[name] = _lines(text)
        renamed[name] = _lines(_without_names(text, name))
    commits: tuple[Commit, ...] | None = None
    try:
        commits = model.fetcher.source.history(_COMMITS)
    except ModelkinError as error:
        notes.append(say("code-no-commits", why=told(error)))
    location = model.location
    facts = RepositoryFacts(
        ref=location.ref,
        revision=location.revision,
        files=tuple(files),
        commits=commits,
        notes=tuple(notes),
    )
    return _Texts(facts, plain, renamed)


def _kind(name: str) -> FileKind | None:
    last = name.rpartition("/")[2]
    if name.count("/") > 1:
        return None
    if _LICENCE_FILE.fullmatch(last):
        return "licence"
    if not last.endswith(".py"):
        return None
    return next((kind for start, kind in _KINDS.items() if last.startswith(start)), "other code")


def _code_file(name: str, kind: FileKind, data: bytes, text: str) -> CodeFile:
    head = text[:_HEAD]
    spdx = _SPDX.search(head)
    licence = next((known for known, pattern in _LICENCES if pattern.search(head)), None)
    generated = _GENERATED.search(head)
    return CodeFile(
        name=name,
        kind=kind,
        bytes=len(data),
        sha256=sha256(data).hexdigest(),
        lines=len(_lines(text)),
        licence=spdx[1].strip() if spdx else licence,
        copyrights=_listed(found.strip(" #*\t\r") for found in _COPYRIGHT.findall(text) if _is_claim(found)),
        copied_from=_listed(_COPIED.findall(text)),
        generated_from=generated[1] if generated else None,
        layer_numbers=tuple(sorted({int(number) for number in _LAYER_NUMBER.findall(text)})[:_MOST_LISTED]),
    )


def _is_claim(line: str) -> bool:
    """Say whether a line has a year or the © sign: licences mention copyright in general too."""
    return bool(re.search(r"\b(?:19|20)[0-9]{2}\b|\([cC]\)|©", line))


def _listed(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(item[:_LONGEST] for item in list(dict.fromkeys(found))[:_MOST_LISTED])


def _lines(text: str) -> list[str]:
    """Return the lines of substance, without indentation."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [
        line for line in lines if len(line) >= 4 and not line.startswith(("#", "import ", "from ", '"""'))
    ][:_MOST_LINES]


def _without_names(text: str, name: str) -> str:
    """Remove the model's own name from its code: that of the classes, and of the file."""
    classes = sorted(set(_CLASS.findall(text)), key=len, reverse=True)[:20]
    stem = name.rpartition("/")[2].removesuffix(".py").partition("_")[2]
    for word in classes:
        text = text.replace(word, "Model")
    return text.replace(stem, "model") if len(stem) >= 3 else text


def _paired(mine: _Texts, theirs: _Texts) -> tuple[FilePair, ...]:
    found = []
    for file in mine.facts.files:
        pairs = [_pair(mine, theirs, file, other) for other in theirs.facts.files if other.kind == file.kind]
        if pairs:
            found.append(max(pairs, key=lambda pair: (pair.identical, pair.renamed_of_candidate or 0.0)))
    return tuple(found)


def _pair(mine: _Texts, theirs: _Texts, file: CodeFile, other: CodeFile) -> FilePair:
    plain = _shares(mine.plain[file.name], theirs.plain[other.name])
    renamed = _shares(mine.renamed[file.name], theirs.renamed[other.name])
    return FilePair(
        candidate=file.name,
        base=other.name,
        kind=file.kind,
        identical=file.sha256 == other.sha256,
        of_candidate=plain[0],
        of_base=plain[1],
        renamed_of_candidate=renamed[0],
        renamed_of_base=renamed[1],
        longest_run=_longest_run(mine.renamed[file.name], theirs.renamed[other.name]),
    )


def _shares(one: Sequence[str], other: Sequence[str]) -> tuple[float | None, float | None]:
    first, second = set(one), set(other)
    both = len(first & second)
    return (both / len(first) if first else None, both / len(second) if second else None)


def _longest_run(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the most consecutive lines that both have, comparing one line at a time with all of the other."""
    numbers: dict[str, int] = {}
    first, second = (
        np.array([numbers.setdefault(line, len(numbers)) for line in lines], dtype=np.int64)
        for lines in (one, other)
    )
    best, runs = 0, np.zeros(len(second) + 1, dtype=np.int64)
    for line in first:
        runs[1:] = np.where(second == line, runs[:-1] + 1, 0)
        best = max(best, int(runs.max()))
    return best
