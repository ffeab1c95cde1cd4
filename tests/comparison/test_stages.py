"""One run: in which order models are opened and judged, and that nothing is done twice."""

import threading
from collections import Counter

import pytest
from tests.comparison.test_deep_false_accusations import random_model, same_geometry
from tests.support import HubServer, llama_files

import modelkin as mk
from modelkin.comparison import price_comparison
from modelkin.comparison.verdict import decide
from modelkin.errors import NotFound
from modelkin.message import Message
from modelkin.model import open_models, read_headers
from modelkin.progress import Silent
from modelkin.source import MemorySource


@pytest.fixture
def judged(monkeypatch):
    """Count how often a pair is judged at a stage."""
    counts: Counter[tuple[str, str, str]] = Counter()

    def counting(*arguments, candidate, base, stage, **options):
        counts[candidate, base, stage] += 1
        return decide(*arguments, candidate=candidate, base=base, stage=stage, **options)

    monkeypatch.setattr("modelkin.comparison.stages.decide", counting)
    return counts


@pytest.mark.more
def test_no_pair_of_models_is_judged_twice_at_one_depth(judged, monkeypatch):
    monkeypatch.setattr("modelkin.comparison.controls.LEAST_AGREEMENT", -1.0)  # all are worth calibrating
    models = [random_model(seed, mlp=64, layers=2, embeddings=same_geometry(seed)) for seed in (1, 2, 3, 4)]
    result = mk.compare(
        candidate=models[0],
        base=models[1],
        controls=models[2:],
        options=mk.CompareOptions(depth="deep"),
    )
    names = ["random-1", "random-2", "random-3", "random-4"]
    assert [control.pair for control in result.controls] == [
        (side, control) for control in names[2:] for side in names[:2]
    ]
    assert judged["random-1", "random-2", "deep"] == 1
    assert {(a, b) for a, b, stage in judged if stage == "deep"} >= {
        (side, control) for side in names[:2] for control in names[2:]
    }
    assert Counter((a, b) for a, b, _ in judged.elements()).most_common(1)[0][1] == 1


def test_models_are_opened_side_by_side(monkeypatch):
    """Each waits in its listing until all are there: one after the other would never end."""
    meeting = threading.Barrier(3, timeout=20)

    def wait_and_list(source, listing, met):
        if source not in met:
            met.add(source)
            meeting.wait()
        return listing(source)

    met: set[MemorySource] = set()
    listing = MemorySource.files
    monkeypatch.setattr(MemorySource, "files", lambda source: wait_and_list(source, listing, met))
    sources = [MemorySource(llama_files(seed=seed), name=f"model-{seed}") for seed in range(3)]
    with open_models(sources) as opened:
        read_headers(opened)
        assert [model.location.ref for model in opened] == ["model-0", "model-1", "model-2"]
        assert all(model.index for model in opened)


def test_if_one_model_cannot_be_opened_the_others_are_closed(monkeypatch, tmp_path):
    closed = []
    monkeypatch.setattr(mk.Model, "close", lambda model: closed.append(model))
    given = mk.open_model(MemorySource(llama_files(), name="given"))
    opened = MemorySource(llama_files(), name="opened")
    with (
        pytest.raises(NotFound, match="nothing-1"),
        open_models([given, opened, "./nothing-1", "./nothing-2"]),
    ):
        pass
    assert [model.location.ref for model in closed] == ["opened"]


class Listener(Silent):
    """Remembers the steps it is told about."""

    def __init__(self):
        self.steps = []

    def note(self, message):
        assert isinstance(message, Message)
        self.steps.append(message.code)


def test_the_steps_of_the_deep_stage_are_told_in_order():
    models = [random_model(seed, mlp=64, layers=2, embeddings=same_geometry(seed)) for seed in (1, 2, 3)]
    listener = Listener()
    options = mk.CompareOptions(depth="deep")
    mk.compare(candidate=models[0], base=models[1], controls=models[2:], options=options, progress=listener)
    assert listener.steps == [
        "step-maps",
        "step-token-frame",
        "step-framed",
        "step-unit-frame",
        "step-own-layers",
        "step-agreement",
        "step-equal-rows",
        "step-control",
    ]


def test_nothing_is_told_of_steps_that_are_not_made():
    listener = Listener()
    mk.compare(candidate=random_model(1), base=random_model(2), progress=listener)
    assert listener.steps == []


def covered(ranges):
    return {(file, byte) for file, item in ranges for byte in range(item.start, item.stop)}


@pytest.mark.parametrize("depth", ["quick", "standard", "deep"])
def test_a_rehearsal_reads_no_tensor_and_names_all_that_a_run_may_read(depth):
    options = mk.CompareOptions(depth=depth, fetch=mk.FetchOptions(max_gap=0))
    models = [
        mk.open_model(random_model(seed, mlp=64, layers=2, embeddings=same_geometry(seed)), options.fetch)
        for seed in (1, 2)
    ]
    read_headers(models)
    heads = [covered((entry.file, entry) for entry in model.fetcher.ledger.entries) for model in models]
    plans = price_comparison(candidate=models[0], base=models[1], options=options).plans
    n_read = [len(model.fetcher.ledger) for model in models]
    mk.compare(candidate=models[0], base=models[1], options=options)
    for model, plan, head, n_before in zip(models, plans, heads, n_read, strict=True):
        read = covered((entry.file, entry) for entry in model.fetcher.ledger.entries)
        assert head < read <= head | covered(plan.requests)
        assert head == covered((entry.file, entry) for entry in model.fetcher.ledger.entries[:n_before])


def test_nothing_is_planned_where_published_digests_are_equal(tmp_path):
    files = llama_files()
    with HubServer({"org/a": files, "org/b": files}) as hub:
        fetch = mk.FetchOptions(endpoint=hub.url, token=False, store_dir=tmp_path)
        plans = price_comparison(
            candidate="org/b", base="org/a", options=mk.CompareOptions(fetch=fetch)
        ).plans
    assert [plan.bytes_needed for plan in plans] == [0, 0]
