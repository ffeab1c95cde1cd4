"""A strict JSON scanner for input that may be hostile. It knows JSON, not headers or indexes.

A general parser builds the whole value before anyone can look at it: a few bytes of input become a hundred
bytes of objects, nesting eats the stack, and of two equal keys one is silently dropped. Here the caller says
what must come next and the first deviation ends the scan, so input costs memory only as far as it is valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from modelkin.errors import FormatError
from modelkin.message import Message, said_by, say

from ._json import MAX_DEPTH, strict_json
from ._shown import quoted

# Possessive repeats: without them a long string would keep one backtracking point per escape.
_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_STRING: Final = re.compile(rb'"((?:[^"\\\x00-\x1f]++|\\.)*+)"', re.DOTALL)
# Twenty digits cover every 64-bit number; a longer one is cut off here and refused.
_INTEGER: Final = re.compile(rb"-?[0-9]{1,20}")
_NUMBER_GOES_ON: Final = re.compile(rb"[0-9.eE+-]")
# The parts of any JSON value that matter to find its end.
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]|[^"\[\]{}]++', re.DOTALL)
_SCALAR: Final = re.compile(rb"[0-9A-Za-z.+-]{1,64}+")

_SNIPPET = 24
"""Bytes shown of where reading stopped: enough to find the place."""


class Scanner:
    """Reads one JSON text from front to back, from `start` to the end of `data`; `error` makes exceptions."""

    __slots__ = ("_data", "_error", "_start", "position")

    def __init__(self, data: bytes, *, start: int = 0, error: Callable[[Message], FormatError]) -> None:
        self._data = data
        self._start = start
        self._error = error
        self.position = start

    def fail(self, problem: Message) -> NoReturn:
        """Raise the caller's error."""
        raise self._error(problem)

    def unexpected(self, expected: str | Message) -> NoReturn:
        """Raise the caller's error for what stands at the position, with the place and a snippet."""
        snippet = self._data[self.position : self.position + _SNIPPET]
        got = quoted(snippet.decode("utf-8", "backslashreplace")) if snippet else say("part.end")
        self.fail(
            say("problem.json-expected", expected=expected, position=self.position - self._start, got=got)
        )

    def match(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """Consume what `pattern` matches at the position, if it does."""
        found = pattern.match(self._data, self.position)
        if found:
            self.position = found.end()
        return found

    def take(self, token: bytes) -> bool:
        """Consume spaces, then `token` if it comes next."""
        # Most writers put no spaces: looking for them second halves the time of a scan.
        if not self._data.startswith(token, self.position):
            self.match(_SPACE)
            if not self._data.startswith(token, self.position):
                return False
        self.position += len(token)
        return True

    def next_is(self, token: bytes) -> bool:
        """Consume spaces and say whether `token` comes next."""
        self.match(_SPACE)
        return self._data.startswith(token, self.position)

    def members(self, what: str | Message, *, limit: int) -> Iterator[str]:
        """Yield each key of the object that comes next; the caller consumes its value before going on.

        `what` names the object in messages, and it has at most `limit` members.
        """
        if not self.take(b"{"):
            self.unexpected(say("part.object-for", what=what))
        if self.take(b"}"):
            return
        seen: set[str] = set()
        a_key = say("part.key-of", what=what)
        while True:
            key = self.string(a_key)
            if key in seen:
                self.fail(say("problem.json-key-of-twice", what=what, key=quoted(key)))
            if len(seen) >= limit:
                self.fail(say("problem.json-keys", what=what, most=limit))
            seen.add(key)
            if not self.take(b":"):
                self.unexpected(say("part.after-key", key=quoted(key)))
            yield key
            if self.take(b","):
                continue
            if self.take(b"}"):
                return
            self.unexpected(say("part.after-value", key=quoted(key)))

    def integers(self, what: str | Message, *, limit: int) -> tuple[int, ...]:
        """Consume a list of at most `limit` whole numbers from 0 on."""
        if not self.take(b"["):
            self.unexpected(say("part.numbers-for", what=what))
        if self.take(b"]"):
            return ()
        numbers: list[int] = []
        while True:
            if len(numbers) >= limit:
                self.fail(say("problem.json-numbers", what=what, most=limit))
            numbers.append(self.integer(what))
            if self.take(b"]"):
                return tuple(numbers)
            if not self.take(b","):
                self.unexpected(say("part.in-list", what=what))

    def integer(self, what: str | Message) -> int:
        """Consume a whole number from 0 on."""
        self.match(_SPACE)
        start = self.position
        found = self.match(_INTEGER)
        if found is None:
            self.unexpected(say("part.whole-in", what=what))
        digits = found.group()
        if digits.startswith(b"-"):
            self.fail(say("problem.json-negative", what=what, number=digits.decode()))
        if len(digits) > 1 and digits.startswith(b"0"):
            self.fail(say("problem.json-leading-zero", what=what))
        if _NUMBER_GOES_ON.match(self._data, self.position):
            self.position = start
            self.unexpected(say("part.digits-in", what=what))
        return int(digits)

    def string(self, what: str | Message) -> str:
        """Consume a string."""
        # The string is tried first, as most writers put no spaces, and again only after skipping some: one
        # without end is as long as the input.
        start = self.position
        found = self.match(_STRING)
        if found is None and self.match(_SPACE) and self.position > start:
            found = self.match(_STRING)
        if found is None:
            self.unexpected(say("part.as-string", what=what))
        try:
            if b"\\" not in found[1]:
                return found[1].decode("utf-8")
            text = json.loads(found[0])
            # A lone half of a surrogate pair can be escaped in JSON, but is no character.
            text.encode("utf-8")
        except ValueError:
            self.position = found.start()
            self.unexpected(say("part.as-utf8", what=what))
        return str(text)

    def value(self, what: str | Message, *, max_bytes: int) -> object:
        """Consume any JSON value of at most `max_bytes` bytes and `MAX_DEPTH` levels.

        Duplicate keys, NaN and infinities are refused inside it as well.
        """
        self.match(_SPACE)
        start = self.position
        if not self.next_is(b"{") and not self.next_is(b"["):
            return self._scalar(what)
        depth = 0
        while token := self.match(_TOKEN):
            # One byte is looked at: the token itself may be as long as the input.
            first = self._data[token.start()]
            depth += first in b"{["
            depth -= first in b"}]"
            if depth > MAX_DEPTH:
                self.fail(say("problem.json-deep", what=what, most=MAX_DEPTH))
            if self.position - start > max_bytes:
                self.fail(say("problem.json-bytes", what=what, most=max_bytes))
            if depth == 0:
                return self._loaded(start, what)
        return self.unexpected(say("part.end-of", what=what))

    def finish(self, *, padding: bytes) -> None:
        """Refuse anything after the text but bytes out of `padding`."""
        self.match(re.compile(b"[" + re.escape(padding) + b"]*+"))
        if self.position < len(self._data):
            self.unexpected(say("part.nothing-more"))

    def _scalar(self, what: str | Message) -> object:
        start = self.position
        if self.next_is(b'"'):
            return self.string(what)
        if not self.match(_SCALAR):
            self.unexpected(say("part.value-for", what=what))
        return self._loaded(start, what)

    def _loaded(self, start: int, what: str | Message) -> object:
        try:
            loaded = strict_json(self._data[start : self.position].decode("utf-8"))
            # Finds escaped halves of surrogate pairs, which could be neither written nor shown later.
            json.dumps(loaded, ensure_ascii=False).encode("utf-8")
        except ValueError as error:
            self.fail(say("problem.json-invalid", what=what, why=said_by(error)))
        return loaded
