"""Bars and points that compare a few numbers, each beside what it should be by chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from modelkin.errors import UsageError
from modelkin.figures._figure import Axis, Figure, Panel
from modelkin.figures._inputs import at_zero
from modelkin.figures._marks import Bars, BarSeries, Mark, ReferenceLine, Scatter, Text
from modelkin.figures._style import EXPECTATION, NULL, Style, Styles, complete
from modelkin.figures._values import Numbers, Series, brief, known, mean, numbers, spread

EXPECTED = "expected if shuffled"


def type_summary(
    values: Mapping[str, Series],
    expected: Mapping[str, float | None],
    *,
    measure: str,
    names: tuple[str, str],
) -> Figure:
    """Draw the mean of a measure for each kind of tensor, beside its expectation."""
    means = tuple(mean(numbers(sample)) for sample in values.values())
    sides = [spread(numbers(sample)) for sample in values.values()]
    low = tuple(None if m is None or s is None else m - s for m, s in zip(means, sides, strict=True))
    high = tuple(None if m is None or s is None else m + s for m, s in zip(means, sides, strict=True))
    observed = BarSeries(name=f"mean {measure}", values=means, low=low, high=high, style=Style(tone="blue"))
    chance = BarSeries(
        name=EXPECTED, values=tuple(expected.get(kind) for kind in values), style=NULL, role="expectation"
    )
    return Figure(
        title=f"{names[0]} and {names[1]}: mean {measure} by kind of tensor",
        panels=(
            Panel(
                title="",
                marks=(Bars(labels=tuple(values), series=(observed, chance), digits=3),),
                y=Axis(label=measure),
                height=3.0,
            ),
        ),
        note="Whiskers: standard deviation over layers, which depend on each other.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One bar of an argument: a cosine, what shuffling would give, and whether it served as the baseline."""

    label: str
    cosine: float
    expected: float
    pearson: float | None = None
    baseline: bool = False


def claimed_evidence(claims: Sequence[Claim], *, spread_of_cosine: float | None = None) -> Figure:
    """Draw a claim that rests on cosines, and its refutation beside it: the same bars with their expectation.

    Parameters
    ----------
    spread_of_cosine
        Standard deviation by which the claim divides its difference; the claimed number of sigmas is
        computed from it and shown as the claim that it is.
    """
    base = [item.cosine for item in claims if item.baseline]
    main = [item.cosine for item in claims if not item.baseline]
    if not base or not main:
        raise UsageError("claimed_evidence", "expected at least one baseline and one other bar")
    gap = (mean(main) or 0.0) - (mean(base) or 0.0)
    sigmas = f", “{gap / spread_of_cosine:.0f} sigma”" if spread_of_cosine else ""
    labels = tuple(item.label for item in claims)
    expected_gap = (mean([item.expected for item in claims if not item.baseline]) or 0.0) - (
        mean([item.expected for item in claims if item.baseline]) or 0.0
    )
    claim = Panel(
        title="The claim",
        marks=(
            Bars(
                labels=labels,
                digits=3,
                overlaid=True,
                series=(
                    _some("called baseline", claims, Style(tone="muted"), baseline=True),
                    _some("called evidence", claims, Style(tone="rose"), baseline=False),
                ),
            ),
            Text(text=f"difference {gap:.3f}{sigmas}"),
        ),
        y=Axis(label="cosine", low=0.0, high=1.3),
        without_null="this is the claim as it was made; its null is in the next panel",
    )
    answer = Panel(
        title="The same cosines beside their expectation",
        marks=(
            Bars(
                labels=labels,
                digits=3,
                series=(
                    BarSeries(
                        name="cosine", values=numbers(c.cosine for c in claims), style=Style(tone="blue")
                    ),
                    BarSeries(
                        name=EXPECTED,
                        values=numbers(item.expected for item in claims),
                        style=EXPECTATION,
                        role="expectation",
                    ),
                ),
            ),
            Text(text=f"expected difference {expected_gap:.3f}"),
        ),
        y=Axis(label="cosine", low=0.0, high=1.3),
    )
    left = [
        BarSeries(
            name="cosine minus expectation",
            values=numbers(c.cosine - c.expected for c in claims),
            style=Style(tone="blue"),
        )
    ]
    if any(item.pearson is not None for item in claims):
        left.append(
            BarSeries(
                name="correlation (Pearson)",
                values=numbers(c.pearson for c in claims),
                style=Style(tone="orange"),
            )
        )
    rest = Panel(
        title="What is left to explain",
        marks=(at_zero("nothing in common"), Bars(labels=labels, series=tuple(left), digits=3)),
        y=Axis(label="excess", low=-1.0, high=1.0),
    )
    return Figure(
        title="A claim from cosines, and what each cosine is by chance",
        panels=(claim, answer, rest),
        columns=3,
        note=(
            "A cosine of vectors with means far from zero is near the product of their mean directions, "
            "related or not. Only what exceeds it can be evidence."
        ),
    )


def _some(name: str, claims: Sequence[Claim], style: Style, *, baseline: bool) -> BarSeries:
    values = tuple(item.cosine if item.baseline is baseline else None for item in claims)
    return BarSeries(name=name, values=values, style=style, missing="")


