"""Report folders of merges and forests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from modelkin.lineage import FamilyForest, MergeResult
from modelkin.untrusted import csv_text, visible

from .folder import write_files
from .html import render_html
from .language import load_language
from .markdown import render_markdown
from .results import to_json
from .views.merge import merge_view
from .views.tree import tree_view

_COLUMNS = (
    *("tensor", "module", "layer", "expert", "model", "facing_layer", "weight", "low", "high", "left"),
    *("opposition", "n", "reason"),
)


def write_merge(
    result: MergeResult, folder: str | os.PathLike[str], *, language: str = "en"
) -> tuple[Path, ...]:
    """Write ``merge.json``, ``merge.csv``, ``MERGE.md``, ``report.html``, and ``recipe.yaml`` of a merge."""
    texts = load_language(language)
    blocks = merge_view(result, texts, every_tensor=True)
    title = texts.say("merge.question", candidate=result.candidate.ref)
    files: dict[str, str | bytes] = {
        "merge.json": to_json(result) + "\n",
        "merge.csv": merge_csv(result),
        "MERGE.md": render_markdown(blocks),
        "report.html": render_html(blocks, title=title, language=texts, version=result.modelkin),
    }
    if result.recipe is not None:
        files["recipe.yaml"] = result.recipe
    return write_files(Path(folder), files)


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


def write_tree(
    result: FamilyForest, folder: str | os.PathLike[str], *, language: str = "en"
) -> tuple[Path, ...]:
    """Write ``tree.json``, ``tree.nwk`` (a line a family), ``tree.graphml``, ``TREE.md``, ``report.html``."""
    texts = load_language(language)
    blocks = tree_view(result, texts, every_pair=True)
    trees = [family.newick for family in result.families if family.newick is not None]
    return write_files(
        Path(folder),
        {
            "tree.json": to_json(result) + "\n",
            "tree.nwk": "".join(f"{tree}\n" for tree in trees),
            "tree.graphml": tree_graphml(result),
            "TREE.md": render_markdown(blocks),
            "report.html": render_html(
                blocks, title=texts.say("tree.question"), language=texts, version=result.modelkin
            ),
        },
    )


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
