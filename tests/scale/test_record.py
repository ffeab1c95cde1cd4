"""A scale run that was stopped goes on where it was, and no result of other code is taken for its own."""

from __future__ import annotations

import pytest
from tests.scale import record, strangers


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RECORDS", tmp_path)


def counted(monkeypatch):
    """Take the place of comparisons, and note which were made."""
    made = []

    def add(seen, name, depth, seeds):
        made.append(seeds)
        seen.pairs += 1
        seen.scores.append(1.0)

    monkeypatch.setattr(strangers.Seen, "add", add)
    return made


def test_a_row_of_this_code_is_found_again_and_one_of_other_code_is_not(monkeypatch):
    kept = record.record("relatives", name="width 4,096: units", problems=[])
    assert record.recorded("relatives", "width 4,096: units") == kept
    assert record.recorded("relatives", "width 4,096: heads") is None
    monkeypatch.setattr(record, "code_digest", lambda: "other")
    assert record.recorded("relatives", "width 4,096: units") is None
    assert record.all_recorded() == [kept]


def test_strangers_go_on_where_they_were_stopped(monkeypatch):
    made = counted(monkeypatch)
    name = "width 4,096, 256 k tokens"
    assert strangers.compare_strangers(name, "standard", until=-1.0).pairs == 0
    wanted = [*strangers.pairs_of(strangers.WANTED[name, "standard"])]
    seen = strangers.Seen()
    for seeds in wanted[:2]:
        seen.add(name, "standard", seeds)
    seen.keep(name, "standard")
    assert strangers.compare_strangers(name, "standard", again=False).pairs == len(wanted)
    assert made == wanted
    assert strangers.compare_strangers(name, "standard").pairs == len(wanted)
    assert len(made) == 2 * len(wanted)
