"""Following models: a list, a folder or a Hub's listing; only what is new is read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path

from modelkin.errors import AccessDenied, FormatError, ModelkinError, NotFound, UsageError
from modelkin.fingerprint import fingerprint_model
from modelkin.message import Message, said_by, say, told
from modelkin.model import Model, open_model
from modelkin.options import FetchOptions
from modelkin.progress import Progress, Silent
from modelkin.source import ModelRef
from modelkin.source.hub_models import listed_models
from modelkin.untrusted import plain

from .segments import RegistryRow, failed_row, row_of
from .store import Registry

BATCH = 64
"""Models between two commits: the most that is lost when a run is stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncTarget:
    """A model to follow."""

    ref: str
    revision: str | None = None
    """If known without asking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSynced:
    """A model that was not added, and why."""

    ref: str
    reason: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """What a run did."""

    registry: str
    n_seen: int
    n_known: int
    """Already there at the same revision."""
    n_added: int
    n_without: int
    """Of those added, models with a reason instead of a fingerprint."""
    later: tuple[NotSynced, ...]
    """Models that the next run tries again."""
    n_models: int
    """In the registry now."""


Made = RegistryRow | NotSynced
"""What became of a model."""
MakeRows = Callable[[Iterable[SyncTarget], FetchOptions], Iterator[Made]]
"""Makes rows of models."""


def sync(
    registry: Registry,
    targets: Iterable[SyncTarget],
    *,
    fetch: FetchOptions | None = None,
    per_minute: float | None = None,
    batch: int = BATCH,
    progress: Progress | None = None,
    make: MakeRows | None = None,
) -> tuple[Registry, SyncResult]:
    """Add fingerprints of all models that are not there at their revision.

    A stopped run resumes where it left off: every batch is committed, and what is there is not requested
    again. At most `per_minute` models are read, for the sake of the server. `make` makes the rows of some
    models, in order, taking the next when there is room for it; by default one after another on this machine.
    """
    fetch = fetch or FetchOptions()
    run = _SyncRun(registry, fetch, _Pace(per_minute), progress or Silent())
    for made in (make or _one_by_one)(run.fresh(targets), fetch):
        run.take(made)
        if len(run.rows) >= batch:
            run.commit()
    run.commit()
    return run.registry, SyncResult(
        registry=registry.place.name,
        n_seen=run.n_seen,
        n_known=run.n_known,
        n_added=run.n_added,
        n_without=run.n_without,
        later=tuple(run.later),
        n_models=run.registry.n_rows,
    )


class _SyncRun:
    """What one run has seen and done so far."""

    def __init__(self, registry: Registry, fetch: FetchOptions, pace: _Pace, progress: Progress) -> None:
        self.registry = registry
        self.rows: list[RegistryRow] = []
        """Made but not committed yet."""
        self.later: list[NotSynced] = []
        self.n_seen = self.n_known = self.n_added = self.n_without = 0
        self._known = registry.known()
        self._fetch, self._pace, self._progress = fetch, pace, progress

    def fresh(self, targets: Iterable[SyncTarget]) -> Iterator[SyncTarget]:
        """Yield what is not there at its revision. Requests to a server are paced."""
        for target in targets:
            self.n_seen += 1
            if any("\ud800" <= letter <= "\udfff" for letter in target.ref):
                self.later.append(NotSynced(ref=plain(target.ref), reason=say("sync-no-text")))
                continue
            asked = target.revision is None
            if asked:
                self._pace.wait(target)
            resolved = _resolved(target, self._fetch)
            if isinstance(resolved, NotSynced):
                self.later.append(resolved)
            elif (resolved.ref, resolved.revision) in self._known:
                self.n_known += 1
            else:
                if not asked:
                    self._pace.wait(target)
                self._progress.note(say("sync-step", model=resolved.ref))
                yield resolved

    def take(self, made: Made) -> None:
        """Keep what became of a model."""
        if isinstance(made, NotSynced):
            self.later.append(made)
        elif made.key in self._known:
            self.n_known += 1
        else:
            self._known.add(made.key)
            self.rows.append(made)

    def commit(self) -> None:
        """Add the rows that were made to the registry."""
        if self.rows:
            self.registry, count = self.registry.add(self.rows)
            self.n_added += count
            self.n_without += sum(row.reason_code is not None for row in self.rows)
            self.rows = []


def make_row(target: SyncTarget, fetch: FetchOptions) -> Made:
    """Make the row of one model. A model that cannot be read is a row with a reason, or is tried later."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        with open_model(_pinned(target), fetch) as model:
            made = fingerprint_model(model)
            revision = target.revision or revision_of(model)
            named = replace(made, model=replace(made.model, ref=target.ref, revision=revision))
            named.check(target.ref)
            return row_of(named, added=now)
    except (NotFound, AccessDenied, FormatError, UsageError) as error:
        if target.revision is None:
            return _later(target, error)
        return failed_row(
            target.ref,
            target.revision,
            kind=ModelRef.parse(target.ref).kind,
            code=f"error-{type(error).__name__}",
            reason=str(error)[:300],
            added=now,
        )
    except ModelkinError as error:
        # A server that cannot be reached says nothing about the model.
        return _later(target, error)
    except Exception as error:
        # A bug triggered by one model must not stop a run over a whole Hub.
        return not_made(
            target.ref, say("problem.modelkin-failed", kind=type(error).__name__, why=str(error)[:300])
        )


