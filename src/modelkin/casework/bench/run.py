"""Pairs side by side: opened, priced against the remaining budget, run, and every answer saved at once."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from modelkin._version import __version__
from modelkin.comparison import Comparison, Published, compare
from modelkin.comparison.methods import load_cards
from modelkin.document.codec import Reader, dumps, parse, plain
from modelkin.errors import FormatError, ModelkinError, not_written
from modelkin.message import Message, say, told
from modelkin.model import Model, open_models, read_headers
from modelkin.options import READING, CompareOptions, FetchOptions
from modelkin.progress import Progress, Silent
from modelkin.reference import (
    ReferenceOptions,
    RunMemory,
    chosen_references,
    each_reference_score,
    load_reference,
    reference_costs,
)

from .pairs import LabelledPair
from .rates import Scored, rates_of
from .record import BenchOptions, BenchResult, BenchRow, Unavailable

OURS = "modelkin"
KEPT = "results.jsonl"
_EVERYTHING = "all"
_SAME_BYTES = 1e6
"""The score of identical weights, which need no p-value: larger than any other."""


def bench_methods(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of methods, ours first; ``all`` means ours and every method that reads weights."""
    published = [name for name in names if name != OURS]
    ours = (OURS,) if OURS in names or _EVERYTHING in names else ()
    return (*ours, *(method.card.name for method in chosen_references(published)))


def run_bench(
    pairs: Sequence[LabelledPair],
    out: Path,
    options: BenchOptions | None = None,
    *,
    fetch: FetchOptions | None = None,
    progress: Progress | None = None,
) -> BenchResult:
    """Run methods on labelled pairs; answers already in `out` are taken from there.

    Pairs that are neither related nor independent are run but not counted. Each answer is added to
    ``results.jsonl`` of the folder `out` at once, so that a run that was stopped resumes where it left off.
    Answers of another version, seed, depth or limit are recomputed.
    """
    options = options or BenchOptions()
    methods, fetch = bench_methods(options.methods), fetch or FetchOptions()
    found: dict[int, tuple[BenchRow, ...] | Unavailable] = {}
    with ExitStack() as stack:
        controls: Sequence[Model] = ()
        if any(_ranks(name) for name in methods):
            controls = stack.enter_context(open_models(options.controls, fetch, progress=progress))
            read_headers(controls)
        work = _Work(
            options=options,
            methods=methods,
            controls=tuple(controls),
            fetch=fetch,
            out=out,
            kept=_kept_rows(out / KEPT),
            progress=progress or Silent(),
            total=len(pairs),
        )
        pool = stack.enter_context(ThreadPoolExecutor(options.side_by_side))
        running = {pool.submit(work.pair, pair): place for place, pair in enumerate(pairs)}
        try:
            for future in as_completed(running):
                found[running[future]] = future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    listed = [found[place] for place in sorted(found)]
    rows = tuple(row for item in listed if not isinstance(item, Unavailable) for row in item)
    result = BenchResult(
        pairs=len(pairs),
        rows=rows,
        unavailable=tuple(item for item in listed if isinstance(item, Unavailable)),
        options=options,
        modelkin=__version__,
        bytes_read=work.spent,
    )
    return with_rates(result)


def with_rates(result: BenchResult) -> BenchResult:
    """Return a result with the rates that follow from its rows."""
    by_method: dict[str, list[Scored]] = {}
    for row in result.rows:
        by_method.setdefault(row.method, []).append(
            Scored(
                group=row.pair.group,
                truth=row.pair.truth,
                score=row.score,
                says=row.says,
                n_bytes=max(row.bytes_read),
                seconds=row.seconds,
            )
        )
    rates = (rates_of(name, rows, seed=result.options.seed) for name, rows in by_method.items())
    return replace(result, rates=tuple(rates))


