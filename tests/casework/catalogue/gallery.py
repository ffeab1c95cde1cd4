"""Draws the gallery of the documentation: ``python -m tests.casework.catalogue.gallery``."""

import io

from PIL import Image
from tests.places import DOCS

from modelkin.figures import animate, draw, rendered

from .examples import EXAMPLES, centring_animation

FOLDER = DOCS / "figures"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, make in EXAMPLES.items():
        # Few colours make small files; figures for reports are not reduced.
        picture = Image.open(io.BytesIO(rendered(make(), "png", dpi=90))).convert("RGB")
        picture.quantize(colors=256, dither=Image.Dither.NONE).save(FOLDER / f"{name}.png", optimize=True)
    draw(EXAMPLES["layer_map"](), FOLDER, "layer_map_dark", theme="dark", dpi=90, formats=("png",))
    draw(
        EXAMPLES["evidence_forest"](), FOLDER, "evidence_forest_narrow", narrow=True, dpi=90, formats=("png",)
    )
    animate(centring_animation(), FOLDER, "centring_animation", dpi=60)


if __name__ == "__main__":
    main()
