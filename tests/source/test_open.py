"""From a reference and options to a source and a store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants

from modelkin.options import FetchOptions
from modelkin.source import MemorySource, ModelRef, open_source, open_store
from modelkin.source.fsspec_source import FsspecSource
from modelkin.source.hub import HubSource
from modelkin.source.interface import ByteBudget
from modelkin.source.local import LocalSource
from modelkin.source.web import HttpSource


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("org/name", HubSource),
        ("https://host/m.safetensors", HttpSource),
        ("memory://bucket/x", FsspecSource),
        (".", LocalSource),
    ],
)
def test_each_kind_of_reference_has_its_source(text, kind):
    with open_source(ModelRef.parse(text), FetchOptions(byte_budget=5)) as source:
        assert isinstance(source, kind)
        assert source.budget.limit == 5
        assert source.n_requests == 0


def test_a_budget_can_be_shared():
    budget = ByteBudget(9)
    assert open_source(ModelRef.parse("."), FetchOptions(), budget=budget).budget is budget


def test_the_store_is_where_the_hub_keeps_other_libraries_caches():
    store = open_store(FetchOptions())
    assert store is not None
    assert store.root == Path(constants.HF_ASSETS_CACHE) / "modelkin"
    assert not store.root.exists()


def test_the_store_can_be_elsewhere_or_nowhere(tmp_path):
    store = open_store(FetchOptions(store_dir=tmp_path / "s", store_limit=7))
    assert store is not None
    assert (store.root, store.limit) == (tmp_path / "s", 7)
    assert open_store(FetchOptions(use_store=False)) is None


def test_a_local_model_needs_no_http_library():
    script = (
        "import sys; from modelkin.options import FetchOptions;"
        "from modelkin.source import ModelRef, open_source;"
        "open_source(ModelRef.parse('.'), FetchOptions()).files();"
        "print([name for name in ('urllib3', 'fsspec', 'huggingface_hub') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd="tests"
    )
    assert done.stdout.strip() == "[]"


def test_memory_sources_are_named():
    source = MemorySource({"b": b"1", "a": b"22"}, name="toy")
    assert source.location.ref == "toy"
    assert source.location.origin == "memory:toy"
    assert list(source.files()) == ["a", "b"]
