"""Small pictures inside tables and tiles: an effect between chance and identity."""

from __future__ import annotations

from modelkin.document.blocks import Bar

from .markup import Html, element

_WIDTH, _HEIGHT = 200.0, 22.0


def effect_bar(bar: Bar) -> Html:
    """Draw an effect with its interval; a small mark shows the smallest effect that would have been found."""

    def place(value: float) -> float:
        return (min(1.0, max(bar.start, value)) - bar.start) / (1.0 - bar.start) * (_WIDTH - 8) + 4

    zero, value = place(0.0), place(bar.value)
    middle = _HEIGHT / 2
    low, high = place(bar.low), place(bar.high)
    parts = [
        element("title", bar.label),
        element("line", x1=place(bar.start), x2=place(1.0), y1=middle, y2=middle, class_="track"),
        element(
            "rect", x=min(zero, value), y=middle - 5, width=abs(value - zero), height=10, class_="bar", rx=1
        ),
        element("line", x1=low, x2=high, y1=middle, y2=middle, class_="whisker"),
        element("line", x1=low, x2=low, y1=middle - 3, y2=middle + 3, class_="whisker"),
        element("line", x1=high, x2=high, y1=middle - 3, y2=middle + 3, class_="whisker"),
        element("line", x1=zero, x2=zero, y1=1, y2=_HEIGHT - 1, class_="zero"),
    ]
    if bar.limit is not None and bar.limit <= 1:
        x = place(bar.limit)
        parts.append(element("path", d=f"M{x - 3:.1f} 0h6l-3 5z", class_="limit"))
    return element(
        "svg",
        *parts,
        class_="effect-bar",
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        role="img",
        aria_label=bar.label,
    )
