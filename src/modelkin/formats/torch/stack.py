"""The part of the pickle machine that moves plain data: bytes, numbers, texts, stack, memo, containers."""

from __future__ import annotations

import struct
from typing import NoReturn

from modelkin.errors import HeaderError
from modelkin.message import Message, say
from modelkin.untrusted import plain, quoted

from .values import Value, checked_key, kind_of

MAX_PICKLE_BYTES = 64 << 20
"""A tensor takes about 140 bytes; weights themselves are not in the pickle."""
MAX_OPCODES = 6_000_000
"""A tensor takes about 42. Each makes at most one object, so this bounds memory too."""
MAX_MEMO = 2_000_000
MAX_NESTING = 1_000
"""Of marks. Writers recurse, so Python's own recursion limit stops them before this."""

MAX_NAME = 512
"""Of a name that is looked up, in bytes."""
_MAX_INTEGER_BYTES = 255


class PickleEnds(Exception):
    """The bytes at hand end inside the pickle: not an error, more are needed."""


class PickleStack:
    """What the instructions of the pickle that begins at `start` work on."""

    def __init__(self, data: bytes, *, start: int, file: str) -> None:
        self.position = start
        self._data = data
        self._start = start
        self._file = file
        self._stack: list[Value] = []
        self._marked: list[list[Value]] = []
        self._memo: dict[int, Value] = {}
        self._copied = 0

    def _fail(self, problem: Message, *, hint: Message | None = None) -> NoReturn:
        raise HeaderError(
            plain(self._file), say("problem.pickle-near", position=self.position, problem=problem), hint=hint
        )

    def _charge(self, count: int) -> None:
        """Bound what is copied: one long list, recalled again and again, could otherwise fill the memory."""
        self._copied += count
        if self._copied > MAX_OPCODES:
            self._fail(say("problem.pickle-copies", most=MAX_OPCODES))

    # -- bytes -----------------------------------------------------------------------------------------

    def _take(self, count: int) -> bytes:
        start, stop = self.position, self.position + count
        if stop > self._start + MAX_PICKLE_BYTES:
            self._fail(say("problem.pickle-long", most=MAX_PICKLE_BYTES))
        if stop > len(self._data):
            raise PickleEnds
        self.position = stop
        return self._data[start:stop]

    def _length(self, width: int) -> int:
        return int.from_bytes(self._take(width), "little")

    def _line(self) -> str:
        limit = self.position + MAX_NAME
        end = self._data.find(b"\n", self.position, limit)
        if end < 0:
            if limit > len(self._data):
                raise PickleEnds
            self._fail(say("problem.pickle-name-long", most=MAX_NAME))
        line = self._data[self.position : end]
        self.position = end + 1
        return line.decode("utf-8")

    # -- plain values ----------------------------------------------------------------------------------

    def _protocol(self) -> None:
        version = self._take(1)[0]
        if self.position != self._start + 2:
            self._fail(say("problem.pickle-protocol-inside"))
        if not 2 <= version <= 5:
            self._fail(say("problem.pickle-version", got=version))

    def _frame(self) -> None:
        # A frame is a promise about the stream and says nothing about the values.
        self._take(8)

    def _none(self) -> None:
        self._stack.append(None)

    def _true(self) -> None:
        self._stack.append(True)

    def _false(self) -> None:
        self._stack.append(False)

    def _int1(self) -> None:
        self._stack.append(self._take(1)[0])

    def _int2(self) -> None:
        self._stack.append(self._length(2))

    def _int4(self) -> None:
        self._stack.append(int.from_bytes(self._take(4), "little", signed=True))

    def _long1(self) -> None:
        self._stack.append(int.from_bytes(self._take(self._length(1)), "little", signed=True))

    def _long4(self) -> None:
        length = self._length(4)
        if length > _MAX_INTEGER_BYTES:
            self._fail(say("problem.pickle-integer", n=length, most=_MAX_INTEGER_BYTES))
        self._stack.append(int.from_bytes(self._take(length), "little", signed=True))

    def _float(self) -> None:
        self._stack.append(struct.unpack(">d", self._take(8))[0])

    def _text(self, width: int) -> None:
        raw = self._take(self._length(width))
        # Writers allow lone surrogates; names of tensors that have them are refused later.
        self._stack.append(raw.decode("utf-8", "surrogatepass"))

    def _old_text(self, width: int) -> None:
        """Push a string of Python 2, which could be text or bytes."""
        raw = self._take(self._length(width))
        try:
            self._stack.append(raw.decode("utf-8"))
        except UnicodeDecodeError:
            self._stack.append(raw)

    def _bytes(self, width: int) -> None:
        self._stack.append(self._take(self._length(width)))

    # -- stack and memo --------------------------------------------------------------------------------

    def _mark(self) -> None:
        if len(self._marked) >= MAX_NESTING:
            self._fail(say("problem.pickle-nested", most=MAX_NESTING))
        self._marked.append(self._stack)
        self._stack = []

    def _since_mark(self) -> list[Value]:
        if not self._marked:
            self._fail(say("problem.pickle-mark"))
        items, self._stack = self._stack, self._marked.pop()
        return items

    def _pop(self) -> None:
        # On an empty stack this removes the mark below it, as Python does.
        if self._stack:
            self._stack.pop()
        else:
            self._since_mark()

    def _pop_mark(self) -> None:
        self._since_mark()

    def _put(self, index: int) -> None:
        if index in self._memo:
            self._fail(say("problem.pickle-memo-twice", number=index))
        if len(self._memo) >= MAX_MEMO:
            self._fail(say("problem.pickle-memo", most=MAX_MEMO))
        self._memo[index] = self._top()

    def _get(self, index: int) -> None:
        if index not in self._memo:
            self._fail(say("problem.pickle-recalls", number=index))
        self._stack.append(self._memo[index])

    def _put1(self) -> None:
        self._put(self._take(1)[0])

    def _put4(self) -> None:
        self._put(self._length(4))

    def _memoize(self) -> None:
        self._put(len(self._memo))

    def _get1(self) -> None:
        self._get(self._take(1)[0])

    def _get4(self) -> None:
        self._get(self._length(4))

    def _top(self) -> Value:
        if not self._stack:
            self._fail(say("problem.pickle-stack"))
        return self._stack[-1]

    def _taken(self) -> Value:
        if not self._stack:
            self._fail(say("problem.pickle-stack"))
        return self._stack.pop()

    # -- containers ------------------------------------------------------------------------------------

    def _empty_tuple(self) -> None:
        self._stack.append(())

    def _tuple(self) -> None:
        items = self._since_mark()
        self._stack.append(tuple(items))

    def _last_tuple(self, count: int) -> None:
        if len(self._stack) < count:
            self._fail(say("problem.pickle-stack"))
        self._stack[-count:] = [tuple(self._stack[-count:])]

    def _empty_list(self) -> None:
        # Sets are lists here too: nothing tests for membership.
        self._stack.append([])

    def _frozen_set(self) -> None:
        items = self._since_mark()
        self._stack.append(items)

    def _empty_dict(self) -> None:
        self._stack.append({})

    def _append(self) -> None:
        item = self._taken()
        self._extend([item])

    def _appends(self) -> None:
        self._extend(self._since_mark())

    def _extend(self, items: list[Value]) -> None:
        target = self._top()
        if not isinstance(target, list):
            self._fail(say("problem.pickle-adds", kind=kind_of(target)))
        target.extend(items)

    def _set_item(self) -> None:
        value = self._taken()
        self._set_all([self._taken(), value])

    def _set_items(self) -> None:
        self._set_all(self._since_mark())

    def _set_all(self, items: list[Value]) -> None:
        target = self._top()
        if not isinstance(target, dict):
            self._fail(say("problem.pickle-sets", kind=kind_of(target)))
        if len(items) % 2:
            self._fail(say("problem.pickle-no-value"))
        for key, value in zip(items[::2], items[1::2], strict=True):
            if checked_key(key) in target:
                self._fail(say("problem.pickle-key-twice", key=quoted(str(key))))
            target[key] = value
