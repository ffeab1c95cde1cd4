"""What all drawing shares: the theme, the size of letters, and text made safe to draw."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import matplotlib
from matplotlib import font_manager
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_rgb

from modelkin.untrusted import escaped

from ._scale import Scale
from ._style import Style
from ._text import readable, shortened
from .theme import Theme

if TYPE_CHECKING:
    from modelkin.document import Language

_FALLBACKS = ("Noto Sans CJK KR", "Noto Sans KR", "NanumGothic", "Malgun Gothic", "Apple SD Gothic Neo")
"""Fonts with Hangul and Han, used if installed; DejaVu Sans comes with matplotlib."""
_FONT_LOG = logging.getLogger("matplotlib.font_manager")
_NAME = re.compile(r"(?!Last ?Resort)[A-Za-z0-9 ]+")
"""Of a font that may be used: one font has a box for every character, and matplotlib does not accept the
names of others."""
_NOT_OURS = ("backend", "interactive", "toolbar", "timezone", "date.epoch", "webagg", "savefig.directory")
DASHES: dict[str, Any] = {"solid": "-", "dashed": (0, (5, 2)), "dotted": (0, (1, 1.6)), "dashdot": "-."}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pen:
    """How to draw: colours and sizes of one drawing."""

    theme: Theme
    language: Language
    panel_width: float
    """Inches that one panel has, without its neighbours."""
    letters: float = 8.5
    """Size of ordinary text in points."""
    words: float = 11.0
    """Size of text that has a panel to itself, and is read like a page."""

    def colour(self, style: Style) -> str:
        """Colour of a style in this theme."""
        return self.theme.tones[style.tone]

    def text(self, text: str, width: int | None = None) -> str:
        """Make text safe to draw: visible characters that the fonts have, cut to a width."""
        safe = "".join(
            letter if _has_glyph(letter) else escaped(letter)
            for letter in readable(self.language.wording(text))
        )
        return shortened(safe, width) if width else safe

    def letters_across(self, inches: float, size: float | None = None) -> int:
        """How many letters of ordinary text fit into a width."""
        return max(4, int(inches * 72 / (0.56 * (size or self.letters))))

    def colours(self, scale: Scale) -> Colormap:
        """Colours of a scale."""
        if scale.kind == "signed":
            found: Colormap = LinearSegmentedColormap.from_list("signed", self.theme.signed, N=255)
        else:
            found = matplotlib.colormaps["viridis"]
        return found


def rgb(colour: Any) -> tuple[float, float, float]:  # noqa: ANN401  whatever matplotlib takes as a colour
    """Red, green and blue of a colour, 0 to 1."""
    red, green, blue = to_rgb(colour)
    return float(red), float(green), float(blue)


@contextmanager
def settings(theme: Theme) -> Iterator[None]:
    """Draw with our settings only: the user's are neither read nor permanently changed."""
    defaults: dict[str, Any] = {
        key: value for key, value in matplotlib.rcParamsDefault.items() if not key.startswith(_NOT_OURS)
    }
    ours: dict[str, Any] = {
        "font.family": ["DejaVu Sans", *_installed()],
        "font.size": 8.5,
        "text.parse_math": False,
        "text.color": theme.ink,
        "axes.edgecolor": theme.tones["muted"],
        "axes.facecolor": theme.background,
        "axes.labelcolor": theme.ink,
        "axes.formatter.useoffset": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 9.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.linewidth": 0.7,
        "grid.color": theme.grid,
        "grid.linewidth": 0.7,
        "xtick.color": theme.tones["muted"],
        "ytick.color": theme.tones["muted"],
        "xtick.labelcolor": theme.ink,
        "ytick.labelcolor": theme.ink,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "figure.facecolor": theme.background,
        "savefig.facecolor": theme.background,
        "svg.hashsalt": "modelkin",
        "svg.fonttype": "path",
        "legend.frameon": False,
        "legend.fontsize": 8.5,
        "hatch.linewidth": 0.6,
    }
    log, level = _FONT_LOG, _FONT_LOG.level
    log.setLevel(logging.ERROR)  # that a Hangul font lacks a weight is of no interest to a reader
    try:
        with matplotlib.rc_context(cast(Any, {**defaults, **ours})):
            yield
    finally:
        log.setLevel(level)


@cache
def _installed() -> tuple[str, ...]:
    """Find a font with Hangul: a known one first, then any that has the letters."""
    _learn_new_fonts()
    fonts = {font.name: font.fname for font in font_manager.fontManager.ttflist}
    known = [name for name in _FALLBACKS if name in fonts]
    others = (name for name in sorted(fonts) if _NAME.fullmatch(name) and _has_hangul(fonts[name]))
    return tuple(known)[:1] or tuple(islice(others, 1))


def _learn_new_fonts() -> None:
    """Add fonts with Hangul that were installed since matplotlib made its list, which it keeps for good."""
    known = {font.fname for font in font_manager.fontManager.ttflist}
    for file in sorted(set(font_manager.findSystemFonts()) - known):
        if _has_hangul(file):
            font_manager.fontManager.addfont(file)


def _has_hangul(file: str) -> bool:
    try:
        return font_manager.get_font(file).get_char_index(ord("가")) != 0
    except (OSError, RuntimeError):  # a file that is gone, or not a font
        return False


def can_draw(language: Language) -> bool:
    """Say whether the fonts of this machine have all letters of the words of figures."""
    return all(_has_glyph(letter) for letter in set("".join(language.table("figure").values())))


@cache
def _glyphs() -> frozenset[int]:
    found: set[int] = set()
    for family in ("DejaVu Sans", *_installed()):
        found.update(font_manager.get_font(font_manager.findfont(family)).get_charmap())
    return frozenset(found)


def _has_glyph(letter: str) -> bool:
    return letter == "\n" or ord(letter) in _glyphs()
