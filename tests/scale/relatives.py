"""Relatives at realistic widths: one row compared, checked against the truth, and recorded."""

from __future__ import annotations

import time

from tests.comparison.expectations import compared, outcome, problems, without_exact_test
from tests.comparison.relation import Relation, forget_built
from tests.scale.record import Kept, record
from tests.scale.surveyed import methods_of

_NARROW = ("width 96", "width 256")
"""Models of which the deep stage matches all layers."""


def measure(relation: Relation) -> Kept:
    """Compare the models of a row at deep depth; what is not as it should be is among its problems."""
    began = time.process_time()
    candidate, base = relation.candidate(), relation.base()
    made = time.process_time()
    result = compared(relation, dtype="BF16")
    width, _, kind = relation.name.partition(": ")
    found, how = problems(relation, result, read_whole=width in _NARROW), outcome(result)
    if how not in (("own-layers", "exact") if without_exact_test(relation) else ("exact",)):
        found.append(f"it was found by {how}, and an exact test was possible")
    del candidate, base
    return record(
        "relatives",
        name=relation.name,
        width=width,
        kind=kind,
        outcome=how,
        conclusion=result.verdict.conclusion.value,
        log10_p=result.verdict.log10_p,
        problems=found,
        methods=methods_of(result.evidence),
        making_seconds=made - began,
        cpu_seconds=time.process_time() - began,
    )


def measured_alone(relation: Relation) -> Kept:
    """Compare the models of a row and forget them: large ones are a gigabyte or two each."""
    try:
        return measure(relation)
    finally:
        forget_built()
