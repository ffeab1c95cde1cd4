"""Drawings as files: PNG, SVG, and GIF for animations. Equal descriptions give equal SVG files.

An SVG follows the reader's light or dark theme: colours of the palette become classes.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from xml.sax.saxutils import escape

import numpy as np

from modelkin.errors import UsageError, not_written
from modelkin.message import said_by, say

from ._alt import alt_of
from ._figure import Animation, Figure
from ._text import readable
from .theme import DARK, LIGHT, THEMES, Theme, ThemeName

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas
    from PIL.Image import Image
    from PIL.PngImagePlugin import PngInfo

    from modelkin.document import Language

Format = Literal["png", "svg"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")


def draw(
    figure: Figure,
    folder: str | os.PathLike[str],
    name: str,
    *,
    theme: ThemeName = "light",
    narrow: bool = False,
    dpi: int = 150,
    formats: Sequence[Format] = ("png", "svg"),
    language: Language | None = None,
) -> tuple[Path, ...]:
    """Draw a description into files ``name.png`` and ``name.svg`` of a folder; return their paths.

    If `narrow`, panels are stacked in one column as wide as a phone. Raises `UsageError` if the name is not a
    plain file name, or the folder cannot be written.
    """
    place = _place(folder, name)
    files = renderings(figure, formats, theme=theme, narrow=narrow, dpi=dpi, language=language)
    return tuple(_write(place / f"{name}.{kind}", files[kind]) for kind in formats)


def renderings(
    figure: Figure,
    kinds: Collection[Format] = ("png", "svg"),
    *,
    theme: ThemeName = "light",
    narrow: bool = False,
    dpi: int = 150,
    language: Language | None = None,
) -> dict[Format, bytes]:
    """Draw a description once, into the bytes of a PNG and of an SVG file, including alt text.

    Words are drawn in English if no `language` is given, or no font of this machine has its letters.
    """
    from modelkin.document import ENGLISH

    from ._layout import lay_out
    from .pen import settings

    told = language or ENGLISH
    files: dict[Format, bytes] = {}
    with settings(THEMES[theme]):
        canvas = lay_out(figure, THEMES[theme], narrow=narrow, language=_drawable(told))
        if "svg" in kinds:
            stream = io.BytesIO()
            canvas.savefig(stream, format="svg", dpi=dpi, metadata={"Date": None, "Creator": "modelkin"})
            written = _with_words(stream.getvalue().decode("utf-8"), figure, told)
            files["svg"] = (themed(written) if theme == "light" else written).encode()
        if "png" in kinds:
            stream = io.BytesIO()
            _picture(canvas, dpi).save(stream, format="PNG", dpi=(dpi, dpi), pnginfo=_about(figure, told))
            files["png"] = stream.getvalue()
    return files


def rendered(
    figure: Figure, kind: Format, *, theme: ThemeName = "light", narrow: bool = False, dpi: int = 150
) -> bytes:
    """Draw a description into the bytes of a PNG or SVG file, including its alt text."""
    return renderings(figure, (kind,), theme=theme, narrow=narrow, dpi=dpi)[kind]


def animate(
    animation: Animation,
    folder: str | os.PathLike[str],
    name: str,
    *,
    theme: ThemeName = "light",
    dpi: int = 80,
    language: Language | None = None,
) -> Path:
    """Draw an animation into the file ``name.gif`` of a folder; return its path."""
    from PIL import Image

    from modelkin.document import ENGLISH

    from ._layout import lay_out
    from .pen import settings

    place = _place(folder, name)
    with settings(THEMES[theme]):
        told = _drawable(language or ENGLISH)
        pictures = [_picture(lay_out(frame, THEMES[theme], language=told), dpi) for frame in animation.frames]
    size = max(picture.width for picture in pictures), max(picture.height for picture in pictures)
    palette = pictures[-1].quantize(colors=128)
    frames = []
    for picture in pictures:
        sheet = Image.new("RGB", size, THEMES[theme].background)
        sheet.paste(picture, (0, 0))
        frames.append(sheet.quantize(palette=palette, dither=Image.Dither.NONE))
    stream = io.BytesIO()
    frames[0].save(
        stream,
        format="GIF",
        save_all=True,
        append_images=frames[1:],
        duration=[max(20, round(1000 * seconds)) for seconds in animation.seconds],
        loop=0,
        comment=readable(animation.alt)[:250].encode("ascii", "replace"),
    )
    return _write(place / f"{name}.gif", stream.getvalue())


def _drawable(language: Language) -> Language:
    """Return the language, or English if no font has its letters."""
    from modelkin.document import ENGLISH

    from .pen import can_draw

    return language if language is ENGLISH or can_draw(language) else ENGLISH


def _picture(canvas: Canvas, dpi: int) -> Image:
    """Draw a canvas as opaque pixels."""
    from PIL.Image import fromarray

    canvas.set_dpi(dpi)
    pixels: Any = canvas.canvas
    pixels.draw()
    return fromarray(np.asarray(pixels.buffer_rgba())).convert("RGB")


def _with_words(svg: str, figure: Figure, language: Language) -> str:
    """Add title and description, which screen readers read out."""
    head, tag, tail = svg.partition("<svg ")
    opening, end, body = tail.partition(">")
    title, alt = (
        escape(readable(text)) for text in (language.wording(figure.title), alt_of(figure, language))
    )
    words = f"\n <title>{title}</title>\n <desc>{alt}</desc>"
    return f'{head}{tag}role="img" {opening}{end}{words}{body}'


def _about(figure: Figure, language: Language) -> PngInfo:
    """Write title and alt text as chunks of a PNG, in full Unicode."""
    from PIL.PngImagePlugin import PngInfo

    about = PngInfo()
    about.add_itxt("Title", readable(language.wording(figure.title)))
    about.add_itxt("Description", readable(alt_of(figure, language)))
    about.add_text("Software", "modelkin")
    return about


def _place(folder: str | os.PathLike[str], name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise UsageError(readable(name), say("problem.plain-name"))
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(str(place), say("problem.folder-not-made", why=said_by(error))) from error
    return place


def _write(path: Path, content: bytes) -> Path:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise not_written(str(path), say("part.the-figure"), error) from error
    return path


_STYLE = re.compile(r' style="([^"]*)"')
_COMMENT = re.compile(r"<!--.*?-->\s*", re.DOTALL)
_KINDS = {"fill": "f", "stroke": "k"}


def named_colours(theme: Theme) -> dict[str, str]:
    """Return the colours of a theme that a drawing is made of, by name."""
    return {
        "paper": theme.background,
        "line": theme.grid,
        "missing": theme.missing,
        **{str(name): colour for name, colour in theme.tones.items()},
    }


_NAMES: Mapping[str, str] = {colour: name for name, colour in named_colours(LIGHT).items()}


def themed(svg: str) -> str:
    """Turn a light drawing into one that follows the screen.

    Styles become attributes, which any reader of SVG knows, and a class for each colour of the palette: a
    rule for dark screens changes the class. Comments are removed: they repeat the drawn text.
    """
    text = _STYLE.sub(lambda found: _attributes(found[1]), _COMMENT.sub("", svg))
    head, end, body = text.partition("</style>")
    return f"{head}{_dark_rules()}{end}{body}" if end else text


def _attributes(style: str) -> str:
    found = dict(part.split(":", 1) for part in style.split(";") if ":" in part)
    written, classes = "", []
    for name, value in ((name.strip(), value.strip()) for name, value in found.items()):
        written += f' {name}="{value}"'
        if name in _KINDS and value in _NAMES:
            classes.append(f"{_KINDS[name]}-{_NAMES[value]}")
    return written + (f' class="{" ".join(classes)}"' if classes else "")


def _dark_rules() -> str:
    rules = "".join(
        f".{short}-{name}{{{kind}:{colour}}}"
        for name, colour in named_colours(DARK).items()
        for kind, short in _KINDS.items()
    )
    return f"@media(prefers-color-scheme:dark){{{rules}}}"
