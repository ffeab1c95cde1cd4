"""What a correct answer to a range request looks like."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from modelkin.errors import RangesIgnored, WrongBytes
from modelkin.message import Message, say
from modelkin.options import MIB
from modelkin.untrusted import quoted

from .ranges import ByteRange
from .retry import Transient

TOLERATED_SKIP = 1 * MIB
"""A server that ignores ranges is still read if at most this many bytes must be skipped to get there."""
_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)")
_UNSATISFIED = re.compile(r"bytes \*/(\d{1,19})")


@dataclass(frozen=True, slots=True)
class Expected:
    """The part of a body that is wanted."""

    skip: int
    """Bytes to pass over first."""
    keep: int
    total: int | None
    """Size of the whole file, if the server stated it."""
    ends_here: bool
    """Whether nothing may follow."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request to a server."""

    where: str
    wanted: ByteRange
    may_end_early: bool
    """Whether the file may end before the range does, because its size is not known yet."""

    def expected(self, status: int, headers: Mapping[str, str]) -> Expected:
        """Return which part of the body is wanted, or raise if the answer does not fit the request."""
        encoding = headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":
            raise self._wrong(say("problem.encoded", encoding=quoted(encoding, 40)))
        if status == 416:
            return self._nothing(headers)
        declared = self._declared_length(headers)
        if status == 200:
            return self._from_whole_file(declared)
        match = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
        if match is None:
            got = headers.get("Content-Range", headers.get("Content-Type", "no Content-Range"))
            raise self._wrong(say("problem.content-range", got=quoted(got, 80)))
        start, stop = int(match[1]), int(match[2]) + 1
        total = None if match[3] == "*" else int(match[3])
        ends_early = self.may_end_early and total is not None and stop == total < self.wanted.stop
        if start != self.wanted.start or (stop != self.wanted.stop and not ends_early) or stop <= start:
            raise self._wrong(say("problem.other-range", wanted=str(self.wanted), start=start, stop=stop))
        if declared is not None and declared != stop - start:
            raise self._wrong(say("problem.announced", n=stop - start, m=declared))
        if total is not None and total < stop:
            raise self._wrong(say("problem.range-of", start=start, stop=stop, total=total))
        return Expected(0, stop - start, total, ends_here=True)

    def _nothing(self, headers: Mapping[str, str]) -> Expected:
        match = _UNSATISFIED.fullmatch(headers.get("Content-Range", ""))
        if self.may_end_early and match is not None and int(match[1]) == 0:
            return Expected(0, 0, 0, ends_here=True)
        problem = say("problem.unsatisfied", wanted=str(self.wanted))
        if match:
            problem = say("problem.unsatisfied-size", wanted=str(self.wanted), size=match[1])
        raise WrongBytes(self.where, problem)

    def _from_whole_file(self, total: int | None) -> Expected:
        wanted = self.wanted
        if wanted.start > TOLERATED_SKIP:
            raise RangesIgnored(
                self.where,
                say("problem.whole-file", wanted=str(wanted)),
                hint=say("hint.download"),
            )
        stop = wanted.stop
        if total is not None and total < stop:
            if not self.may_end_early:
                raise self._wrong(say("problem.up-to", stop=stop, total=total))
            stop = max(total, wanted.start)
        elif total is None and self.may_end_early:
            raise RangesIgnored(self.where, say("problem.whole-no-size"))
        return Expected(wanted.start, stop - wanted.start, total, ends_here=False)

    def _declared_length(self, headers: Mapping[str, str]) -> int | None:
        value = headers.get("Content-Length")
        if value is None:
            return None
        if not (value.isascii() and value.isdecimal()) or len(value) > 19:
            raise self._wrong(say("problem.content-length", value=quoted(value, 40)))
        return int(value)

    def _wrong(self, problem: Message) -> Transient:
        return Transient(WrongBytes(self.where, problem))
