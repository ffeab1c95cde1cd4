"""Alt text of figures, made from their data: what is drawn, its range, and what chance gives."""

from __future__ import annotations

from collections.abc import Iterator

from . import marks
from ._figure import Figure, Panel
from ._text import readable
from .clipping import remarks
from .values import Numbers, brief, known, mean


def alt_text(figure: Figure) -> str:
    """Describe a figure in sentences."""
    return readable(" ".join([f"{figure.title.rstrip('.')}.", *(_panel(panel) for panel in figure.panels)]))


def _panel(panel: Panel) -> str:
    parts = [part for mark in panel.marks for part in _mark(mark)]
    head = f"{panel.title}: " if panel.title else ""
    body = "; ".join(parts)
    return " ".join([f"{head}{body.rstrip('.')}.", *remarks(panel)])


def _range(values: Numbers) -> str:
    found = known(values)
    if not found:
        return "nothing measured"
    return f"{brief(min(found))} to {brief(max(found))}, mean {brief(mean(found))}"


def _mark(mark: marks.Mark) -> Iterator[str]:  # noqa: C901  one case for each mark
    match mark:
        case marks.Lines():
            yield f"{mark.name} ({_role(mark.role)}line) {_range(mark.y)}"
        case marks.Bars():
            for bars in mark.series:
                if len(mark.labels) > 12:
                    yield f"{bars.name} (bars) {_range(bars.values)}"
                else:
                    pairs = [
                        (label, value)
                        for label, value in zip(mark.labels, bars.values, strict=True)
                        if value is not None or bars.missing
                    ]
                    each = (f"{label} {brief(v) if v is not None else bars.missing}" for label, v in pairs)
                    yield f"{bars.name}: {', '.join(each)}"
        case marks.HeatMap():
            cells = tuple(value for row in mark.values for value in row)
            yield (
                f"matrix of {len(mark.values)} by {len(mark.columns)}, {mark.scale.label} {_range(cells)}"
                f"{_on_path(mark)}{_chance(mark.scale.chance, mark.scale.chance_label)}"
            )
        case marks.Histogram():
            yield f"{mark.name} ({_role(mark.role)}histogram of {sum(known(mark.counts)):.0f} values)"
        case marks.Scatter():
            yield f"{mark.name}: {len(mark.x)} points, {_range(mark.y)}"
        case marks.Ridges():
            yield f"{mark.name}: densities of {len(mark.rows)} rows"
        case marks.Intervals():
            for label, value, low, high in zip(mark.labels, mark.values, mark.low, mark.high, strict=True):
                told = brief(value) if low is None else f"{brief(value)} ({brief(low)} to {brief(high)})"
                yield f"{label} {told}"
        case marks.ReferenceLine():
            yield f"{_role(mark.role)}line: {mark.label} at {brief(mark.value)}"
        case marks.Trajectory3D():
            yield f"{mark.name}: path of {len(mark.points)} points"
        case marks.Arrow3D():
            yield f"arrow {mark.name} to ({', '.join(brief(value) for value in mark.tip)})"
        case marks.Plane3D():
            yield mark.name
        case marks.TextMark():
            yield mark.text.replace("\n", " ")
        case marks.TableMark():
            yield f"table of {len(mark.rows)} rows: {', '.join(mark.columns)}"


def _role(role: str) -> str:
    return "" if role == "data" else f"{role} "


def _on_path(mark: marks.HeatMap) -> str:
    if not mark.path:
        return ""
    cells = tuple(mark.values[row][column] for row, column in mark.path)
    return f", on the {mark.path_name or 'marked cells'} mean {brief(mean(cells))}"


def _chance(value: float | None, label: str) -> str:
    return "" if value is None else f", {label} {brief(value)}"
