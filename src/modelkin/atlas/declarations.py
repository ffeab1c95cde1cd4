"""What models say about themselves: parents, licence, and when they were first published. All claims."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from itertools import islice

from modelkin.errors import FormatError, ModelkinError
from modelkin.lineage.cards.statements import read_card
from modelkin.message import Message, say, told
from modelkin.model import open_model
from modelkin.options import FetchOptions
from modelkin.registry.segments import RegistryRow
from modelkin.source.hub import HubSource

_MOST_COMMITS = 100
"""Commits fetched in one request. A longer history does not show its beginning, so it gives no date."""
_COLUMNS = ("ref", "name", "date")
_MOST_LINES = 1_000_000
"""Of a table of names and dates: as many as the largest registry tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AboutModel:
    """What the keeper of a registry knows about a model."""

    name: str | None = None
    """What cards call it, if not its reference."""
    date: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What a model declares, unchecked."""

    name: str | None
    """What cards of other models call this one."""
    parents: tuple[str, ...] = ()
    saved_from: str | None = None
    """What a config says it was saved from: tools write it, so it is not a claim of the card."""
    relation: str | None = None
    licence: str | None = None
    date: str | None = None
    """Of the first commit, or as given: YYYY-MM-DD."""
    reason: Message | None = None
    """Why the card was not read; then nothing follows from what it omits."""


def read_about(text: str, *, where: str) -> dict[str, AboutModel]:
    """Read a table with tabs between its columns ``ref``, ``name`` and ``date``; both latter may be empty."""
    lines = csv.reader(io.StringIO(text), delimiter="\t")
    if tuple(next(lines, ())) != _COLUMNS:
        raise FormatError(where, say("problem.columns-tabs", columns=", ".join(_COLUMNS)))
    found: dict[str, AboutModel] = {}
    for number, cells in enumerate(islice(lines, _MOST_LINES), start=2):
        if not cells:
            continue
        if len(cells) != len(_COLUMNS) or not cells[0] or cells[0] in found:
            raise FormatError(where, say("problem.line-model-date", number=number))
        ref, name, day = cells
        try:
            told_date = date.fromisoformat(day).isoformat() if day else None
        except ValueError as error:
            raise FormatError(where, say("problem.line-date", number=number, day=repr(day[:20]))) from error
        found[ref] = AboutModel(name=name or None, date=told_date)
    return found


def read_declaration(row: RegistryRow, about: Mapping[str, AboutModel], fetch: FetchOptions) -> Declaration:
    """Read the card of a model at the revision that the registry knows; a failure becomes a reason."""
    known = about.get(row.ref, AboutModel())
    name = known.name or hub_name(row)
    try:
        with open_model(pinned(row), fetch) as model:
            card = read_card(model)
            claims = card.claims
            source = model.fetcher.source
            dated = known.date or (_first_commit(source) if isinstance(source, HubSource) else None)
    except ModelkinError as error:
        return Declaration(name=name, date=known.date, reason=told(error))
    return Declaration(
        name=name,
        parents=card.parents,
        saved_from=claims.name_or_path,
        relation=claims.relation,
        licence=claims.license,
        date=dated,
    )


def hub_name(row: RegistryRow) -> str | None:
    """Return the Hub id of a row, however the reference writes it."""
    if row.kind != "hub":
        return None
    return row.ref.removeprefix("hf://").removeprefix("hf:").partition("@")[0]


def pinned(row: RegistryRow) -> str:
    """Return the reference at the revision of the row."""
    pin = row.kind == "hub" and row.revision is not None and "@" not in row.ref
    return f"{row.ref}@{row.revision}" if pin else row.ref


def _first_commit(source: HubSource) -> str | None:
    """Return the day of the first commit; None if the history is too long or unavailable."""
    try:
        commits = source.history(_MOST_COMMITS)
    except ModelkinError:
        return None  # a date is an extra fact if available, never a reason to stop
    if not commits or len(commits) >= _MOST_COMMITS:
        return None
    day = (commits[-1].date or "")[:10]
    try:
        return date.fromisoformat(day).isoformat()
    except ValueError:
        return None
