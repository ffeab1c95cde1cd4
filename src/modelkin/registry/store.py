"""A registry of fingerprints: segments that never change, and a log that says which of them count.

A commit writes a segment, its codes, and finally one file of the log. A writer stopped before that has
changed nothing that a reader sees; the next writer removes the leftovers. Readers take the log as they find
it, and need no lock.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from modelkin.message import Message, said_by, say
from modelkin.untrusted import JsonRefused, strict_object

from .coarse import TILE_ROWS, tiled
from .place import RegistryPlace, open_place
from .segments import RegistryRow, SegmentFile, row_of, write_segment

REGISTRY_SCHEMA = "modelkin.registry/1"
_ABOUT = "registry.json"
_SEGMENT = re.compile(r"(\d{8})-[0-9a-f]{12}")
_MAPPED_ROWS = 1_024
"""Rows from which codes are memory-mapped: smaller files are combined anyway."""
_LOG = re.compile(r"(\d{8})\.json")
MOST_ROWS = TILE_ROWS
"""Of one segment: 270 MB."""


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
    """Models that have a reason instead of a fingerprint."""
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
    problem: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryCheck:
    """What `verify` found."""

    place: str
    n_commits: int
    n_rows: int
    damaged: tuple[DamagedSegment, ...]
    repaired: tuple[str, ...]
    """Code files rebuilt from their segments."""
    not_repaired: tuple[Message, ...]
    """Lost code files that could not be written, and why: every scan then rebuilds them in memory."""
    left_over: tuple[str, ...]
    """Files that no log entry mentions: a writer was stopped. Harmless."""


@final
class Registry:
    """A registry. Opening it reads the log."""

    def __init__(self, place: RegistryPlace, commits: tuple[RegistryCommit, ...]) -> None:
        self.place = place
        self.commits = commits

    @property
    def n_rows(self) -> int:
        """Rows of all segments."""
        return sum(commit.n_rows for commit in self.commits)

    # -- reading ---------------------------------------------------------------------------------------

    def known(self) -> set[tuple[str, str | None]]:
        """Return which models are there at which revisions, from the log alone."""
        return {key for commit in self.commits for key in commit.added}

    def codes(
        self, damaged: Callable[[RegistryCommit, FormatError], None] | None = None
    ) -> Iterator[tuple[int, npt.NDArray[np.uint64]]]:
        """Yield the codes of one segment after another: the number of its first row, and its tiles.

        They are memory-mapped if they are local. A segment is opened when its turn comes and released
        afterwards, however many there are.

        Parameters
        ----------
        damaged
            Called for a segment that cannot be read, which is then skipped; without it, that is an error.
        """
        first = 0
        for commit in self.commits:
            try:
                yield first, self._codes(commit)
            except FormatError as error:
                if damaged is None:
                    raise
                damaged(commit, error)
            first += commit.n_rows

    def rows(self, numbers: Iterable[int]) -> list[RegistryRow]:
        """Return rows by their numbers, which run across all segments."""
        asked = list(numbers)
        found = dict(zip(sorted(set(asked)), self.each_row(asked), strict=True))
        return [found[number] for number in asked]

    def each_row(
        self,
        numbers: Iterable[int],
        *,
        damaged: Callable[[RegistryCommit, FormatError], None] | None = None,
    ) -> Iterator[RegistryRow]:
        """Yield rows in the order of their numbers, each once; some megabytes are held at a time.

        Parameters
        ----------
        damaged
            As for `codes`.
        """
        wanted = np.unique(np.fromiter(numbers, np.intp))
        ends = np.cumsum([commit.n_rows for commit in self.commits])
        places = np.searchsorted(ends, wanted, side="right")
        for at in np.unique(places).tolist():
            commit = self.commits[at]
            first = int(ends[at]) - commit.n_rows
            try:
                with self.segment(commit) as segment:
                    yield from segment.rows((wanted[places == at] - first).tolist())
            except FormatError as error:
                if damaged is None:
                    raise
                damaged(commit, error)

    def segment(self, commit: RegistryCommit) -> SegmentFile:
        """Open the segment of a commit. Close it when done: a registry has more segments than may be open."""
        name = f"segments/{commit.segment}.parquet"
        where = f"{self.place.name}/{name}"
        try:
            opened = SegmentFile(self.place.open(name), where)
        except FileNotFoundError as error:
            raise FormatError(self.place.name, say("problem.segment-missing", name=name)) from error
        except OSError as error:
            raise FormatError(where, say("problem.unreadable", why=said_by(error))) from error
        if opened.n_rows != commit.n_rows:
            with opened:
                raise FormatError(where, say("problem.segment-rows", n=commit.n_rows, m=opened.n_rows))
        return opened

    def info(self) -> RegistryInfo:
        """Sum up what is there."""
        reasons: dict[str, int] = {}
        for commit in self.commits:
            with self.segment(commit) as segment:
                codes = segment.column("reason_code")
            for code in codes:
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
        """Check every byte against the log; rebuild missing codes; touch nothing else."""
        damaged: list[DamagedSegment] = []
        repaired: list[str] = []
        not_repaired: list[Message] = []
        for commit in self.commits:
            try:
                codes = tiled(self._checked_codes(commit))
            except FormatError as error:
                found = DamagedSegment(segment=commit.segment, n_rows=commit.n_rows, problem=error.said)
                damaged.append(found)
                continue
            if self._stored_codes(commit) != codes:
                try:
                    with self.place.writing(timeout=10.0):
                        self.place.write(_code_file(commit), codes)
                    repaired.append(_code_file(commit))
                except ModelkinError as error:
                    # Not being allowed to write, or not now, is not damage.
                    not_repaired.append(say("error.said", where=_code_file(commit), problem=error.said))
        return RegistryCheck(
            place=self.place.name,
            n_commits=len(self.commits),
            n_rows=self.n_rows,
            damaged=tuple(damaged),
            repaired=tuple(repaired),
            not_repaired=tuple(not_repaired),
            left_over=tuple(self._left_over()),
        )

    def _checked_codes(self, commit: RegistryCommit) -> bytes:
        """Return the codes of a segment whose bytes match the commit."""
        try:
            data = self.place.read(f"segments/{commit.segment}.parquet")
        except FileNotFoundError as error:
            raise FormatError(commit.segment, say("problem.is-missing")) from error
        except OSError as error:
            raise FormatError(commit.segment, say("problem.unreadable", why=said_by(error))) from error
        if _digest(data) != commit.digest:
            raise FormatError(commit.segment, say("problem.segment-bytes"))
        with SegmentFile(data, commit.segment) as segment:
            return segment.codes()

    def _codes(self, commit: RegistryCommit) -> npt.NDArray[np.uint64]:
        name = _code_file(commit)
        path = self.place.path(name)
        n_bytes = commit.n_rows * CODE_BYTES
        if (
            path is not None
            and commit.n_rows >= _MAPPED_ROWS
            and path.exists()
            and path.stat().st_size == n_bytes
        ):
            return np.memmap(path, np.uint64, mode="r")
        stored = self._stored_codes(commit)
        if stored is None or len(stored) != n_bytes:
            with self.segment(commit) as segment:
                stored = tiled(segment.codes())
        return np.frombuffer(stored, np.uint64)

    def _stored_codes(self, commit: RegistryCommit) -> bytes | None:
        try:
            return self.place.read(_code_file(commit))
        except OSError:
            return None  # the segment has them too

    def _left_over(self) -> dict[str, int]:
        """Return segment files that no log entry mentions, and the number of each."""
        known = {commit.segment for commit in self.commits}
        return {
            f"{folder}/{name}": int(match[1])
            for folder in ("segments", "codes")
            for name in self.place.names(folder)
            if (match := _SEGMENT.fullmatch(name.rpartition(".")[0])) is not None and match[0] not in known
        }

    # -- writing ---------------------------------------------------------------------------------------

    def add(
        self, rows: Sequence[RegistryRow | Fingerprint], *, timeout: float = 60.0
    ) -> tuple[Registry, int]:
        """Commit rows that are not there yet; return the updated registry, and how many were new.

        Raises
        ------
        UsageError
            Another process is writing.
        OutputError
            The disk is full; the registry is unchanged.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self.place.writing(timeout=timeout):
            current = Registry(self.place, _read_log(self.place, self.commits))
            self.place.tidy()
            last = current.commits[-1].number if current.commits else 0
            for name, number in current._left_over().items():
                # Without a lock, a later number may be another writer's unfinished commit. An
                # earlier one is from a writer that came second, whose log entry was or will be refused.
                if self.place.locks or number <= last:
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
        self.place.write(_code_file(commit), tiled(b"".join(codes)))
        self.place.write(f"log/{number:08d}.json", _log_text(commit), new=True)
        return Registry(self.place, (*self.commits, commit))