def layer_pairs(
    labels: Sequence[str],
    cosines: Mapping[str, Series],
    expected: Mapping[str, Series],
    *,
    title: str,
    zoom: bool = False,
    styles: Styles | None = None,
) -> Figure:
    """Draw cosines of layer pairs within models, each with its expectation.

    Parameters
    ----------
    zoom
        Show the range of the values. They are points then, since bars have to start at zero.
    """
    chosen = complete(styles, cosines)
    if zoom:
        marks: list[Mark] = []
        for i, (model, values) in enumerate(cosines.items()):
            x = numbers(place + 0.16 * (i - (len(cosines) - 1) / 2) for place in range(len(labels)))
            hollow = Style(tone=chosen[model].tone, marker="X")
            chance = numbers(expected[model])
            marks.append(
                Scatter(name=f"{model}: {EXPECTED}", x=x, y=chance, style=hollow, role="expectation")
            )
            marks.append(
                Scatter(name=model, x=x, y=numbers(values), style=Style(tone=chosen[model].tone, marker="o"))
            )
        ticks = tuple((float(place), label) for place, label in enumerate(labels))
        axis = Axis(ticks=ticks, low=-0.5, high=len(labels) - 0.5)
        panel = Panel(title="", marks=tuple(marks), x=axis, y=Axis(label="cosine"), height=3.0)
    else:
        series = []
        for model, values in cosines.items():
            looks = Style(tone=chosen[model].tone, dash="dashed")
            series.append(BarSeries(name=model, values=numbers(values), style=Style(tone=chosen[model].tone)))
            series.append(
                BarSeries(
                    name=f"{model}: {EXPECTED}",
                    values=numbers(expected[model]),
                    style=looks,
                    role="expectation",
                )
            )
        bars = Bars(labels=tuple(labels), series=tuple(series), digits=3)
        panel = Panel(title="", marks=(bars,), y=Axis(label="cosine"), height=3.0)
    return Figure(
        title=title,
        panels=(panel,),
        note="Expected: product of the mean directions of both layers, exactly the mean over all shuffles.",
    )


def group_means(
    groups: Mapping[str, Mapping[str, float | None]],
    expected: Mapping[str, Mapping[str, float | None]],
    *,
    measure: str,
) -> Figure:
    """Draw every pair of each group as a point, the mean of the group, and the mean of what is expected."""
    return Figure(
        title=f"{measure} by group of models",
        panels=(_group_panel("", groups, expected, measure),),
        note="Pairs share models: their spread is no standard error. Known relatives belong to no group.",
    )


def arm_comparison(
    measures: Mapping[str, Mapping[str, Mapping[str, float | None]]],
    expected: Mapping[str, Mapping[str, Mapping[str, float | None]]],
    *,
    title: str,
    note: str = "",
) -> Figure:
    """Draw an experiment with several arms: a panel for each measure, every run of each arm as a point.

    Parameters
    ----------
    measures, expected
        Measure, arm, run: what was measured, and what is expected of unrelated models.
    """
    panels = tuple(
        _group_panel(measure, arms, expected[measure], measure) for measure, arms in measures.items()
    )
    return Figure(title=title, panels=panels, columns=min(3, len(panels)), note=note)


def _group_panel(
    title: str,
    groups: Mapping[str, Mapping[str, float | None]],
    expected: Mapping[str, Mapping[str, float | None]],
    measure: str,
) -> Panel:
    marks: list[Mark] = []
    ticks = []
    for place, (group, pairs) in enumerate(groups.items()):
        values = numbers(pairs.values())
        ticks.append((float(place), f"{group}\nn = {len(known(values))}, mean {brief(mean(values))}"))
        x = numbers(place + 0.24 * ((i * 0.618034) % 1.0 - 0.5) for i in range(len(values)))
        marks.append(Scatter(name="one value", x=x, y=values, style=Style(tone="blue", marker="o")))
        middle = (float(place),)
        marks.append(
            Scatter(name="mean", x=middle, y=(mean(values),), style=Style(tone="orange", marker="D"))
        )
        chance = (mean(expected.get(group, {}).values()),)
        cross = Style(tone="ink", marker="X")
        marks.append(Scatter(name=f"mean {EXPECTED}", x=middle, y=chance, style=cross, role="expectation"))
    axis = Axis(ticks=tuple(ticks), low=-0.5, high=len(groups) - 0.5)
    return Panel(title=title, marks=tuple(marks), x=axis, y=Axis(label=measure), height=3.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Cosine, correlation and expected cosine of one comparison."""

    cosine: float | None
    pearson: float | None
    expected: float | None = None


def measure_comparison(panels: Mapping[str, Mapping[str, Measured]]) -> Figure:
    """Draw cosine, its expectation and correlation side by side, for any groups of comparisons."""
    return Figure(
        title="Cosine, its expectation, and correlation",
        panels=tuple(
            Panel(
                title=title,
                marks=(ReferenceLine(value=0.0, label="correlation by chance", style=NULL), _measured(items)),
                y=Axis(label="similarity"),
                height=3.0,
            )
            for title, items in panels.items()
        ),
        columns=3,
    )


def _measured(items: Mapping[str, Measured]) -> Bars:
    def column(name: str) -> Numbers:
        return numbers(getattr(item, name) for item in items.values())

    return Bars(
        labels=tuple(items),
        digits=2,
        series=(
            BarSeries(name="cosine", values=column("cosine"), style=Style(tone="blue")),
            BarSeries(
                name=f"cosine {EXPECTED}", values=column("expected"), style=EXPECTATION, role="expectation"
            ),
            BarSeries(name="correlation (Pearson)", values=column("pearson"), style=Style(tone="orange")),
        ),
    )
