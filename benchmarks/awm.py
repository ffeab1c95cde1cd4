"""AWM, phi_U and modelkin on the truth table of kinship: ``python -m benchmarks.awm [--write FILE]``.

Every method judges the same pairs in one run: rows of `tests.comparison.relations`, and pairs of strangers,
plain and disguised. modelkin gets the controls of the truth table, for relatives and strangers. AWM and phi_U
get the published threshold, and the best they can have here: the strongest stranger of a calibration half;
AWM also one for each kind of base. Lineages, not pairs, are split into halves, so that no model is in both.

AWM's constants come from models of 7 and 13 billion weights. Small models have few columns to match and
score higher by chance: the published level here says how far it carries, not how AWM does on large models.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.awm_cases import Case, all_cases
from benchmarks.awm_own import OwnVerdict, kept_verdicts, modelkin_verdict
from benchmarks.awm_score import WEAKEST_CHILD, AwmScore, PhiU, Skipped, awm, phi_u
from benchmarks.tables import Table, replace_section
from modelkin.casework.lab.checkpoint import Checkpoint

LOG10_P = -6.0
"""The threshold of modelkin's rule and of our reading of phi_U."""

FEWEST_STRANGERS = 20
"""This many pairs of the calibration half must include a model of a kind for it to have its own threshold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the methods said about one case."""

    case: Case
    awm: AwmScore | Skipped
    phi_u: PhiU | Skipped
    own: bool | Skipped | None
    """None if modelkin was not asked."""
    kinds: tuple[str, str]
    """Family, width and tied embeddings or not, of candidate and base."""


def judge(cases: Sequence[Case], own: OwnVerdict | None = None) -> list[Outcome]:
    """Run all methods on every case."""
    return [Outcome(case=case, **_answers(case, own)) for case in cases]


def _answers(case: Case, own: OwnVerdict | None) -> dict[str, Any]:
    candidate, base = case.models()
    asked = case.related or case.half == 1
    return {
        "awm": awm(candidate, base),
        "phi_u": phi_u(candidate, base),
        "own": own(case, candidate, base) if own is not None and asked else None,
        "kinds": (kind_of(candidate), kind_of(base)),
    }


def judge_all(
    depth: str, *, most: int | None, kept: Path | None, processes: int, say: Callable[[str], object]
) -> list[Outcome]:
    """Run all methods on the whole truth table; report progress now and then."""
    cases = all_cases(most)
    outcomes: list[Outcome] = []
    with ProcessPoolExecutor(processes) as pool:
        answers = pool.map(partial(_answers_at, depth, most, kept), range(len(cases)), chunksize=4)
        for case, found in zip(cases, answers, strict=True):
            outcomes.append(Outcome(case=case, **found))
            if len(outcomes) % 100 == 0:
                say(f"{len(outcomes)} of {len(cases)} pairs")
    return outcomes


def _answers_at(depth: str, most: int | None, kept: Path | None, place: int) -> dict[str, Any]:
    own = None if depth == "none" else modelkin_verdict(depth, {} if kept is None else kept_verdicts(kept))
    return _answers(all_cases(most)[place], own)


def kind_of(model: Checkpoint) -> str:
    """Return the properties by which a user of AWM would choose strangers."""
    width = model.config.get("hidden_size", model.config.get("n_embd"))
    return f"{model.family} {width}{' tied' if model.config.get('tie_word_embeddings') else ''}"


def awm_strength(outcome: Outcome) -> float | None:
    """Return AWM's score, None if there is none."""
    return None if isinstance(outcome.awm, Skipped) else outcome.awm.score


def phi_u_strength(outcome: Outcome) -> float | None:
    """Return minus log10 p of phi_U, None if there is none."""
    return None if isinstance(outcome.phi_u, Skipped) else -outcome.phi_u.log10_p


Strength = Callable[[Outcome], float | None]


def threshold(outcomes: Sequence[Outcome], strength: Strength) -> float:
    """Return the strength of the strongest stranger of the calibration half: a hit must exceed it."""
    found = _calibration(outcomes, strength)
    if not found:
        raise ValueError("no stranger of the calibration half has a score")
    return max(value for _, value in found)


def thresholds_by_kind(outcomes: Sequence[Outcome], strength: Strength) -> dict[str, float]:
    """Return the same for each kind of which there are enough strangers, on either side."""
    found = _calibration(outcomes, strength)
    by_kind = {
        kind: [value for kinds, value in found if kind in kinds]
        for kind in {kind for kinds, _ in found for kind in kinds}
    }
    return {kind: max(values) for kind, values in by_kind.items() if len(values) >= FEWEST_STRANGERS}


