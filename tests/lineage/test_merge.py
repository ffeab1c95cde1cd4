"""Merges are decomposed, and other models are not called merges."""

import io
import json
from itertools import combinations

import jsonschema
import numpy as np
import pytest
import yaml
from rich.console import Console
from tests.lineage.models import loaded, source, with_experts_of
from tests.support.amount import every

from modelkin import MergeResult, explain_merge
from modelkin.casework.lab import derive
from modelkin.document import load_language, merge_view, render_markdown, to_json
from modelkin.document.results import schema
from modelkin.document.terminal import render_terminal
from modelkin.document.views.merge import _interval
from modelkin.errors import FormatError, UsageError
from modelkin.lineage.merge_result import MixtureShare

LIGHT, HEAVY, SIBLING, LORA = "finetune-light", "finetune-heavy", "finetune-sibling", "lora"


def explained(made, *parents, base=None, **rest):
    return explain_merge(
        source(made, "made", **rest),
        [source(name) for name in parents],
        base=None if base is None else source(base),
    )


def values(found):
    return [share.value for share in found.weights]


@pytest.mark.parametrize(
    ("parents", "share"), [((LIGHT, HEAVY), 0.05), ((LIGHT, HEAVY), 0.3), (("twin-1", "twin-2"), 0.5)]
)
def test_a_linear_merge_of_siblings_or_strangers_gives_its_weights_back(parents, share):
    made = derive.merge_linear([loaded(name) for name in parents], [share, 1 - share])
    found = explained(made, *parents)
    assert (found.conclusion, found.method) == ("merge", "linear")
    np.testing.assert_allclose(values(found), [share, 1 - share], atol=0.005)
    assert found.opposition.low > 0.9
    assert found.to_rounding > 0.95
    for weight, truth in zip(found.weights, (share, 1 - share), strict=True):
        assert weight.low - 0.002 <= truth <= weight.high + 0.002


def test_three_parents_and_one_that_had_no_part_in_it():
    made = derive.merge_linear([loaded(LIGHT), loaded(HEAVY), loaded(LORA)], [0.2, 0.3, 0.5])
    np.testing.assert_allclose(values(explained(made, LIGHT, HEAVY, LORA)), [0.2, 0.3, 0.5], atol=0.005)
    half = derive.merge_linear([loaded(LIGHT), loaded(HEAVY)], [0.5, 0.5])
    found = explained(half, LIGHT, HEAVY, "twin-1")
    assert found.conclusion == "merge"
    np.testing.assert_allclose(values(found), [0.5, 0.5, 0.0], atol=0.005)


def test_weights_that_change_from_layer_to_layer_are_seen_and_written():
    first, second = loaded(LIGHT), loaded(HEAVY)
    shares = {0: 0.1, 1: 0.4, 2: 0.6, 3: 0.9}
    made = derive.merge_linear([first, second], [0.5, 0.5])
    for layer, share in shares.items():
        mixed = derive.merge_linear([first, second], [share, 1 - share])
        made = derive.copy_parts(made, mixed, layers=[layer])
    found = explained(made, LIGHT, HEAVY)
    assert found.conclusion == "merge"
    measured = {item.layer: item.weights[0].value for item in found.layers}
    assert measured == pytest.approx(shares, abs=0.005)
    weight = yaml.safe_load(found.recipe)["models"][0]["parameters"]["weight"]
    assert {item.get("filter") for item in weight} == {"self_attn", "mlp", None}
    assert weight[0]["value"] == pytest.approx([0.1, 0.4, 0.6, 0.9], abs=0.01)


@pytest.mark.parametrize("other", [HEAVY, "twin-1"])
@pytest.mark.parametrize("t", [0.1, pytest.param(0.4, marks=pytest.mark.more)])
def test_slerp_is_told_from_a_straight_line(other, t):
    found = explained(derive.merge_slerp(loaded(LIGHT), loaded(other), t=t), LIGHT, other)
    assert (found.conclusion, found.method) == ("merge", "slerp")
    slerp = next(fit for fit in found.methods if fit.method == "slerp")
    assert dict(slerp.details)["t"] == pytest.approx(t, abs=0.005)
    assert yaml.safe_load(found.recipe)["merge_method"] == "slerp"


