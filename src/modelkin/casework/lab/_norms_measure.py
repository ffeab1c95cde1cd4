"""Two trained models: cosines of their gains with what is expected, and exact tests. No torch."""

from __future__ import annotations

import math

from modelkin.comparison import compare
from modelkin.errors import UsageError
from modelkin.options import CompareOptions
from modelkin.source import MemorySource
from modelkin.stats import (
    AxisOptions,
    AxisTest,
    NotTestable,
    axis_test,
    bonferroni,
    cosine_decomposition,
    joint_features,
)

from ._build import gains_of
from ._checkpoint import Checkpoint, Floats
from ._norms_records import GainInit, NormCosine, PairRelation, PairResult, TestResult

__all__ = ["measure_pair", "norm_test", "unit_rows", "unit_test"]


def measure_pair(
    candidate: Checkpoint,
    base: Checkpoint,
    *,
    names: tuple[str, str],
    init: GainInit,
    relation: PairRelation,
    n_permutations: int,
    seed: int,
) -> PairResult:
    """Measure and test two models of one shape.

    Parameters
    ----------
    names
        Of candidate and base.
    init, relation
        What is known about them; it is recorded and not used.
    n_permutations, seed
        Of the exact tests.
    """
    norms = _norm_cosines(candidate, base)
    correlations = [norm.pearson for norm in norms if norm.pearson is not None]
    comparison = compare(
        candidate=MemorySource(candidate.files("F32"), name=names[0]),
        base=MemorySource(base.files("F32"), name=names[1]),
        options=CompareOptions(seed=seed),
    )
    return PairResult(
        init=init,
        relation=relation,
        candidate=names[0],
        base=names[1],
        cosine=_mean([norm.cosine for norm in norms]),
        expected=_mean([norm.expected for norm in norms]),
        pearson=_mean(correlations) if correlations else None,
        norms=norms,
        norm_test=norm_test(candidate, base, n_permutations=n_permutations, seed=seed),
        unit_test=unit_test(candidate, base, n_permutations=n_permutations, seed=seed),
        verdict=comparison.verdict.conclusion.value,
    )


def norm_test(candidate: Checkpoint, base: Checkpoint, *, n_permutations: int, seed: int) -> TestResult:
    """Test whether gains of both models single out the same residual dimensions.

    One order moves all norms together: layers of one model are not independent of each other. Every order is
    equally likely for models initialised independently, as gains begin equal or independently drawn alike.
    """
    mine, theirs = gains_of(candidate), gains_of(base)
    shared = [name for name in mine if name in theirs]
    joint = joint_features(candidate=[mine[n] for n in shared], base=[theirs[n] for n in shared])
    if isinstance(joint, NotTestable):
        return TestResult(log10_p=None, effect=None, reason=str(joint.reason))
    options = AxisOptions(unit_rows=False, n_permutations=n_permutations)
    return _result(
        axis_test(candidate=joint.candidate, base=joint.base, exchangeable=True, seed=seed, options=options)
    )


def unit_test(candidate: Checkpoint, base: Checkpoint, *, n_permutations: int, seed: int) -> TestResult:
    """Test whether MLP units in the same places belong together; the best layer counts, corrected for all."""
    options = AxisOptions(n_permutations=n_permutations)
    tests = [
        axis_test(candidate=mine, base=theirs, exchangeable=True, seed=seed, options=options)
        for mine, theirs in zip(unit_rows(candidate), unit_rows(base), strict=True)
    ]
    made = [test for test in tests if isinstance(test, AxisTest)]
    if not made:
        return TestResult(log10_p=None, effect=None, reason=str(tests[0]))
    return TestResult(
        log10_p=float(bonferroni([test.log10_p for test in made])),
        effect=_mean([test.effect for test in made]),
    )


def unit_rows(checkpoint: Checkpoint) -> list[Floats]:
    """Return what enters each MLP unit, a row for each unit, layer by layer."""
    gated = [array for name, array in checkpoint.tensors.items() if name.endswith("mlp.gate_proj.weight")]
    plain = [array.T for name, array in checkpoint.tensors.items() if name.endswith("mlp.c_fc.weight")]
    if not gated and not plain:
        raise UsageError(checkpoint.family, "expected a Llama or GPT-2 model: no MLP was found")
    return gated or plain


def _norm_cosines(candidate: Checkpoint, base: Checkpoint) -> tuple[NormCosine, ...]:
    theirs = gains_of(base)
    found = []
    for name, gains in gains_of(candidate).items():
        parts = cosine_decomposition(candidate=gains, base=theirs[name])
        found.append(
            NormCosine(
                norm=name, cosine=parts.cosine, expected=parts.mean_direction_part, pearson=parts.pearson
            )
        )
    return tuple(found)


def _result(test: AxisTest | NotTestable) -> TestResult:
    if isinstance(test, NotTestable):
        return TestResult(log10_p=None, effect=None, reason=str(test.reason))
    return TestResult(log10_p=test.log10_p, effect=test.effect)


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)
