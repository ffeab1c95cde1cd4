"""What a right answer to a ranged request looks like."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from modelkin.errors import RangesIgnored, WrongBytes
from modelkin.options import MIB
from modelkin.untrusted import quoted

from .ranges import ByteRange
from .retry import Transient

TOLERATED_SKIP = 1 * MIB
"""A server that ignores ranges is still read when at most this much must be skipped to get there."""
_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)")
_UNSATISFIED = re.compile(r"bytes \*/(\d{1,19})")


@dataclass(frozen=True, slots=True)
class Expected:
    """The part of a body that is wanted."""

    skip: int
    """Bytes to pass over first."""
    keep: int
    total: int | None
    """Size of the whole file, where the server said it."""
    ends_here: bool
    """Whether nothing may follow."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question to a server."""

    where: str
    wanted: ByteRange
    may_end_early: bool
    """Whether the file may end before the range does, because its size is not known yet."""

    def expected(self, status: int, headers: Mapping[str, str]) -> Expected:
        """Say what of the body is wanted, or raise when the answer does not fit the question."""
        encoding = headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":
            raise self._wrong(f"plain bytes were asked for, the server sent {quoted(encoding, 40)} ones")
        if status == 416:
            return self._nothing(headers)
        declared = self._declared_length(headers)
        if status == 200:
            return self._from_whole_file(declared)
        match = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
        if match is None:
            got = headers.get("Content-Range", headers.get("Content-Type", "no Content-Range"))
            raise self._wrong(f"expected a Content-Range, got {quoted(got, 80)}")
        start, stop = int(match[1]), int(match[2]) + 1
        total = None if match[3] == "*" else int(match[3])
        ends_early = self.may_end_early and total is not None and stop == total < self.wanted.stop
        if start != self.wanted.start or (stop != self.wanted.stop and not ends_early) or stop <= start:
            raise self._wrong(f"expected bytes {self.wanted}, got {start}-{stop}")
        if declared is not None and declared != stop - start:
            raise self._wrong(f"expected {stop - start} bytes, the server announces {declared}")
        if total is not None and total < stop:
            raise self._wrong(f"the server says that bytes {start}-{stop} are part of a file of {total}")
        return Expected(0, stop - start, total, ends_here=True)

    def _nothing(self, headers: Mapping[str, str]) -> Expected:
        match = _UNSATISFIED.fullmatch(headers.get("Content-Range", ""))
        if self.may_end_early and match is not None and int(match[1]) == 0:
            return Expected(0, 0, 0, ends_here=True)
        size = f"{match[1]} bytes" if match else "another size"
        raise WrongBytes(self.where, f"bytes {self.wanted} were asked for, the server's file has {size}")

    def _from_whole_file(self, total: int | None) -> Expected:
        wanted = self.wanted
        if wanted.start > TOLERATED_SKIP:
            raise RangesIgnored(
                self.where,
                f"bytes {wanted} were asked for, the server sends the whole file instead",
                hint="This server cannot be read in parts: download the file and give its local path.",
            )
        stop = wanted.stop
        if total is not None and total < stop:
            if not self.may_end_early:
                raise self._wrong(f"expected bytes up to {stop}, the file has {total}")
            stop = max(total, wanted.start)
        elif total is None and self.may_end_early:
            raise RangesIgnored(self.where, "the server sends the whole file and does not say its size")
        return Expected(wanted.start, stop - wanted.start, total, ends_here=False)

    def _declared_length(self, headers: Mapping[str, str]) -> int | None:
        value = headers.get("Content-Length")
        if value is None:
            return None
        if not (value.isascii() and value.isdecimal()) or len(value) > 19:
            raise self._wrong(f"Content-Length {quoted(value, 40)} is not a length")
        return int(value)

    def _wrong(self, problem: str) -> Transient:
        return Transient(WrongBytes(self.where, problem))
