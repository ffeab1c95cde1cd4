"""``modelkin bench``: rates on known numbers, tables of pairs, runs that are stopped, priced and resumed."""

import csv
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter

import jsonschema
import numpy as np
import pytest
from tests.places import ZOO

from modelkin.casework.bench import (
    BenchOptions,
    bench_blocks,
    bench_methods,
    read_pairs,
    run_bench,
    write_bench,
)
from modelkin.casework.bench import run as running
from modelkin.casework.bench.figures import bench_figures
from modelkin.casework.bench.pairs import public_sources
from modelkin.casework.bench.rates import (
    Scored,
    area,
    area_interval,
    level_for,
    partial_area,
    partial_area_interval,
    rates_of,
    roc_points,
    wilson,
)
from modelkin.document import load_language, render_markdown
from modelkin.document.results import schema
from modelkin.errors import StudyError, UsageError
from modelkin.options import FetchOptions
from modelkin.reference import each_reference_score

HEADER = "source\tmodel_a\tmodel_b\tlabel\trelation\tnote\n"
LINES = (
    ("base", "finetune-light", "related", "fine-tune"),
    ("base", "depth-up", "related", "depth"),
    ("base", "twin-1", "independent", ""),
    ("base", "twin-2", "independent", ""),
    ("base", "same-initialisation", "disputed", "same start"),
    ("base", "nowhere", "related", "gone"),
)
CHEAP = ("anchors", "mdir", "phi-u")


@pytest.fixture
def table(tmp_path):
    lines = [f"zoo\t{ZOO / a}\t{ZOO / b}\t{label}\t{kind}\t\n" for a, b, label, kind in LINES]
    place = tmp_path / "pairs.tsv"
    place.write_text(HEADER + "".join(lines))
    return str(place)


# -- numbers ---------------------------------------------------------------------------------------------


def test_an_area_is_the_share_of_pairs_in_the_right_order():
    rng = np.random.default_rng(0)
    high, low = rng.normal(1.0, size=40).round(1), rng.normal(size=60).round(1)
    counted = np.mean([(h > x) + 0.5 * (h == x) for h in high for x in low])
    assert area(high, low) == pytest.approx(float(counted))
    points = roc_points(high, low)
    xs, ys = zip(*points, strict=True)
    assert np.trapezoid(ys, xs) == pytest.approx(float(counted))
    assert partial_area(high, low, largest=1.0) == pytest.approx(float(counted))


def test_a_perfect_area_of_few_pairs_has_an_interval():
    few, many = area_interval(1.0, 3, 3), area_interval(1.0, 300, 300)
    assert few.low < 0.6
    assert many.low > 0.98
    assert few.high == many.high == 1.0
    chance = area_interval(0.5, 50, 50)
    assert chance.low + chance.high == pytest.approx(1.0, abs=1e-9)


def test_intervals_of_areas_hold_what_they_promise():
    """95 % of intervals contain the true area: normal scores one standard deviation apart."""
    rng = np.random.default_rng(1)
    truth = 0.5 * (1 + math.erf(1 / 2.0))
    inside = 0
    for _ in range(400):
        found = area_interval(area(rng.normal(1, size=30), rng.normal(size=40)), 30, 40)
        inside += found.low <= truth <= found.high
    assert 0.92 <= inside / 400 <= 0.985


def test_the_partial_area_is_one_for_the_best_and_a_half_for_chance():
    assert partial_area(np.array([2.0, 3.0]), np.array([0.0, 1.0])) == pytest.approx(1.0)
    both = np.arange(1000.0)
    assert partial_area(both, both) == pytest.approx(0.5, abs=0.001)


def test_a_perfect_partial_area_of_few_pairs_has_an_interval():
    few, many = (partial_area_interval(np.arange(10.0, n + 10.0), np.arange(5.0), seed=0) for n in (4, 400))
    assert few.value == few.high == many.value == 1.0
    assert few.low == pytest.approx(0.75, abs=0.01)
    assert many.low > 0.99


def test_levels_let_no_more_strangers_pass_than_allowed():
    low = np.arange(200.0)
    assert (low > level_for(low, 0.01)).sum() == 2
    assert (low > level_for(low, 0.0)).sum() == 0
    assert (low[:50] > level_for(low[:50], 0.01)).sum() == 0


