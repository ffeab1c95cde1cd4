"""Draws the gallery of the documentation: ``python -m tests.casework.catalogue.gallery``."""

import io

from PIL import Image
from tests.places import DOCS

from modelkin.figures import animate, draw, rendered

from .examples import EXAMPLES, centring_animation

FOLDER = DOCS / "figures"


def reduced(picture: Image.Image) -> Image.Image:
    """Return it in few colours, which make small files; figures for reports are not reduced.

    Colours are chosen to cover the whole range: the usual choice, by pixel count, left grey patches in scales
    that go from one colour to another.
    """
    return picture.quantize(colors=256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, make in EXAMPLES.items():
        picture = Image.open(io.BytesIO(rendered(make(), "png", dpi=90))).convert("RGB")
        reduced(picture).save(FOLDER / f"{name}.png", optimize=True)
    draw(EXAMPLES["layer_map"](), FOLDER, "layer_map_dark", theme="dark", dpi=90, formats=("png",))
    draw(
        EXAMPLES["evidence_forest"](), FOLDER, "evidence_forest_narrow", narrow=True, dpi=90, formats=("png",)
    )
    animate(centring_animation(), FOLDER, "centring_animation", dpi=60)


if __name__ == "__main__":
    main()
