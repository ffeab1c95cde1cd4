"""Mutation guided by coverage, in one process: inputs that reach new lines are kept and mutated further.

From Python 3.12 on, `sys.monitoring` tells new lines of every input at almost no cost. Before, `sys.settrace`
watches one input in `_TRACED_EVERY`: watching all of them would cost most of the inputs that could be tried.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_TRACED_EVERY = 16
_WAITING = 20.0
"""Wall time an input may take, as a multiple of its patience."""
_MOST_KEPT = 400
"""Inputs of a target's corpus while it runs; further ones take the place of others."""
LONGEST = 1 << 17
"""Inputs are cut to this: long ones are slow, and what is wrong with them shows in short ones."""
NUMBERS = (0, 1, 2, 3, 4, 7, 8, 16, 127, 128, 255, 256, 1 << 15, (1 << 16) - 1, 1 << 31, (1 << 32) - 1)
LARGE = (1 << 63, (1 << 64) - 1, (1 << 61) - 1, 1 << 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One parser, or whatever else takes foreign input."""

    name: str
    run: Callable[[bytes], bool]
    """Says whether the input was accepted. Whatever it raises is a crash: refusals are caught inside."""
    seeds: Callable[[], Sequence[bytes]]
    words: tuple[bytes, ...] = ()
    """What the format is made of, and what has broken parsers before."""
    watched: tuple[str, ...] = ()
    """Parts of the paths of modules whose lines count."""
    patience: float = 5.0
    """CPU seconds after which an input counts as a hang."""
    share: float = 1.0
    """Of the time, relative to the others."""
    around: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
    """What has to be set up while it runs."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The outcome of one target."""

    name: str
    n_inputs: int = 0
    n_accepted: int = 0
    n_lines: int = 0
    n_kept: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    memory: int = 0
    """Largest resident set of the process until the end of this target."""
    crashes: dict[str, bytes] = field(default_factory=dict)
    """What was raised, and where -> the shortest input that did it."""
    hangs: list[bytes] = field(default_factory=list)


class Hang(BaseException):
    """An input took too long. Not an Exception: parsers must not catch it."""


def fuzz(target: Target, *, seconds: float, rng: random.Random, most: int | None = None) -> Outcome:
    """Run one target for a while, or for a number of inputs."""
    outcome = Outcome(name=target.name)
    began = time.monotonic()
    with target.around(), _alarm(), _Lines(target.watched) as lines:
        corpus = [seed[:LONGEST] for seed in target.seeds()] or [b""]
        for seed in list(corpus):
            with lines.watching():
                _try(target, seed, outcome)
        lines.take()
        while time.monotonic() - began < seconds and (most is None or outcome.n_inputs < most):
            parent = corpus[-1 - int(rng.random() ** 2 * len(corpus))]  # the newest most often
            data = mutated(rng, parent, rng.choice(corpus), target.words)[:LONGEST]
            watched = lines.always or outcome.n_inputs % _TRACED_EVERY == 0
            with lines.watching() if watched else contextlib.nullcontext():
                _try(target, data, outcome)
            if watched and lines.take():
                if len(corpus) < _MOST_KEPT:
                    corpus.append(data)
                else:
                    corpus[rng.randrange(len(corpus))] = data
        outcome.n_lines = len(lines.seen)
        outcome.n_kept = len(corpus)
    outcome.seconds = time.monotonic() - began
    outcome.memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return outcome


def _try(target: Target, data: bytes, outcome: Outcome) -> None:
    began = time.process_time()
    try:
        # Time of the processor, which does not depend on what else runs here; for what only waits, real time.
        signal.setitimer(signal.ITIMER_PROF, target.patience)
        signal.setitimer(signal.ITIMER_REAL, _WAITING * target.patience)
        try:
            outcome.n_accepted += target.run(data)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        raise
    except Hang:
        outcome.hangs.append(data)
    except BaseException as error:  # also what parsers must not raise, such as SystemExit
        where = _place(error)
        if len(data) < len(outcome.crashes.get(where, bytes(LONGEST + 1))):
            outcome.crashes[where] = data
    outcome.n_inputs += 1
    outcome.slowest = max(outcome.slowest, time.process_time() - began)


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    at = "" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    return f"{type(error).__name__} at {at}: {str(error)[:120]!r}"


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    def late(*_: object) -> None:
        raise Hang

    before = {number: signal.signal(number, late) for number in (signal.SIGALRM, signal.SIGPROF)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# -- mutation ------------------------------------------------------------------------------------------


def mutated(rng: random.Random, data: bytes, other: bytes, words: Sequence[bytes]) -> bytes:
    """Change an input in a few places."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 9))):
        # Headers stand at the beginning: half of all changes are made there.
        reach = len(changed) if rng.random() < 0.5 else min(len(changed), 400)
        at = rng.randrange(reach + 1)
        match rng.randrange(9):
            case 0:
                changed[at : at + 1] = bytes([rng.randrange(256)])
            case 1 if words:
                changed[at:at] = rng.choice(words)
            case 2 if words:
                word = rng.choice(words)
                changed[at : at + len(word)] = word
            case 3:
                del changed[at : at + rng.choice((1, 1, 2, 4, 8, 30))]
            case 4:
                size = rng.choice((1, 2, 4, 8))
                number = rng.choice((*NUMBERS, *LARGE, len(changed), rng.getrandbits(8 * size)))
                changed[at : at + size] = (number % (1 << 8 * size)).to_bytes(size, "little")
            case 5:
                piece = changed[at : at + rng.choice((2, 8, 40, 200))]
                changed[at:at] = piece
            case 6 if other:
                start = rng.randrange(len(other))
                changed[at : at + rng.choice((0, 8, 40))] = other[start : start + rng.choice((4, 20, 100))]
            case 7 if at < len(changed):
                changed[at] ^= 1 << rng.randrange(8)
            case _:
                if rng.random() < 0.1:
                    del changed[at:]
                elif changed:
                    changed[at : at + 1] = bytes([(changed[min(at, len(changed) - 1)] + 1) % 256])
    return bytes(changed)


# -- coverage ------------------------------------------------------------------------------------------


class _Lines:
    """The lines of watched modules that inputs have reached."""

    def __init__(self, watched: tuple[str, ...]) -> None:
        self._watched = tuple(f"/modelkin/{part}" for part in watched)
        self.always = sys.version_info >= (3, 12)
        self.seen: set[tuple[str, int]] = set()
        self._new = False
        self._files: dict[str, bool] = {}

    def take(self) -> bool:
        """Say whether there were new lines since the last call."""
        new, self._new = self._new, False
        return new

    def _wanted(self, file: str) -> bool:
        if file not in self._files:
            self._files[file] = any(part in file for part in self._watched)
        return self._files[file]

    def _note(self, file: str, line: int) -> None:
        if (file, line) not in self.seen:
            self.seen.add((file, line))
            self._new = True

    def __enter__(self) -> _Lines:
        if self.always:
            self._monitor(on=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self.always:
            self._monitor(on=False)

    def _monitor(self, *, on: bool) -> None:  # pragma: no cover  Python 3.12
        monitoring: Any = getattr(sys, "monitoring")  # noqa: B009  mypy checks for 3.11
        tool = monitoring.COVERAGE_ID

        def line(code: CodeType, number: int) -> object:
            if self._wanted(code.co_filename):
                self._note(code.co_filename, number)
            return monitoring.DISABLE

        if on:
            monitoring.use_tool_id(tool, "modelkin-fuzz")
            monitoring.restart_events()
            monitoring.register_callback(tool, monitoring.events.LINE, line)
        monitoring.set_events(tool, monitoring.events.LINE if on else 0)
        if not on:
            monitoring.free_tool_id(tool)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what is run inside."""
        if self.always:
            yield
            return

        def local(frame: FrameType, event: str, _: object) -> Any:
            if event == "line":
                self._note(frame.f_code.co_filename, frame.f_lineno)
            return local

        def called(frame: FrameType, *_: object) -> Any:
            return local if self._wanted(frame.f_code.co_filename) else None

        sys.settrace(called)
        try:
            yield
        finally:
            sys.settrace(None)


def digest(data: bytes) -> str:
    """Name an input."""
    return hashlib.sha256(data).hexdigest()[:16]
