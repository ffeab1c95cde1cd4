"""How series are told apart: by colour, and by marker and dash for readers who cannot distinguish colours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from ._record import Record

Tone = Literal["blue", "orange", "green", "purple", "gold", "cyan", "rose", "ink", "muted"]
Marker = Literal["", "o", "s", "^", "D", "v", "P", "X", "*"]
Dash = Literal["solid", "dashed", "dotted", "dashdot"]

_TONES: tuple[Tone, ...] = ("blue", "orange", "green", "purple", "gold", "cyan", "rose")
_MARKERS: tuple[Marker, ...] = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES: tuple[Dash, ...] = ("solid", "dashed", "dashdot", "dotted")


class Style(Record, frozen=True, kw_only=True):
    """Colour by name (a theme says which), marker and dash."""

    tone: Tone = "blue"
    marker: Marker = ""
    dash: Dash = "solid"


NULL = Style(tone="muted", dash="dashed")
EXPECTATION = Style(tone="ink", dash="dashed")
THRESHOLD = Style(tone="ink", dash="dotted")

Styles = Mapping[str, Style]


def series_styles(names: Iterable[str]) -> dict[str, Style]:
    """Give each model (or pair, or measure) of a run its style, the same in every figure of the run.

    Call it once with all names of a run and hand the result to the figures. Seven colours and eight markers
    have no common factor, so 56 names differ in one or the other.
    """
    unique = dict.fromkeys(names)
    return {
        name: Style(tone=_TONES[i % 7], marker=_MARKERS[i % 8], dash=_DASHES[i // 7 % 4])
        for i, name in enumerate(unique)
    }


def complete(styles: Styles | None, names: Iterable[str]) -> Mapping[str, Style]:
    """Keep the styles of a run and add names that are new."""
    return series_styles([*(styles or {}), *names]) | dict(styles or {})
