"""Colours of the light and the dark theme, and which text can be read on a colour."""

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
    ink: str
    grid: str
    tones: Mapping[Tone, str]
    signed: tuple[str, ...]
    """From negative over chance to positive."""
    missing: str


LIGHT = Theme(
    name="light",
    background="#ffffff",
    ink="#1b1f24",
    grid="#e3e6ea",
    tones={
        "blue": "#0072b2",
        "orange": "#d55e00",
        "green": "#008060",
        "purple": "#9b4f96",
        "gold": "#b07d00",
        "cyan": "#3f9bd6",
        "rose": "#c2477a",
        "ink": "#1b1f24",
        "muted": "#6b7280",
    },
    signed=("#1c4f8f", "#5b9bd0", "#c3dcee", "#f7f7f7", "#f8cdb1", "#e07b4f", "#9c2a16"),
    missing="#d5d8dc",
)
DARK = Theme(
    name="dark",
    background="#14171c",
    ink="#eceff4",
    grid="#2c323b",
    tones={
        "blue": "#58aee8",
        "orange": "#ff8c4b",
        "green": "#3fc39b",
        "purple": "#cf8fd0",
        "gold": "#e0b040",
        "cyan": "#9ad4ff",
        "rose": "#f291b5",
        "ink": "#eceff4",
        "muted": "#9aa4b2",
    },
    signed=("#9fd0ff", "#4d8fd0", "#274a70", "#20242b", "#6e3a22", "#d0703c", "#ffc19a"),
    missing="#4a515c",
)
THEMES: Mapping[ThemeName, Theme] = {"light": LIGHT, "dark": DARK}


def relative_luminance(colour: tuple[float, float, float]) -> float:
    """Luminance of an sRGB colour as WCAG defines it, 0 for black and 1 for white."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: tuple[float, float, float], other: tuple[float, float, float]) -> float:
    """Contrast of two colours as WCAG defines it, from 1 to 21."""
    light, dark = sorted((relative_luminance(one), relative_luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def readable_on(colour: tuple[float, float, float]) -> str:
    """Black or white, whichever is read better on a colour."""
    return "#000000" if contrast(colour, (0, 0, 0)) >= contrast(colour, (1, 1, 1)) else "#ffffff"
