"""Two vectors looked at value by value: why a high cosine can mean nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from modelkin.errors import UsageError
from modelkin.figures._figure import Axis, Figure, Panel
from modelkin.figures._inputs import LAYER, at_zero, pearson_chance, words
from modelkin.figures._marks import Bars, BarSeries, Lines, ReferenceLine, Text
from modelkin.figures._style import EXPECTATION, NULL, Style, Styles, complete
from modelkin.figures._values import Series, array, numbers


def intuition(
    a: Series,
    b: Series,
    *,
    names: tuple[str, str],
    layer: int,
    layers: Series,
    cosine: Series,
    pearson: Series,
    expected: Series,
    sample: int = 50,
    seed: int = 42,
    initial: float = 1.0,
    styles: Styles | None = None,
) -> Figure:
    """Draw sampled values of two vectors, the same without their means, and both measures by layer.

    Parameters
    ----------
    a, b
        The vectors of `layer`, whole: means and measures are those of all values, not of the sample.
    expected
        Expected cosine by layer, if one side were shuffled.
    """
    first, second = array(a), array(b)
    if first.shape != second.shape:
        raise UsageError("intuition", "expected two vectors of one length")
    chosen = complete(styles, names)
    picked = sampled_dimensions(first, second, sample, seed)
    cos = float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
    r = float(np.corrcoef(first, second)[0, 1])
    x = numbers(layers)
    band = pearson_chance(first.size)
    here = ReferenceLine(
        value=float(layer),
        axis="x",
        label=f"layer {layer}",
        role="threshold",
        style=Style(tone="gold", dash="dotted"),
    )
    panels = (
        Panel(
            title=f"{len(picked)} of {first.size} values, as stored",
            marks=(
                ReferenceLine(value=initial, label="before training", role="expectation", style=EXPECTATION),
                _bars(names, first[picked], second[picked], chosen),
                Text(text=f"cosine {cos:+.3f}", corner="bottom right"),
            ),
            x=Axis(label="sampled dimension"),
            y=Axis(label="value"),
        ),
        Panel(
            title="The same without the means",
            marks=(
                at_zero("mean of the vector"),
                _bars(names, first[picked] - first.mean(), second[picked] - second.mean(), chosen),
                Text(text=f"Pearson r {r:+.3f}", corner="bottom right"),
            ),
            x=Axis(label="sampled dimension"),
            y=Axis(label="value minus mean"),
        ),
        Panel(
            title="All layers",
            marks=(
                here,
                band.mark(x),
                Lines(name="cosine if shuffled", x=x, y=numbers(expected), style=NULL, role="expectation"),
                Lines(name="cosine", x=x, y=numbers(cosine), style=Style(tone="ink", marker="o")),
                Lines(name="Pearson r", x=x, y=numbers(pearson), style=Style(tone="purple", marker="^")),
            ),
            x=LAYER,
            y=Axis(label="similarity"),
        ),
    )
    return Figure(
        title=f"{names[0]} and {names[1]}, layer {layer}",
        panels=panels,
        columns=3,
        note=(
            "Dimensions are drawn from all quarters of the values, at random within them; "
            "layers, means and measures are of all values."
        ),
    )


def sampled_dimensions(
    first: npt.NDArray[np.float64], second: npt.NDArray[np.float64], sample: int, seed: int
) -> npt.NDArray[np.intp]:
    """Draw dimensions without repetition, equally many of each quarter of the mean of both vectors."""
    order = np.argsort(first + second, kind="stable")
    rng = np.random.default_rng(seed)
    count = min(sample, order.size)
    quarters = np.array_split(order, 4)
    sizes = [count // 4 + (i < count % 4) for i in range(4)]
    drawn = [
        rng.choice(part, min(size, part.size), replace=False)
        for part, size in zip(quarters, sizes, strict=True)
    ]
    return np.sort(np.concatenate(drawn))


def _bars(
    names: tuple[str, str], first: npt.NDArray[np.float64], second: npt.NDArray[np.float64], styles: Styles
) -> Bars:
    return Bars(
        labels=words(range(first.size)),
        series=tuple(
            BarSeries(name=name, values=numbers(values), style=Style(tone=styles[name].tone))
            for name, values in zip(names, (first, second), strict=True)
        ),
        slim=True,
    )