def test_wilsons_interval_is_the_known_one():
    found = wilson(8, 10)
    assert found is not None
    assert (round(found.low, 4), round(found.high, 4)) == (0.4902, 0.9433)
    assert wilson(0, 0) is None


def scored(truth, score, says=None):
    return Scored(group=truth, truth=truth, score=score, says=says, n_bytes=10, seconds=1.0)


def test_a_pair_without_a_score_is_a_miss_and_no_number():
    rows = [scored("related", 2.0), scored("related", None), scored("independent", 1.0)]
    rates = rates_of("x", rows)
    assert rates.hits_at_0 is not None
    assert (rates.hits_at_0.found, rates.hits_at_0.of) == (1, 2)
    assert rates.auc is not None
    assert rates.auc.value == 1.0
    assert rates.hits_at_level is None


def test_without_strangers_there_are_no_areas():
    rates = rates_of("x", [scored("related", 2.0, "related"), scored("unclear", 1.0)])
    assert (rates.auc, rates.hits_at_0, rates.roc) == (None, None, ())
    assert rates.hits_at_level is not None
    assert rates.hits_at_level.found == 1


# -- tables of pairs -------------------------------------------------------------------------------------


COUNTS = {
    "AWM": (65, 90, 0),
    "Zhu2025": (69, 141, 0),
    "LeaFBench": (58, 21, 0),
    "MDGBench": (131, 118, 0),
    "CiscoMPK": (52, 56, 3),
    "modelDNA-LineageBench": (15, 99, 6),
}


@pytest.mark.parametrize("source", COUNTS)
def test_published_pairs_come_with_the_package(source):
    """Related, independent, not counted: as published, and no pair of a benchmark twice."""
    pairs = read_pairs(f"public:{source}")
    truths = Counter(pair.truth for pair in pairs)
    assert (truths["related"], truths["independent"], truths["unclear"]) == COUNTS[source]
    assert len({frozenset((pair.base, pair.candidate)) for pair in pairs}) == len(pairs)


def test_all_published_pairs_are_those_of_their_sources():
    assert public_sources().keys() >= COUNTS.keys() | {"HuRef", "SELF", "MoTHer", "Zhu2025-others"}
    assert len(read_pairs("public")) == sum(public_sources().values()) == 1282
    with pytest.raises(UsageError, match="no such benchmark"):
        read_pairs("public:AMW")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a\tb\n", "line 1: expected the columns"),
        (HEADER, "at least one pair"),
        (HEADER + "x\ta\tb\n", "line 2: expected 6 columns, got 3"),
        (HEADER + "x\ta\t\trelated\t\t\n", "line 2: expected two models"),
    ],
)
def test_a_wrong_table_is_refused_by_line(tmp_path, text, words):
    place = tmp_path / "pairs.tsv"
    place.write_text(text)
    with pytest.raises(StudyError, match=words):
        read_pairs(str(place))


