"""Both models as stacks of layers: on the page, as a file, and in a dozen lines of a terminal."""

import io
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from rich.console import Console
from tests.places import ZOO

import modelkin as mk
from modelkin.comparison import PartSizes
from modelkin.comparison.verdict import Conclusion
from modelkin.document import load_language, report_html, verdict_card, write_folder
from modelkin.document.blocks import Card, Stacks
from modelkin.document.folder import report_markdown
from modelkin.document.html.stacks import allotted, stacks_svg
from modelkin.document.language import ENGLISH
from modelkin.document.terminal import render_terminal
from modelkin.document.views.stacks import stacks

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def deeper() -> mk.Comparison:
    """A model of six layers that repeats layers of its parent's four."""
    options = mk.CompareOptions(depth="deep")
    return mk.compare(candidate=str(ZOO / "depth-up"), base=str(ZOO / "base"), options=options)


def drawn(result) -> Stacks:
    found = stacks(result, ENGLISH)
    assert found is not None
    return found


def states(stack) -> dict[str, dict[str, str]]:
    return {floor.label: {part.component: part.state for part in floor.parts} for floor in stack.floors}


def printed(block: Stacks, width=80, encoding="utf-8") -> list[str]:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    card = Card(headline="h", tone="none", summary="s", drawing=block)
    Console(width=width, file=file, highlight=False).print(render_terminal([card]))
    file.flush()
    lines = file.buffer.getvalue().decode(encoding).splitlines()
    return [line.strip("│|").rstrip() for line in lines if any(letter in line for letter in "█▓░·#+-.─")]


def large(result: mk.Comparison, layers: int, base_layers: int) -> mk.Comparison:
    """Give both models the sizes of published ones: most parameters in experts, few in norms."""

    def sizes(count: int) -> PartSizes:
        per_layer = {"attention": 50_331_648, "experts": 1_132_462_080, "router": 524_288, "norms": 8_448}
        outside = {"embedding": 805_306_368, "head": 805_306_368, "norms": 4_096, "other": 10}
        return PartSizes(layers={name: (size,) * count for name, size in per_layer.items()}, outside=outside)

    return replace(
        result,
        candidate=replace(
            result.candidate, sizes=sizes(layers), ref="org/candidate-with-a-rather-long-name-100B"
        ),
        base=replace(result.base, sizes=sizes(base_layers), ref="other/base"),
    )


def test_every_parameter_is_drawn_once(comparison):
    for model in (comparison.candidate, comparison.base):
        counted = sum(model.sizes.outside.values()) + sum(map(sum, model.sizes.layers.values()))
        assert counted == model.parameters
        assert {len(each) for each in model.sizes.layers.values()} == {model.layers}
    if comparison.verdict.conclusion is not Conclusion.NOT_TESTABLE:
        assert drawn(comparison).candidate.size == comparison.candidate.parameters


def test_embedding_is_below_and_head_on_top(comparison):
    labels = [floor.label for floor in drawn(comparison).candidate.floors]
    assert labels == ["embedding", "0", "1", "head"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("identical", {"shared"}),
        ("no-evidence", {"not_shared", "untested"}),
        ("not-testable", {"untested"}),
        ("shared-partial", {"not_shared", "together", "untested"}),
    ],
)
def test_what_is_coloured_is_what_the_verdict_says(compared, name, expected):
    block = drawn(compared(name))
    for stack in (block.candidate, block.base):
        assert {part.state for floor in stack.floors for part in floor.parts} <= expected
    components = compared(name).verdict.components
    for floor in block.candidate.floors:
        for part in floor.parts:
            if part.state in ("shared", "together") and name != "identical":
                assert components[part.component].conclusion.related


def test_nothing_faces_anything_where_nothing_was_tested(compared):
    assert drawn(compared("not-testable")).facing == ()
    assert {state for _, _, state in drawn(compared("no-evidence")).facing} == {"not_shared"}
    assert len(drawn(compared("identical")).facing) == 4


@pytest.mark.more
def test_layers_that_were_repeated_face_the_ones_they_came_from(deeper):
    block = drawn(deeper)
    layers = {
        (block.candidate.floors[one].layer, block.base.floors[other].layer) for one, other, _ in block.facing
    }
    assert layers - {(None, None)} == {(mine, theirs) for mine, theirs, _ in deeper.alignment.layers}
    assert states(block.base)["3"] == {"attention": "shared", "mlp": "shared", "norms": "together"}
    # Gains are compared by number and along the layers that were found: together that is every layer.
    assert {states(block.candidate)[str(layer)]["norms"] for layer in range(6)} == {"together"}


