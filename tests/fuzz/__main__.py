"""Feed mutated inputs to everything that takes foreign input, guided by coverage, for a stated time.

    python -m tests.fuzz --seconds 60

Each input is accepted or refused with an error of our own; anything else is a crash, and what takes longer
than its target's patience a hang. Prints inputs, crashes, hangs, the slowest input and memory of each target;
ends with 1 when there was a crash or a hang, and keeps their inputs.
"""

from __future__ import annotations

import argparse
import logging
import random
import resource
import sys
import time
import warnings
from pathlib import Path

from . import files, texts, wire
from .engine import Outcome, Target, digest, fuzz

TARGETS: tuple[Target, ...] = (*files.TARGETS, *texts.TARGETS, *wire.TARGETS)
CORPUS = Path(__file__).parent / "corpus"
_MOST_MEMORY = 6 << 30
"""Of addresses. An input that asks for more is a crash with MemoryError."""
_COLUMNS = "{:<15} {:>9} {:>8} {:>6} {:>6} {:>7} {:>6} {:>11} {:>9}"


def with_corpus(target: Target, corpus: Path = CORPUS) -> Target:
    """Return a target that begins with the inputs of the repository, too."""
    from dataclasses import replace

    kept = [path.read_bytes() for path in sorted((corpus / target.name).glob("*"))]
    made = target.seeds
    return replace(target, seeds=lambda: [*made(), *kept])


def main(arguments: list[str] | None = None) -> int:
    """Run every target for its share of the time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for all targets together")
    parser.add_argument("--inputs", type=int, default=None, help="most inputs of one target")
    parser.add_argument("--target", action="append", choices=[target.name for target in TARGETS])
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="folder of failing inputs")
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    chosen = [
        with_corpus(target)
        for target in TARGETS
        if options.target in (None, []) or target.name in options.target
    ]
    print(f"seed {seed}, {options.seconds:.0f} s, {len(chosen)} targets, Python {sys.version.split()[0]}")
    print(
        _COLUMNS.format(
            "target", "inputs", "a second", "taken", "lines", "crashes", "hangs", "slowest", "memory"
        )
    )
    began = time.monotonic()
    outcomes: list[Outcome] = []
    for number, target in enumerate(chosen):
        left = max(0.0, options.seconds - (time.monotonic() - began))
        share = target.share / sum(each.share for each in chosen[number:])
        rng = random.Random(f"{seed} {target.name}")
        outcomes.append(fuzz(target, seconds=left * share, rng=rng, most=options.inputs))
        print(_row(outcomes[-1]), flush=True)
    print(_total(outcomes, time.monotonic() - began))
    return _report(outcomes, options.keep)


def _row(found: Outcome) -> str:
    return _COLUMNS.format(
        found.name,
        f"{found.n_inputs:,}",
        f"{found.n_inputs / max(found.seconds, 1e-9):,.0f}",
        f"{found.n_accepted / max(found.n_inputs, 1):.0%}",
        f"{found.n_lines:,}",
        len(found.crashes),
        len(found.hangs),
        f"{found.slowest * 1000:,.0f} ms",
        f"{found.memory >> 20:,} MiB",
    )


def _total(outcomes: list[Outcome], seconds: float) -> str:
    inputs = sum(found.n_inputs for found in outcomes)
    crashes = sum(len(found.crashes) for found in outcomes)
    hangs = sum(len(found.hangs) for found in outcomes)
    slowest = max((found.slowest for found in outcomes), default=0.0)
    memory = max((found.memory for found in outcomes), default=0)
    return (
        f"{inputs:,} inputs in {seconds:,.0f} s: {crashes} crashes, {hangs} hangs, "
        f"slowest {slowest * 1000:,.0f} ms, memory {memory >> 20:,} MiB"
    )


def _report(outcomes: list[Outcome], folder: Path) -> int:
    failed = 0
    for found in outcomes:
        failures = [*found.crashes.items(), *(("hang", data) for data in found.hangs)]
        for what, data in failures:
            failed += 1
            folder.mkdir(parents=True, exist_ok=True)
            place = folder / f"{found.name}-{digest(data)}"
            place.write_bytes(data)
            print(f"\n{found.name}: {what}\n  {data[:200]!r}\n  kept as {place}")
    return 1 if failed else 0


def _bound_process() -> None:
    """Set what holds for a whole process: a test that calls `main` shares its process with others."""
    warnings.simplefilter("error")
    logging.disable(logging.CRITICAL)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, hard))


if __name__ == "__main__":
    _bound_process()
    sys.exit(main())
