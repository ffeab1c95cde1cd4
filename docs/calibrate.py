"""Compares every pair of the zoo and writes what came out: ``make calibrate``, some minutes.

Writes the tables of ``docs/verdicts.md`` and the QQ plot ``docs/calibration.svg``.
"""

from __future__ import annotations

import math
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tests.comparison.zoo_pairs import derived_pairs, independent_pairs, members  # noqa: E402

from modelkin import CompareOptions, compare  # noqa: E402
from modelkin.comparison.methods import Tested, load_cards  # noqa: E402

PAGE = ROOT / "docs" / "verdicts.md"
SEEDS = (0, 1)
_WIDTH, _HEIGHT, _MARGIN = 560, 420, 54


@dataclass(frozen=True)
class Outcome:
    """What one comparison said, as far as the tables need it."""

    candidate: str
    base: str
    conclusion: str
    log10_p: float | None
    effect: float | None
    shared: tuple[str, ...]
    other: tuple[str, ...]
    tests: tuple[tuple[str, float, float], ...]
    """(method, z, log10 p) of each test."""


def run(job: tuple[str, str, int]) -> Outcome:
    """Compare one pair with one seed."""
    candidate, base, seed = job
    result = compare(
        candidate=members()[candidate].path, base=members()[base].path, options=CompareOptions(seed=seed)
    )
    verdict = result.verdict
    return Outcome(
        candidate=candidate,
        base=base,
        conclusion=verdict.conclusion.value,
        log10_p=verdict.log10_p,
        effect=verdict.effect.value if verdict.effect else None,
        shared=tuple(n for n, part in verdict.components.items() if part.conclusion.related),
        other=tuple(n for n, part in verdict.components.items() if part.conclusion.related is False),
        tests=tuple(
            (test.method, test.z, test.log10_p)
            for test in result.evidence
            if isinstance(test, Tested) and test.z is not None
        ),
    )


def calibration_table(outcomes: list[Outcome]) -> str:
    """Summarise the tests of strangers, by method."""
    rows = [
        "| method | tests | mean z | sd z | largest \\|z\\| | p ≤ 0.05 | p ≤ 0.01 | p ≤ 0.001 | smallest p |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for method in load_cards():
        found = [(z, p) for outcome in outcomes for name, z, p in outcome.tests if name == method]
        if not found:
            continue
        z = [value for value, _ in found]
        p = [value for _, value in found]
        n = len(found)
        mean = math.fsum(z) / n
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in z) / n)
        shares = [sum(value <= math.log10(level) for value in p) / n for level in (0.05, 0.01, 0.001)]
        largest = max(map(abs, z))
        rows.append(
            f"| {method} | {n} | {mean:+.2f} | {spread:.2f} | {largest:.2f} | "
            + " | ".join(f"{share:.4f}" for share in shares)
            + f" | {10 ** min(p):.1e} |"
        )
    accused = sum(outcome.conclusion not in ("no-evidence", "not-testable") for outcome in outcomes)
    pairs = len({(outcome.candidate, outcome.base) for outcome in outcomes})
    rows.append("")
    rows.append(
        f"{pairs} pairs of independently trained models, {len(SEEDS)} seeds each: {len(outcomes)} "
        f"comparisons, **{accused} false accusations**. `log10_p` may be conservative (it is a Bonferroni "
        "combination of four valid p-values), never the other way."
    )
    return "\n".join(rows)


def relation_table(outcomes: list[Outcome]) -> str:
    """List the verdicts on derived models."""
    relation = {(child, parent): kind for child, parent, kind in derived_pairs()}
    rows = [
        "| candidate | base | truth | conclusion | log10 p | effect | shared | no evidence in |",
        "| --- | --- | --- | --- | ---: | ---: | --- | --- |",
    ]
    for outcome in outcomes:
        p = "" if outcome.log10_p is None else f"{outcome.log10_p:.0f}"
        effect = "" if outcome.effect is None else f"{outcome.effect:.2f}"
        truth = relation[outcome.candidate, outcome.base]
        rows.append(
            f"| {outcome.candidate} | {outcome.base} | {truth} | {outcome.conclusion} | {p} | {effect} | "
            f"{', '.join(outcome.shared)} | {', '.join(outcome.other)} |"
        )
    return "\n".join(rows)


def qq_plot(outcomes: list[Outcome]) -> str:
    """Draw the z of strangers against a normal distribution, one colour per method."""
    import statistics

    normal = statistics.NormalDist()
    colours = ("#1b6ca8", "#c8553d", "#3a7d44", "#8e5ea2", "#b8860b", "#2f4f4f", "#d1495b")
    span = 4.0

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            _MARGIN + (x + span) / (2 * span) * (_WIDTH - 2 * _MARGIN),
            _HEIGHT - _MARGIN - (y + span) / (2 * span) * (_HEIGHT - 2 * _MARGIN),
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        'font-size="12" role="img" aria-label="QQ plot: z of unrelated models against a normal law">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
    ]
    left, bottom = place(-span, -span)
    right, top = place(span, span)
    parts.append(
        f'<path d="M{left:.1f} {bottom:.1f} L{right:.1f} {top:.1f}" stroke="#888" stroke-dasharray="4 3"/>'
    )
    for tick in range(-4, 5):
        x, _ = place(tick, 0)
        _, y = place(0, tick)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18:.1f}" text-anchor="middle">{tick}</text>')
        parts.append(f'<text x="{left - 10:.1f}" y="{y + 4:.1f}" text-anchor="end">{tick}</text>')
        parts.append(f'<path d="M{x:.1f} {bottom:.1f} V{top:.1f}" stroke="#eee"/>')
        parts.append(f'<path d="M{left:.1f} {y:.1f} H{right:.1f}" stroke="#eee"/>')
    drawn = 0
    for method, colour in zip(load_cards(), colours, strict=False):
        z = sorted(value for outcome in outcomes for name, value, _ in outcome.tests if name == method)
        if not z:
            continue
        for rank, value in enumerate(z):
            x, y = place(normal.inv_cdf((rank + 0.5) / len(z)), max(-span, min(span, value)))
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="{colour}" fill-opacity="0.6"/>')
        label = top + 14 + 16 * drawn
        parts.append(f'<circle cx="{left + 14:.1f}" cy="{label - 4:.1f}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{left + 24:.1f}" y="{label:.1f}">{method} ({len(z)})</text>')
        drawn += 1
    middle = (left + right) / 2
    parts.append(
        f'<text x="{middle:.1f}" y="{_HEIGHT - 12}" text-anchor="middle">expected of a normal law</text>'
    )
    parts.append(
        f'<text x="16" y="{(top + bottom) / 2:.1f}" text-anchor="middle" '
        f'transform="rotate(-90 16 {(top + bottom) / 2:.1f})">measured z</text>'
    )
    parts.append("</svg>\n")
    return "\n".join(parts)


def written(text: str, name: str, content: str) -> str:
    """Put content between the markers of a part."""
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{content}\n{end}{after}"


def main() -> int:
    """Compare everything and write the page."""
    with ProcessPoolExecutor(2) as pool:
        strangers = list(pool.map(run, [(a, b, seed) for a, b in independent_pairs() for seed in SEEDS]))
        relatives = list(pool.map(run, [(child, parent, 0) for child, parent, _ in derived_pairs()]))
    (ROOT / "docs" / "calibration.svg").write_text(qq_plot(strangers))
    text = written(PAGE.read_text(), "calibration", calibration_table(strangers))
    PAGE.write_text(written(text, "relations", relation_table(relatives)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
