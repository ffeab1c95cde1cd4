"""Collections become forests: families by accepted pairs, edges by what is carried, directions by facts."""

import json
import re
from itertools import combinations
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pytest
from tests.lineage.collection import DEVELOPMENT
from tests.lineage.models import loaded, source

from modelkin import FamilyForest, family_forest
from modelkin.casework.lab import derive
from modelkin.document import render_markdown, to_json, tree_view
from modelkin.document.results import schema
from modelkin.errors import FormatError, UsageError
from modelkin.lineage.joining import four_point, join_neighbours, newick, splits
from modelkin.lineage.tree_result import JudgedPair
from modelkin.lineage.tree_samples import read_sample
from modelkin.model import open_model

LIGHT, HEAVY, SIBLING = "finetune-light", "finetune-heavy", "finetune-sibling"


def relatives(models, **rest):
    """Grow a family whose pairs are taken as accepted: what is tested here is what follows from that."""
    names = list(models)
    known = [
        JudgedPair(first=b, second=a, conclusion="shared", related=True, effect=0.5, log10_p=-9.0)
        for a, b in combinations(names, 2)
    ]
    return family_forest(models, known=known, **rest)


@pytest.fixture(scope="module")
def forest():
    models = {name: source(name) for name in ("base", LIGHT, HEAVY, "twin-1")}
    models["int8"] = source(derive.round_to_int8(loaded(LIGHT)), "int8")
    models["mixed"] = source(derive.merge_linear([loaded(LIGHT), loaded(HEAVY)], [0.4, 0.6]), "mixed")
    return family_forest(models)


def edges(found):
    return {(edge.first, edge.second): edge for edge in found.edges}


@pytest.mark.more
def test_families_are_what_accepted_pairs_connect(forest):
    assert [set(family.members) for family in forest.families] == [{"base", LIGHT, HEAVY, "int8", "mixed"}]
    assert forest.alone == ("twin-1",)
    assert len(forest.pairs) == 6 * 5 // 2
    assert all(pair.related is False for pair in forest.pairs if "twin-1" in (pair.first, pair.second))


def test_a_copy_hangs_on_what_it_was_made_of_and_a_fact_says_which_came_first(forest):
    int8 = edges(forest)["int8", LIGHT]
    assert (int8.kind, int8.parent) == ("inherits", LIGHT)
    assert "quantised-grid" in {fact.kind for fact in int8.facts}
    assert int8.inheritance == pytest.approx(1, abs=0.1)
    assert int8.support > 0.9


@pytest.mark.parametrize(
    ("name", "fact"),
    [("pruned", "pruned-subset"), ("extended", "vocabulary-superset"), ("experts", "experts")],
)
def test_asymmetric_facts_say_which_came_first(name, fact):
    made = {
        "pruned": lambda: derive.prune_by_magnitude(loaded("base"), fraction=0.5),
        "extended": lambda: loaded("extended"),
        "experts": lambda: derive.upcycle(loaded("base"), n_experts=2, rng=np.random.default_rng(1)),
    }[name]()
    (edge,) = relatives({"base": source("base"), name: source(made, name)}).edges
    assert edge.parent == "base"
    assert fact in {item.kind for item in edge.facts}


def test_a_merge_hangs_on_both_parents_with_its_weights(forest):
    weights = {edge.second: edge.weight for edge in forest.edges if edge.kind == "merge"}
    assert weights == pytest.approx({LIGHT: 0.4, HEAVY: 0.6}, abs=0.02)
    assert all(edge.parent == edge.second for edge in forest.edges if edge.kind == "merge")


def with_merge(share, **more):
    """Grow a family of a base, two children, a grandchild, and a merge of the children."""
    mixed = derive.merge_linear([loaded(LIGHT), loaded(SIBLING)], [share, 1 - share])
    models = {name: source(name) for name in ("base", LIGHT, SIBLING, "grandchild")}
    models["mixed"] = source(mixed, "mixed")
    models |= {name: source(change(mixed), name) for name, change in more.items()}
    found = relatives(models, relations=False)
    return {(edge.first, edge.second) for edge in found.edges}


