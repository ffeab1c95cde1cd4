"""When to retry, and how long to wait first."""

from __future__ import annotations

import email.utils
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from modelkin.errors import RateLimited, SourceError
from modelkin.message import say

_T = TypeVar("_T")

FIRST_WAIT = 0.4
"""Seconds before the first retry: about the time a load balancer needs to notice a dead server."""
LONGEST_WAIT = 20.0
"""Waits grow up to this; a server that wants more can ask for it."""


class Transient(Exception):
    """An attempt failed in a way that may be transient. `error` is raised when no attempt is left."""

    def __init__(self, error: SourceError, *, wait: float | None = None) -> None:
        super().__init__(error)
        self.error = error
        self.wait = wait


@dataclass(slots=True, kw_only=True)
class Retry:
    """Bounded attempts with growing, jittered pauses; a pause a server asks for applies to all threads."""

    attempts: int
    max_wait: float
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic
    rng: random.Random = field(default_factory=random.Random)
    _not_before: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, attempt: Callable[[int], _T], *, host: str) -> _T:
        """Call `attempt` with its number until it returns, fails for good, or attempts run out."""
        for number in range(self.attempts):
            self._keep_pause(host)
            try:
                return attempt(number)
            except Transient as error:
                problem = error
            # Raised outside the handler: an exception keeps the one being handled, with its URLs.
            if number + 1 == self.attempts:
                raise problem.error from problem.__cause__
            self._pause(host, number, problem)
        raise AssertionError("at least one attempt is made")

    def _pause(self, host: str, number: int, problem: Transient) -> None:
        # Half fixed, half random: threads that failed together do not come back together.
        own = min(FIRST_WAIT * 2**number, LONGEST_WAIT) * self.rng.uniform(0.5, 1.0)
        if problem.wait is None:
            self.sleep(own)
            return
        if problem.wait > self.max_wait:
            raise RateLimited(
                problem.error.where,
                say("problem.wait", wait=problem.wait, most=self.max_wait),
                hint=say("hint.later-or-login"),
            ) from problem.__cause__
        with self._lock:
            # A server that says "now" is asked no sooner than one that says nothing.
            until = self.clock() + max(problem.wait, own)
            self._not_before[host] = max(until, self._not_before.get(host, until))

    def _keep_pause(self, host: str) -> None:
        wait = self._not_before.get(host, 0.0) - self.clock()
        if wait > 0:
            # A little spread, so that the threads do not all hit the server at the same instant.
            self.sleep(wait + self.rng.uniform(0.0, 0.1))


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds a server asks us to wait (``Retry-After`` or the Hub's ``RateLimit``), if any."""
    value = headers.get("Retry-After")
    if value is not None:
        try:
            seconds = float(value)
        except ValueError:
            try:
                seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
            except (ValueError, TypeError, OverflowError):
                seconds = float("nan")
        if seconds == seconds:  # not NaN: a meaningless header counts as none
            return max(0.0, seconds)
    for part in headers.get("RateLimit", "").split(";"):
        key, _, number = part.strip().partition("=")
        if key == "t" and number.isdecimal() and len(number) < 10:
            # The window ends in that many whole seconds; one more makes sure it has.
            return float(number) + 1
    return None
