"""mergekit as a peer: its own merges are decomposed, and it accepts the resulting recipes."""

from pathlib import Path

import pytest
import yaml
from tests.places import ZOO

from modelkin import explain_merge

# Warnings of mergekit and its dependencies are not ours to fix.
pytestmark = [pytest.mark.lab, pytest.mark.filterwarnings("ignore")]

LIGHT, HEAVY, SIBLING, BASE = (
    str(ZOO / name) for name in ("finetune-light", "finetune-heavy", "finetune-sibling", "base")
)


def weighted(*models, **rest):
    return {"models": [{"model": name, "parameters": given} for name, given in models], **rest}


def sparse(density, **more):
    """Return two parents with weights and what their differences are chosen by."""
    return (
        (LIGHT, {"weight": 0.6, "density": density, **more}),
        (SIBLING, {"weight": 0.4, "density": density, **more}),
    )


SPARSE = ((LIGHT, {"weight": 0.6, "density": 0.5}), (SIBLING, {"weight": 0.4, "density": 0.5}))
RECIPES = {
    "linear": weighted((LIGHT, {"weight": 0.3}), (HEAVY, {"weight": 0.7})),
    "task_arithmetic": weighted((LIGHT, {"weight": 0.6}), (SIBLING, {"weight": 0.5}), base_model=BASE),
    "ties": weighted(*SPARSE, base_model=BASE, parameters={"normalize": True}),
    "dare_linear": weighted(*SPARSE, base_model=BASE),
    "dare_ties": weighted(*SPARSE, base_model=BASE),
    "breadcrumbs": weighted(*sparse(0.5, gamma=0.02), base_model=BASE),
    "breadcrumbs_ties": weighted(*sparse(0.7, gamma=0.05), base_model=BASE),
    "della_linear": weighted(*sparse(0.5, epsilon=0.2), base_model=BASE),
    "della": weighted(*sparse(0.6, epsilon=0.15), base_model=BASE),
    "sce": weighted((LIGHT, {}), (SIBLING, {}), base_model=BASE, parameters={"select_topk": 0.4}),
    "model_stock": weighted((LIGHT, {}), (SIBLING, {}), base_model=BASE),
    "slerp": {
        "slices": [{"sources": [{"model": name, "layer_range": [0, 4]} for name in (LIGHT, HEAVY)]}],
        "base_model": LIGHT,
        "parameters": {
            "t": [
                {"filter": "self_attn", "value": [0.0, 0.5, 0.3, 0.7]},
                {"filter": "mlp", "value": [1.0, 0.5, 0.7, 0.3]},
                {"value": 0.5},
            ]
        },
    },
    "passthrough": {
        "slices": [
            {"sources": [{"model": LIGHT, "layer_range": [0, 3]}]},
            {"sources": [{"model": HEAVY, "layer_range": [1, 4]}]},
        ]
    },
}


def numbers(value):
    match value:
        case dict():
            return [item for key in sorted(value) for item in numbers(value[key])]
        case list():
            return [item for held in value for item in numbers(held)]
        case int() | float():
            return [float(value)]
    return []


@pytest.mark.parametrize("method", RECIPES)
def test_a_merge_by_mergekit_gives_its_recipe_back(method, tmp_path: Path):
    from mergekit.config import MergeConfiguration
    from mergekit.merge import run_merge
    from mergekit.options import MergeOptions

    recipe = {**RECIPES[method], "merge_method": method, "dtype": "bfloat16"}
    options = MergeOptions(lazy_unpickle=False, quiet=True, write_model_card=False)
    run_merge(MergeConfiguration.model_validate(recipe), str(tmp_path), options=options)
    base = recipe.get("base_model") if method != "slerp" else None
    found = explain_merge(str(tmp_path), _parents(recipe), base=base)
    assert found.conclusion == "merge"
    told = yaml.safe_load(found.recipe)
    MergeConfiguration.model_validate(told)
    assert told["merge_method"] == method
    for key in ("models", "slices"):
        assert numbers(told.get(key)) == pytest.approx(numbers(recipe.get(key)), abs=0.02)
    if method == "sce":
        assert told["parameters"]["select_topk"] == pytest.approx(0.4, abs=0.01)
    if method == "slerp":
        assert numbers(told["parameters"]) == pytest.approx(numbers(recipe["parameters"]), abs=0.01)


def _parents(recipe):
    if "models" in recipe:
        return [item["model"] for item in recipe["models"]]
    return list(dict.fromkeys(item["model"] for cut in recipe["slices"] for item in cut["sources"]))


def test_a_recipe_of_experts_is_one_for_mergekit_moe():
    from mergekit.moe.config import MoEMergeConfig, is_bad_config

    from modelkin.lineage.recipe import experts_recipe

    config = MoEMergeConfig.model_validate(
        yaml.safe_load(experts_recipe([LIGHT, HEAVY], base=BASE, dtype="BF16"))
    )
    assert [str(expert.source_model) for expert in config.experts] == [LIGHT, HEAVY]
    assert not is_bad_config(config)