@dataclass(slots=True, kw_only=True)
class _Work:
    options: BenchOptions
    methods: tuple[str, ...]
    controls: tuple[Model, ...]
    fetch: FetchOptions
    out: Path
    kept: dict[str, BenchRow]
    progress: Progress
    total: int
    of_controls: RunMemory = field(default_factory=RunMemory)
    controls_paid: bool = False
    spent: int = 0
    done: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def pair(self, pair: LabelledPair) -> tuple[BenchRow, ...] | Unavailable:
        """Answer for one pair, or say why it was not obtained."""
        keys = {name: self._key(pair, name) for name in self.methods}
        missing = [name for name, key in keys.items() if key not in self.kept]
        made: dict[str, BenchRow] = {}
        if missing:
            try:
                with open_models((pair.candidate, pair.base), self.fetch) as (candidate, base):
                    read_headers((candidate, base))
                    refused = self._paid(candidate, base, missing)
                    if refused is not None:
                        return self._missing(pair, refused)
                    for row in self._answers(pair, candidate, base, missing, keys):
                        made[row.method] = self._added(row)
            except ModelkinError as error:
                return self._missing(pair, told(error))
        self._counted()
        # A pair may be listed twice, by two benchmarks with two labels.
        return tuple(
            replace(made[name] if name in made else self.kept[keys[name]], pair=pair) for name in self.methods
        )

    def _missing(self, pair: LabelledPair, reason: Message) -> Unavailable:
        self._counted()
        return Unavailable(pair=pair, reason=reason)

    def _counted(self) -> None:
        with self.lock:
            self.done += 1
            self.progress.note(say("step-bench", n=self.done, m=self.total))

    def _answers(
        self,
        pair: LabelledPair,
        candidate: Model,
        base: Model,
        missing: Sequence[str],
        keys: dict[str, str],
    ) -> Iterator[BenchRow]:
        if OURS in missing:
            own = _own_row(pair, candidate, base, self.options, key=keys[OURS], fetch=self.fetch)
            self._also_spent(sum(own.bytes_read) - self._own_price(candidate, base))
            yield own
        published = tuple(name for name in missing if name != OURS)
        asked = ReferenceOptions(
            methods=published,
            byte_limit=self.options.method_bytes,
            seed=self.options.seed,
            prompts=self.options.prompts,
        )
        for score in each_reference_score(
            candidate, base, asked, controls=self.controls, of_controls=self.of_controls
        ):
            yield BenchRow(
                key=keys[score.method],
                pair=pair,
                method=score.method,
                version=score.version,
                score=score.score,
                says=score.says,
                bytes_read=score.bytes_read,
                seconds=score.seconds,
                reason=score.reason,
            )

    def _paid(self, candidate: Model, base: Model, methods: Sequence[str]) -> Message | None:
        """Reserve the bytes of a pair, or say that too few are left."""
        price = sum(self._prices(candidate, base, methods))
        ranks = any(_ranks(name) for name in methods)
        with self.lock:
            budget = self.options.byte_budget
            if ranks and not self.controls_paid:
                price += sum(model.index.n_bytes for model in self.controls)
            if budget is not None and self.spent + price > budget:
                return say("bench-budget", n=price, m=max(0, budget - self.spent))
            self.spent += price
            self.controls_paid = self.controls_paid or ranks
        return None

    def _prices(self, candidate: Model, base: Model, methods: Sequence[str]) -> Iterator[int]:
        if OURS in methods:
            yield self._own_price(candidate, base)
        published = [name for name in methods if name != OURS]
        limit = self.options.method_bytes
        for cost in reference_costs(candidate, base, published, seed=self.options.seed).values():
            if not isinstance(cost, Message) and (limit is None or max(cost) <= limit):
                yield sum(cost)

    def _own_price(self, candidate: Model, base: Model) -> int:
        """Price our own comparison: the sampled rows. What is read of relatives later is not known yet."""
        ceiling = READING[self.options.depth][0]
        sizes = [model.index.n_bytes for model in (candidate, base)]
        return sum(size if self.options.depth == "full" else min(size, ceiling) for size in sizes)

    def _also_spent(self, n_bytes: int) -> None:
        """Count what a pair took beyond its price, so that later pairs keep to the budget."""
        with self.lock:
            self.spent += max(0, n_bytes)

    def _key(self, pair: LabelledPair, method: str) -> str:
        options = self.options
        if method == OURS:
            facts: tuple[object, ...] = (__version__, _own_version(), options.depth)
        else:
            card = load_reference(method).card
            facts = (card.version, options.method_bytes)
            if card.needs == "running":
                facts += (options.prompts,)
            if _ranks(method):
                facts += (options.controls,)
        whole = json.dumps([pair.candidate, pair.base, method, options.seed, *facts])
        return hashlib.sha256(whole.encode()).hexdigest()[:24]

    def _added(self, row: BenchRow) -> BenchRow:
        with self.lock:
            try:
                self.out.mkdir(parents=True, exist_ok=True)
                with (self.out / KEPT).open("ab+") as file:
                    line = (dumps(plain(row), indent=None) + "\n").encode()
                    file.write(line if _ends_a_line(file) else b"\n" + line)
            except OSError as error:
                raise not_written(str(self.out), say("part.an-answer"), error) from error
            self.kept[row.key] = row
        return row


def _ranks(method: str) -> bool:
    """Say whether a method ranks a pair among controls."""
    return method != OURS and load_reference(method).uses_controls


def _ends_a_line(file: BinaryIO) -> bool:
    """Say whether the file ends with a complete line; otherwise the next one would be lost too."""
    if file.seek(0, os.SEEK_END) == 0:
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _own_version() -> str:
    return "+".join(card.version for card in load_cards().values())


def _own_row(
    pair: LabelledPair, candidate: Model, base: Model, options: BenchOptions, *, key: str, fetch: FetchOptions
) -> BenchRow:
    begun = time.perf_counter()
    result = compare(
        candidate=candidate,
        base=base,
        options=CompareOptions(depth=options.depth, seed=options.seed, fetch=fetch),
    )
    seconds = time.perf_counter() - begun
    related = result.verdict.related
    says: Published | None = None if related is None else "related" if related else "unrelated"
    read = {"candidate": 0, "base": 0}
    for item in result.ledger.files:
        read[item.model] += item.n_bytes
    return BenchRow(
        key=key,
        pair=pair,
        method=OURS,
        version=__version__,
        score=_own_score(result),
        says=says,
        bytes_read=(read["candidate"], read["base"]),
        seconds=seconds,
        reason=result.verdict.summary if related is None else None,
    )


def _own_score(result: Comparison) -> float | None:
    verdict = result.verdict
    if verdict.related is None:
        return None
    if verdict.log10_p is None:
        return _SAME_BYTES if verdict.related else 0.0
    return -verdict.log10_p + 0.0


def _kept_rows(path: Path) -> dict[str, BenchRow]:
    """Read the answers of earlier runs; a line cut off when a run was stopped is recomputed."""
    if not path.exists():
        return {}
    return {row.key: row for row in _read_lines(path.read_text(encoding="utf-8").splitlines())}


def _read_lines(lines: Iterable[str]) -> Iterator[BenchRow]:
    reader = Reader(KEPT)
    for line in lines:
        try:
            yield reader.record(BenchRow, parse(line, KEPT), "")
        except FormatError:
            continue
