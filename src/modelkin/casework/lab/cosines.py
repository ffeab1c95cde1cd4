"""The cosine study: independent normal vectors, drawn and in closed form, next to published norm gains.

For ``a = m + s g`` with independent standard normal g the direction ``a / |a|`` has its mean along the vector
of ones. So the mean of a cosine is the product of two numbers, one for each vector, and neither depends on
the other vector: a cosine of 0.99 needs no relation.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

import numpy as np
import numpy.typing as npt

from modelkin.errors import UsageError
from modelkin.message import Message, say
from modelkin.stats import limit_cosine, positive_share

_BLOCK: Final = 1 << 21
"""Values drawn at a time."""
PUBLISHED_WIDTH: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineStudyOptions:
    """What is drawn."""

    means: tuple[tuple[float, float], ...] = ((0.1, 0.5), (0.5, 1.0), (1.0, 2.0))
    sigmas: tuple[float, ...] = (1.0, 0.75, 0.5, 0.25, 0.1)
    """Of the first vectors."""
    ratios: tuple[float, ...] = (1.0, 0.25, 4.0)
    """Sigma of the second vectors over that of the first."""
    dimensions: tuple[int, ...] = (64, 512, 4096)
    pairs: int = 10_000
    """Drawn for each dimension."""
    seed: int = 42

    def __post_init__(self) -> None:
        if not (self.means and self.sigmas and self.ratios and self.dimensions):
            raise UsageError("cosines", say("problem.one-of-each"))
        if min(*self.sigmas, *self.ratios, 1.0) <= 0:
            raise UsageError("cosines", say("problem.sigmas-ratios"))
        if min(self.dimensions) < 2 or self.pairs < 2:
            raise UsageError("cosines", say("problem.two-dimensions"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnCosines:
    """Cosines of many pairs of one kind, next to what they should be."""

    mean_1: float
    mean_2: float
    sigma_1: float
    sigma_2: float
    dimension: int
    pairs: int
    cosine: float
    """Mean over the pairs."""
    spread: float
    """Standard deviation over the pairs."""
    least: float
    largest: float
    exact: float
    """Expected mean in this dimension."""
    exact_spread: float
    limit: float
    """Expected mean of very long vectors: m1 m2 / (sqrt(m1^2 + s1^2) sqrt(m2^2 + s2^2))."""
    positive_1: float
    """Share of positive values of the first vectors."""
    positive_2: float
    exact_positive_1: float
    exact_positive_2: float

    @property
    def error(self) -> float:
        """Difference of the drawn mean from the exact one, in its standard errors."""
        return (self.cosine - self.exact) / (self.exact_spread / math.sqrt(self.pairs))


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCosine:
    """A published pair of norm gains, next to normal vectors with the same means and deviations."""

    layer: int
    norm: str
    mean_a: float
    std_a: float
    mean_b: float
    std_b: float
    cosine: float
    pearson: float
    expected: float
    """Cosine of independent normal vectors with these means and deviations."""

    @property
    def excess(self) -> float:
        """What the two models have in common beyond their means."""
        return self.cosine - self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineStudy:
    """The whole study."""

    options: CosineStudyOptions
    cells: tuple[DrawnCosines, ...]
    published: tuple[PublishedCosine, ...]
    conclusion: tuple[Message, ...]
    """Derived from the numbers above."""
    limits: tuple[Message, ...]


def cosine_study(options: CosineStudyOptions | None = None) -> CosineStudy:
    """Draw independent normal vectors and compare their cosines with the closed forms.

    All kinds of one dimension use the same standard normal draws, scaled and shifted: their errors are
    correlated. Different dimensions are drawn independently.
    """
    options = options or CosineStudyOptions()
    cells = tuple(cell for dimension in options.dimensions for cell in _cells(options, dimension))
    published = published_cosines()
    return CosineStudy(
        options=options,
        cells=cells,
        published=published,
        conclusion=_conclusion(cells, published),
        limits=(say("cosines.not-normal"), say("cosines.common-draws")),
    )


def published_cosines() -> tuple[PublishedCosine, ...]:
    """Return published statistics of the norm gains of two models with 4096 dimensions, with expectations.

    Some layers of Solar-Open-100B (a) and GLM-4.5-Air (b), as published in January 2026.
    """
    text = files(__package__).joinpath("data", "published_norms.csv").read_text(encoding="utf-8")
    found = []
    for row in csv.DictReader(text.splitlines()):
        number = {key: float(value) for key, value in row.items() if key not in ("layer", "norm")}
        found.append(
            PublishedCosine(
                layer=int(row["layer"]),
                norm=row["norm"],
                **number,
                expected=exact_cosine(
                    means=(number["mean_a"], number["mean_b"]),
                    sigmas=(number["std_a"], number["std_b"]),
                    dimension=PUBLISHED_WIDTH,
                ).mean,
            )
        )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Sums:
    """The sums over standard normal pairs that give the cosine of any scaled and shifted ones."""

    first: npt.NDArray[np.float64]
    second: npt.NDArray[np.float64]
    first_squares: npt.NDArray[np.float64]
    second_squares: npt.NDArray[np.float64]
    products: npt.NDArray[np.float64]


def _cells(options: CosineStudyOptions, dimension: int) -> Iterator[DrawnCosines]:
    kinds = [
        (m1, m2, s1, s1 * ratio)
        for ratio in options.ratios
        for m1, m2 in options.means
        for s1 in options.sigmas
    ]
    above_1 = {m1 / s1: 0 for m1, _, s1, _ in kinds}
    above_2 = {m2 / s2: 0 for _, m2, _, s2 in kinds}
    parts: list[_Sums] = []
    rng = np.random.default_rng([options.seed, dimension])
    step = max(1, _BLOCK // dimension)
    for start in range(0, options.pairs, step):
        x, y = (rng.standard_normal((min(step, options.pairs - start), dimension)) for _ in range(2))
        parts.append(
            _Sums(
                x.sum(1),
                y.sum(1),
                np.einsum("ij,ij->i", x, x),
                np.einsum("ij,ij->i", y, y),
                np.einsum("ij,ij->i", x, y),
            )
        )
        for values, counts in ((x, above_1), (y, above_2)):
            for threshold in counts:
                counts[threshold] += int(np.count_nonzero(values > -threshold))
    sums = _Sums(*(np.concatenate([getattr(part, name) for part in parts]) for name in _Sums.__slots__))
    size = options.pairs * dimension
    for m1, m2, s1, s2 in kinds:
        cosines = _cosines(sums, dimension, means=(m1, m2), sigmas=(s1, s2))
        exact = exact_cosine(means=(m1, m2), sigmas=(s1, s2), dimension=dimension)
        yield DrawnCosines(
            mean_1=m1,
            mean_2=m2,
            sigma_1=s1,
            sigma_2=s2,
            dimension=dimension,
            pairs=options.pairs,
            cosine=float(cosines.mean()),
            spread=float(cosines.std(ddof=1)),
            least=float(cosines.min()),
            largest=float(cosines.max()),
            exact=exact.mean,
            exact_spread=exact.spread,
            limit=limit_cosine(means=(m1, m2), sigmas=(s1, s2)),
            positive_1=above_1[m1 / s1] / size,
            positive_2=above_2[m2 / s2] / size,
            exact_positive_1=positive_share(m1, s1),
            exact_positive_2=positive_share(m2, s2),
        )


def _cosines(
    sums: _Sums, n: int, *, means: tuple[float, float], sigmas: tuple[float, float]
) -> npt.NDArray[np.float64]:
    """Return the cosines of ``m + s z`` from the sums of z."""
    (m1, m2), (s1, s2) = means, sigmas
    dots = n * m1 * m2 + m1 * s2 * sums.second + m2 * s1 * sums.first + s1 * s2 * sums.products
    first = n * m1 * m1 + 2 * m1 * s1 * sums.first + s1 * s1 * sums.first_squares
    second = n * m2 * m2 + 2 * m2 * s2 * sums.second + s2 * s2 * sums.second_squares
    return np.asarray(dots / np.sqrt(first * second))


def _conclusion(
    cells: tuple[DrawnCosines, ...], published: tuple[PublishedCosine, ...]
) -> tuple[Message, ...]:
    highest = max(cells, key=lambda cell: cell.cosine)
    positive = max(
        max(abs(c.positive_1 - c.exact_positive_1), abs(c.positive_2 - c.exact_positive_2)) for c in cells
    )
    cosines = [row.cosine for row in published]
    worst = max(published, key=lambda row: abs(row.excess))
    return (
        say(
            "cosines.independent",
            kinds=len(cells),
            lowest=min(cell.cosine for cell in cells),
            highest=highest.cosine,
            mean_1=highest.mean_1,
            mean_2=highest.mean_2,
            sigma_1=highest.sigma_1,
            sigma_2=highest.sigma_2,
        ),
        say(
            "cosines.closed-form",
            gap=max(abs(cell.cosine - cell.exact) for cell in cells),
            errors=max(abs(cell.error) for cell in cells),
            positive=positive,
        ),
        say(
            "cosines.published",
            pairs=len(published),
            size=abs(worst.excess),
            least=min(cosines),
            most=max(cosines),
            excess=worst.excess,
            layer=worst.layer,
            norm=say(f"which-norm.{worst.norm}"),
        ),
    )


# -- the closed form -----------------------------------------------------------------------------------


_NODES = 400
_REACH = 12.0
"""Standard deviations over which the integrands are integrated; beyond, they are below 1e-31."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactCosine:
    """The cosine of two independent normal vectors."""

    mean: float
    spread: float
    """Standard deviation over pairs."""


