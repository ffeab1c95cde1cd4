"""A deeper look takes nothing back and makes nothing larger, and both directions conclude the same.

`tests.comparison.consistency` asks it of all pairs of the zoo; here are those in which it could go wrong.
"""

import pytest
from tests.comparison.consistency import problems
from tests.places import ZOO
from tests.support.amount import marked

import modelkin as mk
from modelkin.casework.lab import derive, load_zoo
from modelkin.comparison.verdict import Conclusion
from modelkin.source import MemorySource

PAIRS = [
    ("norms-only", "base"),
    ("embeddings-only", "base"),
    ("half-of-layers", "base"),
    ("new-tokenizer", "base"),
    ("fewer-layers", "deep-1"),
    ("moe-fewer-layers", "moe-base"),
    ("gpt2-depth-up", "gpt2-base"),
    ("mlps-only", "deep-1"),
    ("fewer-units", "experts"),
    ("twin-1", "base"),
    ("narrow", "base"),
    ("heads8-1", "bert-base"),
]
NOW = {("norms-only", "base"), ("half-of-layers", "base"), ("fewer-layers", "deep-1"), ("twin-1", "base")}
NOW |= {("heads8-1", "bert-base")}  # heads of other widths


@pytest.mark.parametrize("pair", marked(PAIRS, NOW.__contains__), ids=" ~ ".join)
def test_verdicts_on_one_pair_agree_at_every_depth_and_in_both_directions(pair):
    assert problems(pair) == []


@pytest.mark.parametrize(("name", "layer"), [("base", 2), ("gpt2-base", 1)])
def test_one_layer_and_the_whole_share_weights_in_part_in_both_directions(name, layer):
    whole = load_zoo(ZOO)[name].load()
    cut = derive.reorder_layers(whole, layers=[layer])
    one, all_of_them = MemorySource(cut.files(), name="one"), MemorySource(whole.files(), name="whole")
    for candidate, base in ((one, all_of_them), (all_of_them, one)):
        verdict = mk.compare(candidate=candidate, base=base, depth="deep").verdict
        assert verdict.conclusion is Conclusion.SHARED_PARTIAL