def test_slerp_is_told_from_task_arithmetic_if_a_base_is_named():
    """The arc bends away from the straight line, which looks like a share of the base."""
    found = explained(derive.merge_slerp(loaded(LIGHT), loaded(HEAVY), t=0.4), LIGHT, HEAVY, base="base")
    assert found.weights[-1].high < 0
    assert (found.conclusion, found.method) == ("merge", "slerp")
    recipe = yaml.safe_load(found.recipe)
    assert (recipe["merge_method"], recipe["base_model"]) == ("slerp", LIGHT)
    straight = explained(
        derive.merge_linear([loaded(LIGHT), loaded(HEAVY)], [0.6, 0.4]), LIGHT, HEAVY, base="base"
    )
    assert straight.method == "linear"


@pytest.mark.parametrize("share", [0.05, 0.08, 0.15])
def test_what_rounding_moves_a_small_weight_by_is_in_its_interval(share):
    """In bfloat16 most of a small change rounds back to the number of the main parent."""
    made = derive.merge_linear([loaded(LIGHT), loaded(SIBLING)], [1 - share, share])
    found = explained(made, LIGHT, SIBLING)
    assert found.conclusion == "merge"
    for weight, truth in zip(found.weights, (1 - share, share), strict=True):
        assert weight.low <= truth <= weight.high


def test_task_arithmetic_needs_the_base_to_be_named():
    base = loaded("base")
    made = derive.merge_tasks(base, [(loaded(LIGHT), 0.6), (loaded(SIBLING), 0.6)])
    found = explained(made, LIGHT, SIBLING, base="base")
    assert (found.conclusion, found.method) == ("merge", "task-arithmetic")
    np.testing.assert_allclose(values(found), [0.6, 0.6, -0.2], atol=0.02)
    alone = explained(made, LIGHT, SIBLING)
    assert alone.to_rounding == 0
    assert "merge-inexact" in {warning.code for warning in alone.warnings}


@pytest.mark.more
@pytest.mark.parametrize("dropped", [0.5, pytest.param(0.9, marks=pytest.mark.more)])
def test_dare_is_found_with_its_density_and_weights(dropped):
    children = [(loaded(LIGHT), 0.6), (loaded(SIBLING), 0.4)]
    made = derive.merge_dare(loaded("base"), children, dropped=dropped, rng=np.random.default_rng(1))
    found = explained(made, LIGHT, SIBLING, base="base")
    assert (found.conclusion, found.method) == ("merge", "dare")
    recipe = yaml.safe_load(found.recipe)
    given = [item["parameters"] for item in recipe["models"]]
    assert [item["weight"] for item in given] == pytest.approx([0.6, 0.4], abs=0.03)
    assert [item["density"] for item in given] == pytest.approx([1 - dropped] * 2, abs=0.03)
    without = explained(made, LIGHT, SIBLING)
    assert without.conclusion == "not-a-merge"
    assert without.summary.code == "merge-not"


@pytest.mark.more
@pytest.mark.parametrize(
    ("kept", "parents"),
    [(0.2, (LIGHT, SIBLING)), pytest.param(0.5, (LIGHT, SIBLING, LORA), marks=pytest.mark.more)],
)
def test_ties_is_told_from_dare_by_what_it_keeps(kept, parents):
    made = derive.merge_ties(loaded("base"), [loaded(name) for name in parents], kept=kept)
    found = explained(made, *parents, base="base")
    assert (found.conclusion, found.method) == ("merge", "ties")
    recipe = yaml.safe_load(found.recipe)
    assert recipe["merge_method"] == "ties"
    assert recipe["models"][0]["parameters"]["density"] == pytest.approx(kept, abs=0.03)
    assert recipe["parameters"]["lambda"] == pytest.approx(1.0, abs=0.05)