@pytest.mark.parametrize("share", [0.6, 0.8])
def test_a_child_does_not_hang_on_a_merge_of_its_parent_nor_does_the_parent(share):
    """The grandchild is closer to the merge than to its parent: it was trained on what the sibling was."""
    assert with_merge(share) == {
        (LIGHT, "base"),
        (SIBLING, "base"),
        ("grandchild", LIGHT),
        ("mixed", LIGHT),
        ("mixed", SIBLING),
    }


def test_what_was_made_of_a_merge_hangs_on_the_merge():
    found = with_merge(
        0.8,
        int8=derive.round_to_int8,
        noisy=lambda mixed: derive.add_noise(mixed, size=0.005, rng=np.random.default_rng(2)),
    )
    assert {("int8", "mixed"), ("noisy", "mixed"), (LIGHT, "base"), ("grandchild", LIGHT)} <= found


def test_what_was_trained_from_a_merge_hangs_on_the_merge():
    def trained(mixed):
        before, after = loaded(LIGHT).tensors, loaded("grandchild").tensors
        return mixed.with_tensors(
            {name: values + after[name] - before[name] for name, values in mixed.tensors.items()}
        )

    mixed = derive.merge_linear([loaded(LIGHT), loaded(HEAVY)], [0.6, 0.4])
    models = {name: source(name) for name in ("base", LIGHT, HEAVY)}
    models |= {"mixed": source(mixed, "mixed"), "tuned": source(trained(mixed), "tuned")}
    found = {edge.second for edge in relatives(models, relations=False).edges if edge.first == "tuned"}
    assert found == {"mixed"}


@pytest.mark.more
def test_without_an_asymmetric_fact_no_direction_is_named():
    rng = np.random.default_rng(1)
    base = loaded("gpt2-base")
    noisy = derive.add_noise(base, size=0.05, rng=rng)
    found = relatives({"base": source(base), "noisy": source(noisy)})
    (edge,) = found.edges
    assert (edge.parent, edge.facts) == (None, ())
    assert "direction not identified" in render_markdown(tree_view(found))
    dated = relatives(
        {"base": source(base), "noisy": source(noisy)}, dates={"base": "2024-01-01", "noisy": "2024-02-01"}
    )
    assert dated.edges[0].parent == "base"
    assert [fact.kind for fact in dated.edges[0].facts] == ["dates"]


def test_a_sibling_that_left_rows_untouched_is_not_named_as_the_parent():
    """The low-rank update holds the rows of the missing base, which the others have shortened."""
    found = relatives({name: source(name) for name in (LIGHT, SIBLING, HEAVY, "lora")}, relations=False)
    assert {edge.parent for edge in found.edges} == {None}
    assert [note.code for note in found.families[0].notes] == ["tree-own-branch"]
    with_base = relatives(
        {name: source(name) for name in ("base", LIGHT, SIBLING, HEAVY, "lora")}, relations=False
    )
    named = {edge.child: edge.parent for edge in with_base.edges if edge.parent is not None}
    assert named == dict.fromkeys((LIGHT, SIBLING, HEAVY), "base")
    assert with_base.families[0].notes == ()


def test_the_parent_of_a_chain_is_named_by_its_rows():
    """It lies at the end of all ways, and its only child hangs on it."""
    found = relatives({name: source(name) for name in ("base", LIGHT, "grandchild")}, relations=False)
    named = {(edge.first, edge.second): edge.parent for edge in found.edges}
    assert named == {(LIGHT, "base"): "base", ("grandchild", LIGHT): LIGHT}


def test_facts_that_contradict_each_other_name_no_direction():
    made = derive.round_to_int8(loaded(LIGHT))
    found = relatives(
        {"light": source(LIGHT), "int8": source(made)}, dates={"light": "2024-02-01", "int8": "2024-01-01"}
    )
    assert found.edges[0].parent is None
    assert {fact.parent for fact in found.edges[0].facts} == {"light", "int8"}


