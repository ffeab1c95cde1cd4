"""From the result of a test on an axis to evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from modelkin.stats import AxisTest, DetectionLimit, NotTestable, detection_limit_of

from ._interface import Method
from ._result import Effect, Evidence

N_PERMUTATIONS = 9_999
"""Drawn orders of each test. Below p = 10^-4 the rigorous tail bound takes over, so ten times as many would
take four times as long and change no verdict."""


def as_evidence(
    method: Method,
    result: AxisTest | NotTestable,
    *,
    layers: tuple[int, ...] = (),
    role: str | None = None,
    details: Mapping[str, float | int | str] | None = None,
) -> Evidence:
    """Dress a result with what the method knows about it."""
    if isinstance(result, NotTestable):
        return method.skip(result.reason, layers=layers, role=role)
    limit = detection_limit_of(result) if result.standard_error > 0 else None
    return replace(
        method.blank(),
        role=role,
        layers=layers,
        statistic=result.statistic,
        z=result.z,
        log10_p=result.log10_p,
        log10_p_extrapolated=result.log10_p_extrapolated,
        effect=Effect(
            value=result.effect,
            low=result.interval.low,
            high=result.interval.high,
            level=result.interval.level,
        ),
        n=result.n_units,
        n_features=result.n_features,
        n_matched=result.n_matched,
        detection_limit=limit.effect if isinstance(limit, DetectionLimit) else None,
        flags=result.flags,
        details=dict(details or {}),
    )
