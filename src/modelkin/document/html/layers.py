"""The figures of layers: what is shared, and curves of every test along the depth with what chance gives."""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.comparison import Comparison
from modelkin.document.language import Language
from modelkin.document.views.states import layer_states
from modelkin.figures.theme import SERIES

from .layer_map import layer_map
from .markup import Html, element, joined
from .scales import MEASURES, LayerMeasure, ticks
from .series import Series, layer_series, n_layers, point_note


def layer_figures(result: Comparison, language: Language) -> Html:
    """Draw the layer map and the curves, below a choice of measure and role."""
    if not layer_states(result):
        return element("p", language.say("text.no_layer_tests"))
    series = layer_series(result)
    about = language.say("text.about_layer_map")
    parts = [_tools(series, language), element("h3", language.say("title.layer_map"))]
    parts.append(_figure(about, layer_map(result, series, language), language))
    if series:
        parts.append(element("h3", language.say("title.curves")))
        parts.append(_figure(language.say("text.about_curves"), curves(result, series, language), language))
    return joined(parts)


def _figure(caption: str, drawn: Html, language: Language) -> Html:
    hint = element("output", language.say("text.hint"), class_="readout", aria_live="polite")
    return element("figure", element("figcaption", caption), drawn, hint)


def _tools(series: tuple[Series, ...], language: Language) -> Html:
    """Choose measure and role. Shown only where the script runs."""
    keys = ["shared", *(MEASURES if series else ())]
    measures = [element("option", language.say(f"measure.{key}"), value=key) for key in keys]
    roles = [element("option", language.say("text.all_roles"), value="")]
    roles += [element("option", item.name, value=item.name) for item in series]
    return element(
        "form",
        element("label", language.say("label.measure"), " ", element("select", *measures, name="measure")),
        element("label", language.say("label.role"), " ", element("select", *roles, name="role")),
        class_="tools",
    )


_WIDTH, _HEIGHT = 900.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 54.0, 12.0, 12.0, 34.0
_N_COLOURS = len(SERIES)
_CHANCE_Z = 1.96
DRAWN = ("effect", "z", "log10_p")


def curves(result: Comparison, series: tuple[Series, ...], language: Language) -> Html:
    """Draw one picture for each measure; the page shows one of them."""
    made = [
        element(
            "div",
            element("div", _picture(result, series, MEASURES[key], language), class_="scroll"),
            _remark(key, language),
            class_="panel",
            data_measure=key,
            hidden=key != DRAWN[0],
        )
        for key in DRAWN
    ]
    return joined([*made, _legend(series)])


def _remark(key: str, language: Language) -> Html | None:
    texts = {"z": "text.chance_z", "log10_p": "text.threshold_p"}
    return element("p", language.say(texts[key]), class_="note") if key in texts else None


def _legend(series: tuple[Series, ...]) -> Html:
    items = [
        element(
            "li",
            element(
                "svg",
                element("circle", cx=7, cy=7, r=5, class_=f"{_dot(number)} s{number % _N_COLOURS}"),
                width=14,
                height=14,
                aria_hidden="true",
            ),
            element("bdi", item.name),
        )
        for number, item in enumerate(series)
    ]
    return element("ul", *items, class_="legend")


def _dot(number: int) -> str:
    """Return the class of a mark: hollow once colours repeat."""
    return "dot" if number < _N_COLOURS else "dot hollow"


class _Axes:
    """From layer and value to a position in the picture."""

    def __init__(
        self, measure: LayerMeasure, series: tuple[Series, ...], count: int, threshold: float | None
    ) -> None:
        self.measure = measure
        self.count = max(2, count)
        found = [
            measure.value(test) for item in series for tests in item.tests.values() for test in tests[:1]
        ]
        values = [value for value in found if value is not None]
        if measure.key == "effect":
            lows = [test[0].effect.low for item in series for test in item.tests.values()]
            # A quarter leaves room for intervals around chance; what goes further gets the whole scale.
            self.low, self.high = (-1.0 if min(lows, default=0.0) < -0.25 else -0.25), 1.0
        else:
            self.low = min([0.0, *values]) if measure.key == "log10_p" else min([-4.0, *values])
            self.high = max([4.0, threshold or 0.0, *values]) * 1.15

    def x(self, layer: float) -> float:
        return _LEFT + (layer + 0.5) / self.count * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        place = self.measure.place
        share = (place(min(self.high, max(self.low, value))) - place(self.low)) / (
            place(self.high) - place(self.low)
        )
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _picture(
    result: Comparison, series: tuple[Series, ...], measure: LayerMeasure, language: Language
) -> Html:
    count = n_layers(result)
    needed = result.environment.thresholds.get("log10_p")
    threshold = -needed if needed is not None and measure.key == "log10_p" else None
    axes = _Axes(measure, series, count, threshold)
    parts = [*_grid(axes, count), *_chance(axes, threshold)]
    shift = min(0.12, 0.7 / max(1, len(series)))
    for number, item in enumerate(series):
        offset = (number - (len(series) - 1) / 2) * shift
        inside = _curve(item, number, axes, offset, language)
        parts.append(element("g", *inside, data_series=item.name, class_=f"s{number % _N_COLOURS}"))
    label = f"{language.say('title.curves')}: {language.say(f'measure.{measure.key}')}"
    return element(
        "svg",
        *parts,
        class_="probe curves",
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        role="img",
        tabindex=0,
        aria_label=label,
    )


def _grid(axes: _Axes, count: int) -> Iterator[Html]:
    for value in ticks(axes.measure, axes.low, axes.high):
        y = axes.y(value)
        yield element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="grid")
        yield element("text", f"{value:g}", x=_LEFT - 8, y=y + 4, text_anchor="end", class_="tick")
    room = (_WIDTH - _LEFT - _RIGHT) / axes.count
    every = next(step for step in (1, 2, 4, 5, 10, 20, 50, 100, 1000) if room * step >= 24)
    for layer in range(0, count, every):
        yield element(
            "text", str(layer), x=axes.x(layer), y=_HEIGHT - 12, text_anchor="middle", class_="tick"
        )


def _chance(axes: _Axes, threshold: float | None) -> Iterator[Html]:
    lines = [(0.0, "chance-line")]
    if axes.measure.key == "z":
        lines += [(_CHANCE_Z, "thin"), (-_CHANCE_Z, "thin")]
    if threshold is not None:
        lines.append((threshold, "thin"))
    for value, kind in lines:
        y = axes.y(value)
        yield element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_=kind)


def _curve(item: Series, number: int, axes: _Axes, offset: float, language: Language) -> Iterator[Html]:
    points = []
    for layer, tests in item.tests.items():
        value = axes.measure.value(tests[0])
        if value is not None:
            points.append((layer, tests[0], axes.x(layer + offset), axes.y(value)))
    if len(points) > 1:
        yield element(
            "polyline", points=" ".join(f"{x:.1f},{y:.1f}" for _, _, x, y in points), class_="curve"
        )
    for layer, test, x, y in points:
        if axes.measure.key == "effect":
            ends = axes.y(test.effect.low), axes.y(test.effect.high)
            yield element("line", x1=x, x2=x, y1=ends[0], y2=ends[1], class_="interval")
            if test.detection_limit is not None and test.detection_limit <= 1:
                yield element(
                    "path", d=f"M{x - 4:.1f} {axes.y(test.detection_limit):.1f}h8", class_="found-from"
                )
        note = point_note(item, layer, language)
        yield element(
            "circle",
            element("title", note),
            cx=x,
            cy=y,
            r=4.5,
            class_=_dot(number),
            data_note=note,
            data_x=layer,
            data_y=number,
        )
