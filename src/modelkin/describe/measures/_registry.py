"""All measures, by name. What a user can ask for, in the order in which it is shown."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from modelkin.errors import UsageError

from . import _distance as distance
from . import _equality as equality
from . import _similarity as similarity
from ._measure import Expectation, Function, Measure
from ._pairs import Pairs
from ._stack import Fault, Floats, Stack

_USELESS = Fault.EMPTY | Fault.NOT_FINITE
_PLACES = "It compares value by value: two models that number their units differently look unrelated."
_SCALE = "It mostly says that two models have different scales, which training and format change freely."


def _same(function: Function) -> Expectation:
    """Make the expectation of a measure that no reordering changes."""

    def expectation(a: Stack, b: Stack, pairs: Pairs) -> tuple[Floats, Floats | None]:
        return similarity.unchanged(function(a, b, pairs))

    return expectation


_ALL = (
    Measure(
        name="cosine",
        title="cosine",
        meaning="Cosine of the angle between two vectors of values.",
        cannot_say="Nothing about kinship: vectors of positive values are near 1 whoever made them.",
        low=-1.0,
        high=1.0,
        refuses=_USELESS | Fault.ZERO,
        function=similarity.cosine,
        expectation=similarity.cosine_expectation,
    ),
    Measure(
        name="mean-direction",
        title="rho x rho",
        meaning="The part of the cosine that the two means make: its exact mean over all reorderings.",
        cannot_say="Nothing about places: no reordering changes it.",
        low=-1.0,
        high=1.0,
        refuses=_USELESS | Fault.ZERO,
        function=similarity.mean_direction,
        expectation=_same(similarity.mean_direction),
        aliases=("rho",),
    ),
    Measure(
        name="pearson",
        title="r",
        meaning="Pearson's correlation, which is the cosine after each mean is taken away.",
        cannot_say=_PLACES + " Some outliers can dominate it, and layers of one model are correlated.",
        low=-1.0,
        high=1.0,
        refuses=_USELESS | Fault.CONSTANT,
        function=similarity.pearson,
        expectation=similarity.correlation_expectation,
        aliases=("centred-cosine", "centered-cosine", "r"),
    ),
    Measure(
        name="excess-cosine",
        title="excess",
        meaning="Cosine minus rho x rho: what agreement of values in the same places adds.",
        cannot_say="Small where rho is near 1, even for a true copy: compare it with the room 1 - rho x rho.",
        low=-1.0,
        high=1.0,
        refuses=_USELESS | Fault.CONSTANT,
        function=similarity.excess_cosine,
        expectation=similarity.excess_expectation,
    ),
    Measure(
        name="spearman",
        title="rank r",
        meaning="Correlation of the ranks: outliers count no more than other values.",
        cannot_say=_PLACES,
        low=-1.0,
        high=1.0,
        refuses=_USELESS | Fault.CONSTANT,
        function=similarity.spearman,
        expectation=similarity.correlation_expectation,
    ),
    Measure(
        name="cosine-about-1",
        title="cos about 1",
        meaning="Cosine after one, where gains begin, is taken from every value.",
        cannot_say="Its sign is that of both means minus one: it swings from -1 to 1 without any kinship.",
        low=-1.0,
        high=1.0,
        refuses=_USELESS | Fault.ALL_ONE,
        function=similarity.cosine_about_one,
        expectation=similarity.about_one_expectation,
    ),
    Measure(
        name="l2",
        title="L2",
        meaning="Length of the difference of two vectors.",
        cannot_say=_SCALE,
        low=0.0,
        function=distance.l2,
        expectation=distance.l2_expectation,
    ),
    Measure(
        name="relative-l2",
        title="L2 / |a|",
        meaning="Length of the difference over the length of the first vector (of model a).",
        cannot_say=_SCALE,
        symmetric=False,
        low=0.0,
        refuses=_USELESS | Fault.ZERO,
        function=distance.relative_l2,
        expectation=distance.relative_l2_expectation,
        aliases=("rel-l2", "relative-rmse", "rel-rmse"),
    ),
    Measure(
        name="relative-l2-symmetric",
        title="L2 / mean length",
        meaning="Length of the difference over the mean of both lengths.",
        cannot_say=_SCALE,
        low=0.0,
        high=2.0,
        refuses=_USELESS | Fault.ZERO,
        function=distance.symmetric_l2,
        expectation=distance.symmetric_l2_expectation,
        aliases=("rel-l2-symmetric",),
    ),
    Measure(
        name="mean-absolute-difference",
        title="mean |a - b|",
        meaning="Mean of the absolute differences of values.",
        cannot_say=_SCALE,
        low=0.0,
        function=distance.mean_absolute_difference,
        expectation=distance.mean_absolute_expectation,
        aliases=("mean-abs-diff",),
    ),
    Measure(
        name="p99-difference",
        title="p99 diff",
        meaning="Difference of the 99th percentiles of the absolute values.",
        cannot_say="Nothing about places: no reordering changes it. " + _SCALE,
        low=0.0,
        function=distance.p99_difference,
        expectation=_same(distance.p99_difference),
        aliases=("p99-abs-diff",),
    ),
    Measure(
        name="cv-difference",
        title="CV diff",
        meaning="Difference of the coefficients of variation; refused where a mean is near zero.",
        cannot_say="Nothing about places: no reordering changes it.",
        low=0.0,
        refuses=_USELESS | Fault.MEAN_NEAR_ZERO,
        function=distance.cv_difference,
        expectation=_same(distance.cv_difference),
        aliases=("cv-diff",),
    ),
    Measure(
        name="changed-share",
        title="changed",
        meaning="Share of places with different values.",
        cannot_say="Where training acted: a coarse format hides small changes of large values.",
        low=0.0,
        high=1.0,
        function=equality.changed_share,
        expectation=equality.changed_expectation,
        aliases=("changed",),
    ),
    Measure(
        name="mean-ulps",
        title="mean ulps",
        meaning="Mean number of steps of the stored format between values that differ.",
        cannot_say="How far training moved a value: at one step it is the resolution that is seen.",
        low=1.0,
        refuses=_USELESS | Fault.NO_STEPS,
        same_format=True,
        undefined="no value differs",
        function=equality.mean_ulps,
        aliases=("ulps",),
    ),
    Measure(
        name="max-ulps",
        title="max ulps",
        meaning="Largest number of steps of the stored format between values in the same place.",
        cannot_say="Anything about the other values.",
        low=0.0,
        refuses=_USELESS | Fault.NO_STEPS,
        same_format=True,
        function=equality.max_ulps,
    ),
    Measure(
        name="byte-identity",
        title="identical",
        meaning="1 if every bit of what was compared is the same, else 0.",
        cannot_say="Anything by a 0: one changed bit makes it. Nor by a 1 where values are constant.",
        low=0.0,
        high=1.0,
        refuses=Fault.EMPTY,
        same_format=True,
        function=equality.byte_identity,
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