def test_a_table_that_is_not_there_or_no_text_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read_pairs(str(tmp_path / "none.tsv"))
    (tmp_path / "bytes.tsv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StudyError, match="expected UTF-8"):
        read_pairs(str(tmp_path / "bytes.tsv"))


def test_all_methods_are_ours_and_those_on_weights():
    assert bench_methods(("all",))[0] == "modelkin"
    assert bench_methods(("awm", "modelkin")) == ("modelkin", "awm")
    with pytest.raises(UsageError, match="no such published method"):
        bench_methods(("modelkim",))


# -- runs ------------------------------------------------------------------------------------------------


def without_seconds(result):
    return [(row.pair, row.method, row.score, row.says, row.bytes_read) for row in result.rows]


def test_pairs_are_judged_listed_and_told(tmp_path, table):
    out = tmp_path / "out"
    result = run_bench(read_pairs(table), out, BenchOptions(methods=("modelkin", "phi-u"), depth="quick"))
    assert len(result.rows) == 5 * 2
    (gone,) = result.unavailable
    assert gone.pair.relation == "gone"
    ours = result.rates[0]
    assert ours.method == "modelkin"
    assert ours.hits_at_level is not None
    assert (ours.hits_at_level.found, ours.hits_at_level.of) == (2, 2)
    assert ours.accused is not None
    assert ours.accused.found == 0
    files = {path.relative_to(out).as_posix() for path in write_bench(result, out)}
    assert {"bench.json", "pairs.csv", "BENCH.md", "bench.html", "figures/roc.png"} <= files
    document = json.loads((out / "bench.json").read_text())
    jsonschema.Draft202012Validator(schema("modelkin.bench/1")).validate(document)
    text = render_markdown(bench_blocks(result))
    assert "same start (not counted)" in text
    assert "nowhere" in text
    assert (out / "pairs.csv").read_text().count("\n") == 11
    with (out / "methods.csv").open() as file:
        told = {line["method"]: line for line in csv.DictReader(file)}
    assert (told["modelkin"]["hits_at_level"], told["modelkin"]["hits_at_level_of"]) == ("2", "2")
    assert ours.auc is not None
    assert float(told["modelkin"]["auc_low"]) == ours.auc.low
    assert told["phi-u"]["scored_related"] == "1"


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path, table, monkeypatch):
    options = BenchOptions(methods=CHEAP, side_by_side=1)
    whole = run_bench(read_pairs(table), tmp_path / "whole", options)
    asked = []
    real = each_reference_score

    def counted(candidate, base, options, **rest):
        for score in real(candidate, base, options, **rest):
            asked.append(score.method)
            if len(asked) == 5:
                raise KeyboardInterrupt
            yield score

    monkeypatch.setattr(running, "each_reference_score", counted)
    out = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        run_bench(read_pairs(table), out, options)
    kept = out / "results.jsonl"
    lines = kept.read_text().splitlines()
    assert 4 <= len(lines) < 15
    kept.write_text("\n".join(lines)[:-9])  # the last line was being written
    monkeypatch.setattr(running, "each_reference_score", real)
    again = run_bench(read_pairs(table), out, options)
    assert without_seconds(again) == without_seconds(whole)
    # Lines that no run writes: a repeated key, and a number that is none.
    first = kept.read_text().splitlines()[0]
    kept.write_text("\n".join([first.replace("{", '{"key": "x", ', 1), '{"score": NaN}', kept.read_text()]))
    monkeypatch.setattr(running, "each_reference_score", None)
    assert without_seconds(run_bench(read_pairs(table), out, options)) == without_seconds(whole)


def test_answers_of_another_limit_are_made_again(tmp_path, table):
    pairs = read_pairs(table)[:1]
    first = run_bench(pairs, tmp_path, BenchOptions(methods=("anchors",), method_bytes=10))
    assert first.rows[0].score is None
    second = run_bench(pairs, tmp_path, BenchOptions(methods=("anchors",)))
    assert second.rows[0].score is not None


@pytest.mark.more
def test_side_by_side_gives_the_same_numbers(tmp_path, table):
    pairs = read_pairs(table)
    one = run_bench(pairs, tmp_path / "one", BenchOptions(methods=CHEAP, side_by_side=1))
    four = run_bench(pairs, tmp_path / "four", BenchOptions(methods=CHEAP, side_by_side=4))
    assert without_seconds(one) == without_seconds(four)


def test_pairs_beyond_the_budget_wait_for_the_next_run(tmp_path, table):
    pairs = read_pairs(table)[:4]
    options = BenchOptions(methods=("phi-u",), byte_budget=600_000, side_by_side=1)
    first = run_bench(pairs, tmp_path, options)
    assert first.bytes_read <= 600_000
    waiting = [item.pair.candidate.rpartition("/")[2] for item in first.unavailable]
    assert waiting == ["twin-2"]  # depth-up has no score and costs nothing
    assert str(first.unavailable[0].reason).startswith("it would read 245,760 bytes")
    second = run_bench(pairs, tmp_path, options)
    assert second.unavailable == ()


@pytest.mark.more
def test_what_relatives_take_beyond_their_price_is_counted(tmp_path, table):
    """Weights of relatives are subtracted, which is not known before they are found."""
    pairs = read_pairs(table)[:1]
    result = run_bench(pairs, tmp_path, BenchOptions(methods=("modelkin",), depth="standard"))
    (row,) = result.rows
    assert result.bytes_read >= sum(row.bytes_read)


def test_numbers_of_pairs_at_a_time_are_checked():
    with pytest.raises(ValueError, match="side_by_side must be between 1 and 64"):
        BenchOptions(side_by_side=0)