def not_made(ref: str, problem: Message) -> NotSynced:
    """Return what is reported for a model that the next run tries again."""
    return NotSynced(ref=ref, reason=say("sync-later", problem=problem))


def _later(target: SyncTarget, error: ModelkinError) -> NotSynced:
    return not_made(target.ref, told(error))


def _resolved(target: SyncTarget, fetch: FetchOptions) -> SyncTarget | NotSynced:
    """Ask for a model's revision, if the listing did not state it."""
    if target.revision is not None:
        return target
    try:
        with open_model(target.ref, fetch) as model:
            return replace(target, revision=revision_of(model))
    except ModelkinError as error:
        return _later(target, error)


def _pinned(target: SyncTarget) -> str:
    parsed = ModelRef.parse(target.ref)
    if parsed.kind != "hub" or target.revision is None or "@" in target.ref:
        return target.ref
    return f"{target.ref}@{target.revision}"


def revision_of(model: Model) -> str:
    """Return the commit of a model, or a substitute if there are only files."""
    return model.location.revision or _files_revision(model)


def _files_revision(model: Model) -> str:
    """Return a digest of names, sizes and dates of the files, if there are no commits."""
    listed = [f"{file.name}|{file.size}|{file.etag}" for file in model.fetcher.source.files().values()]
    return (
        "files-" + blake2b("\n".join(listed).encode("utf-8", "surrogateescape"), digest_size=10).hexdigest()
    )


def _one_by_one(targets: Iterable[SyncTarget], fetch: FetchOptions) -> Iterator[Made]:
    return (make_row(target, fetch) for target in targets)


class _Pace:
    """Spaces out models in time."""

    def __init__(self, per_minute: float | None) -> None:
        self._step = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0

    def wait(self, target: SyncTarget) -> None:
        """Sleep until the next model may be read; local models may be read at any time."""
        if self._step and ModelRef.parse(target.ref).kind != "local":
            now = time.monotonic()
            if now < self._next:
                time.sleep(self._next - now)
            self._next = max(now, self._next) + self._step


# -- what to follow ------------------------------------------------------------------------------------


def targets_of_list(text: str) -> Iterator[SyncTarget]:
    """Read one reference per line; empty lines and those starting with # are skipped."""
    for line in text.splitlines():
        ref = line.strip()
        if ref and not ref.startswith("#"):
            yield SyncTarget(ref=ref)


def targets_of_folder(folder: Path) -> Iterator[SyncTarget]:
    """Yield the models that lie in a folder: subfolders with a config, and single weight files."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise NotFound(str(folder), say("problem.folder-unreadable", why=said_by(error))) from error
    for item in entries:
        if (item.is_dir() and (item / "config.json").is_file()) or (
            item.is_file() and item.suffix in (".gguf", ".safetensors")
        ):
            yield SyncTarget(ref=str(item))


def targets_of_hub(fetch: FetchOptions, *, author: str | None = None) -> Iterator[SyncTarget]:
    """Yield the models that a Hub lists, with their commits."""
    for listed in listed_models(fetch, author=author):
        yield SyncTarget(ref=listed.repo_id, revision=listed.commit)
