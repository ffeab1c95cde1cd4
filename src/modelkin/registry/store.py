"""A registry of fingerprints: segments that never change, and a log that says which of them count.

A commit writes a segment, its codes, and last of all one file of the log. Whoever is stopped before that has
changed nothing that a reader sees; the next writer removes what is left over. Readers take the log as it is
when they look, and need no lock.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, final

import numpy as np
import numpy.typing as npt

from modelkin._version import __version__
from modelkin.errors import FormatError, ModelkinError, NotFound, UsageError
from modelkin.fingerprint import Fingerprint
from modelkin.fingerprint.recipe import CODE_BYTES, RECIPE

from .coarse import tiled
from .place import RegistryPlace, open_place
from .segments import RegistryRow, SegmentFile, row_of, write_segment

REGISTRY_SCHEMA = "modelkin.registry/1"
_ABOUT = "registry.json"
_LOG = re.compile(r"(\d{8})\.json")
MOST_ROWS = 4_096
"""Of one segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryCommit:
    """One entry of the log."""

    number: int
    segment: str
    n_rows: int
    digest: str
    """Of the segment's bytes."""
    time: str
    modelkin: str
    added: tuple[tuple[str, str | None], ...]
    """Models and revisions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryInfo:
    """What a registry holds."""

    place: str
    recipe: str
    n_models: int
    n_fingerprints: int
    n_without: int
    """Models that are there with a reason instead of a fingerprint."""
    reasons: dict[str, int]
    """Those reasons, and how many models each has."""
    n_commits: int
    first: str | None
    last: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedSegment:
    """One segment that is not what the log says."""

    segment: str
    n_rows: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryCheck:
    """What `verify` found."""

    place: str
    n_commits: int
    n_rows: int
    damaged: tuple[DamagedSegment, ...]
    repaired: tuple[str, ...]
    """Code files that were made anew from their segments."""
    left_over: tuple[str, ...]
    """Files that no log entry speaks of: a writer was stopped. Harmless."""


@final
class Registry:
    """A registry at some place. Opening it reads the log."""

    def __init__(self, place: RegistryPlace, commits: tuple[RegistryCommit, ...]) -> None:
        self.place = place
        self.commits = commits
        self._files: dict[str, SegmentFile] = {}

    @property
    def n_rows(self) -> int:
        """Rows of all segments."""
        return sum(commit.n_rows for commit in self.commits)

    # -- reading ---------------------------------------------------------------------------------------

    def known(self) -> set[tuple[str, str | None]]:
        """Return which models are there at which revisions, from the log alone."""
        return {key for commit in self.commits for key in commit.added}

    def codes(self) -> list[npt.NDArray[np.uint64]]:
        """Return the codes of all segments in tiles, memory-mapped where they lie on this machine."""
        return [self._codes(commit) for commit in self.commits]

    def rows(self, numbers: Iterable[int]) -> list[RegistryRow]:
        """Return rows by their numbers, which count through all segments."""
        asked = list(numbers)
        wanted = sorted(set(asked))
        ends = np.cumsum([commit.n_rows for commit in self.commits])
        found: dict[int, RegistryRow] = {}
        places = np.searchsorted(ends, wanted, side="right")
        for at in sorted(set(places.tolist())):
            first = int(ends[at]) - self.commits[at].n_rows
            mine = [number for number, place in zip(wanted, places, strict=True) if place == at]
            made = self.segment(self.commits[at]).rows(number - first for number in mine)
            found |= dict(zip(mine, made, strict=True))
        return [found[number] for number in asked]

    def segment(self, commit: RegistryCommit) -> SegmentFile:
        """Open the segment of a commit."""
        if commit.segment not in self._files:
            name = f"segments/{commit.segment}.parquet"
            path = self.place.path(name)
            try:
                source: Any = self.place.read(name) if path is None else str(path)
                self._files[commit.segment] = SegmentFile(source, f"{self.place.name}/{name}")
            except FileNotFoundError as error:
                raise FormatError(self.place.name, f"the segment {name} is missing") from error
            if self._files[commit.segment].n_rows != commit.n_rows:
                held = self._files.pop(commit.segment).n_rows
                raise FormatError(
                    f"{self.place.name}/{name}", f"expected {commit.n_rows} rows, as the log says, got {held}"
                )
        return self._files[commit.segment]

    def info(self) -> RegistryInfo:
        """Sum up what is there."""
        reasons: dict[str, int] = {}
        for commit in self.commits:
            for code in self.segment(commit).column("reason_code"):
                if code is not None:
                    reasons[code] = reasons.get(code, 0) + 1
        without = sum(reasons.values())
        return RegistryInfo(
            place=self.place.name,
            recipe=RECIPE,
            n_models=self.n_rows,
            n_fingerprints=self.n_rows - without,
            n_without=without,
            reasons=dict(sorted(reasons.items())),
            n_commits=len(self.commits),
            first=self.commits[0].time if self.commits else None,
            last=self.commits[-1].time if self.commits else None,
        )

    def verify(self) -> RegistryCheck:
        """Check every byte against the log; make missing codes anew; touch nothing else."""
        damaged: list[DamagedSegment] = []
        repaired: list[str] = []
        for commit in self.commits:
            try:
                data = self.place.read(f"segments/{commit.segment}.parquet")
                if _digest(data) != commit.digest:
                    raise FormatError(commit.segment, "its bytes are not those that were committed")
                codes = tiled(SegmentFile(data, commit.segment).codes())
                if self._stored_codes(commit) != codes:
                    with self.place.writing(timeout=10.0):
                        self.place.write(f"codes/{commit.segment}.bits", codes)
                    repaired.append(f"codes/{commit.segment}.bits")
            except (ModelkinError, FileNotFoundError) as error:
                problem = error.problem if isinstance(error, ModelkinError) else "it is missing"
                damaged.append(DamagedSegment(segment=commit.segment, n_rows=commit.n_rows, problem=problem))
        return RegistryCheck(
            place=self.place.name,
            n_commits=len(self.commits),
            n_rows=self.n_rows,
            damaged=tuple(damaged),
            repaired=tuple(repaired),
            left_over=tuple(self._left_over()),
        )

    def without_damaged(self) -> tuple[Registry, tuple[str, ...]]:
        """Return the registry without segments that cannot be opened, and what is wrong with those."""
        good, problems = [], []
        for commit in self.commits:
            try:
                self.segment(commit)
                good.append(commit)
            except FormatError as error:
                problems.append(f"{commit.segment}: {error.problem}")
        return Registry(self.place, tuple(good)), tuple(problems)

    def _codes(self, commit: RegistryCommit) -> npt.NDArray[np.uint64]:
        name = f"codes/{commit.segment}.bits"
        path = self.place.path(name)
        if path is not None and path.exists() and path.stat().st_size == commit.n_rows * CODE_BYTES:
            return np.memmap(path, np.uint64, mode="r")
        stored = self._stored_codes(commit)
        if stored is None or len(stored) != commit.n_rows * CODE_BYTES:
            stored = tiled(self.segment(commit).codes())
        return np.frombuffer(stored, np.uint64)

    def _stored_codes(self, commit: RegistryCommit) -> bytes | None:
        try:
            return self.place.read(f"codes/{commit.segment}.bits")
        except FileNotFoundError:
            return None

    def _left_over(self) -> list[str]:
        known = {commit.segment for commit in self.commits}
        return [
            f"{folder}/{name}"
            for folder in ("segments", "codes")
            for name in self.place.names(folder)
            if name.rpartition(".")[0] not in known
        ]

    # -- writing ---------------------------------------------------------------------------------------

    def add(
        self, rows: Sequence[RegistryRow | Fingerprint], *, timeout: float = 60.0
    ) -> tuple[Registry, int]:
        """Commit rows that are not there yet; return the registry as it is then, and how many were new.

        Raises
        ------
        UsageError
            Another process is writing.
        OutputError
            The disk is full; the registry is as it was.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self.place.writing(timeout=timeout):
            current = Registry(self.place, _read_log(self.place))
            self.place.tidy()
            for name in current._left_over():
                self.place.remove(name)
            known = current.known()
            fresh: list[RegistryRow] = []
            for item in rows:
                row = row_of(item, added=now) if isinstance(item, Fingerprint) else item
                row.fingerprint().check(row.ref)
                if row.key not in known:
                    known.add(row.key)
                    fresh.append(row)
            for start in range(0, len(fresh), MOST_ROWS):
                current = current._committed(fresh[start : start + MOST_ROWS], now)
            return current, len(fresh)

    def _committed(self, rows: Sequence[RegistryRow], now: str) -> Registry:
        number = self.commits[-1].number + 1 if self.commits else 1
        codes = [row.fingerprint().code() for row in rows]
        data = write_segment(rows, codes)
        digest = _digest(data)
        name = f"{number:08d}-{digest[:12]}"
        commit = RegistryCommit(
            number=number,
            segment=name,
            n_rows=len(rows),
            digest=digest,
            time=now,
            modelkin=__version__,
            added=tuple(row.key for row in rows),
        )
        self.place.write(f"segments/{name}.parquet", data)
        self.place.write(f"codes/{name}.bits", tiled(b"".join(codes)))
        self.place.write(f"log/{number:08d}.json", _log_text(commit))
        return Registry(self.place, (*self.commits, commit))


