"""What must be true of verdicts on one pair: a deeper look and the other direction change no finding.

``python -m tests.comparison.consistency`` (``make consistency``) looks at all pairs of the zoo, in an hour or
so; `tests.comparison.test_consistency` at some of them. Each pair is a line of ``.cache/consistency.jsonl``:
a stopped run goes on where it was.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor

from tests.comparison.strangers import lineages, strangers
from tests.places import ROOT, ZOO
from tests.scale.record import code_digest

import modelkin as mk
from modelkin.comparison.verdict import Conclusion, Verdict
from modelkin.comparison.verdict.pattern import UNITS
from modelkin.options import Depth

DEPTHS: tuple[Depth, ...] = ("quick", "standard", "deep")
KEPT = ROOT / ".cache" / "consistency.jsonl"
Names = tuple[str, str]


def relatives() -> list[Names]:
    """Return all pairs of models of one lineage."""
    return [pair for members in lineages().values() for pair in itertools.combinations(members, 2)]


def all_pairs() -> list[Names]:
    """Return all pairs of the zoo, relatives first."""
    return [*relatives(), *((pair.candidate, pair.base) for pair in strangers())]


def judged(candidate: str, base: str, depth: Depth) -> Verdict:
    """Compare two models of the zoo."""
    options = mk.CompareOptions(depth=depth, fetch=mk.FetchOptions(use_store=False))
    return mk.compare(candidate=str(ZOO / candidate), base=str(ZOO / base), options=options).verdict


def problems(pair: Names) -> list[str]:
    """Judge a pair at every depth and in both directions; an empty list is right, every line is an error."""
    ways = {names: {depth: judged(*names, depth) for depth in DEPTHS} for names in (pair, (pair[1], pair[0]))}
    found = [f"{names[0]} ~ {names[1]}: {line}" for names, way in ways.items() for line in _grown(way)]
    here, there = ways.values()
    for depth in DEPTHS:
        one, other = _told(here[depth]), _told(there[depth])
        differs = sorted(name for name in one.keys() & other.keys() if one[name] != other[name])
        found += [
            f"{pair[0]} ~ {pair[1]} at {depth}: {name} is {one[name]}, the other way round {other[name]}"
            for name in differs
        ]
    found += [
        f"{pair[0]} ~ {pair[1]} at {depth}: {here[depth].conclusion.value}, "
        f"the other way round {there[depth].conclusion.value}"
        for depth in DEPTHS
        if here[depth].conclusion is not there[depth].conclusion
    ]
    return found


def _told(verdict: Verdict) -> dict[str, str | bool | None]:
    """Return what a verdict says besides its conclusion: its reading, and whether what was tested is shared.

    The candidate says what units are called where one model has experts and the other none. What is settled
    by other tests is not looked for, and may be untested one way round.
    """
    told: dict[str, str | bool | None] = {"reading": verdict.reading}
    for name, item in verdict.components.items():
        if item.conclusion.related is not None:
            called = "units" if name in UNITS else name
            told[called] = item.conclusion.related or bool(told.get(called))
    return told


def _grown(way: Mapping[Depth, Verdict]) -> Iterator[str]:
    """Yield what a deeper look retracted, or enlarged without finding more."""
    for shallow, deep in itertools.pairwise(DEPTHS):
        before, after = way[shallow], way[deep]
        if after.conclusion is Conclusion.IDENTICAL:
            continue
        for name, item in before.components.items():
            if item.conclusion is Conclusion.NO_EVIDENCE and not _kept(name, after):
                yield f"{name} has no evidence at {shallow}, and {deep} does not say so"
        partial = before.conclusion is Conclusion.SHARED_PARTIAL
        if partial and after.conclusion is Conclusion.SHARED and not _found(after) - _found(before):
            yield f"in part at {shallow}, all of it at {deep}, and nothing new was found"


def _kept(name: str, after: Verdict) -> bool:
    """Say whether a component without evidence stays so, was found, or is named as tested elsewhere."""
    item = after.components[name]
    if item.conclusion is not Conclusion.NOT_TESTABLE:
        return True
    changed = after.conclusion is Conclusion.SHARED_REPARAMETRISED
    return changed and "the old coordinates" in str(after.summary) and name in str(after.summary)


def _found(verdict: Verdict) -> set[tuple[str, int | None]]:
    """Return what is shared: components, and the layers of them where these are told apart."""
    return {
        (name, layer)
        for name, item in verdict.components.items()
        if item.conclusion.related
        for layer in (*item.layers, None)
    }


def main() -> int:
    """Look at all pairs and print what is wrong."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--relatives", action="store_true", help="pairs of one lineage only")
    parser.add_argument("--every", type=int, default=1, help="look at every Nth pair")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    chosen = parser.parse_args()
    pairs = (relatives() if chosen.relatives else all_pairs())[:: chosen.every]
    found = _found_before()
    left = [pair for pair in pairs if pair not in found]
    KEPT.parent.mkdir(exist_ok=True)
    with ProcessPoolExecutor(chosen.jobs) as pool, KEPT.open("a") as kept:
        for pair, lines in zip(left, pool.map(problems, left), strict=True):
            found[pair] = lines
            print(json.dumps({"code": code_digest(), "pair": pair, "problems": lines}), file=kept, flush=True)
            for line in lines:
                print(line, flush=True)
    wrong = sum(bool(found[pair]) for pair in pairs)
    print(f"{len(pairs)} pairs, {2 * len(DEPTHS) * len(pairs)} comparisons, {wrong} pairs with problems")
    return int(wrong > 0)


def _found_before() -> dict[Names, list[str]]:
    """Return what this code has found before."""
    lines = KEPT.read_text().splitlines() if KEPT.is_file() else []
    rows = [json.loads(line) for line in lines]
    return {(*row["pair"],): row["problems"] for row in rows if row["code"] == code_digest()}


if __name__ == "__main__":
    sys.exit(main())
