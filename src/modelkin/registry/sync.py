"""Following models: a list, a folder or a Hub's listing; only what is new is read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from modelkin.errors import (
    AccessDenied,
    FormatError,
    ModelkinError,
    NotFound,
    UsageError,
)
from modelkin.fingerprint import fingerprint_model
from modelkin.message import Message, say
from modelkin.model import Model, open_model
from modelkin.options import FetchOptions
from modelkin.progress import Progress, Silent
from modelkin.source import ModelRef
from modelkin.source.hub_models import listed_models

from .segments import RegistryRow, failed_row, row_of
from .store import Registry

BATCH = 64
"""Models between two commits: what is lost at most when a run is stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncTarget:
    """A model to follow."""

    ref: str
    revision: str | None = None
    """Where it is known without asking."""


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
    """At the same revision already."""
    n_added: int
    n_without: int
    """Of those added, models with a reason instead of a fingerprint."""
    later: tuple[NotSynced, ...]
    """Models that the next run tries again."""
    n_models: int
    """In the registry now."""


Made = RegistryRow | NotSynced
"""What became of a model."""


def sync(
    registry: Registry,
    targets: Iterable[SyncTarget],
    *,
    fetch: FetchOptions | None = None,
    per_minute: float | None = None,
    batch: int = BATCH,
    progress: Progress | None = None,
    make: Callable[[Sequence[SyncTarget], FetchOptions], Iterator[Made]] | None = None,
) -> tuple[Registry, SyncResult]:
    """Add fingerprints of all models that are not there at their revision.

    A run that is stopped goes on where it was: every batch is committed, and what is there is not asked for
    again.

    Parameters
    ----------
    per_minute
        Models a minute at most, for the sake of the server.
    make
        Makes the rows of some models; one after another on this machine, if not given.
    """
    fetch, told = fetch or FetchOptions(), progress or Silent()
    known = registry.known()
    n_seen = n_known = n_added = n_without = 0
    later: list[NotSynced] = []
    pace = _Pace(per_minute)
    source = iter(targets)
    while some := list(islice(source, batch)):
        n_seen += len(some)
        resolved = [_resolved(item, fetch) for item in some]
        later += [item for item in resolved if isinstance(item, NotSynced)]
        targets_now = [item for item in resolved if isinstance(item, SyncTarget)]
        fresh = [item for item in targets_now if (item.ref, item.revision) not in known]
        n_known += len(targets_now) - len(fresh)
        if not fresh:
            continue
        rows: list[RegistryRow] = []
        for made in (make or _one_by_one(pace, told))(fresh, fetch):
            if isinstance(made, NotSynced):
                later.append(made)
            elif made.key in known:
                n_known += 1
            else:
                known.add(made.key)
                rows.append(made)
        registry, count = registry.add(rows) if rows else (registry, 0)
        n_added += count
        n_without += sum(row.reason_code is not None for row in rows)
    return registry, SyncResult(
        registry=registry.place.name,
        n_seen=n_seen,
        n_known=n_known,
        n_added=n_added,
        n_without=n_without,
        later=tuple(later),
        n_models=registry.n_rows,
    )


def make_row(target: SyncTarget, fetch: FetchOptions) -> Made:
    """Make the row of one model. A model that cannot be read is a row with a reason, or is tried later."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        with open_model(_pinned(target), fetch) as model:
            made = fingerprint_model(model)
            revision = target.revision or revision_of(model)
            return row_of(
                replace(made, model=replace(made.model, ref=target.ref, revision=revision)), added=now
            )
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


def _later(target: SyncTarget, error: ModelkinError) -> NotSynced:
    return NotSynced(ref=target.ref, reason=say("sync-later", problem=str(error)[:300]))


def _resolved(target: SyncTarget, fetch: FetchOptions) -> SyncTarget | NotSynced:
    """Ask at which revision a model is, where the listing did not say so."""
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
    """Return the commit of a model, or what stands for it where there are only files."""
    return model.location.revision or _files_revision(model)


def _files_revision(model: Model) -> str:
    """Return a digest of names, sizes and dates of the files, where there are no commits."""
    listed = [f"{file.name}|{file.size}|{file.etag}" for file in model.fetcher.source.files().values()]
    return (
        "files-" + blake2b("\n".join(listed).encode("utf-8", "surrogateescape"), digest_size=10).hexdigest()
    )


def _one_by_one(
    pace: _Pace, progress: Progress
) -> Callable[[Sequence[SyncTarget], FetchOptions], Iterator[Made]]:
    def make(targets: Sequence[SyncTarget], fetch: FetchOptions) -> Iterator[Made]:
        for target in targets:
            pace.wait()
            progress.note(say("sync-step", model=target.ref))
            yield make_row(target, fetch)

    return make


class _Pace:
    """Keeps a distance between models."""

    def __init__(self, per_minute: float | None) -> None:
        self._step = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0

    def wait(self) -> None:
        """Sleep until the next model may be read."""
        now = time.monotonic()
        if now < self._next:
            time.sleep(self._next - now)
        self._next = max(now, self._next) + self._step


# -- what to follow ------------------------------------------------------------------------------------


def targets_of_list(text: str) -> Iterator[SyncTarget]:
    """Read one reference a line; empty lines and those with a # in front are left out."""
    for line in text.splitlines():
        ref = line.strip()
        if ref and not ref.startswith("#"):
            yield SyncTarget(ref=ref)


def targets_of_folder(folder: Path) -> Iterator[SyncTarget]:
    """Yield the models that lie in a folder: subfolders with a config, and single weight files."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise NotFound(str(folder), f"the folder cannot be read: {error.strerror or error}") from error
    for item in entries:
        if (item.is_dir() and (item / "config.json").is_file()) or (
            item.is_file() and item.suffix in (".gguf", ".safetensors")
        ):
            yield SyncTarget(ref=str(item))


def targets_of_hub(fetch: FetchOptions, *, author: str | None = None) -> Iterator[SyncTarget]:
    """Yield the models that a Hub lists, with their commits."""
    for listed in listed_models(fetch, author=author):
        yield SyncTarget(ref=listed.repo_id, revision=listed.commit)
