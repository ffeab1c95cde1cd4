"""Who writes where: results to stdout, progress and remarks to stderr."""

from __future__ import annotations

import io
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from modelkin.document.blocks import Block
    from modelkin.document.views.comparison import Detail
    from modelkin.message import Message
    from modelkin.model import Model
    from modelkin.options import FetchOptions


@dataclass(slots=True, kw_only=True)
class Output:
    """The two streams of one command; also its `Progress`."""

    as_json: bool = False
    quiet: bool = False
    draw_progress: bool = True
    verbose: bool = False
    _bars: Bars | None = field(default=None, repr=False)
    _task: TaskID | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    # -- results ---------------------------------------------------------------------------------------

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
    ) -> None:
        """Write the files of a result if a folder was given, print it, and say which file to start with."""
        try:
            if out is not None:
                write(out)
        finally:  # a full disk is no reason to lose the answer
            self.result(document, view)
        if out is not None:
            self.remark(f"written to {out}: start with {out / start}")

    @contextmanager
    def models(self, refs: Iterable[str], fetch: FetchOptions) -> Iterator[list[Model]]:
        """Open models side by side and say which they are."""
        from modelkin.model import open_models

        with open_models(tuple(refs), fetch, progress=self) as opened:
            for model in opened:
                self.remark(f"reading {model.describe()}")
            yield opened

    def result(self, document: object, view: Callable[[], Iterable[Block]]) -> None:
        """Print a result: as JSON, or as its view for a person."""
        if self._bars is not None:
            self._bars.stop()
        if self.as_json:
            from modelkin.document import to_json

            # JSON is UTF-8, whatever the terminal speaks.
            click.echo(to_json(document).encode("utf-8"))
        else:
            from modelkin.document import render_terminal

            stdout_console().print(render_terminal(view()))

    def remark(self, text: str) -> None:
        """Say something beside the result."""
        if not self.quiet:
            click.echo(text, err=True)

    # -- progress --------------------------------------------------------------------------------------

    def start(self, task: str, total: int | None) -> None:
        """Begin a bar. Drawn only on a terminal."""
        if self.verbose:
            self.remark(f"{task}: {total:,} bytes" if total is not None else task)
        if not self.draw_progress or not sys.stderr.isatty():
            return
        with self._lock:
            if self._bars is None:
                self._bars = _bars()
                self._bars.start()
            if self._task is not None:
                self._bars.remove_task(self._task)
            self._task = self._bars.add_task(task, total=total)

    def advance(self, amount: int) -> None:
        """Move the bar."""
        with self._lock:
            if self._bars is not None and self._task is not None:
                self._bars.advance(self._task, amount)

    def note(self, message: Message | str) -> None:
        """Write which step begins, above the bar if there is one."""
        if not self.draw_progress:
            return
        with self._lock:
            if self._bars is None:
                click.echo(str(message), err=True)
            else:
                self._bars.console.print(str(message), markup=False, highlight=False)


def stdout_console() -> Console:
    """Return a console that keeps names in one piece when nobody is at the other end of the pipe."""
    from rich.console import Console

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name in letters that this terminal does not have is no reason to lose the result.
        sys.stdout.reconfigure(errors="backslashreplace")
    return Console(width=None if sys.stdout.isatty() else 120, highlight=False, soft_wrap=False)


def _bars() -> Bars:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
