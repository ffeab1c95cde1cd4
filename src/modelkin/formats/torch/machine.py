"""A small machine for the pickles of torch files. It builds descriptions and does nothing else.

Python's own loader imports modules and calls what it finds there; this one has neither. Its instructions are
those that writers of protocols 2 to 5 use: the text forms of older protocols, registered extension codes,
out-of-band buffers and ``DUP``, which no writer of weights uses, are refused by name. So is whatever makes a
pickle ambiguous: a memo or dictionary entry that is set twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from modelkin.errors import FormatError, UnsupportedFormat
from modelkin.message import Message, Refusal, say
from modelkin.untrusted import plain, quoted

from .stack import MAX_NAME, MAX_OPCODES, PickleEnds, PickleStack
from .values import (
    CALLS,
    HARMLESS,
    TORCHSCRIPT_CALLS,
    Global,
    Holder,
    Opaque,
    StorageRef,
    Value,
    is_script_class,
    kind_of,
    script_object,
    storage_of,
)

MAX_UNKNOWN = 1_000
"""Most distinct unknown names that may be mentioned."""

_STOP = ord(".")
_REFUSED: Final = {
    **{code: say("part.protocol-0-text") for code in b"IFLSVgpPi"},
    **{code: say("part.protocol-0-1") for code in b"dlo"},
    ord("2"): say("part.dup"),
    **{code: say("part.extension-code") for code in b"\x82\x83\x84"},
    **{code: say("part.outside-buffer") for code in b"\x97\x98"},
}


class Machine(PickleStack):
    """Reads one pickle; classes of TorchScript only if it is a `script`.

    After `load`, `position` is just after the pickle, `storages` has every storage that was named, by its
    key, and `unknown` the names that are not in the table; they were not called, or there would be no result.
    """

    def __init__(self, data: bytes, *, start: int = 0, file: str, script: bool = False) -> None:
        super().__init__(data, start=start, file=file)
        self.storages: dict[str, StorageRef] = {}
        self.unknown: dict[Global, None] = {}
        self._script = script
        self._calls = {**CALLS, **TORCHSCRIPT_CALLS} if script else CALLS

    def load(self) -> Value:
        """Run the pickle up to its end.

        Raises `FormatError` if it is malformed or would do more than hold data, and `PickleEnds` if the bytes
        end before it does.
        """
        data, handlers = self._data, _HANDLERS
        if data[self._start : self._start + 1] not in (b"", b"\x80"):
            self._fail(say("problem.pickle-protocol"), hint=say("hint.other-kind"))
        end = len(data)
        try:
            for _ in range(MAX_OPCODES):
                position = self.position
                if position >= end:
                    raise PickleEnds
                self.position = position + 1
                code = data[position]
                if code == _STOP:
                    return self._stopped()
                handlers[code](self)
        except Refusal as refused:
            self._fail(refused.reason)
        except ValueError as error:  # numbers and strings that Python cannot parse
            self._fail(say("problem.pickle-odd", why=str(error)))
        return self._fail(say("problem.pickle-instructions", most=MAX_OPCODES))

    def _stopped(self) -> Value:
        if self._marked or len(self._stack) != 1:
            self._fail(say("problem.pickle-results"))
        return self._stack[0]

    def _refuse(self, what: Message) -> FormatError:
        return UnsupportedFormat(
            plain(self._file),
            say("problem.pickle-at", position=self.position, problem=what),
            hint=say("hint.pickle-names"),
        )

    def _refused_code(self) -> None:
        code = self._data[self.position - 1]
        self._fail(
            say(
                "problem.pickle-instruction",
                name=repr(bytes([code])),
                why=_REFUSED.get(code, say("part.no-instruction")),
            )
        )

    # -- names, calls, objects -------------------------------------------------------------------------

    def _global(self) -> None:
        module = self._line()
        self._push_global(module, self._line())

    def _stack_global(self) -> None:
        name, module = self._taken(), self._taken()
        if not isinstance(name, str) or not isinstance(module, str):
            self._fail(say("problem.pickle-names-object"))
        if len(module) + len(name) > MAX_NAME:
            self._fail(say("problem.pickle-name-long", most=MAX_NAME))
        self._push_global(module, name)

    def _push_global(self, module: str, name: str) -> None:
        made = Global(module, name)
        if made not in HARMLESS and not (self._script and is_script_class(made)):
            self.unknown[made] = None
            if len(self.unknown) > MAX_UNKNOWN:
                self._fail(say("problem.pickle-unknown", most=MAX_UNKNOWN))
        self._stack.append(made)

    def _persistent(self) -> None:
        found = storage_of(self._taken())
        # Loaders keep the first one with a key: another type or length might or might not be read as that.
        known = self.storages.setdefault(found.key, found)
        if known != found:
            self._fail(say("problem.pickle-storage-twice", key=quoted(found.key)))
        self._stack.append(known)

    def _call(self, function: Value, arguments: Value) -> Value:
        if not isinstance(function, Global):
            self._fail(say("problem.pickle-calls", function=kind_of(function)))
        if function not in self._calls:
            raise self._refuse(say("problem.pickle-calls-other", function=str(function)))
        if not isinstance(arguments, tuple):
            self._fail(say("problem.pickle-arguments", function=str(function), kind=kind_of(arguments)))
        self._charge(sum(len(item) for item in arguments if isinstance(item, list | tuple | dict)))
        try:
            return self._calls[function](arguments)
        except Refusal as refused:
            raise UnsupportedFormat(
                plain(self._file),
                say(
                    "problem.pickle-function",
                    position=self.position,
                    function=str(function),
                    problem=refused.reason,
                ),
            ) from None

    def _reduce(self) -> None:
        arguments, function = self._taken(), self._taken()
        self._stack.append(self._call(function, arguments))

    def _new_object(self) -> None:
        arguments, kind = self._taken(), self._taken()
        self._stack.append(self._made(kind, arguments))

    def _new_object_ex(self) -> None:
        named, arguments, kind = self._taken(), self._taken(), self._taken()
        if named != {}:
            raise self._refuse(say("problem.pickle-named", kind=kind_of(kind)))
        self._stack.append(self._made(kind, arguments))

    def _made(self, kind: Value, arguments: Value) -> Value:
        if self._script and isinstance(kind, Global) and is_script_class(kind):
            return script_object(kind)
        return self._call(kind, arguments)

    def _build(self) -> None:
        state, target = self._taken(), self._top()
        if isinstance(target, Holder):
            if not isinstance(state, dict):
                self._fail(say("problem.pickle-attributes", kind=target.kind))
            self._charge(len(state))
            target.attributes.update(state)
        elif isinstance(target, dict) and isinstance(state, dict):
            # Attributes of a dictionary are notes of its writer, unless one replaces a method:
            # whoever asks the dictionary for its items then gets something else.
            if any(isinstance(key, str) and hasattr(dict, key) for key in state):
                raise self._refuse(say("problem.pickle-method"))
        elif not isinstance(target, dict | Opaque):
            raise self._refuse(say("problem.pickle-state", kind=kind_of(target)))


def _handlers() -> list[Callable[[Machine], None]]:
    # The machine's own table, so using its private names is fine here.
    table: list[Callable[[Machine], None]] = [Machine._refused_code] * 256
    m = Machine
    plain_codes: dict[bytes, Callable[[Machine], None]] = {
        b"\x80": m._protocol,
        b"\x95": m._frame,
        b"N": m._none,
        b"\x88": m._true,
        b"\x89": m._false,
        b"K": m._int1,
        b"M": m._int2,
        b"J": m._int4,
        b"\x8a": m._long1,
        b"\x8b": m._long4,
        b"G": m._float,
        b"(": m._mark,
        b"0": m._pop,
        b"1": m._pop_mark,
        b"q": m._put1,
        b"r": m._put4,
        b"\x94": m._memoize,
        b"h": m._get1,
        b"j": m._get4,
        b")": m._empty_tuple,
        b"t": m._tuple,
        b"]": m._empty_list,
        b"\x8f": m._empty_list,
        b"\x91": m._frozen_set,
        b"}": m._empty_dict,
        b"a": m._append,
        b"e": m._appends,
        b"\x90": m._appends,
        b"s": m._set_item,
        b"u": m._set_items,
        b"c": m._global,
        b"\x93": m._stack_global,
        b"Q": m._persistent,
        b"R": m._reduce,
        b"\x81": m._new_object,
        b"\x92": m._new_object_ex,
        b"b": m._build,
    }
    for code, handler in plain_codes.items():
        table[code[0]] = handler
    for code, width in ((b"X", 4), (b"\x8c", 1), (b"\x8d", 8)):
        table[code[0]] = _with(m._text, width)
    for code, width in ((b"T", 4), (b"U", 1)):
        table[code[0]] = _with(m._old_text, width)
    for code, width in ((b"B", 4), (b"C", 1), (b"\x8e", 8), (b"\x96", 8)):
        table[code[0]] = _with(m._bytes, width)
    for code, count in ((b"\x85", 1), (b"\x86", 2), (b"\x87", 3)):
        table[code[0]] = _with(m._last_tuple, count)
    return table


def _with(handler: Callable[[Machine, int], None], number: int) -> Callable[[Machine], None]:
    return lambda machine: handler(machine, number)


_HANDLERS: Final = _handlers()