@pytest.mark.more
def test_repeated_and_removed_layers_are_told_apart():
    grown = derive.reorder_layers(loaded("base"), [0, 1, 2, 1, 2, 3])
    short = derive.reorder_layers(loaded("base"), [0, 1, 3])
    found = relatives({"base": source("base"), "grown": source(grown), "short": source(short)})
    facts = {edge.first: {(fact.kind, fact.parent) for fact in edge.facts} for edge in found.edges}
    assert ("repeated-layers", "base") in facts["grown"]
    assert ("pruned-subset", "base") in facts["short"]


@pytest.mark.more
def test_a_stored_copy_in_another_format_leaves_its_trail():
    wide = derive.add_noise(loaded("gpt2-base"), size=0.01, rng=np.random.default_rng(1))
    models = {"wide": source(wide, dtype="F32"), "narrow": source(wide, dtype="BF16")}
    (rounded,) = relatives(models).edges
    assert (rounded.parent, rounded.facts[0].kind) == ("wide", "rounded")
    stored = {"wide": source("gpt2-base", dtype="F32"), "narrow": source("gpt2-base", dtype="BF16")}
    (trail,) = relatives(stored).edges
    assert (trail.parent, trail.facts[0].kind) == ("narrow", "rounding-trail")


def test_halves_may_be_rounded_either_way():
    """A published copy of MiniLM in float16 has halves away from zero, where numpy goes to the even one."""
    half = np.float32(1 + 2.0**-11)
    base = loaded("gpt2-base")
    name = next(key for key in base.tensors if key.endswith("mlp.c_fc.weight"))
    wide = base.with_tensors({name: np.full_like(base.tensors[name], half)})
    up = base.with_tensors({name: np.full_like(base.tensors[name], np.float32(1 + 2.0**-10))})
    (edge,) = relatives({"wide": source(wide, dtype="F32"), "up": source(up, dtype="F16")}).edges
    assert (edge.parent, edge.facts[0].kind) == ("wide", "rounded")


@pytest.mark.parametrize(
    ("change", "levels"), [(derive.round_to_int8, 255), (derive.round_to_int4, 16), (None, None)]
)
def test_grids_are_seen_and_trained_weights_have_none(change, levels):
    made = loaded(HEAVY) if change is None else change(loaded(HEAVY))
    with open_model(source(made)) as model:
        assert read_sample("made", model, "standard", 0).levels == levels


