"""Figures and files of the cosine study."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from modelkin.casework.catalogue import CosineCell, synthetic_cosines
from modelkin.document import to_json
from modelkin.figures import Axis, Figure, Lines, Panel, ReferenceLine, Scatter, Style, draw, pearson_chance

from ._cosines import PUBLISHED_WIDTH, CosineStudy, DrawnCosines, PublishedCosine
from ._csv import csv_text

_LOOKS = (Style(tone="blue", marker="o"), Style(tone="orange", marker="s"), Style(tone="green", marker="^"))
_DASHED = Style(tone="ink", dash="dashed")


def cosine_figures(study: CosineStudy) -> dict[str, Figure]:
    """Return the figures of a study by file name."""
    equal = [cell for cell in study.cells if cell.sigma_1 == cell.sigma_2]
    unequal = [cell for cell in study.cells if cell.sigma_1 != cell.sigma_2]
    found: dict[str, Figure] = {}
    if equal:
        found["cosines"] = synthetic_cosines([_cell(cell) for cell in equal])
    if unequal:
        found["cosines_unequal"] = _unequal(study)
    found["cosines_published"] = _published(study.published)
    return found


def write_cosines(study: CosineStudy, out: Path) -> None:
    """Write numbers and figures into a folder: ``cosines.json``, ``cosines.csv``, PNG and SVG."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "cosines.json").write_text(to_json(study) + "\n", encoding="utf-8")
    (out / "cosines.csv").write_text(csv_text(map(asdict, study.cells)), encoding="utf-8")
    for name, figure in cosine_figures(study).items():
        draw(figure, out, name)


def _cell(cell: DrawnCosines) -> CosineCell:
    return CosineCell(
        mean_1=cell.mean_1,
        mean_2=cell.mean_2,
        sigma=cell.sigma_1,
        dimension=cell.dimension,
        cosine=cell.cosine,
        spread=cell.spread,
        positive_1=cell.positive_1,
        positive_2=cell.positive_2,
    )


def _unequal(study: CosineStudy) -> Figure:
    """Draw the cosine for each ratio of both sigmas, in the highest dimension."""
    dimension = max(study.options.dimensions)
    panels = tuple(
        _unequal_panel(
            f"means {m1:g} and {m2:g}",
            [c for c in study.cells if (c.mean_1, c.mean_2, c.dimension) == (m1, m2, dimension)],
            study.options.ratios,
        )
        for m1, m2 in study.options.means
    )
    return Figure(
        title=f"Independent random vectors of {dimension} values whose sigmas differ",
        panels=panels,
        columns=3,
        note="Dashed: exact mean. Bands: standard deviation over pairs.",
    )


def _unequal_panel(title: str, cells: list[DrawnCosines], ratios: tuple[float, ...]) -> Panel:
    marks: list[Lines] = []
    for i, ratio in enumerate(ratios):
        group = sorted(
            (cell for cell in cells if abs(cell.sigma_2 / cell.sigma_1 - ratio) < 1e-9),
            key=lambda c: c.sigma_1,
        )
        x = tuple(cell.sigma_1 for cell in group)
        exact = tuple(cell.exact for cell in group)
        marks.append(Lines(name="closed form", x=x, y=exact, style=_DASHED, role="expectation"))
        marks.append(
            Lines(
                name="equal sigmas" if ratio == 1 else f"second sigma {ratio:g} times the first",
                x=x,
                y=tuple(cell.cosine for cell in group),
                low=tuple(cell.cosine - cell.spread for cell in group),
                high=tuple(cell.cosine + cell.spread for cell in group),
                style=_LOOKS[i % len(_LOOKS)],
            )
        )
    return Panel(
        title=title,
        marks=tuple(marks),
        x=Axis(label="sigma of the first vector", reverse=True),
        y=Axis(label="cosine", low=0.0, high=1.1),
    )


def _published(rows: tuple[PublishedCosine, ...]) -> Figure:
    """Draw what published cosines lack to one over what normal vectors with the same statistics lack."""
    ends = [f(1 - value for row in rows for value in (row.cosine, row.expected)) for f in (min, max)]
    gaps: list[Lines | Scatter] = [
        Lines(
            name="means and deviations explain all of it",
            x=tuple(ends),
            y=tuple(ends),
            style=_DASHED,
            role="expectation",
        )
    ]
    layers = tuple(float(layer) for layer in dict.fromkeys(row.layer for row in rows))
    left: list[Lines | ReferenceLine] = [pearson_chance(PUBLISHED_WIDTH).mark(layers)]
    for i, norm in enumerate(dict.fromkeys(row.norm for row in rows)):
        group = [row for row in rows if row.norm == norm]
        gaps.append(
            Scatter(
                name=f"{norm} norm",
                x=tuple(1 - row.expected for row in group),
                y=tuple(1 - row.cosine for row in group),
                style=_LOOKS[i],
            )
        )
        left.append(
            Lines(
                name=f"{norm} norm",
                x=tuple(float(row.layer) for row in group),
                y=tuple(row.pearson for row in group),
                style=_LOOKS[i],
            )
        )
    return Figure(
        title="Published norm gains, Solar-Open-100B and GLM-4.5-Air",
        panels=(
            Panel(
                title="What the cosine lacks to 1",
                marks=tuple(gaps),
                x=Axis(label="1 - cosine of independent normal vectors, same statistics", kind="log"),
                y=Axis(label="1 - published cosine", kind="log"),
                height=3.2,
            ),
            Panel(
                title="What is left",
                marks=tuple(left),
                x=Axis(label="layer"),
                y=Axis(label="published Pearson r"),
                height=3.2,
            ),
        ),
        columns=2,
        note=(
            f"Layers {', '.join(f'{layer:.0f}' for layer in layers)}, of 46. Layers of a model depend on "
            "each other, and gains of unrelated models scatter more than shuffles: r outside the band is "
            "no finding."
        ),
    )
