"""Two places as one model: the files of a base, and those of an adapter in a folder beside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import final

from .interface import FileInfo, Location, Source
from .ranges import ByteRange
from .store import StoreKey


@final
class OverlaySource(Source):
    """Files of an adapter in front of those of its base.

    One budget, one ledger and one store serve both; each file is stored under the place it really comes from.
    All files of the adapter are shown below `folder`, a name that no file of the base starts with; those of
    the base, None while it is not known, keep their names. Files in `shown_in_front` are taken from the front
    under their own names, if it has them; those in `only_in_front` are never taken from behind: what the
    base's card says is not said of the adapter.
    """

    def __init__(
        self,
        front: Source,
        behind: Source | None,
        *,
        ref: str,
        folder: str,
        shown_in_front: Iterable[str] = (),
        only_in_front: Iterable[str] = (),
    ) -> None:
        self._front = front
        self._behind = behind
        self._ref = ref
        self._folder = f"{folder}/"
        self._only = frozenset(only_in_front)
        self._preferred = frozenset(shown_in_front) | self._only
        self.budget = front.budget
        self.remote = front.remote or (behind is not None and behind.remote)

    def __repr__(self) -> str:
        return f"OverlaySource({self._front!r}, {self._behind!r})"

    @property
    def location(self) -> Location:
        """Where the adapter is."""
        return replace(self._front.location, ref=self._ref)

    @property
    def base_location(self) -> Location | None:
        """Where the base is."""
        return None if self._behind is None else self._behind.location

    @property
    def n_requests(self) -> int:
        """Requests sent to both places."""
        return sum(source.n_requests for source in self._sources)

    def files(self) -> dict[str, FileInfo]:
        """Return the files of both."""
        mine = self._front.files()
        found = {} if self._behind is None else self._behind.files()
        found = {name: info for name, info in found.items() if not self._is_hidden(name)}
        found |= {name: mine[name] for name in self._preferred if name in mine}
        found |= {f"{self._folder}{name}": info for name, info in mine.items()}
        return {name: replace(found[name], name=name) for name in sorted(found)}

    @property
    def odd_names(self) -> tuple[str, ...]:
        """Odd names of both places."""
        return tuple(dict.fromkeys(name for source in self._sources for name in source.odd_names))

    def find(self, name: str) -> FileInfo | None:
        """Return one file, without listing a place that has no listing."""
        source, inner = self._part(name)
        info = source.find(inner)
        return None if info is None else replace(info, name=name)

    def stored_as(self, file: FileInfo) -> StoreKey:
        """Return the key of a file at the place it comes from."""
        source, name = self._part(file.name)
        return source.stored_as(replace(file, name=name))

    def is_on_disk(self, file: FileInfo) -> bool:
        """Say whether a file is read from this machine's disk."""
        source, name = self._part(file.name)
        return source.is_on_disk(replace(file, name=name))

    def take_heads(self) -> Iterable[tuple[FileInfo, bytes]]:
        """Hand over what both places had to read, under the names shown here."""
        for info, data in self._front.take_heads():
            yield replace(info, name=f"{self._folder}{info.name}"), data
        for info, data in () if self._behind is None else self._behind.take_heads():
            if not self._is_hidden(info.name):
                yield info, data

    def close(self) -> None:
        """Close both places."""
        for source in self._sources:
            source.close()

    def _read(self, file: FileInfo, wanted: ByteRange) -> bytes:
        source, name = self._part(file.name)
        return source.read_range(replace(file, name=name), wanted)

    @property
    def _sources(self) -> tuple[Source, ...]:
        return (self._front,) if self._behind is None else (self._front, self._behind)

    def _is_hidden(self, name: str) -> bool:
        return name in self._only or name.startswith(self._folder)

    def _part(self, name: str) -> tuple[Source, str]:
        """Return which of the two a name belongs to, whether or not there is such a file."""
        if name.startswith(self._folder):
            return self._front, name.removeprefix(self._folder)
        if self._behind is None or name in self._only:
            return self._front, name
        if name in self._preferred and self._front.find(name) is not None:
            return self._front, name
        return self._behind, name
