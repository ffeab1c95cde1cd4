"""All measures, by name. What a user can ask for, in the order in which it is shown."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from modelkin.errors import UsageError

from . import _functions as of
from ._measure import USELESS, Measure
from ._stack import Fault

_ANGLE, _LENGTH, _SHARE = (-1.0, 1.0), (0.0, None), (0.0, 1.0)


def _measure(
    name: str,
    title: str,
    bounds: tuple[float, float | None],
    function: of.Function,
    expectation: of.Expectation,
    *,
    refuses: Fault = Fault.NONE,
    aliases: tuple[str, ...] = (),
    symmetric: bool = True,
) -> Measure:
    return Measure(
        name=name,
        title=title,
        symmetric=symmetric,
        low=bounds[0],
        high=bounds[1],
        refuses=USELESS | refuses,
        function=function,
        expectation=expectation,
        aliases=aliases,
    )


_ALL = (
    _measure("cosine", "cosine", _ANGLE, of.cosine, of.cosine_expectation, refuses=Fault.ZERO),
    _measure(
        "mean-direction",
        "rho x rho",
        _ANGLE,
        of.mean_direction,
        of.unchanged(of.mean_direction),
        refuses=Fault.ZERO,
        aliases=("rho",),
    ),
    _measure(
        "pearson",
        "r",
        _ANGLE,
        of.pearson,
        of.correlation_expectation,
        refuses=Fault.CONSTANT,
        aliases=("centred-cosine", "centered-cosine", "r"),
    ),
    _measure(
        "excess-cosine", "excess", _ANGLE, of.excess_cosine, of.excess_expectation, refuses=Fault.CONSTANT
    ),
    _measure("spearman", "rank r", _ANGLE, of.spearman, of.correlation_expectation, refuses=Fault.CONSTANT),
    _measure(
        "cosine-about-1",
        "cos about 1",
        _ANGLE,
        of.cosine_about_one,
        of.about_one_expectation,
        refuses=Fault.ALL_ONE,
    ),
    _measure("l2", "L2", _LENGTH, of.l2, of.l2_expectation),
    _measure(
        "relative-l2",
        "L2 / |a|",
        _LENGTH,
        of.relative_l2,
        of.relative_l2_expectation,
        refuses=Fault.ZERO,
        aliases=("rel-l2", "relative-rmse", "rel-rmse"),
        symmetric=False,
    ),
    _measure(
        "relative-l2-symmetric",
        "L2 / mean length",
        (0.0, 2.0),
        of.symmetric_l2,
        of.symmetric_l2_expectation,
        refuses=Fault.ZERO,
        aliases=("rel-l2-symmetric",),
    ),
    _measure(
        "mean-absolute-difference",
        "mean |a - b|",
        _LENGTH,
        of.mean_absolute_difference,
        of.mean_absolute_expectation,
        aliases=("mean-abs-diff",),
    ),
    _measure(
        "p99-difference",
        "p99 diff",
        _LENGTH,
        of.p99_difference,
        of.unchanged(of.p99_difference),
        aliases=("p99-abs-diff",),
    ),
    _measure(
        "cv-difference",
        "CV diff",
        _LENGTH,
        of.cv_difference,
        of.unchanged(of.cv_difference),
        refuses=Fault.MEAN_NEAR_ZERO,
        aliases=("cv-diff",),
    ),
    _measure(
        "changed-share", "changed", _SHARE, of.changed_share, of.changed_expectation, aliases=("changed",)
    ),
    Measure(
        name="mean-ulps",
        title="mean ulps",
        low=1.0,
        refuses=USELESS | Fault.NO_STEPS,
        same_format=True,
        undefined="measure-none-differs",
        function=of.mean_ulps,
        aliases=("ulps",),
    ),
    Measure(
        name="max-ulps",
        title="max ulps",
        low=0.0,
        refuses=USELESS | Fault.NO_STEPS,
        same_format=True,
        function=of.max_ulps,
    ),
    Measure(
        name="byte-identity",
        title="identical",
        low=0.0,
        high=1.0,
        refuses=Fault.EMPTY,
        same_format=True,
        function=of.byte_identity,
        aliases=("identical",),
    ),
)

MEASURES: Mapping[str, Measure] = MappingProxyType({measure.name: measure for measure in _ALL})
"""Name -> measure."""
BESIDE_COSINE = ("cosine", "mean-direction", "pearson")
"""What is always shown together: a cosine alone misleads."""
DEFAULT = (*BESIDE_COSINE, "excess-cosine", "spearman")

_ALIASES = {alias: measure.name for measure in _ALL for alias in measure.aliases}


def find_measure(name: str) -> Measure:
    """Return a measure by its name or an alias of it; underscores count as dashes.

    Raises
    ------
    UsageError
        There is none of this name.
    """
    wanted = name.strip().lower().replace("_", "-")
    wanted = _ALIASES.get(wanted, wanted)
    if wanted in MEASURES:
        return MEASURES[wanted]
    close = difflib.get_close_matches(wanted, [*MEASURES, *_ALIASES], n=1)
    raise UsageError(
        "measure",
        f"there is none called {name[:60]!r}; there are {', '.join(MEASURES)}",
        hint=f"Did you mean {close[0]!r}?" if close else None,
    )


def chosen_measures(names: Iterable[str]) -> tuple[Measure, ...]:
    """Return measures in the order of the registry, each once; ``all`` stands for all of them.

    Wherever the cosine is asked for, its decomposition comes with it.
    """
    wanted: set[str] = set()
    for name in names:
        found = set(MEASURES) if name.strip().lower() == "all" else {find_measure(name).name}
        wanted |= found | (set(BESIDE_COSINE) if found & {"cosine", "cosine-about-1"} else set())
    return tuple(measure for measure in _ALL if measure.name in wanted)