def merged_by_ties(base, children, weights, *, kept, scale):
    """Trim, elect signs by weighted sums, and average those that agree by their weights, as mergekit does."""

    def tensor(name):
        start = base.tensors[name]
        changes = [child.tensors[name] - start for child in children]
        floors = [np.quantile(np.abs(change), 1 - kept) for change in changes]
        parts = [
            weight * np.where(np.abs(change) >= floor, change, 0)
            for weight, change, floor in zip(weights, changes, floors, strict=True)
        ]
        elected = np.sign(np.sum(parts, axis=0))
        agreeing = [(np.sign(part) == elected) & (part != 0) for part in parts]
        total = sum(weight * agrees for weight, agrees in zip(weights, agreeing, strict=True))
        made = sum(np.where(agrees, part, 0) for part, agrees in zip(parts, agreeing, strict=True))
        return (start + scale * made / np.where(total == 0, 1, total)).astype(np.float32)

    return base.with_tensors({name: tensor(name) for name in base.tensors})


@pytest.mark.more
@pytest.mark.parametrize(
    ("weights", "kept", "scale"),
    [
        ((0.7, 0.3), 0.6, 0.8),
        pytest.param((0.7, 0.3), 0.8, 1.0, marks=pytest.mark.more),
        pytest.param((0.5, 0.5), 0.6, 1.0, marks=pytest.mark.more),
    ],
)
def test_ties_is_found_whatever_the_weights_that_elected_signs(weights, kept, scale):
    children = [loaded(LIGHT), loaded(SIBLING)]
    made = merged_by_ties(loaded("base"), children, weights, kept=kept, scale=scale)
    found = explained(made, LIGHT, SIBLING, base="base")
    assert (found.conclusion, found.method) == ("merge", "ties")
    recipe = yaml.safe_load(found.recipe)
    given = [item["parameters"] for item in recipe["models"]]
    assert [item["weight"] for item in given] == pytest.approx([scale * one for one in weights], abs=0.02)
    assert [item["density"] for item in given] == pytest.approx([kept] * 2, abs=0.02)
    assert recipe["parameters"]["lambda"] == pytest.approx(scale, abs=0.02)


def test_layers_of_two_models_stacked_are_a_passthrough_of_both():
    grown = derive.reorder_layers(loaded(LIGHT), [0, 1, 2, 1, 2, 3])
    made = derive.copy_parts(grown, loaded(HEAVY), layers={3: 1, 4: 2, 5: 3})
    found = explained(made, LIGHT, HEAVY)
    assert (found.conclusion, found.method) == ("merge", "passthrough")
    slices = [item["sources"][0] for item in yaml.safe_load(found.recipe)["slices"]]
    assert slices == [{"model": LIGHT, "layer_range": [0, 3]}, {"model": HEAVY, "layer_range": [1, 4]}]


def test_layers_of_one_model_repeated_are_no_merge():
    found = explained(derive.reorder_layers(loaded(LIGHT), [0, 1, 2, 1, 2, 3]), LIGHT, "twin-1")
    assert (found.conclusion, found.method) == ("single-parent", "passthrough")
    assert [row[1] for row in found.layer_map] == [0, 1, 2, 1, 2, 3]


def test_experts_made_of_several_models_are_named_one_by_one():
    sources = [LIGHT, HEAVY, LIGHT, SIBLING]
    made = derive.upcycle(loaded(LIGHT), n_experts=4, rng=np.random.default_rng(1))
    made = with_experts_of([loaded(name) for name in sources], made)
    found = explained(made, LIGHT, HEAVY, SIBLING)
    assert (found.conclusion, found.method) == ("merge", "mixture-of-experts")
    recipe = yaml.safe_load(found.recipe)
    assert [item["source_model"] for item in recipe["experts"]] == sources
    assert recipe["base_model"] == LIGHT
    assert "merge-no-counterpart" in {cell.reason.code for cell in found.cells if cell.reason}


def test_a_noisy_merge_is_one_but_not_up_to_rounding():
    made = derive.merge_linear([loaded(LIGHT), loaded(HEAVY)], [0.5, 0.5])
    found = explained(derive.add_noise(made, size=0.1, rng=np.random.default_rng(1)), LIGHT, HEAVY)
    assert found.conclusion == "merge"
    assert found.to_rounding == 0
    np.testing.assert_allclose(values(found), [0.5, 0.5], atol=0.01)