def exact_cosine(*, means: tuple[float, float], sigmas: tuple[float, float], dimension: int) -> ExactCosine:
    """Return mean and standard deviation of the cosine of two independent normal vectors.

    With t the length of the mean vector over sigma, ``sqrt(d) m / s``, the mean direction has the length::

        c(t) = t sqrt(2 / pi) * integral over x from 0 to 1 of exp(-t^2 x^2 / 2) (1 - x^2)^((d - 1) / 2)

    and the mean square of the part along the ones is ``p(t) = 1 - q(t)`` with::

        q(t) = (d - 1) * integral over x from 0 to 1 of x exp(-t^2 x^2 / 2) (1 - x^2)^(d / 2 - 1)

    The cosine has the mean ``c1 c2`` and the mean square ``p1 p2 + q1 q2 / (d - 1)``. Sigmas are positive,
    and d is at least 2.
    """
    if dimension < 2 or min(sigmas) <= 0:
        raise UsageError("cosine", say("problem.sigmas", sigmas=str(sigmas), dimension=dimension))
    lengths = [math.sqrt(dimension) * m / s for m, s in zip(means, sigmas, strict=True)]
    first, second = (_mean_direction(abs(t), dimension) for t in lengths)
    across_1, across_2 = (_across(abs(t), dimension) for t in lengths)
    mean = math.copysign(first, lengths[0]) * math.copysign(second, lengths[1])
    # Two numbers near 1 are subtracted: spreads below 1e-7 have no digits left, and no study needs them.
    along = (1 - across_1) * (1 - across_2) - mean * mean
    return ExactCosine(mean=mean, spread=math.sqrt(max(0.0, along + across_1 * across_2 / (dimension - 1))))


def _mean_direction(t: float, dimension: int) -> float:
    x, weights = _grid(t, dimension)
    values = np.exp(-0.5 * (t * x) ** 2 + 0.5 * (dimension - 1) * np.log1p(-x * x))
    return t * math.sqrt(2 / math.pi) * float(weights @ values)


def _across(t: float, dimension: int) -> float:
    """Return the mean square of a unit vector's component orthogonal to the ones."""
    x, weights = _grid(t, dimension)
    values = x * np.exp(-0.5 * (t * x) ** 2 + (0.5 * dimension - 1) * np.log1p(-x * x))
    return (dimension - 1) * float(weights @ values)


def _grid(t: float, dimension: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return nodes and weights over the part of 0 to 1 where the integrands are not zero."""
    end = min(1.0, _REACH / math.sqrt(t * t + max(1, dimension - 2)))
    nodes, weights = _legendre()
    return end * (nodes + 1) / 2, end * weights / 2


@cache
def _legendre() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights
