"""What a dry run says is a bound: of any pair, at any depth, from any kind of source."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from tests.comparison.zoo_pairs import members
from tests.places import ZOO
from tests.support import HubServer

import modelkin as mk
from modelkin.comparison import price_comparison
from modelkin.document.numbers import about_text
from modelkin.options import Depth

NAMES = sorted(members())
SOURCES = ("local", "hub", "hub without store", "http")
DEPTHS: tuple[Depth, ...] = ("quick", "standard", "deep", "full")


def drawn(seed: int, n: int) -> list[tuple[str, str, Depth, str]]:
    """Draw pairs of the zoo with a depth and a source; every depth and every source comes up as often."""
    rng = random.Random(seed)
    cases = [(depth, source) for depth in DEPTHS for source in SOURCES] * (n // 16 + 1)
    return [(rng.choice(NAMES), rng.choice(NAMES), *case) for case in cases[:n]]


def files(name: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (ZOO / name).iterdir() if path.is_file()}


def exceeded(candidate: str, base: str, depth: Depth, source: str, tmp_path: Path) -> list[str]:
    """Return the sides of which more was read than a dry run had said, with both numbers."""
    with HubServer({f"org/{name}": files(name) for name in {candidate, base}}) as hub:
        fetch = mk.FetchOptions(
            endpoint=hub.url, token=False, store_dir=tmp_path / "dry", use_store="without" not in source
        )
        kinds = {"local": str(ZOO), "hub": "hf:org", "hub without store": "hf:org", "http": f"{hub.url}/org"}
        end = "/resolve/main/model.safetensors" if source == "http" else ""
        refs = [f"{kinds[source]}/{name}{end}" for name in (candidate, base)]
        options = mk.CompareOptions(depth=depth, fetch=fetch)
        price = price_comparison(*refs, options=options)
        # Nothing that the dry run has read is there when the real one begins.
        fresh = replace(options, fetch=replace(fetch, store_dir=tmp_path / "real"))
        result = mk.compare(*refs, options=fresh)
    assert price.seconds > 0
    read = {side: 0 for side in ("candidate", "base")}
    for item in result.ledger.ranges:
        read[item.model] += item.n_bytes if item.origin != "store" else 0
    bounds = dict(zip(read, price.at_most, strict=True))
    return [f"{side}: {n} of {bounds[side]}" for side, n in read.items() if n > bounds[side].total]


def test_no_comparison_reads_more_than_its_dry_run_says(tmp_path):
    wrong = {
        case: found
        for number, case in enumerate(drawn(0, 16))
        if (found := exceeded(*case, tmp_path / str(number)))
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("name", "source"), [("rotated", "hub"), ("scrambled-units", "local"), ("depth-up", "http")]
)
def test_disguised_relatives_read_no_more_either(name, source, tmp_path):
    assert exceeded(name, "base", "deep", source, tmp_path) == []


@pytest.mark.scale
@pytest.mark.parametrize("seed", range(100, 120))
def test_no_comparison_reads_more_than_its_dry_run_says_of_many_pairs(seed, tmp_path):
    wrong = {
        case: found
        for number, case in enumerate(drawn(seed, 48))
        if (found := exceeded(*case, tmp_path / str(number)))
    }
    assert wrong == {}


def test_the_bound_is_not_much_more_than_what_strangers_cost():
    price = price_comparison("demo:twin-1", "demo:base")
    result = mk.compare("demo:twin-1", "demo:base")
    said = sum(bound.total - bound.walk for bound in price.at_most)
    assert result.ledger.bytes_fetched <= said < 2.5 * result.ledger.bytes_fetched
    assert all(bound.total == bound.tensors + bound.beside + bound.walk for bound in price.at_most)


def test_a_walk_is_announced_only_where_it_can_happen():
    other = price_comparison("demo:moe-base", "demo:base").at_most
    assert [bound.walk for bound in other] == [0, 0]
    assert price_comparison("demo:base", "demo:base").at_most[0].walk > 0


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 s"), (14.0, "10 s"), (61.0, "60 s"), (95.0, "2 min"), (40_000.0, "10 h")]
)
def test_a_rough_time_has_one_digit(seconds, text):
    assert about_text(seconds) == text