@pytest.mark.parametrize(
    ("candidate", "parents"),
    [
        ("twin-2", (LIGHT, "twin-1")),
        ("twin-2", (LIGHT, HEAVY)),
        (LORA, (HEAVY, "new-attention")),
        ("base", ("new-attention", HEAVY)),
    ],
)
def test_strangers_siblings_and_ancestors_are_no_merges(candidate, parents):
    found = explain_merge(source(candidate), [source(name) for name in parents])
    assert found.conclusion in ("not-a-merge", "single-parent")
    assert found.recipe is None
    assert found.opposition is not None
    assert found.opposition.high < 0.2


def test_the_ancestor_of_two_children_is_nearer_to_their_mean_and_still_no_merge():
    """Mixing two children halves what they changed: a gain that says nothing."""
    rng = np.random.default_rng(3)
    base = loaded("base")
    children = [derive.add_noise(base, size=0.1, rng=rng) for _ in range(2)]
    found = explain_merge(source(base), [source(child, f"child-{n}") for n, child in enumerate(children)])
    assert found.gain == pytest.approx(0.5, abs=0.02)
    assert found.opposition is not None
    assert abs(found.opposition.value) < 0.02
    assert found.conclusion == "not-a-merge"


@pytest.mark.more
def test_no_three_relatives_of_the_zoo_look_like_a_merge():
    names = ["base", LIGHT, HEAVY, "grandchild"]
    sources = {name: source(name) for name in names}
    for candidate in names:
        for pair in combinations([name for name in names if name != candidate], 2):
            found = explain_merge(sources[candidate], [sources[name] for name in pair])
            assert found.conclusion in ("not-a-merge", "single-parent"), (candidate, pair)
            assert found.opposition is not None
            assert found.opposition.value < 0.2


def test_parents_that_make_each_other_up_are_warned_about():
    half = derive.merge_linear([loaded(LIGHT), loaded(HEAVY)], [0.5, 0.5])
    sources = [source(LIGHT), source(HEAVY), source(half, "half")]
    found = explain_merge(source(derive.merge_linear([loaded(LIGHT), loaded(HEAVY)], [0.3, 0.7])), sources)
    assert min(found.collinearity) > 0.9
    assert "merge-collinear" in {warning.code for warning in found.warnings}


def test_parents_that_are_equal_somewhere_have_no_weights_there():
    other = derive.copy_parts(loaded(HEAVY), loaded(LIGHT), layers=[1])
    made = derive.merge_linear([loaded(LIGHT), other], [0.5, 0.5])
    found = explain_merge(source(made), [source(LIGHT), source(other, "other")])
    equal = [cell for cell in found.cells if cell.reason is not None]
    assert {cell.layer for cell in equal} == {1}
    assert {cell.reason.code for cell in equal if cell.reason} == {"merge-parents-equal"}
    assert found.conclusion == "merge"


def test_models_without_a_tensor_of_one_shape_cannot_be_tested():
    found = explain_merge(source("deep-1"), [source("base"), source("twin-1")])
    assert found.conclusion == "not-testable"
    assert found.weights == ()
    assert all(cell.reason is not None for cell in found.cells)


def test_one_parent_is_too_few():
    with pytest.raises(UsageError, match="expected at least two models to mix, got 1"):
        explain_merge(source("base"), [source("twin-1")])


@pytest.fixture(scope="module")
def merged():
    made = derive.merge_linear([loaded(LIGHT), loaded(HEAVY)], [0.3, 0.7])
    return explain_merge(source(made), [source(LIGHT), source(HEAVY)], base=source("base"))


def test_the_record_follows_its_schema_and_is_read_back_equal(merged):
    jsonschema.validate(json.loads(to_json(merged)), schema("modelkin.merge/1"))
    assert MergeResult.from_json(merged.to_json()) == merged
    with pytest.raises(FormatError, match="expected the schema"):
        MergeResult.from_json('{"schema": "modelkin.matrix/1"}')