def test_names_in_a_table_are_no_formulas(tmp_path):
    place = tmp_path / "pairs.tsv"
    place.write_text(HEADER + f"zoo\t{ZOO / 'base'}\t{ZOO / 'twin-1'}\trelated\t=1+1\t\n")
    result = run_bench(read_pairs(str(place)), tmp_path, BenchOptions(methods=("anchors",)))
    write_bench(result, tmp_path)
    assert "'=1+1" in (tmp_path / "pairs.csv").read_text()


def test_the_page_and_the_terminal_speak_korean(tmp_path, table):
    options = BenchOptions(methods=("mdir", "phi-u"))
    result = run_bench(read_pairs(table), tmp_path, options)
    write_bench(result, tmp_path, language="ko")
    page = (tmp_path / "bench.html").read_text()
    assert '<html lang="ko"' in page
    korean, english = (
        render_markdown(bench_blocks(result, load_language(code), pictures=True)) for code in ("ko", "en")
    )
    for word in ("오경보 0에서 적중", "구하지 못한 쌍", "관계별 적중", "세지 않음"):
        assert word in korean
    for word in ("hits", "independent", "obtained", "for example", "threshold"):
        assert word in english
        assert word not in korean
    # Numbers are the same in both.
    assert re.findall(r"\d+/\d+", korean) == re.findall(r"\d+/\d+", english)


def test_words_of_the_figures_have_korean_ones(tmp_path, table):
    result = run_bench(read_pairs(table), tmp_path, BenchOptions(methods=("mdir", "phi-u")))
    told = load_language("ko").wording
    words = set()
    for figure in bench_figures(result).values():
        words |= {figure.title, figure.note}
        words |= {axis.label for panel in figure.panels for axis in (panel.x, panel.y)}
        words |= {text for panel in figure.panels for _, text in panel.y.ticks or ()}
    assert [text for text in words if text and told(text) == text] == []


def test_answers_of_a_method_that_ranks_among_controls_are_kept_by_controls(tmp_path, table, monkeypatch):
    def refused(name):
        raise ImportError(name)

    monkeypatch.setattr("modelkin.reference.running.import_module", refused)  # torch takes seconds to import
    pairs = read_pairs(table)[:1]
    names = ("twin-1", "twin-2", "order-1")
    keys = set()
    for controls in ((), names, names[:2]):
        places = tuple(str(ZOO / name) for name in controls)
        options = BenchOptions(methods=("behaviour",), controls=places, method_bytes=10)
        (row,) = run_bench(pairs, tmp_path, options).rows
        assert row.score is None
        keys.add(row.key)
    assert len(keys) == 3


def test_without_a_network_pairs_are_listed_and_nothing_is_counted(tmp_path):
    pairs = read_pairs("public:Zhu2025")[:12]
    fetch = FetchOptions(offline=True, use_store=False)
    result = run_bench(pairs, tmp_path, BenchOptions(methods=("modelkin", "awm")), fetch=fetch)
    assert (len(result.unavailable), result.rows, result.rates) == (12, (), ())
    text = render_markdown(bench_blocks(result))
    assert "0 of 12 pairs were obtained" in text
    assert "AUC" not in text


@pytest.mark.more
def test_a_run_that_was_killed_goes_on_where_it_was(tmp_path, table):
    """SIGKILL leaves no time for anything: what was answered is on the disk, and is not asked again."""
    names = "anchors,mdir,phi-u,huref-ics,awm"
    command = [sys.executable, "-m", "modelkin", "bench", table, "--methods", names, "-q", "--out"]
    kept = tmp_path / "killed" / "results.jsonl"
    started = subprocess.Popen([*command, str(kept.parent)], stdout=subprocess.DEVNULL)
    while started.poll() is None and (not kept.exists() or kept.read_bytes().count(b"\n") < 4):
        time.sleep(0.005)
    os.kill(started.pid, signal.SIGKILL)
    assert started.wait() == -signal.SIGKILL
    before = kept.read_text().splitlines()[:4]
    subprocess.run([*command, str(kept.parent)], stdout=subprocess.DEVNULL, check=True)
    subprocess.run([*command, str(tmp_path / "whole")], stdout=subprocess.DEVNULL, check=True)
    assert kept.read_text().splitlines()[:4] == before
    killed, whole = (
        [line.rsplit(",", 2)[0] for line in (folder / "pairs.csv").read_text().splitlines()]
        for folder in (kept.parent, tmp_path / "whole")
    )
    assert killed == whole
