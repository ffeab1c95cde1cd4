"""The bytes that a comparison reads of large models: exact counts, on a Hub without delays."""

import json
import math

import pytest
from benchmarks.peers_subject import SEVEN_B, MixtureShape, llama, tokenizer_json
from tests.support import HubServer, RequestRecord, VirtualFile

import modelkin as mk
from benchmarks import peers

CASES = {"7B": peers.strangers, "70B": peers.large, "110B mixture": peers.mixtures}


@pytest.mark.scale
@pytest.mark.parametrize("name", CASES)
def test_a_comparison_reads_at_most_20_mb_of_a_model(name, tmp_path):
    case = CASES[name]()
    with HubServer(dict(case.repos)) as hub:
        fetch = mk.FetchOptions(endpoint=hub.url, token=False, store_dir=tmp_path)
        comparison = mk.compare(
            candidate=peers.CANDIDATE, base=peers.BASE, options=mk.CompareOptions(fetch=fetch)
        )
        sent = peers.bytes_by_repo(hub.log, case.repos)
    assert comparison.verdict.conclusion.value == "no-evidence"
    assert all(n_bytes <= peers.CEILING for n_bytes in sent.values()), sent
    assert sum(sent.values()) >= comparison.ledger.bytes_fetched


def test_the_shapes_are_of_the_size_they_are_called_by():
    dense = sum(math.prod(extent) for _, extent in SEVEN_B.tensors())
    sparse = sum(math.prod(extent) for _, _, extent in MixtureShape().tensors())
    assert 6.5e9 < dense < 7.5e9
    assert 100e9 < sparse < 120e9


def test_pretended_tokenizers_share_three_quarters_of_their_tokens_at_other_places():
    first, second = (json.loads(tokenizer_json(4000, seed=seed))["model"]["vocab"] for seed in (1, 2))
    assert len(first) == len(second) == 4000
    shared = first.keys() & second.keys()
    assert len(shared) == 3000
    assert sum(first[token] == second[token] for token in shared) < 30


def test_bytes_are_counted_for_the_repository_they_belong_to():
    files = llama(SEVEN_B, seed=1, vocabulary=1)
    shard = files["model-00001-of-00003.safetensors"]
    assert isinstance(shard, VirtualFile)
    digest = shard.sha256
    paths = [f"/repos/{digest[:2]}/{digest}?sig=1", "/a/y/resolve/main/config.json", "/elsewhere"]
    log = [
        RequestRecord(
            origin="cdn",
            method="GET",
            path=path,
            range=None,
            status=200,
            bytes_sent=10**place,
            authorization=None,
            connection=1,
        )
        for place, path in enumerate(paths)
    ]
    assert peers.bytes_by_repo(log, {"a/x": files, "a/y": {}}) == {"a/x": 1, "a/y": 10}
