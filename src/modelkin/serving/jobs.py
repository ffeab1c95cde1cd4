"""Scans that readers start: one at a time, a short queue, every step reported."""

from __future__ import annotations

import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal, final

from modelkin.errors import ModelkinError
from modelkin.fingerprint import Fingerprint, fingerprint_model
from modelkin.message import Message, say, told
from modelkin.model import open_model
from modelkin.options import FetchOptions
from modelkin.registry import ScanOptions, ScanResult, open_registry, scan

MOST_WAITING = 8
"""Scans in the queue: a scan takes seconds, and nobody waits for more than a minute."""
MOST_KEPT = 100
"""Finished scans whose results can still be read: some megabytes."""
_MOST_STEPS = 200
"""Most steps of one scan that are reported."""
JobState = Literal["waiting", "running", "done", "failed"]
_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class ScanJob:
    """One scan and what became of it. Its id cannot be guessed, and nothing lists ids."""

    subject: str
    tell: Callable[[Message], str] = field(default=str, repr=False)
    """Tells a step in the language of the pages."""
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    state: JobState = "waiting"
    problem: Message | None = None
    steps: list[str] = field(default_factory=list)
    result: ScanResult | None = field(default=None, repr=False)

    # The interface of `Progress`.

    def start(self, task: Message, total: int | None) -> None:
        """Ignore single reads."""

    def advance(self, amount: int) -> None:
        """Ignore single bytes."""

    def note(self, message: Message) -> None:
        """Record a step."""
        text = self.tell(message)
        if len(self.steps) < _MOST_STEPS and self.steps[-1:] != [text]:
            self.steps.append(text)

    def count(self, done: int, total: int, message: Message | None = None) -> None:
        """Record the step that has parts."""
        if message is not None:
            self.note(message)

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.state in ("done", "failed")


class QueueFull(Exception):
    """Too many scans are waiting."""


@final
class ScanJobs:
    """Runs scans one after another on a thread of its own."""

    def __init__(self, registry: str, fetch: FetchOptions, tell: Callable[[Message], str] = str) -> None:
        self._registry, self._fetch, self._tell = registry, fetch, tell
        self._jobs: OrderedDict[str, ScanJob] = OrderedDict()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="scan")
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let the running scan finish, and start no other."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def get(self, job_id: str) -> ScanJob | None:
        """Return a scan."""
        return self._jobs.get(job_id)

    def scan_model(self, ref: str) -> ScanJob:
        """Start scanning a model, which is read without the server's credentials."""
        return self._begin(ScanJob(subject=ref, tell=self._tell), lambda job: self._of_model(job, ref))

    def scan_fingerprint(self, made: Fingerprint) -> ScanJob:
        """Start scanning a fingerprint."""
        return self._begin(
            ScanJob(subject=made.model.ref, tell=self._tell), lambda job: self._of_fingerprint(job, made)
        )

    def _options(self) -> ScanOptions:
        return ScanOptions(verify=3, fetch=self._fetch)

    def _of_fingerprint(self, job: ScanJob, made: Fingerprint) -> ScanResult:
        registry = open_registry(self._registry)
        job.note(say("atlas-step-scan", n=registry.n_rows))
        return scan(made, registry, self._options(), progress=job)

    def _of_model(self, job: ScanJob, ref: str) -> ScanResult:
        registry = open_registry(self._registry)
        with open_model(ref, self._fetch, progress=job) as model:
            job.note(say("atlas-step-read", model=ref))
            made = fingerprint_model(model)
            job.note(say("atlas-step-scan", n=registry.n_rows))
            return scan(made, registry, self._options(), model=model, progress=job)

    def _begin(self, job: ScanJob, work: Callable[[ScanJob], ScanResult]) -> ScanJob:
        with self._lock:
            if sum(other.state == "waiting" for other in self._jobs.values()) >= MOST_WAITING:
                raise QueueFull
            self._jobs[job.id] = job
            over = [key for key, other in self._jobs.items() if other.is_over]
            for key in over[: max(0, len(self._jobs) - MOST_KEPT)]:
                del self._jobs[key]
        self._pool.submit(self._run, job, work)
        return job

    def _run(self, job: ScanJob, work: Callable[[ScanJob], ScanResult]) -> None:
        job.state = "running"
        try:
            job.result = work(job)
            job.state = "done"
        except ModelkinError as error:
            job.problem = told(error)
            job.state = "failed"
        except Exception as error:
            # The reader learns that it failed, the operator of what kind; neither sees a request.
            _log.error("a scan failed: %s", type(error).__name__)
            job.problem = say("problem.serve-bug")
            job.state = "failed"
