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
from modelkin.document import price_view, render_markdown
from modelkin.document.numbers import about_text
from modelkin.model import Model, open_models
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


def exceeded(
    candidate: str, base: str, depth: Depth, source: str, tmp_path: Path, controls: tuple[str, ...] = ()
) -> list[str]:
    """Return the models of which more was read than a dry run had stated, with both numbers."""
    names = (candidate, base, *controls)
    with HubServer({f"org/{name}": files(name) for name in {*names}}) as hub:
        fetch = mk.FetchOptions(
            endpoint=hub.url, token=False, store_dir=tmp_path / "dry", use_store="without" not in source
        )
        kinds = {"local": str(ZOO), "hub": "hf:org", "hub without store": "hf:org", "http": f"{hub.url}/org"}
        end = "/resolve/main/model.safetensors" if source == "http" else ""
        refs = [f"{kinds[source]}/{name}{end}" for name in names]
        options = mk.CompareOptions(depth=depth, fetch=fetch)
        price = price_comparison(*refs[:2], options=options, controls=refs[2:])
        # Nothing that the dry run read is cached when the real one begins.
        fresh = replace(options, fetch=replace(fetch, store_dir=tmp_path / "real"))
        with open_models(refs, fresh.fetch) as opened:
            mk.compare(*opened[:2], options=fresh, controls=opened[2:])
            read = [sum_of_ledger(model) for model in opened]
    assert price.seconds > 0
    bounds = (*price.at_most, *price.controls)
    assert all(
        bound.total == bound.tensors + bound.differences + bound.controls + bound.beside + bound.walk
        for bound in bounds
    )
    return [
        f"{name}: {n} of {bound}"
        for name, n, bound in zip(names, read, bounds, strict=True)
        if n > bound.total
    ]


def sum_of_ledger(model: Model) -> int:
    """Return what was read of a model, by the ledger that everything is written to."""
    model.totals()
    return sum(entry.n_bytes for entry in model.fetcher.ledger.entries if entry.origin != "store")


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


@pytest.mark.parametrize("source", ["local", "hub without store"])
@pytest.mark.parametrize("name", ["fewer-units", "fewer-dimensions"])
def test_cut_widths_read_no_more_either(name, source, tmp_path):
    """Orders are looked for, in whole layers, at the standard depth already."""
    assert exceeded(name, "base", "standard", source, tmp_path) == []


@pytest.mark.parametrize(
    ("controls", "depth", "source"),
    [
        (("twin-2",), "standard", "hub without store"),
        (("base",), "standard", "local"),
        (("twin-2", "narrow"), "deep", "http"),
        (("twin-1", "twin-2", "heads8-1"), "deep", "local"),
    ],
)
def test_controls_are_in_the_bound(controls, depth, source, tmp_path):
    assert exceeded("scrambled-units", "base", depth, source, tmp_path, controls) == []


@pytest.mark.scale
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(50))
def test_no_comparison_with_controls_reads_more_than_its_dry_run_says(seed, tmp_path):
    rng = random.Random(seed)
    wrong = {}
    for number, case in enumerate(drawn(seed, 16)):
        controls = tuple(rng.sample(NAMES, rng.randint(1, 4)))
        if found := exceeded(*case, tmp_path / str(number), controls):
            wrong[case, controls] = found
    assert wrong == {}


@pytest.mark.scale
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(100, 120))
def test_no_comparison_reads_more_than_its_dry_run_says_of_many_pairs(seed, tmp_path):
    wrong = {
        case: found
        for number, case in enumerate(drawn(seed, 48))
        if (found := exceeded(*case, tmp_path / str(number)))
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("name", "related", "depth", "most"),
    [
        ("twin-1", False, "quick", 1.01),
        ("twin-1", False, "standard", 1.05),
        ("finetune-light", True, "standard", 1.05),
        # Which attempts are made depends on what they find: the costlier of two ways is stated.
        ("twin-1", False, "deep", 1.5),
    ],
)
def test_the_bound_is_not_much_more_than_what_is_read(name, related, depth, most):
    options = mk.CompareOptions(depth=depth)
    price = price_comparison(f"demo:{name}", "demo:base", options=options)
    with open_models((f"demo:{name}", "demo:base"), options.fetch) as opened:
        result = mk.compare(*opened, options=options)
        read = [sum_of_ledger(model) for model in opened]
    assert result.verdict.related is related
    for n, bound in zip(read, price.at_most, strict=True):
        said = bound.total - bound.walk - (0 if related else bound.differences)
        assert n - (bound.walk if related else 0) <= said <= most * n


def test_a_walk_is_announced_only_where_it_can_happen():
    other = price_comparison("demo:moe-base", "demo:base").at_most
    assert [bound.walk for bound in other] == [0, 0]
    assert price_comparison("demo:base", "demo:base").at_most[0].walk > 0


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 s"), (14.0, "10 s"), (61.0, "60 s"), (95.0, "2 min"), (40_000.0, "10 h")]
)
def test_a_rough_time_has_one_digit(seconds, text):
    assert about_text(seconds) == text


@pytest.mark.parametrize("depth", ["standard", "deep", "full"])
def test_full_depth_says_beforehand_what_it_does_not_compare_value_by_value(depth):
    """The models share their tables of tokens and their norms in shape; every matrix of a layer differs."""
    options = mk.CompareOptions(depth=depth)
    price = price_comparison("demo:moe-base", "demo:base", options=options)
    with open_models(("demo:moe-base", "demo:base"), mk.FetchOptions()) as (mine, theirs):
        alone = tuple(
            sum(
                info.n_bytes
                for name, info in one.items()
                if name not in other or other[name].shape != info.shape
            )
            for one, other in ((mine.index, theirs.index), (theirs.index, mine.index))
        )
    assert min(alone) > 0
    assert price.unpaired == (alone if depth == "full" else (0, 0))
    text = render_markdown(price_view(["candidate: a", "base: b"], price))
    assert text.count("face no tensor of the same name and shape") == (2 if depth == "full" else 0)


def test_models_of_the_same_shapes_are_compared_as_a_whole():
    options = mk.CompareOptions(depth="full")
    assert price_comparison("demo:finetune-light", "demo:base", options=options).unpaired == (0, 0)
