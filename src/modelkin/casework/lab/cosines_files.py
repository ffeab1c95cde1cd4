"""Figures and files of the cosine study."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from modelkin import figures as fig
from modelkin.casework.catalogue.parts import COSINE, expected_line, line
from modelkin.casework.catalogue.synthetic import STYLES, CosineCell, over_sigma, synthetic_cosines
from modelkin.document import ENGLISH, Language, to_json
from modelkin.document.codec import schemas
from modelkin.message import phrase
from modelkin.untrusted import records_csv

from .cosines import PUBLISHED_WIDTH, CosineStudy, DrawnCosines, PublishedCosine

schemas[CosineStudy] = "modelkin.cosines/1"


def cosine_figures(study: CosineStudy) -> dict[str, fig.Figure]:
    """Return the figures of a study by file name."""
    equal = [cell for cell in study.cells if cell.sigma_1 == cell.sigma_2]
    found: dict[str, fig.Figure] = {}
    if equal:
        found["cosines"] = synthetic_cosines([_cell(cell) for cell in equal])
    if len(equal) < len(study.cells):
        found["cosines_unequal"] = _unequal(study)
    found["cosines_published"] = _published(study.published)
    return found


def write_cosines(study: CosineStudy, out: Path, language: Language = ENGLISH) -> None:
    """Write numbers and figures into a folder: ``cosines.json``, ``cosines.csv``, PNG and SVG."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "cosines.json").write_text(to_json(study) + "\n", encoding="utf-8")
    (out / "cosines.csv").write_text(records_csv(map(asdict, study.cells)), encoding="utf-8")
    for name, figure in cosine_figures(study).items():
        fig.draw(figure, out, name, language=language)


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


def _unequal(study: CosineStudy) -> fig.Figure:
    """Draw the cosine for each ratio of the sigmas, in the highest dimension."""
    dimension = max(study.options.dimensions)
    panels = []
    for m1, m2 in study.options.means:
        cells = [c for c in study.cells if (c.mean_1, c.mean_2, c.dimension) == (m1, m2, dimension)]
        panels.append(
            fig.Panel(
                title=phrase("catalogue.means", first=m1, second=m2),
                marks=tuple(_by_ratio(cells, study.options.ratios)),
                x=fig.Axis(label=phrase("catalogue.sigma-first"), reverse=True),
                y=fig.Axis(label=COSINE, low=0.0, high=1.1),
            )
        )
    return fig.Figure(
        title=phrase("catalogue.sigmas-differ", values=dimension),
        panels=tuple(panels),
        columns=3,
        note=phrase("catalogue.sigmas-note"),
    )


def _by_ratio(cells: list[DrawnCosines], ratios: tuple[float, ...]) -> Iterator[fig.Lines]:
    for i, ratio in enumerate(ratios):
        # Ratios are given with few digits: anything closer is the same one, divided again.
        group = [cell for cell in cells if abs(cell.sigma_2 / cell.sigma_1 - ratio) < 1e-9]
        group.sort(key=lambda cell: cell.sigma_1)
        drawn = [(cell.sigma_1, cell.cosine, cell.spread) for cell in group]
        name = (
            phrase("catalogue.second-sigma", ratio=ratio) if ratio != 1 else phrase("catalogue.equal-sigmas")
        )
        yield from over_sigma(name, drawn, [cell.exact for cell in group], STYLES[i % len(STYLES)])


def _published(rows: tuple[PublishedCosine, ...]) -> fig.Figure:
    """Draw one minus published cosines over one minus those of normal vectors with the same statistics."""
    lacks = [1 - value for row in rows for value in (row.cosine, row.expected)]
    ends = (min(lacks), max(lacks))
    layers = tuple(float(layer) for layer in dict.fromkeys(row.layer for row in rows))
    gaps: list[fig.Mark] = [expected_line(phrase("catalogue.all-explained"), ends, ends)]
    left: list[fig.Mark] = [fig.pearson_chance(PUBLISHED_WIDTH).mark(layers)]
    for norm, style in zip(dict.fromkeys(row.norm for row in rows), STYLES, strict=False):
        group, name = [row for row in rows if row.norm == norm], phrase(f"catalogue.{norm}-norm")
        x, y = tuple(1 - row.expected for row in group), tuple(1 - row.cosine for row in group)
        gaps.append(fig.Scatter(name=name, x=x, y=y, style=style))
        left.append(line(name, [row.layer for row in group], [row.pearson for row in group], style))
    return fig.Figure(
        title=phrase("catalogue.published-gains", a="Solar-Open-100B", b="GLM-4.5-Air"),
        panels=(
            fig.Panel(
                title=phrase("catalogue.lacks"),
                marks=tuple(gaps),
                x=fig.Axis(label=phrase("catalogue.lacks-normal"), kind="log"),
                y=fig.Axis(label=phrase("catalogue.lacks-published"), kind="log"),
                height=3.2,
            ),
            fig.Panel(
                title=phrase("catalogue.left"),
                marks=tuple(left),
                x=fig.Axis(label=phrase("catalogue.layer")),
                y=fig.Axis(label=phrase("catalogue.published-r")),
                height=3.2,
            ),
        ),
        columns=2,
        note=phrase("catalogue.published-note", layers=tuple(f"{layer:.0f}" for layer in layers)),
    )