def _code_file(commit: RegistryCommit) -> str:
    return f"codes/{commit.segment}.tiles"


def create_registry(where: str) -> Registry:
    """Create an empty registry; an existing one is left as it is and returned."""
    place = open_place(where)
    try:
        place.read(_ABOUT)
    except (FileNotFoundError, NotADirectoryError):
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
        about = strict_object(place.read(_ABOUT))
    except FileNotFoundError as error:
        hint = say("hint.registry-init")
        raise NotFound(place.name, say("problem.no-registry"), hint=hint) from error
    except JsonRefused as error:
        raise FormatError(f"{place.name}/{_ABOUT}", say("problem.expected-object")) from error
    except OSError as error:
        raise UsageError(place.name, say("problem.unreadable", why=said_by(error))) from error
    schema = about.get("schema")
    if schema != REGISTRY_SCHEMA:
        raise FormatError(
            place.name,
            say("problem.schema-expected", known=REGISTRY_SCHEMA, got=repr(str(schema)[:60])),
            hint=say("hint.other-version"),
        )
    if about.get("recipe") != RECIPE:
        raise FormatError(
            place.name,
            say("problem.registry-recipe", recipe=RECIPE, got=repr(str(about.get("recipe"))[:20])),
            hint=say("hint.new-registry"),
        )
    return Registry(place, _read_log(place))