def create_registry(where: str) -> Registry:
    """Make an empty registry; an existing one is left as it is and returned."""
    place = open_place(where)
    try:
        place.read(_ABOUT)
    except FileNotFoundError:
        about = {"schema": REGISTRY_SCHEMA, "recipe": RECIPE}
        with place.writing(timeout=60.0):
            place.write(_ABOUT, (json.dumps(about, indent=1) + "\n").encode())
    return open_registry(where)


def open_registry(where: str) -> Registry:
    """Open a registry and read its log.

    Raises
    ------
    NotFound
        There is none.
    FormatError
        It follows another schema, or its log is damaged.
    """
    place = open_place(where)
    try:
        about = json.loads(place.read(_ABOUT))
    except FileNotFoundError as error:
        hint = "Make one with: modelkin registry init --registry PLACE"
        raise NotFound(place.name, "there is no registry here", hint=hint) from error
    except ValueError as error:
        raise FormatError(f"{place.name}/{_ABOUT}", "expected a JSON object") from error
    except OSError as error:
        raise UsageError(place.name, f"cannot be read: {error.strerror or error}") from error
    schema = about.get("schema") if isinstance(about, dict) else None
    if schema != REGISTRY_SCHEMA:
        raise FormatError(
            place.name,
            f"expected the schema {REGISTRY_SCHEMA}, got {str(schema)[:60]!r}",
            hint="Another version of modelkin made it.",
        )
    if about.get("recipe") != RECIPE:
        raise FormatError(
            place.name,
            f"expected fingerprints of recipe {RECIPE}, got recipe {str(about.get('recipe'))[:20]!r}",
            hint="Fingerprints of two recipes cannot be compared: make a new registry.",
        )
    return Registry(place, _read_log(place))