def _calibration(outcomes: Sequence[Outcome], strength: Strength) -> list[tuple[tuple[str, str], float]]:
    return [
        (outcome.kinds, value)
        for outcome in outcomes
        if not outcome.case.related and outcome.case.half == 0
        if (value := strength(outcome)) is not None
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A method with a threshold: whether it accuses; None if it says nothing."""

    name: str
    accuses: Callable[[Outcome], bool | None] = field(repr=False)


def rules(outcomes: Sequence[Outcome]) -> tuple[Rule, ...]:
    """Return the published and the calibrated rules of the others, and modelkin's if it was asked."""
    awm_above, phi_above = (threshold(outcomes, strength) for strength in (awm_strength, phi_u_strength))

    by_kind = thresholds_by_kind(outcomes, awm_strength)

    def exceeds(
        strength: Callable[[Outcome], float | None], least: float
    ) -> Callable[[Outcome], bool | None]:
        def accuses(outcome: Outcome) -> bool | None:
            value = strength(outcome)
            return None if value is None else value > least

        return accuses

    def by_kind_of_base(outcome: Outcome) -> bool | None:
        return exceeds(awm_strength, by_kind.get(outcome.kinds[1], awm_above))(outcome)

    def by_z(outcome: Outcome) -> bool | None:
        return None if isinstance(outcome.awm, Skipped) else outcome.awm.absolute_z >= WEAKEST_CHILD

    def by_own(outcome: Outcome) -> bool | None:
        return outcome.own if isinstance(outcome.own, bool) else None

    found = [
        Rule(name=f"AWM, score > {awm_above:.3f}", accuses=exceeds(awm_strength, awm_above)),
        Rule(name="AWM, calibrated for the base", accuses=by_kind_of_base),
        Rule(name=f"AWM, \\|z\\| ≥ {WEAKEST_CHILD}", accuses=by_z),
        Rule(name=f"phi_U, p < {10**-phi_above:.1g}", accuses=exceeds(phi_u_strength, phi_above)),
        Rule(name="phi_U, p < 1e-06", accuses=exceeds(phi_u_strength, -LOG10_P)),
    ]
    if any(outcome.own is not None for outcome in outcomes):
        found.append(Rule(name="modelkin", accuses=by_own))
    return tuple(found)


def table(outcomes: Sequence[Outcome]) -> Table:
    """Count hits by group, then false alarms on the strangers that set no threshold."""
    columns = rules(outcomes)
    counted = [outcome for outcome in outcomes if outcome.case.related or outcome.case.half == 1]
    groups: dict[str, list[Outcome]] = {}
    for outcome in sorted(counted, key=lambda outcome: not outcome.case.related):
        groups.setdefault(outcome.case.group, []).append(outcome)
    sums = {
        "**all relatives: found**": [outcome for outcome in counted if outcome.case.related],
        "**all strangers: accused**": [outcome for outcome in counted if not outcome.case.related],
    }
    rows = [[name, *(_share(rule, members) for rule in columns)] for name, members in (groups | sums).items()]
    return Table(["pairs", *(rule.name for rule in columns)], rows)


def summary(outcomes: Sequence[Outcome]) -> Table:
    """Count hits and false alarms of each method: the sums of `table`, a row for each method."""
    relatives = [outcome for outcome in outcomes if outcome.case.related]
    strangers = [outcome for outcome in outcomes if not outcome.case.related and outcome.case.half == 1]
    rows = [[rule.name, _share(rule, relatives), _share(rule, strangers)] for rule in rules(outcomes)]
    return Table(["method", "relatives found", "strangers accused"], rows)


def _share(rule: Rule, members: Sequence[Outcome]) -> str:
    answers = [rule.accuses(outcome) for outcome in members]
    silent = answers.count(None)
    if silent == len(answers):
        return "-"
    return f"{answers.count(True)} of {len(answers)}" + (f" ({silent} silent)" if silent else "")


def main() -> None:
    """Judge all pairs and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.awm", description=__doc__)
    parser.add_argument("--depth", default="deep", help="of modelkin's comparison; none to leave it out")
    parser.add_argument("--strangers", type=int, metavar="N", help="pairs that count; all by default")
    parser.add_argument(
        "--kept", type=Path, metavar="FILE", help="verdicts of `make disguises` at depth deep"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--misses", action="store_true", help="also list what each method got wrong")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the sums into this document")
    asked = parser.parse_args()
    outcomes = judge_all(
        asked.depth,
        most=asked.strangers,
        kept=asked.kept,
        processes=asked.processes,
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    text = table(outcomes).markdown()
    print(text, summary(outcomes).markdown(), sep="\n\n")
    if asked.misses:
        print("\n".join(misses(outcomes)))
    if asked.write is not None:
        replace_section(asked.write, "rivals", summary(outcomes).markdown())


def misses(outcomes: Sequence[Outcome]) -> list[str]:
    """Return a line for every relative a method missed and every stranger it accused."""
    return [
        f"{rule.name}: {'missed' if outcome.case.related else 'accused'} {outcome.case.name}"
        for rule in rules(outcomes)
        for outcome in outcomes
        if outcome.case.related or outcome.case.half == 1
        if rule.accuses(outcome) is (not outcome.case.related)
    ]


if __name__ == "__main__":
    main()
