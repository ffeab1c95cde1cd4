"""Who writes where: results to stdout, progress and remarks to stderr."""

from __future__ import annotations

import io
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from modelkin.cli.failures import result_printed, say_beside
from modelkin.errors import OutputError
from modelkin.message import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.text import Text

    from modelkin.document import Language
    from modelkin.document.blocks import Block
    from modelkin.document.views.comparison import Detail
    from modelkin.message import Message
    from modelkin.model import Model
    from modelkin.options import FetchOptions


@dataclass(slots=True, kw_only=True)
class StatusLine:
    """What is running: a step with its parts, and bytes in flight. Updated from several threads."""

    language: Callable[[], Language]
    """Called when the line is drawn: a command that draws none loads no texts."""
    step: str = ""
    done: int = 0
    total: int | None = None
    bytes_read: int = 0
    bytes_wanted: int = 0
    began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def reading(self, n_bytes: int | None) -> None:
        """Expect more bytes; how many is unknown for a model that is read from end to end."""
        with self._lock:
            self.bytes_wanted += n_bytes or 0

    def read(self, n_bytes: int) -> None:
        """Count bytes that arrived."""
        with self._lock:
            self.bytes_read += n_bytes
            self.bytes_wanted = max(self.bytes_wanted, self.bytes_read)

    def begin(self, step: str) -> None:
        """Begin a step whose parts are not known yet."""
        with self._lock:
            self.step, self.done, self.total = step, 0, None

    def count(self, done: int, total: int, step: str | None) -> None:
        """Count the parts of the current step, or of another one."""
        with self._lock:
            self.step = self.step if step is None else step
            self.done, self.total = done, total

    def text(self) -> str:
        """Return the line, such as ``testing 5/8 · reading 3.1/6.8 MB · 12 s``."""
        with self._lock:
            parts = [self.step] if self.step else []
            if parts and self.total is not None:
                parts[0] += f" {self.done}/{self.total}"
            if self.bytes_wanted > self.bytes_read:
                done, all_ = _mega(self.bytes_read), _mega(self.bytes_wanted)
                parts.append(self.language().say("cli.reading", done=done, all=all_))
            elif self.bytes_read:
                parts.append(self.language().say("cli.read", done=_mega(self.bytes_read)))
            parts.append(f"{time.monotonic() - self.began:.0f} s")
        return " · ".join(parts)

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text(self.text(), no_wrap=True, overflow="ellipsis")


def _mega(n_bytes: int) -> str:
    mega = n_bytes / 1e6
    return f"{mega:.1f}" if mega < 100 else f"{mega:,.0f}"


def drawn(line: StatusLine, console: Console | None = None) -> Live:
    """Return a live drawing of the line, which disappears when stopped."""
    from rich.console import Console
    from rich.live import Live

    console = console or Console(stderr=True)
    return Live(line, console=console, transient=True, refresh_per_second=8)


@dataclass(slots=True, kw_only=True)
class Output:
    """The two streams of one command; also its `Progress`."""

    lang: str = "en"
    as_json: bool = False
    quiet: bool = False
    draw_progress: bool = True
    verbose: bool = False
    status: StatusLine = field(init=False, repr=False)
    _live: Live | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self.status = StatusLine(language=lambda: self.language)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undraw()

    # -- results ---------------------------------------------------------------------------------------

    @property
    def language(self) -> Language:
        """The language of everything that people read here; JSON is the same in all."""
        from modelkin.document import load_language

        return load_language(self.lang)

    @property
    def detail(self) -> Detail:
        """How much of a result is drawn."""
        return "verbose" if self.verbose else "brief"

    def written(
        self,
        document: object,
        view: Callable[[], Iterable[Block]],
        *,
        out: Path | None,
        write: Callable[[Path], object],
        start: str,
        as_text: Callable[[], str] | None = None,
    ) -> None:
        """Write the files of a result if a folder was given, print it, and say which file to start with.

        `as_text` makes what is printed instead, in another program's format.
        """
        try:
            if out is not None:
                write(out)
        finally:  # a full disk must not lose the answer
            if as_text is None:
                self.result(document, view)
            else:
                self.text(as_text())
        if out is not None:
            self.say("written", out=str(out), start=str(out / start))

    @contextmanager
    def models(self, refs: Iterable[str], fetch: FetchOptions) -> Iterator[list[Model]]:
        """Open models side by side and say which they are."""
        from modelkin.model import open_models

        with open_models(tuple(refs), fetch, progress=self) as opened:
            for model in opened:
                self.say("opened", model=self.language.tell(model.found_at))
            yield opened

    def result(self, document: object, view: Callable[[], Iterable[Block]]) -> None:
        """Print a result: as JSON, or as its view for people."""
        self._undraw()
        if sys.stdout is None:
            raise OutputError(say("part.standard-output"), say("problem.output-closed"))
        if self.as_json:
            from modelkin.document import to_json

            # JSON is UTF-8, whatever the terminal's encoding.
            click.echo(to_json(document).encode("utf-8"))
            result_printed()
        else:
            from modelkin.document import render_terminal

            print_lines(render_terminal(view()))

    def text(self, text: str) -> None:
        """Print a document of another program's format."""
        self._undraw()
        if sys.stdout is None:
            raise OutputError(say("part.standard-output"), say("problem.output-closed"))
        click.echo(text.encode("utf-8"))

    def say(self, key: str, **values: str) -> None:
        """Say something on stderr, in the reader's language."""
        if not self.quiet:
            self.remark(self.language.say(f"cli.{key}", **values))

    def remark(self, text: str) -> None:
        """Say something on stderr."""
        if self.quiet:
            return
        with self._lock:
            if self._live is None:
                say_beside(text)
            else:
                self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)

    # -- progress --------------------------------------------------------------------------------------

    def start(self, task: Message, total: int | None) -> None:
        """Expect bytes. The status line is drawn only on a terminal."""
        if self.verbose:
            told = self.language.tell(task)
            if total is None:
                self.remark(told)
            else:
                self.say("task_bytes", task=told, bytes=f"{total:,}")
        self.status.reading(total)
        self._draw()

    def advance(self, amount: int) -> None:
        """Count bytes that arrived."""
        self.status.read(amount)

    def note(self, message: Message) -> None:
        """Say which step begins: on the status line, or on a line of its own without a terminal."""
        text = self.language.tell(message)
        self.status.begin(text)
        if self.draw_progress and not self._draw():
            self.remark(text)

    def count(self, done: int, total: int, message: Message | None = None) -> None:
        """Say how many parts of a step are done."""
        self.status.count(done, total, None if message is None else self.language.tell(message))
        self._draw()

    def _draw(self) -> bool:
        """Draw the status line, if there is a terminal; return whether there is."""
        if not self.draw_progress or sys.stderr is None or not sys.stderr.isatty():
            return False
        with self._lock:
            if self._live is None:
                self._live = drawn(self.status)
                self._live.start()
        return True

    def _undraw(self) -> None:
        with self._lock:
            live, self._live = self._live, None
        if live is not None:
            live.stop()


def print_lines(drawing: RenderableType) -> None:
    """Print a result; if the output is not a terminal, nothing is padded and names stay in one piece."""
    from rich.console import Console

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name in characters that this terminal lacks must not lose the result.
        sys.stdout.reconfigure(errors="backslashreplace")
    if sys.stdout.isatty():
        Console(highlight=False, soft_wrap=False).print(drawing)
        return
    text = io.StringIO()
    Console(file=text, width=120, highlight=False, soft_wrap=False).print(drawing)
    for line in text.getvalue().splitlines():
        click.echo(line.rstrip(" "))
