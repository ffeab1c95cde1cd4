"""The real huggingface_hub client is the judge of the test Hub."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from huggingface_hub import HfApi, HfFileSystem, close_session, hf_hub_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors.numpy import load_file
from tests.support import Failure, HubOptions, HubRepo, HubServer, Servable, llama_files, llama_tensors

FILES = {**llama_files(n_shards=2), "sub/notes.txt": b"text"}
SHARD = "model-00001-of-00002.safetensors"
OPTIONS = HubOptions(tokens={"hf_member": {"org/private", "org/gated"}, "hf_stranger": set()}, xet_hash=True)


@pytest.fixture
def server():
    repos: dict[str, HubRepo | Mapping[str, Servable]] = {
        "org/model": HubRepo(
            files=FILES,
            revisions={"refs/pr/1": {"config.json": b'{"pr": 1}'}},
            card_data={"base_model": "org/base"},
        ),
        "org/single": llama_files(),
        "org/private": HubRepo(files=FILES, private=True),
        "org/gated": HubRepo(files=FILES, gated="auto"),
        "flat": {"config.json": b"{}"},
    }
    with HubServer(repos, OPTIONS) as server:
        yield server
    close_session()


@pytest.fixture
def api(server):
    return HfApi(endpoint=server.url, token=False)


def test_model_info_has_sizes_and_digests(server, api):
    info = api.model_info("org/model", files_metadata=True)
    assert info.sha == server.commit("org/model")
    assert {sibling.rfilename: sibling.size for sibling in info.siblings} == {
        name: len(data) for name, data in FILES.items()
    }
    shard = next(sibling for sibling in info.siblings if sibling.rfilename == SHARD)
    assert shard.lfs is not None
    assert shard.lfs.size == shard.size
    assert info.card_data["base_model"] == "org/base"


def test_model_info_of_a_pull_request(server, api):
    info = api.model_info("org/model", revision="refs/pr/1")
    assert info.sha == server.commit("org/model", "refs/pr/1") != server.commit("org/model")


def test_one_segment_names_are_repositories_too(api):
    assert api.model_info("flat").id == "flat"


def test_tree_and_paths_info_agree(api):
    tree = {entry.path: entry for entry in api.list_repo_tree("org/model", recursive=True, expand=True)}
    assert set(tree) == {*FILES, "sub"}
    (folder, shard) = api.get_paths_info("org/model", ["sub", SHARD, "absent"])
    assert folder.path == "sub"
    assert (shard.size, shard.lfs, shard.xet_hash) == (
        tree[SHARD].size,
        tree[SHARD].lfs,
        tree[SHARD].xet_hash,
    )


def test_refs_are_listed(server, api):
    refs = api.list_repo_refs("org/model", include_pull_requests=True)
    assert [(branch.name, branch.target_commit) for branch in refs.branches] == [
        ("main", server.commit("org/model"))
    ]
    assert [pull.ref for pull in refs.pull_requests] == ["refs/pr/1"]


def test_download_of_small_and_large_files(server, tmp_path):
    for name in ("config.json", SHARD, "sub/notes.txt"):
        path = hf_hub_download("org/model", name, endpoint=server.url, cache_dir=tmp_path, token=False)
        assert server.commit("org/model") in path
        with open(path, "rb") as file:
            assert file.read() == FILES[name]


def test_a_downloaded_file_opens_in_the_safetensors_library(server, tmp_path):
    path = hf_hub_download(
        "org/single", "model.safetensors", endpoint=server.url, cache_dir=tmp_path, token=False
    )
    loaded = load_file(path)
    for name, values in llama_tensors().items():
        np.testing.assert_array_equal(loaded[name], values)


def test_download_of_a_branch_that_moved(server, tmp_path):
    old = server.commit("org/single")
    new = server.push("org/single", {"config.json": b"new"})
    assert new != old
    for revision, expected in (("main", b"new"), (old, llama_files()["config.json"])):
        path = hf_hub_download(
            "org/single",
            "config.json",
            revision=revision,
            endpoint=server.url,
            cache_dir=tmp_path,
            token=False,
        )
        with open(path, "rb") as file:
            assert file.read() == expected


@pytest.mark.parametrize("repo", ["org/single", "org/model"])
def test_safetensors_metadata(api, repo):
    metadata = api.get_safetensors_metadata(repo)
    assert metadata.sharded == (repo == "org/model")
    assert metadata.weight_map.keys() == llama_tensors().keys()


def test_sharded_metadata_in_one_request(server, api):
    metadata = api.get_sharded_safetensors_metadata("org/model")
    assert metadata.weight_map.keys() == llama_tensors().keys()
    assert server.n_requests() == 1


def test_file_system_reads_a_range(server):
    fs = HfFileSystem(endpoint=server.url, token=False, skip_instance_cache=True)
    assert "org/model/sub" in fs.ls("org/model", detail=False)
    with fs.open(f"org/model/{SHARD}", cache_type="none") as file:
        file.seek(8)
        assert file.read(100) == FILES[SHARD][8:108]
    assert server.bytes_sent("cdn") == 100
    assert fs.cat_file("org/model/sub/notes.txt") == b"text"


@pytest.mark.parametrize(
    ("repo", "name", "revision", "token", "error"),
    [
        ("org/absent", "config.json", None, False, RepositoryNotFoundError),
        ("org/absent", "config.json", None, "hf_member", RepositoryNotFoundError),
        ("org/private", "config.json", None, False, RepositoryNotFoundError),
        ("org/private", "config.json", None, "hf_stranger", RepositoryNotFoundError),
        ("org/gated", "config.json", None, False, GatedRepoError),
        ("org/gated", SHARD, None, "hf_stranger", GatedRepoError),
        ("org/model", "config.json", "absent", False, RevisionNotFoundError),
        ("org/model", "absent.json", None, False, EntryNotFoundError),
        ("org/model", "config.json", None, "hf_invalid", HfHubHTTPError),
    ],
)
def test_errors_are_those_of_the_hub(server, tmp_path, repo, name, revision, token, error):
    with pytest.raises(error, match=r"40[134]"):
        hf_hub_download(repo, name, revision=revision, endpoint=server.url, cache_dir=tmp_path, token=token)


@pytest.mark.parametrize("repo", ["org/private", "org/gated"])
def test_a_token_opens_and_never_reaches_the_cdn(server, tmp_path, repo):
    hf_hub_download(repo, SHARD, endpoint=server.url, cache_dir=tmp_path, token="hf_member")
    asked = {record.origin: record.authorization for record in server.log}
    assert asked == {"hub": "Bearer hf_member", "cdn": None}


def test_gated_repositories_are_described_to_everyone(api):
    assert api.model_info("org/gated").gated == "auto"


def test_the_client_waits_and_tries_again_when_rate_limited(server, tmp_path):
    # The client adds one second to what it is told.
    server.fail(Failure(status=429, origin="cdn", rate_limit_reset=0))
    hf_hub_download("org/model", SHARD, endpoint=server.url, cache_dir=tmp_path, token=False)
    assert [record.status for record in server.log if record.origin == "cdn"] == [429, 200]
