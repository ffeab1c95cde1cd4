"""What an experiment works with: the models that could be read, the folder, the seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from modelkin.document.codec import Reader
from modelkin.message import Message, Phrase, joined, say
from modelkin.model import Model
from modelkin.options import FetchOptions

from .folder import Folder
from .spec import Study


class NotDone(Exception):
    """Something is not done, for a reason that belongs in the report."""

    def __init__(self, reason: Message) -> None:
        super().__init__(str(reason))
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Something that was left out."""

    what: Message
    reason: Message


@dataclass(slots=True, kw_only=True)
class Bench:
    """The state of a run."""

    study: Study
    folder: Folder
    models: Mapping[str, Model]
    """By alias, those that could be read."""
    missing: Mapping[str, Message]
    """Alias -> why it could not be read."""
    seed: int
    fetch: FetchOptions
    replaced: frozenset[str] = frozenset()
    """Aliases whose model was replaced for this run."""
    left: list[Left] = field(default_factory=list)
    id: str = ""
    """Of the current experiment."""

    def name(self, alias: str) -> str:
        """Return a model's display name."""
        return self.study.models[alias].name

    def names(self, a: str, b: str) -> str:
        """Return the display name of a pair, or of a model paired with itself."""
        return self.name(a) if a == b else f"{self.name(a)} | {self.name(b)}"

    def leave(self, what: Message | str, reason: Message) -> None:
        """Record that a part was left out."""
        self.left.append(Left(what=say("study.part", id=self.id, what=what), reason=reason))

    def available(self, aliases: Sequence[str], *, least: int) -> dict[str, Model]:
        """Return models that could be read; missing ones are recorded once, by the run."""
        found = {alias: self.models[alias] for alias in aliases if alias in self.models}
        if len(found) < least:
            gone = [
                say("study.model-missing", model=alias, reason=self.missing[alias])
                for alias in aliases
                if alias in self.missing
            ]
            raise NotDone(joined(gone or [say("study.needs-models", n=least)]))
        return found

    # -- data of experiments ---------------------------------------------------------------------------

    def data(self, kind: str, *, of: str = "") -> str:
        """Return the data path of the current experiment, or of an earlier one."""
        return f"data/{of or self.id}{kind}"

    def earlier(self, experiment: str, kind: str = ".json") -> str:
        """Return the data path of an earlier experiment, which must exist."""
        path = self.data(kind, of=experiment)
        if not self.folder.has(path):
            raise NotDone(say("study.no-data", name=experiment))
        return path

    def document(
        self, facts: Mapping[str, Any], *, tables: Sequence[object] = (), said: Sequence[object] = ()
    ) -> None:
        """Write the document of the experiment: facts for programs, tables and sentences for people."""
        self.folder.json(
            self.data(".json"), {**facts, "report": {"tables": list(tables), "said": list(said)}}
        )


def shown(
    title: str, rows: Sequence[Mapping[str, object]], columns: Sequence[str] | None = None, **values: object
) -> dict[str, object]:
    """Describe a table of a report: keys of texts for title and columns, plain cells.

    What is said in a cell is English there, and a message beside the rows.
    """
    names = list(columns if columns is not None else rows[0] if rows else ())
    cells = [[row.get(name) for name in names] for row in rows]
    told = [
        {"row": i, "column": j, "cell": cell.said if isinstance(cell, Phrase) else cell}
        for i, row in enumerate(cells)
        for j, cell in enumerate(row)
        if isinstance(cell, Message | Phrase)
    ]
    described: dict[str, object] = {"title": title, "values": values, "columns": names, "rows": cells}
    return described | {"messages": told} if told else described


def said_cells(table: Mapping[str, Any]) -> dict[tuple[int, int], Message]:
    """Return what a saved table of a report says, by row and column."""
    saved = Reader("report")
    return {
        (item["row"], item["column"]): saved.said(Message, "cell", item, "messages")
        for item in table.get("messages", ())
    }


def said(key: str, **values: object) -> dict[str, object]:
    """Describe a sentence of a report: the key of its text, and what is filled in."""
    return {"text": key, "values": values}
