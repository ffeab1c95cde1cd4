"""All measures, by name. What users can ask for, in display order."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from modelkin.errors import UsageError
from modelkin.message import say

from . import _functions as of
from ._measure import USELESS, Measure
from .stack import Fault

_FLAT, _ZERO, _COARSE = USELESS | Fault.CONSTANT, USELESS | Fault.ZERO, USELESS | Fault.NO_STEPS
_MEAN, _ONE = USELESS | Fault.MEAN_NEAR_ZERO, USELESS | Fault.ALL_ONE
_SAME_DIRECTION, _SAME_P99, _SAME_CV = map(
    of.unchanged, (of.mean_direction, of.p99_difference, of.cv_difference)
)
_ALL = (
    Measure("cosine", of.cosine, of.cosine_expectation, -1.0, 1.0, refuses=_ZERO),
    Measure("mean-direction", of.mean_direction, _SAME_DIRECTION, -1.0, 1.0, refuses=_ZERO),
    Measure("pearson", of.pearson, of.correlation_expectation, -1.0, 1.0, refuses=_FLAT),
    Measure("excess-cosine", of.excess_cosine, of.excess_expectation, -1.0, 1.0, refuses=_FLAT),
    Measure("spearman", of.spearman, of.correlation_expectation, -1.0, 1.0, refuses=_FLAT),
    Measure("cosine-about-1", of.about_one, of.about_one_expectation, -1.0, 1.0, refuses=_ONE),
    Measure("l2", of.l2, of.l2_expectation, 0.0, None),
    Measure(
        "relative-l2",
        of.relative_l2,
        of.relative_expectation,
        0.0,
        None,
        refuses=_ZERO,
        symmetric=False,
    ),
    Measure(
        "relative-l2-symmetric",
        of.symmetric_l2,
        of.symmetric_expectation,
        0.0,
        2.0,
        refuses=_ZERO,
    ),
    Measure("mean-absolute-difference", of.absolute, of.absolute_expectation, 0.0, None),
    Measure("p99-difference", of.p99_difference, _SAME_P99, 0.0, None),
    Measure("cv-difference", of.cv_difference, _SAME_CV, 0.0, None, refuses=_MEAN),
    Measure("changed-share", of.changed_share, of.changed_expectation, 0.0, 1.0),
    Measure(
        "mean-ulps",
        of.mean_ulps,
        None,
        1.0,
        None,
        refuses=_COARSE,
        same_format=True,
        undefined="measure-none-differs",
    ),
    Measure("max-ulps", of.max_ulps, None, 0.0, None, refuses=_COARSE, same_format=True),
    Measure("byte-identity", of.byte_identity, None, 0.0, 1.0, refuses=Fault.EMPTY, same_format=True),
)
_ALIASES = {
    "rho": "mean-direction",
    "centred-cosine": "pearson",
    "centered-cosine": "pearson",
    "r": "pearson",
    "rel-l2": "relative-l2",
    "relative-rmse": "relative-l2",
    "rel-rmse": "relative-l2",
    "rel-l2-symmetric": "relative-l2-symmetric",
    "mean-abs-diff": "mean-absolute-difference",
    "p99-abs-diff": "p99-difference",
    "cv-diff": "cv-difference",
    "changed": "changed-share",
    "ulps": "mean-ulps",
    "identical": "byte-identity",
}
"""Other accepted names."""

MEASURES: Mapping[str, Measure] = MappingProxyType({measure.name: measure for measure in _ALL})
"""Name -> measure."""
BESIDE_COSINE = ("cosine", "mean-direction", "pearson")
"""What is always shown together: a cosine alone misleads."""
DEFAULT = (*BESIDE_COSINE, "excess-cosine", "spearman")


def find_measure(name: str) -> Measure:
    """Return a measure by its name or an alias of it, or `UsageError`; underscores count as dashes."""
    wanted = name.strip().lower().replace("_", "-")
    wanted = _ALIASES.get(wanted, wanted)
    if wanted in MEASURES:
        return MEASURES[wanted]
    close = difflib.get_close_matches(wanted, [*MEASURES, *_ALIASES], n=1)
    raise UsageError(
        "measure",
        say("problem.none-called-known", name=repr(name[:60]), known=", ".join(MEASURES)),
        hint=say("hint.did-you-mean", name=repr(close[0])) if close else None,
    )


def chosen_measures(names: Iterable[str]) -> tuple[Measure, ...]:
    """Return measures in the order of the registry, each once; ``all`` stands for all of them.

    Whenever the cosine is requested, its decomposition comes with it.
    """
    wanted: set[str] = set()
    for name in names:
        found = set(MEASURES) if name.strip().lower() == "all" else {find_measure(name).name}
        wanted |= found | (set(BESIDE_COSINE) if found & {"cosine", "cosine-about-1"} else set())
    return tuple(measure for measure in _ALL if measure.name in wanted)
