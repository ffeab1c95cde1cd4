"""Data of tensors that lie in files beside the graph: where, and whether it may be so."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from modelkin.errors import HeaderError, NotFound
from modelkin.source import ByteRange, FileInfo, Source
from modelkin.untrusted import path_problem, quoted


class External:
    """Finds the data of one graph's tensors.

    Parameters
    ----------
    source
        The model's files; nothing outside it is ever looked at.
    file
        The graph. Places are relative to its folder.
    """

    def __init__(self, source: Source, file: str) -> None:
        self._source = source
        self._file = file
        self._known: dict[str, FileInfo] = {}

    def __call__(self, tensor: str, stated: Mapping[str, str], n_bytes: int) -> tuple[str, ByteRange]:
        """Return file and place of a tensor's data."""
        location = stated.get("location", "")
        if (problem := path_problem(location)) is not None:
            raise HeaderError(
                self._file,
                f"tensor {quoted(tensor)} lies in the file {quoted(location)}, whose name {problem}",
                hint="Data must lie in the model's own folder.",
            )
        info = self._info(tensor, location)
        offset = self._number(tensor, stated, "offset", 0)
        length = self._number(tensor, stated, "length", n_bytes)
        if length != n_bytes:
            raise self._error(tensor, f"takes {n_bytes} bytes, but {length} are stated in {quoted(location)}")
        if offset + length > info.size:
            raise self._error(
                tensor,
                f"claims bytes {offset}-{offset + length} of {quoted(location)}, which has {info.size}",
            )
        return info.name, ByteRange(offset, offset + length)

    def _info(self, tensor: str, location: str) -> FileInfo:
        if location not in self._known:
            path = posixpath.join(posixpath.dirname(self._file), location)
            info = self._source.find(path)
            if info is None:
                raise NotFound(
                    f"{self._source.location.ref}/{path}",
                    f"no such file, where tensor {quoted(tensor)} of {self._file} has its data",
                    hint="The model is incomplete; fetch this file, too.",
                )
            self._known[location] = info
        return self._known[location]

    def _number(self, tensor: str, stated: Mapping[str, str], key: str, default: int) -> int:
        text = stated.get(key, "")
        if not text:
            return default
        if len(text) > 19 or not (text.isascii() and text.isdigit()):
            raise self._error(tensor, f"states the {key} {quoted(text)}, which is no number of bytes")
        return int(text)

    def _error(self, tensor: str, problem: str) -> HeaderError:
        return HeaderError(self._file, f"tensor {quoted(tensor)} {problem}", hint="The file is damaged.")