def test_a_layer_of_the_base_that_nothing_faces_is_not_shared(deeper):
    layers = tuple(item for item in deeper.alignment.layers if item[1] != 3)
    alone = replace(deeper, alignment=replace(deeper.alignment, layers=layers))
    assert states(drawn(alone).base)["3"]["mlp"] == "not_shared"


def test_without_sizes_there_is_no_drawing(compared):
    result = compared("shared")
    old = replace(result, base=replace(result.base, sizes=None))
    assert stacks(old, ENGLISH) is None
    assert "stacks-drawing" not in report_html(old).partition("</style>")[2]
    assert "![" not in report_markdown(old)
    assert mk.Comparison.from_json(old.to_json()) == old


def test_the_file_is_a_drawing_with_words(comparison, tmp_path):
    write_folder(comparison, tmp_path)
    tree = ElementTree.parse(tmp_path / "figures" / "stacks.svg")
    assert "Both models as stacks of layers" in (tree.getroot().findtext(f"{SVG}title") or "")
    assert len(tree.findall(f".//{SVG}rect")) == sum(
        len(floor.parts)
        for stack in (drawn(comparison).candidate, drawn(comparison).base)
        for floor in stack.floors
    )
    assert "prefers-color-scheme: dark" in (tree.findtext(f".//{SVG}style") or "")
    assert "](figures/stacks.svg)" in (tmp_path / "REPORT.md").read_text()


@pytest.mark.parametrize(("layers", "base_layers"), [(1, 1), (48, 46), (94, 40), (126, 126)])
def test_models_of_published_sizes_fit(compared, layers, base_layers):
    block = drawn(large(compared("shared"), layers, base_layers))
    root = ElementTree.fromstring(stacks_svg(block).partition("?>\n")[2])
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert height <= 480
    boxes = [
        {name: float(rect.attrib[name]) for name in ("x", "y", "width", "height")}
        for rect in root.iter(f"{SVG}rect")
    ]
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)
    assert all(box["y"] >= 30 and box["y"] + box["height"] <= height for box in boxes)
    assert all(box["width"] >= 1 and box["height"] >= 1 for box in boxes)
    assert block.own_scales == (layers > 2 * base_layers)
    for columns in (80, 120):
        lines = printed(block, columns)
        assert len(lines) <= 16
        assert max(map(len, lines)) <= columns


def test_sizes_are_in_proportion_and_nothing_vanishes():
    assert allotted([1, 1, 2], 100, 5) == pytest.approx([25, 25, 50])
    shares = allotted([1, 1_000_000], 100, 5)
    assert shares == pytest.approx([5, 95])
    assert allotted([3, 4], 4, 5) == [2, 2]
    assert allotted([0, 0], 10, 1) == [5, 5]


def test_the_terminal_shows_layers_in_rows(compared, deeper):
    lines = printed(drawn(deeper))
    labels = [line.split()[0] for line in lines]
    rows = lines[labels.index("head") :]
    assert [row.split()[0] for row in rows][:8] == ["head", "5", "4", "3", "2", "1", "0", "embedding"]
    assert "→ 3" in rows[1]
    assert "─" in rows[5]
    plain = printed(drawn(compared("shared")), encoding="ascii")
    assert any("###" in line and "---" in line for line in plain)


def test_several_layers_in_a_row_are_shared_only_if_all_are(compared):
    block = drawn(large(compared("identical"), 16, 16))
    floors = list(block.candidate.floors)
    odd = floors[2]
    floors[2] = replace(odd, parts=tuple(replace(part, state="not_shared") for part in odd.parts))
    mixed = replace(block, candidate=replace(block.candidate, floors=tuple(floors)))
    row = next(line for line in printed(mixed) if line.split()[0] == "0-1")
    assert "▓" in row.split("─")[0]
    assert "█" not in row.split("─")[0]


def test_the_picture_is_told_in_korean_too(compared):
    card = verdict_card(compared("shared"), load_language("ko"))
    assert card.drawing is not None
    assert "임베딩" in card.drawing.caption
    assert "후보 모델" in card.drawing.alt
