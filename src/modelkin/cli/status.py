"""The status line: one line on a terminal that says what is being done, how far along, and for how long."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from modelkin.document import Language


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
