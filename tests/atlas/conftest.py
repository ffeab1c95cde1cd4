"""One registry with cards, honest ones and others, and its atlas."""

from __future__ import annotations

import pytest
from tests.atlas.made import carded, registered

from modelkin.atlas import AtlasOptions, make_atlas
from modelkin.demo import demo_zoo

CARDS = {
    "base": ((), "apache-2.0", "2024-01-01"),
    "finetune-light": (("org/base",), "apache-2.0", "2024-03-01"),  # true
    "continued": ((), "mit", "2024-04-01"),  # leaves its base out
    "twin-1": (("org/base",), "mit", "2024-06-01"),  # a stranger
    "moe-base": ((), "llama3", "2024-02-01"),
    "moe-tuned": (("org/moe-base", "org/elsewhere"), "mit", "2024-07-01"),  # true, with a wider licence
}


@pytest.fixture(scope="session")
def about(tmp_path_factory):
    with demo_zoo() as zoo:
        return carded(tmp_path_factory.mktemp("models"), zoo, CARDS)


@pytest.fixture(scope="session")
def registry(tmp_path_factory, about):
    return registered(tmp_path_factory.mktemp("atlas") / "registry", list(about))


@pytest.fixture(scope="session")
def atlas(registry, about):
    return make_atlas(registry, AtlasOptions(reports=1), about=about)
