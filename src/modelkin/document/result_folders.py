"""Report folders of results other than a comparison: matrices, differences, merges, forests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import singledispatch
from pathlib import Path
from xml.etree import ElementTree

from modelkin.comparison import ModelDiff
from modelkin.describe.matrix import MatrixResult
from modelkin.describe.measures import table_to_csv
from modelkin.lineage import FamilyForest, MergeResult
from modelkin.untrusted import csv_text, visible

from .evidence import changes_csv
from .folder import write_files
from .html import render_html
from .language import Language, load_language
from .markdown import render_markdown
from .results import to_json
from .views.diff import diff_view
from .views.matrix import matrix_view
from .views.merge import merge_view
from .views.tree import tree_view

_COLUMNS = (
    *("tensor", "module", "layer", "expert", "model", "facing_layer", "weight", "low", "high", "left"),
    *("opposition", "n", "reason"),
)


Files = dict[str, str | bytes]
"""What a folder holds, by path."""


def write_result(result: object, folder: str | os.PathLike[str], *, language: str = "en") -> tuple[Path, ...]:
    """Write the folder of a result; return the paths of its files."""
    return write_files(Path(folder), folder_of(result, load_language(language)))


@singledispatch
def folder_of(result: object, texts: Language) -> Files:
    """Return the files of a result, as told in a language."""
    raise TypeError(f"{type(result).__name__} has no folder")


@folder_of.register
def _matrix(result: MatrixResult, texts: Language) -> Files:
    blocks = matrix_view(result, texts)
    title = texts.say("matrix.title")
    return {
        "matrix.json": to_json(result) + "\n",
        "matrix.csv": table_to_csv(result.table),
        "MATRIX.md": render_markdown(blocks),
        "report.html": render_html(blocks, title=title, language=texts, version=result.modelkin),
    }


@folder_of.register
def _diff(result: ModelDiff, texts: Language) -> Files:
    figure = _change_figure(result, texts)
    view = diff_view(result, texts, picture="figures/change.svg" if figure else "")
    title = texts.say("title.diff", candidate=result.candidate.ref, base=result.base.ref)
    images = {name: data for name, data in figure.items() if isinstance(data, bytes)}
    return {
        "diff.json": to_json(result) + "\n",
        "report.html": render_html(
            view, title=title, language=texts, version=result.environment.modelkin, images=images
        ),
        "REPORT.md": render_markdown(view),
        "tensors.csv": changes_csv(result),
        **figure,
    }


def _change_figure(result: ModelDiff, language: Language) -> Files:
    from modelkin.figures import figure_to_json, renderings  # matplotlib takes its time
    from modelkin.figures.diff import change_map

    figure = change_map(result)
    if figure is None:
        return {}
    files: Files = {"figures/change.json": figure_to_json(figure) + "\n"}
    for kind, content in renderings(figure, ("png", "svg"), dpi=150, language=language).items():
        files[f"figures/change.{kind}"] = content
    return files


@folder_of.register
def _merge(result: MergeResult, texts: Language) -> Files:
    blocks = merge_view(result, texts, every_tensor=True)
    title = texts.say("merge.question", candidate=result.candidate.ref)
    files: Files = {
        "merge.json": to_json(result) + "\n",
        "merge.csv": merge_csv(result),
        "MERGE.md": render_markdown(blocks),
        "report.html": render_html(blocks, title=title, language=texts, version=result.modelkin),
    }
    if result.recipe is not None:
        files["recipe.yaml"] = result.recipe
    return files


def merge_csv(result: MergeResult) -> str:
    """Write one row per tensor and model."""
    rows: list[tuple[object, ...]] = []
    for cell in result.cells:
        fixed = (cell.tensor, cell.module, cell.layer, cell.expert)
        last = (cell.n, None if cell.reason is None else str(cell.reason))
        shares: list[tuple[object, ...]] = [
            (name, facing, share.value, share.low, share.high, cell.left, cell.opposition)
            for name, share, facing in zip(result.names, cell.weights, cell.facing, strict=False)
        ]
        rows += [(*fixed, *share, *last) for share in shares or [(None,) * 7]]
    return csv_text(_COLUMNS, rows)


@folder_of.register
def _tree(result: FamilyForest, texts: Language) -> Files:
    blocks = tree_view(result, texts, every_pair=True)
    trees = [family.newick for family in result.families if family.newick is not None]
    title = texts.say("tree.question")
    return {
        "tree.json": to_json(result) + "\n",
        "tree.nwk": "".join(f"{tree}\n" for tree in trees),  # a line a family
        "tree.graphml": tree_graphml(result),
        "TREE.md": render_markdown(blocks),
        "report.html": render_html(blocks, title=title, language=texts, version=result.modelkin),
    }


_KEYS = {
    "ref": ("node", "string"),
    "family": ("node", "string"),
    "kind": ("edge", "string"),
    "relation": ("edge", "string"),
    "directed": ("edge", "boolean"),
    "facts": ("edge", "string"),
    "distance": ("edge", "double"),
    "inheritance": ("edge", "double"),
    "support": ("edge", "double"),
    "weight": ("edge", "double"),
}


def tree_graphml(result: FamilyForest) -> str:
    """Write models and edges as GraphML; ``directed`` says whether an edge's direction is known.

    As data and not as an edge attribute: networkx refuses graphs in which only some edges are directed.
    """
    root = ElementTree.Element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns")
    for name, (owner, kind) in _KEYS.items():
        ElementTree.SubElement(root, "key", {"id": name, "for": owner, "attr.name": name, "attr.type": kind})
    graph = ElementTree.SubElement(root, "graph", id="forest", edgedefault="directed")
    family = {name: of.middle for of in result.families for name in of.members}
    for name, summary in result.models.items():
        node = ElementTree.SubElement(graph, "node", id=visible(name))
        _data(node, {"ref": summary.ref, "family": family.get(name, "")})
    for edge in result.edges:
        parent = edge.parent or edge.second
        child = edge.first if parent == edge.second else edge.second
        line = ElementTree.SubElement(graph, "edge", source=visible(parent), target=visible(child))
        facts = "; ".join(fact.kind for fact in edge.facts)
        numbers = {name: getattr(edge, name) for name in ("distance", "inheritance", "support", "weight")}
        told = "true" if edge.parent is not None else "false"
        _data(
            line, {"kind": edge.kind, "relation": edge.relation, "directed": told, "facts": facts, **numbers}
        )
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _data(owner: ElementTree.Element, values: Mapping[str, object]) -> None:
    for name, value in values.items():
        if value not in (None, ""):
            ElementTree.SubElement(owner, "data", key=name).text = visible(str(value))