def additive(lengths, inner):
    """Return the distances of ((0, 1), (2, 3)) with the given leaf and inner branches."""
    n = len(lengths)
    return np.array(
        [
            [0 if i == j else lengths[i] + lengths[j] + inner * (i // 2 != j // 2) for j in range(n)]
            for i in range(n)
        ]
    )


def test_neighbour_joining_finds_an_additive_tree_and_its_lengths():
    distances = additive([1.0, 2.0, 3.0, 0.5], 4.0)
    tree = join_neighbours(distances)
    assert splits(tree, 4) == {frozenset({2, 3})}
    assert four_point(distances, 0) == pytest.approx(0)
    text = newick(tree, ["a", "b's", "c", "d"], {frozenset({2, 3}): 0.98})
    assert text.endswith(";")
    assert "'b''s':2" in text
    assert "0.98" in text


def test_distances_of_no_tree_are_told_by_the_four_point_check():
    square = np.array([[0, 1, 2, 1], [1, 0, 1, 2], [2, 1, 0, 1], [1, 2, 1, 0]], float)
    assert four_point(square, 0) == pytest.approx(0.5)


def test_the_record_follows_its_schema_and_is_read_back_equal(forest):
    jsonschema.validate(json.loads(to_json(forest)), schema("modelkin.tree/1"))
    assert FamilyForest.from_json(forest.to_json()) == forest
    with pytest.raises(FormatError, match="expected the schema"):
        FamilyForest.from_json('{"schema": "modelkin.merge/1"}')


@pytest.mark.parametrize(("language", "words"), [("en", "Family of base"), ("ko", "base 계열")])
def test_the_folder_holds_page_newick_and_graphml(forest, tmp_path, language, words):
    written = {path.name: path.read_text() for path in forest.write(tmp_path, language=language)}
    assert written.keys() == {"tree.json", "tree.nwk", "tree.graphml", "TREE.md", "report.html"}
    assert words in written["TREE.md"]
    assert written["report.html"].count('class="edge ') == len(forest.edges)
    assert written["tree.nwk"].startswith("(")
    graph = ElementTree.fromstring(written["tree.graphml"])
    space = "{http://graphml.graphdrawing.org/xmlns}"
    assert len(graph.findall(f".//{space}node")) == 6
    directed = [item.text for item in graph.findall(f".//{space}edge/{space}data[@key='directed']")]
    assert len(directed) == len(forest.edges)
    assert directed.count("true") == sum(edge.parent is not None for edge in forest.edges)


def test_the_line_of_a_second_parent_passes_at_the_right_of_all_names(forest, tmp_path):
    page = next(path.read_text() for path in forest.write(tmp_path) if path.name == "report.html")
    names = re.findall(r'<text x="(\d+)" y="\d+" class="row-name">([^<]+)</text>', page)
    lines = re.findall(r'<path d="([^"]+)" class="edge merge"', page)
    assert len(names) == 5
    assert len(lines) == 2
    (beside,) = (line for line in lines if " V" in line)
    assert " C" not in beside
    (lane, _) = re.findall(r" Q(\d+)", beside)
    assert int(lane) > max(int(x) + 7 * len(name) for x, name in names)


def test_the_arrow_of_a_second_parent_ends_beside_the_name_of_a_merge_of_wide_letters(tmp_path):
    mixed = derive.merge_linear([loaded(LIGHT), loaded(HEAVY)], [0.6, 0.4])
    models = {name: source(name) for name in ("base", LIGHT, HEAVY)} | {"WMWMWMWM": source(mixed, "mixed")}
    found = relatives(models, relations=False)
    page = next(path.read_text() for path in found.write(tmp_path) if path.name == "report.html")
    (x,) = re.findall(r'<text x="(\d+)" y="\d+" class="row-name">WMWMWMWM</text>', page)
    (tip,) = re.findall(r' H(\d+) m6 -4 l-6 4 l6 4"', page)
    # In the widest common font, a letter W of 12.5 px takes 12.4 px.
    assert int(tip) > int(x) + 8 * 12.4


def test_a_family_of_two_has_a_tree_of_one_branch(tmp_path):
    found = relatives({name: source(name) for name in ("base", LIGHT)}, relations=False)
    (edge,) = found.edges
    half = f"{edge.distance / 2:.6g}"
    assert found.families[0].newick == f"('base':{half},'{LIGHT}':{half});"
    written = {path.name: path.read_text() for path in found.write(tmp_path)}
    assert written["tree.nwk"] == f"{found.families[0].newick}\n"


@pytest.mark.more
def test_verdicts_made_before_are_not_made_again(forest):
    models = {name: source(name) for name in ("base", LIGHT)}
    known = [pair for pair in forest.pairs if {pair.first, pair.second} == {"base", LIGHT}]
    assert family_forest(models, known=known).pairs == tuple(known)


def test_wrong_collections_are_readable_errors():
    with pytest.raises(UsageError, match="expected at least two, got 1"):
        family_forest([source("base")])
    with pytest.raises(UsageError, match="a date was given for a model that is not in the collection"):
        family_forest({"a": source("base"), "b": source(LIGHT)}, dates={"c": "2024-01-01"})


def test_the_collection_of_the_measurement_is_large_enough():
    known = DEVELOPMENT.truths()
    assert len(known) >= 60
    assert sum(len(truth.parents) > 1 for truth in known.values()) == 7
    assert len({truth.cluster for truth in known.values()}) == 20
