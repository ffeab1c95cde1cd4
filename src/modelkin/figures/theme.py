"""Colours of the light and the dark theme, for figures and pages alike, and legible text on a colour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ._style import Tone

ThemeName = Literal["light", "dark"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Colours that go together, told apart with the common forms of colour blindness."""

    name: ThemeName
    background: str
    paper: str
    """Page background, around elements with their own."""
    soft: str
    """Behind notes and code."""
    ink: str
    link: str
    grid: str
    tones: Mapping[Tone, str]
    conclusions: Mapping[str, str]
    """Neither red nor green: a common origin is not a crime, no evidence not an acquittal."""
    signed: tuple[str, ...]
    """From negative over chance to positive."""
    missing: str


SERIES: tuple[Tone, ...] = ("blue", "orange", "green", "purple", "gold", "cyan", "rose")
"""In the order in which series get them."""


LIGHT = Theme(
    name="light",
    background="#ffffff",
    paper="#f8f7f4",
    soft="#f1efe9",
    ink="#1c1f26",
    link="#28527a",
    grid="#e3e0d8",
    tones={
        "blue": "#0072b2",
        "orange": "#c95500",
        "green": "#008060",
        "purple": "#9b4f96",
        "gold": "#9c6f00",
        "cyan": "#3089c4",
        "rose": "#c2477a",
        "ink": "#1c1f26",
        "muted": "#5b606d",
    },
    conclusions={"shared": "#7b2d6b", "none": "#1d5f78", "open": "#85600f"},
    signed=("#8f3f0c", "#cf7a38", "#f2d0b0", "#f7f6f3", "#d6cdee", "#8b72c9", "#4b2d96"),
    missing="#d9d5ca",
)
DARK = Theme(
    name="dark",
    background="#1a1d24",
    paper="#13151a",
    soft="#22262f",
    ink="#e9e7e2",
    link="#9cc4ee",
    grid="#2e323c",
    tones={
        "blue": "#58aee8",
        "orange": "#ff8c4b",
        "green": "#3fc39b",
        "purple": "#cf8fd0",
        "gold": "#e0b040",
        "cyan": "#9ad4ff",
        "rose": "#f291b5",
        "ink": "#e9e7e2",
        "muted": "#a3a8b4",
    },
    conclusions={"shared": "#dd94cd", "none": "#7fc3d8", "open": "#ddb765"},
    signed=("#ffb27a", "#cb7840", "#5f3b24", "#262a33", "#413866", "#8d76d9", "#c5b5ff"),
    missing="#4a515c",
)
THEMES: Mapping[ThemeName, Theme] = {"light": LIGHT, "dark": DARK}


def relative_luminance(colour: tuple[float, float, float]) -> float:
    """Luminance of an sRGB colour as WCAG defines it, 0 for black and 1 for white."""
    # All numbers are those of the standard.
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: tuple[float, float, float], other: tuple[float, float, float]) -> float:
    """Contrast of two colours as WCAG defines it, from 1 to 21."""
    light, dark = sorted((relative_luminance(one), relative_luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def readable_on(colour: tuple[float, float, float]) -> str:
    """Black or white, whichever is more legible on a colour.

    Neither is exactly a background colour, so it stays as it is when a drawing turns dark.
    """
    return "#000000" if contrast(colour, (0, 0, 0)) >= contrast(colour, (1, 1, 1)) else "#fefefe"