def test_two_runs_with_one_seed_say_the_same(merged):
    made = derive.merge_linear([loaded(LIGHT), loaded(HEAVY)], [0.3, 0.7])
    again = explain_merge(source(made), [source(LIGHT), source(HEAVY)], base=source("base"))
    assert again.cells == merged.cells


@pytest.mark.parametrize(
    ("language", "words"), [("en", "The candidate is a mixture"), ("ko", "이 모델들을 섞은")]
)
def test_the_folder_tells_it_in_both_languages(merged, tmp_path, language, words):
    written = {path.name: path.read_text() for path in merged.write(tmp_path, language=language)}
    assert written.keys() == {"merge.json", "merge.csv", "MERGE.md", "report.html", "recipe.yaml"}
    assert words in written["MERGE.md"]
    assert words in written["report.html"]
    assert written["recipe.yaml"] == merged.recipe
    assert written["merge.csv"].count("\n") == 1 + sum(max(1, len(cell.weights)) for cell in merged.cells)


@pytest.mark.parametrize(
    ("language", "share", "fit"),
    [
        ("en", "## Weights\n", "Weights of the nearest mixture"),
        ("ko", "## 가중치\n", "가장 가까운 혼합의 가중치"),
    ],
)
def test_weights_are_those_of_the_candidate_only_if_it_is_a_merge(merged, language, share, fit):
    spoken = load_language(language)
    text = render_markdown(merge_view(merged, spoken))
    assert share in text
    assert fit not in text
    assert spoken.say("merge.methods_note") in text
    stranger = explain_merge(source("twin-2"), [source(LIGHT), source("twin-1")])
    text = render_markdown(merge_view(stranger, spoken))
    assert share not in text
    assert fit in text


@pytest.mark.parametrize("width", every(2, [80, 120]))
def test_tables_of_four_models_with_long_names_say_what_each_row_is(width):
    names = ("base", LIGHT, HEAVY, SIBLING)
    long = {name: f"/models/an-organisation-of-some-length/a-model-7b-instruct-v2-{name}" for name in names}
    made = derive.merge_linear([loaded(LIGHT), loaded(HEAVY), loaded(SIBLING)], [0.2, 0.3, 0.5])
    parents = [source(loaded(name), long[name]) for name in (LIGHT, HEAVY, SIBLING)]
    found = explain_merge(source(made, "made"), parents, base=source(loaded("base"), long["base"]))
    printed = io.StringIO()
    sections = [block for block in merge_view(found) if getattr(block, "key", "") in ("modules", "layers")]
    Console(width=width, file=printed).print(render_terminal(sections))
    lines = [line.split() for line in printed.getvalue().splitlines() if line.strip()]
    begins = [words[0] for words in lines]
    rows = ["module", "embedding", "norms", "head", "attention", "mlp", "layer", "0", "1", "2", "3"]
    assert [word for word in begins if word in rows] == rows
    if width == 120:
        assert ["module", "…finetune-light", "…finetune-heavy", "…finetune-sibling", "…base"] in [
            words[:5] for words in lines
        ]


@pytest.mark.more
def test_details_of_methods_are_told_in_words():
    parents = [(loaded(LIGHT), 0.5), (loaded(HEAVY), 0.5)]
    made = derive.merge_dare(loaded("base"), parents, dropped=0.5, rng=np.random.default_rng(1))
    found = explained(made, LIGHT, HEAVY, base="base")
    names = {name for fit in found.methods for name, _ in fit.details}
    assert {"left_straight", "epsilon", "ratio"} <= names
    for tag in ("en", "ko"):
        language = load_language(tag)
        text = render_markdown(merge_view(found, language))
        assert all(language.say(f"merge.detail-{name}") in text for name in names)
        assert "left_straight" not in text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.25, 0.35, "0.250 … 0.350"),
        (0.29996, 0.30004, "0.299960 … 0.300040"),
        (0.3, 0.3, "0.300 … 0.300"),
    ],
)
def test_an_interval_has_the_digits_that_show_its_width(low, high, text):
    assert _interval(MixtureShare(value=0.3, low=low, high=high)) == text