def _read_log(place: RegistryPlace) -> tuple[RegistryCommit, ...]:
    commits = []
    for name in place.names("log"):
        match = _LOG.fullmatch(name)
        if match is None:
            continue
        try:
            said = json.loads(place.read(f"log/{name}"))
            commits.append(
                RegistryCommit(
                    number=int(match[1]),
                    segment=str(said["segment"]),
                    n_rows=int(said["n_rows"]),
                    digest=str(said["digest"]),
                    time=str(said["time"]),
                    modelkin=str(said["modelkin"]),
                    added=tuple((str(ref), revision) for ref, revision in said["added"]),
                )
            )
            if not re.fullmatch(r"\d{8}-[0-9a-f]{12}", commits[-1].segment):
                raise ValueError("the name of the segment")
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(
                f"{place.name}/log/{name}",
                "the entry of the log is damaged",
                hint="Restore it from a copy; the other entries are intact.",
            ) from error
    return tuple(commits)


def _log_text(commit: RegistryCommit) -> bytes:
    return json.dumps(
        {
            "segment": commit.segment,
            "n_rows": commit.n_rows,
            "digest": commit.digest,
            "time": commit.time,
            "modelkin": commit.modelkin,
            "added": [list(key) for key in commit.added],
        },
        ensure_ascii=True,
    ).encode()


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
