"""The fuzzer finds what is wrong, and a short run of every target finds nothing."""

from __future__ import annotations

import contextlib
import json
import random

import pytest
from tests.fuzz.__main__ import CORPUS, TARGETS, main, with_corpus
from tests.fuzz.engine import Outcome, Target, fuzz, mutated
from tests.support.amount import every

RUNS = {"fault": 4, "store": 30}
"""Inputs of a target in a test; 60 for those that are not here, and in any case the seeds."""


@pytest.mark.parametrize("target", every(2, TARGETS), ids=lambda target: target.name)
def test_a_short_run_finds_nothing(target):
    found = fuzz(with_corpus(target), seconds=60, rng=random.Random(11), most=RUNS.get(target.name, 60))
    assert found.crashes == {}
    assert found.hangs == []
    assert found.n_lines > 0 or not target.watched


def small(run, **more) -> Target:
    return Target(name="small", run=run, seeds=lambda: [b"{}"], patience=0.2, **more)


def hurried(target: Target, most: int = 3_000) -> Outcome:
    return fuzz(target, seconds=30, rng=random.Random(1), most=most)


def test_what_is_raised_is_a_crash_with_its_shortest_input():
    def run(data: bytes) -> bool:
        if b"\xff" in data:
            raise KeyError("found")
        return False

    found = hurried(small(run, words=(b"\xff",)))
    assert [crash.partition(" at ")[0] for crash in found.crashes] == ["KeyError"]
    assert all(b"\xff" in data for data in found.crashes.values())


def test_what_takes_too_long_is_a_hang_even_where_everything_is_caught():
    def run(data: bytes) -> bool:
        while data == b"{}":
            with contextlib.suppress(Exception):
                sum(range(1_000))
        return True

    found = hurried(small(run), most=3)
    assert found.hangs == [b"{}"]
    assert found.n_inputs == 3


def test_inputs_that_reach_new_lines_are_kept_and_lead_further():
    """Four bytes that must all be right are hardly found by chance; line by line they are."""
    from modelkin.untrusted import strict_json

    def run(data: bytes) -> bool:
        try:
            strict_json(data)
        except ValueError:
            return False
        return True

    found = hurried(small(run, watched=("untrusted",), words=(b"[", b"]", b"NaN", b"1e999", b'"a":1,' * 2)))
    assert found.n_kept > 3
    assert found.n_lines > 15


def test_mutations_depend_on_the_seed_alone():
    one, other = (
        [mutated(random.Random(seed), b"abc", b"xyz", (b"w",)) for seed in range(50)] for _ in range(2)
    )
    assert one == other
    assert len(set(one)) > 25


def test_every_input_of_the_corpus_belongs_to_a_target_and_is_small():
    names = {target.name for target in TARGETS}
    kept = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert kept
    assert {path.parent.name for path in kept} <= names
    assert max(path.stat().st_size for path in kept) <= 4096


def test_the_report_says_inputs_crashes_hangs_slowest_and_memory(capsys, tmp_path):
    status = main(
        ["--seconds", "5", "--inputs", "20", "--target", "json", "--seed", "1", "--keep", str(tmp_path)]
    )
    said = capsys.readouterr().out
    assert status == 0
    for word in ("inputs", "crashes", "hangs", "slowest", "memory", "20 inputs in"):
        assert word in said
    assert list(tmp_path.iterdir()) == []


def test_a_failure_is_printed_and_kept(capsys, tmp_path, monkeypatch):
    def run(data: bytes) -> bool:
        return bool(json.loads(data))

    monkeypatch.setattr("tests.fuzz.__main__.TARGETS", (small(run),))
    assert main(["--seconds", "5", "--inputs", "20", "--seed", "1", "--keep", str(tmp_path)]) == 1
    assert "small: " in capsys.readouterr().out
    assert list(tmp_path.iterdir())