def _read_log(place: RegistryPlace, known: tuple[RegistryCommit, ...] = ()) -> tuple[RegistryCommit, ...]:
    """Read the entries of the log that are not known yet; they never change."""
    numbers = sorted(int(match[1]) for name in place.names("log") if (match := _LOG.fullmatch(name)))
    if numbers != list(range(1, len(numbers) + 1)):
        lost = next(at for at, number in enumerate(numbers, start=1) if at != number)
        raise FormatError(
            f"{place.name}/log/{lost:08d}.json",
            say("problem.log-missing"),
            hint=say("hint.restore"),
        )
    if len(known) > len(numbers):
        known = ()
    names = [f"log/{number:08d}.json" for number in numbers[len(known) :]]
    try:
        texts = place.read_all(names)
    except OSError as error:
        raise FormatError(f"{place.name}/log", say("problem.log-unreadable", why=said_by(error))) from error
    read = zip(numbers[len(known) :], names, texts, strict=True)
    return (*known, *(_commit(place, number, name, text) for number, name, text in read))


def _commit(place: RegistryPlace, number: int, name: str, text: bytes) -> RegistryCommit:
    try:
        said: Any = strict_object(text)
        commit = RegistryCommit(
            number=number,
            segment=str(said["segment"]),
            n_rows=int(said["n_rows"]),
            digest=str(said["digest"]),
            time=str(said["time"]),
            modelkin=str(said["modelkin"]),
            added=tuple(
                (str(ref), None if revision is None else str(revision)) for ref, revision in said["added"]
            ),
        )
        match = _SEGMENT.fullmatch(commit.segment)
        if match is None or int(match[1]) != number or len(commit.added) != commit.n_rows:
            raise ValueError("it does not fit together")
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise FormatError(
            f"{place.name}/{name}",
            say("problem.log-damaged"),
            hint=say("hint.restore"),
        ) from error
    return commit


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
