"""What is read of models at true size: exact counts of requests and bytes, on a Hub without delays."""

import json
import math

import numpy as np
import pytest
from benchmarks.emulated import MODELS, tokenizer_json
from benchmarks.studies import COMPARISONS
from msgspec.structs import replace
from tests.support import DrawnFile, HubServer
from tests.support.amount import marked

import modelkin as mk
from modelkin.casework.studies import load_study, plan_study
from modelkin.comparison import price_comparison
from modelkin.formats.safetensors.writing import safetensors_head
from modelkin.tensors import decode

SIZES = {
    "upstage/Solar-Open-100B": (205.3, 42),
    "zai-org/GLM-4.5-Air": (220.9, 47),
    "microsoft/Phi-3.5-MoE-instruct": (83.7, 17),
    "mistralai/Mixtral-8x22B-Instruct-v0.1": (281.3, 59),
    "internlm/internlm2-chat-7b": (15.5, 8),
    "meta-llama/Llama-2-7b-hf": (13.5, 2),
    "Qwen/Qwen3-4B": (8.0, 3),
    "Qwen/Qwen3-14B": (29.5, 8),
}


@pytest.mark.parametrize("name", SIZES)
def test_emulated_models_have_the_size_and_the_shards_of_the_published_ones(name):
    groups = MODELS[name]._groups()
    n_bytes = sum(n_bytes for group in groups for _, _, n_bytes in group.values())
    assert (round(n_bytes / 1e9, 1), len(groups)) == SIZES[name]


def drawn(*, seed=1, touched=0):
    head, _ = safetensors_head({"w": ("BF16", (512, 256), 2**18), "a.norm.weight": ("BF16", (256,), 512)})
    return DrawnFile(head=head, size=len(head) + 2**18 + 512, seed=seed, touched=touched)


def numbers(file):
    data = file.read(len(file.head), file.size)
    values = decode(data, "BF16", len(data) // 2)
    return values[:256], values[256:]


def test_drawn_files_give_the_same_bytes_whatever_range_is_asked_for():
    file = drawn()
    whole = file.read(0, file.size)
    for start, stop in ((0, 10), (50, 70_001), (65_000, 200_000), (file.size - 3, file.size + 9)):
        assert file.read(start, stop) == whole[start:stop]


def test_drawn_weights_are_those_of_strangers_unless_the_seed_is_the_same():
    gains, weights = numbers(drawn())
    other_gains, other_weights = numbers(drawn(seed=2))
    child_gains, child = numbers(drawn(touched=1))
    assert abs(np.corrcoef(weights, other_weights)[0, 1]) < 5 / math.sqrt(weights.size)
    assert abs(np.corrcoef(gains, other_gains)[0, 1]) < 5 / math.sqrt(gains.size)
    assert np.corrcoef(weights, child)[0, 1] > 0.999
    assert not np.array_equal(weights, child)
    assert 0.55 < gains.mean() < 0.65
    assert np.corrcoef(gains, child_gains)[0, 1] > 0.95


def test_common_tokens_stand_early_in_both_of_two_pretended_tokenizers():
    first, second = (json.loads(tokenizer_json(4000, seed=seed))["model"]["vocab"] for seed in ("a", "b"))
    shared = [text for text, row in first.items() if row < 400 and text in second]
    assert len(shared) > 100
    assert sum(second[text] < 800 for text in shared) > 0.8 * len(shared)


@pytest.fixture(scope="module")
def hub():
    wanted = {name for pair in ("100B strangers", "7B strangers") for name in COMPARISONS[pair]}
    with HubServer({name: MODELS[name].files() for name in sorted(wanted)}) as server:
        yield server


@pytest.mark.more
@pytest.mark.parametrize("pair", marked(["100B strangers", "7B strangers"], lambda pair: pair[0] == "7"))
def test_a_deep_comparison_takes_at_most_two_thousand_requests(hub, tmp_path, pair):
    candidate, base = COMPARISONS[pair]
    fetch = mk.FetchOptions(endpoint=hub.url, token=False, store_dir=tmp_path)
    options = mk.CompareOptions(depth="deep", fetch=fetch)
    hub.reset()
    plans = price_comparison(candidate=candidate, base=base, options=options).plans
    assert hub.n_requests() + sum(plan.n_requests for plan in plans) <= 2000
    assert all(plan.bytes_to_fetch <= 1_000_000_000 for plan in plans)


@pytest.mark.more
def test_cut_matrices_of_a_study_take_few_requests(hub, tmp_path):
    study = load_study("original-claim")
    windows = tuple(item for item in study.experiments if item.id == "windows")
    only = replace(study, compare=None, experiments=windows, figures=())
    fetch = mk.FetchOptions(endpoint=hub.url, token=False, store_dir=tmp_path)
    plans = plan_study(only, fetch=fetch).models
    # Four for each tensor of 46 layers, and what is read whole; row by row it was six thousand.
    assert sum(plan.n_requests for plan in plans.values()) < 2500
    for plan in plans.values():
        assert plan.bytes_to_fetch < 1.1 * plan.bytes_needed
