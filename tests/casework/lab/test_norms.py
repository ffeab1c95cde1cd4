"""The norm experiment without its training: measures, tests, words, files and figures."""

from __future__ import annotations

import csv
import doctest
import json
import math
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.document.korean import KOREAN, english, prose, words_of
from tests.places import DOCS

from modelkin.casework.lab import (
    NormsOptions,
    NormsResult,
    conclude,
    embedded_zoo,
    norms_document,
    norms_experiment,
    norms_figures,
    norms_from_json,
    write_norms,
)
from modelkin.casework.lab.norms import (
    INITS,
    ModelRun,
    NormCosine,
    PairResult,
    TestResult,
    measure_pair,
    norm_test,
    unit_rows,
    unit_test,
)
from modelkin.casework.lab.norms_report import groups_of, p_text
from modelkin.casework.lab.norms_train import CORPORA, initial_gains, letters, unigram_loss
from modelkin.document import ENGLISH, to_json
from modelkin.errors import FormatError, MissingExtra, UsageError
from modelkin.figures import Scatter
from modelkin.message import say

ZOO = embedded_zoo()


def pair(init, relation, number, *, cosine=0.98, expected=0.98, r=0.01, log10_p=-0.2, verdict="no-evidence"):
    return PairResult(
        init=init,
        relation=relation,
        candidate=f"{init}-{number}-{relation}",
        base=f"{init}-{number}",
        cosine=cosine,
        expected=expected,
        pearson=r,
        norms=(NormCosine(norm="a", cosine=cosine, expected=expected, pearson=r),),
        norm_test=TestResult(log10_p=log10_p, effect=r),
        unit_test=TestResult(log10_p=log10_p, effect=r),
        verdict=verdict,
    )


def run(init, number, relation="base", kept=None):
    return ModelRun(
        name=f"{init}-{number}-{relation}",
        init=init,
        number=number,
        relation=relation,
        corpus="stories",
        init_seed=1,
        order_seed=2,
        steps=10,
        learning_rate=0.004,
        losses=(3.0, 2.0),
        held_out=2.0,
        held_out_other=2.5,
        gain_mean=1.0,
        gain_std=0.1,
        gain_moved=0.2,
        start_kept=kept,
        cpu_seconds=30.0,
    )


def result(
    *, child=0.999, stranger=0.98, child_log10_p=-20.0, stranger_log10_p=-0.2, start_log10_p=-10.0, kept=None
):
    """Return an experiment with one arm and chosen outcomes."""
    related = {"r": 0.97, "verdict": "shared"}
    pairs = (
        pair("ones", "unrelated, same data", 0, cosine=stranger, log10_p=stranger_log10_p),
        pair("ones", "unrelated, other data", 1, cosine=0.97, expected=0.975),
        pair("ones", "same start", 0, cosine=0.99, r=0.5, log10_p=start_log10_p),
        pair("ones", "fine-tuned", 0, cosine=child, log10_p=child_log10_p, **related),
    )
    return conclude(
        NormsResult(
            options=NormsOptions(inits=("ones",), seeds=2),
            versions=(("torch", "0"),),
            chance_losses=(("stories", 2.9), ("lists", 2.8)),
            models=(run("ones", 0, kept=kept), run("ones", 1, "fine-tuned")),
            pairs=pairs,
            conclusion=(),
            limits=(),
        )
    )


def words(messages):
    return " ".join(map(str, messages))


@pytest.fixture(scope="module")
def measured():
    base = ZOO["base"].load()
    return {
        name: measure_pair(
            ZOO[name].load(),
            base,
            names=(name, "base"),
            init="ones",
            relation="fine-tuned" if name == "finetune-light" else "unrelated, same data",
            n_permutations=999,
            seed=0,
        )
        for name in ("twin-1", "finetune-light")
    }


class TestMeasures:
    def test_strangers_look_alike_and_are_told_apart(self, measured):
        stranger, child = measured["twin-1"], measured["finetune-light"]
        assert stranger.cosine > 0.97
        assert stranger.cosine == pytest.approx(stranger.expected, abs=0.005)
        assert stranger.norm_test.log10_p > -3
        assert stranger.unit_test.log10_p > -3
        assert stranger.verdict == "no-evidence"
        assert child.pearson > 0.9 > 0.3 > abs(stranger.pearson)
        assert child.norm_test.log10_p < -20
        assert child.unit_test.log10_p < -20
        assert child.verdict == "shared"

    def test_cosines_and_correlations_are_those_of_numpy(self, measured):
        mine, theirs = (ZOO[name].load().tensors for name in ("twin-1", "base"))
        for norm in measured["twin-1"].norms:
            a, b = (tensors[norm.norm].astype(float) for tensors in (mine, theirs))
            assert norm.cosine == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-12)
            assert norm.pearson == pytest.approx(np.corrcoef(a, b)[0, 1], abs=1e-12)
            rho = [v.mean() / math.sqrt(np.mean(v**2)) for v in (a, b)]
            assert norm.expected == pytest.approx(rho[0] * rho[1], abs=1e-12)

    def test_constant_gains_are_not_tested_and_nothing_is_made_of_that(self):
        base = ZOO["base"].load()
        flat = base.with_tensors(
            {name: np.ones_like(array) for name, array in base.tensors.items() if array.ndim == 1}
        )
        found = measure_pair(
            flat, base, names=("flat", "base"), init="ones", relation="same start", n_permutations=99, seed=0
        )
        assert (found.norm_test.log10_p, found.norm_test.effect, found.pearson) == (None, None, None)
        assert "all values are equal" in str(found.norm_test.reason)
        assert found.unit_test.log10_p is not None
        assert found.unit_test.log10_p < -20

    def test_units_are_rows_whatever_the_layout(self):
        base = ZOO["base"].load()
        rows = unit_rows(base)
        assert [array.shape for array in rows] == [(160, 96)] * 4
        stored_by_columns = base.with_tensors(
            {f"h.{i}.mlp.c_fc.weight": array.T for i, array in enumerate(rows)}
        )
        plain = replace(
            stored_by_columns, tensors={k: v for k, v in stored_by_columns.tensors.items() if "gate" not in k}
        )
        for ours, theirs in zip(rows, unit_rows(plain), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        with pytest.raises(UsageError, match="no MLP"):
            unit_rows(replace(base, tensors={}))

    def test_p_values_of_strangers_are_not_too_small(self):
        """Permuted copies are strangers by construction: at most about one in ten is below 0.1."""
        base = ZOO["base"].load()
        rng = np.random.default_rng(5)
        p_norms, p_units = [], []
        for seed in range(40):
            order, units = rng.permutation(96), rng.permutation(160)
            other = base.with_tensors(
                {name: array[order] for name, array in base.tensors.items() if array.ndim == 1}
                | {n: a[units][:, order] for n, a in base.tensors.items() if n.endswith("gate_proj.weight")}
            )
            p_norms.append(norm_test(other, base, n_permutations=199, seed=seed).log10_p)
            p_units.append(unit_test(other, base, n_permutations=199, seed=seed).log10_p)
        for found in (p_norms, p_units):
            assert None not in found
            assert (
                sum(value is not None and value <= -1 for value in found) <= 10
            )  # binomial(40, 0.1): 11 or more in 1 of 1000


class TestData:
    def test_gains_begin_as_the_arm_says(self):
        shapes = {"a": 20_000, "b": 20_000}
        for init, (mean, std) in zip(INITS, ((1, 0), (1, 0.1), (0, 1)), strict=True):
            gains = initial_gains(init, shapes, seed=3)
            assert gains["a"].mean() == pytest.approx(mean, abs=0.03)
            assert gains["a"].std() == pytest.approx(std, abs=0.03)
            again, other = (initial_gains(init, shapes, seed=seed) for seed in (3, 4))
            np.testing.assert_array_equal(gains["b"], again["b"])
            assert (init == "ones") == bool((gains["a"] == other["a"]).all())

    def test_corpora_differ_and_held_out_text_is_new(self):
        stories, lists = (letters(name, 20_000) for name in CORPORA)
        new = letters("stories", 20_000, held_out=True)
        assert stories.max() < 128
        assert not np.array_equal(stories[:3000], new[:3000])
        assert abs(unigram_loss(stories) - unigram_loss(new)) < 0.1
        frequencies = [np.bincount(tokens, minlength=128) / len(tokens) for tokens in (stories, new, lists)]
        near, far = (np.abs(frequencies[0] - other).sum() for other in frequencies[1:])
        assert far > 2 * near

    def test_the_loss_by_frequency_alone_is_the_entropy(self):
        assert unigram_loss(np.array([65, 66, 65, 66])) == pytest.approx(math.log(2))

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"inits": ("twos",)}, "expected one of ones"),
            ({"inits": ()}, "at least one initialisation"),
            ({"inits": ("ones", "ones")}, "each listed once"),
            ({"family": "bert"}, "expected one of gpt2"),
            ({"seeds": 1}, "at least 2"),
            ({"seeds": 51}, "at most 50"),
            ({"steps": 1}, "at least 4"),
            ({"width": 50}, "multiple of 8"),
            ({"characters": 10}, "at least 5000"),
            ({"seed": -1}, "from 0"),
        ],
    )
    def test_experiments_that_make_no_sense_are_refused(self, change, words):
        with pytest.raises(UsageError, match=words):
            NormsOptions(**change)

    def test_without_torch_there_is_a_hint(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(MissingExtra, match="'torch'") as caught:
            norms_experiment(NormsOptions().small())
        assert "modelkin[lab]" in str(caught.value.hint)


class TestWords:
    def test_a_threshold_is_refused_or_granted_by_the_data(self):
        assert "no threshold" in words(result(child=0.97).conclusion)
        assert "would tell these pairs apart" in words(result(child=0.999).conclusion)

    def test_the_common_mean_is_named_as_the_cause_only_if_it_is(self):
        wanted = result()
        for cosine, expected, named in ((0.97, 0.972, True), (0.97, 0.9, False), (0.3, 0.3, False)):
            pairs = tuple(
                replace(pair, init="near-one", cosine=cosine, expected=expected) for pair in wanted.pairs
            )
            arm = replace(wanted, options=NormsOptions(inits=("near-one",)), pairs=pairs)
            assert ("needs no common start" in words(conclude(arm).conclusion)) is named
        assert "near-one" not in words(wanted.conclusion)

    def test_a_false_alarm_would_be_told(self):
        assert "of 2 unrelated pairs 0 and 0" in words(result().conclusion)
        assert "of 2 unrelated pairs 1 and 1" in words(result(stranger_log10_p=-9).conclusion)

    def test_a_missed_child_would_be_told(self):
        assert "of 1 fine-tuned pairs the gains find 1" in words(result().conclusion)
        assert "of 1 fine-tuned pairs the gains find 0" in words(result(child_log10_p=-2).conclusion)

    def test_a_shared_start_counts_as_an_origin_only_if_it_was_found(self):
        assert "common random numbers" in words(result().conclusion)
        assert "common random numbers" not in words(result(start_log10_p=-1).conclusion)

    def test_limits_follow_the_numbers(self):
        wanted = result()
        assert "their own start" not in words(wanted.limits)  # all gains begin alike
        assert "With 2 seeds" in words(wanted.limits)
        told = {}
        for kept in (None, 0.3, 0.95):
            pairs = tuple(replace(pair, init="random") for pair in wanted.pairs)
            options = NormsOptions(inits=("random",))
            models = (run("random", 0, kept=kept),)
            told[kept] = words(conclude(replace(wanted, options=options, models=models, pairs=pairs)).limits)
        assert "was not measured" in told[None]
        assert "r from +0.300" in told[0.3]
        assert "rather than what training makes" not in told[0.3]
        assert "rather than what training makes" in told[0.95]
        assert "seeds there are few" not in told[0.95]

    def test_the_needed_p_is_corrected_for_all_pairs(self):
        """Four pairs: 0.01 / 4 is log10 -2.6."""
        found = {log10_p: groups_of(result(child_log10_p=log10_p))[-1] for log10_p in (-2.59, -2.61)}
        assert [found[key].found_by_norms for key in (-2.59, -2.61)] == [0, 1]

    def test_groups_sum_up_their_pairs(self):
        groups = groups_of(result())
        assert [(group.relation, group.n) for group in groups] == [
            ("unrelated, same data", 1),
            ("unrelated, other data", 1),
            ("same start", 1),
            ("fine-tuned", 1),
        ]
        assert groups[3].verdicts == (("shared", 1),)
        assert groups[1].expected == 0.975

    def test_p_values_are_rounded_up_and_do_not_underflow(self):
        values = (0.0, math.log10(0.5), math.log10(0.0321), math.log10(0.999), -4.5, -400.2)
        assert [p_text(value) for value in values] == [
            *("1", "0.5", "0.033", "1", "1e-4", "1e-400"),
        ]


class TestFiles:
    def test_results_come_back_as_they_were(self, tmp_path):
        wanted = result(kept=0.5)
        write_norms(wanted, tmp_path / "out")
        assert norms_from_json((tmp_path / "out" / "norms.json").read_text()) == wanted
        rows = list(csv.DictReader((tmp_path / "out" / "pairs.csv").read_text().splitlines()))
        assert [float(row["norm_test_log10_p"]) for row in rows] == [
            p.norm_test.log10_p for p in wanted.pairs
        ]
        assert len(list(csv.DictReader((tmp_path / "out" / "gains.csv").read_text().splitlines()))) == 4
        models = list(csv.DictReader((tmp_path / "out" / "models.csv").read_text().splitlines()))
        assert [row["start_kept"] for row in models] == ["0.5", ""]
        names = {path.name for path in (tmp_path / "out").iterdir()}
        for name in ("norms_pairs", "norms_cosine", "norms_training"):
            assert {f"{name}.png", f"{name}.svg"} <= names
        document = (tmp_path / "out" / "NORMS.md").read_text()
        assert document == norms_document(wanted)
        assert "2.00 to 2.00 of their own corpus, 2.50 to 2.50 of the other one" in document
        for sentence in (*wanted.conclusion, *wanted.limits):
            assert str(sentence) in document

    @pytest.mark.parametrize(
        "text", ["", "[]", "{}", '{"schema": "other/1"}', '{"schema": "modelkin.norms/1"}']
    )
    def test_other_files_are_refused(self, text):
        with pytest.raises(FormatError, match=r"norms\.json"):
            norms_from_json(text)

    def test_unknown_fields_are_refused(self):
        document = json.loads(to_json(result()))
        document["pairs"][0]["extra"] = 1
        with pytest.raises(FormatError, match="extra"):
            norms_from_json(json.dumps(document))


def test_the_page_tells_the_kept_results():
    """What docs/experiments.md says about the experiment is computed from the stored numbers."""
    kept = conclude(norms_from_json((DOCS / "experiments" / "norms.json").read_text()))
    told = norms_document(kept).partition("\n\n")[2].replace("\n## ", "\n### ")
    page = (DOCS / "experiments.md").read_text()
    assert page.partition("<!-- begin norms -->\n")[2].partition("<!-- end norms -->")[0] == told


def outcomes():
    """Return experiments that between them say everything that the experiment can say."""
    kept = conclude(norms_from_json((DOCS / "experiments" / "norms.json").read_text()))
    near = replace(result(), options=NormsOptions(inits=("near-one",)), models=(run("near-one", 0),))
    untested = TestResult(log10_p=None, effect=None, reason=say("lacks-tensor"))
    return (
        kept,
        result(child=0.97, start_log10_p=-1.0, kept=0.9),
        conclude(replace(near, pairs=tuple(replace(p, init="near-one", cosine=0.3) for p in near.pairs))),
        conclude(
            replace(
                kept,
                pairs=tuple(
                    replace(p, pearson=None, norm_test=untested, unit_test=untested, verdict="not-testable")
                    for p in kept.pairs
                ),
                models=tuple(replace(run, start_kept=None) for run in kept.models),
            )
        ),
    )


@pytest.mark.parametrize("found", outcomes())
class TestKorean:
    def test_no_english_sentence_is_left(self, found):
        assert len(english(prose(norms_document(found)))) > 10
        assert english(prose(norms_document(found, KOREAN))) == []
        assert "(원문)" not in norms_document(found, KOREAN)

    def test_figures_are_told_too(self, found):
        for figure in norms_figures(found).values():
            assert english(words_of(figure)) == []
            assert KOREAN.wording(figure.title) != figure.title

    def test_what_was_read_back_is_told_as_well(self, found):
        again = norms_from_json(to_json(found))
        assert again == found
        assert norms_document(again, KOREAN) == norms_document(found, KOREAN)

    def test_both_languages_show_the_same_numbers(self, found):
        told = [
            sorted(re.findall(r"\d+\.\d+|1e-\d+|\d\d+|[2-9]", norms_document(found, language)))
            for language in (ENGLISH, KOREAN)
        ]
        assert told[0] == told[1]  # but 0 and 1: gains begin at "one", in Korean at 1


def test_all_that_can_be_said_is_said_in_these_outcomes():
    """Each sentence of the conclusion and the limits that the texts hold is in one of the outcomes above."""
    said = {message.code for found in outcomes() for message in (*found.conclusion, *found.limits)}
    whole = {f"norms.{key}" for key, text in ENGLISH.table("norms").items() if text.endswith(".")}
    document = {"norms.made", "norms.learnt", "norms.about"}
    assert said == {key for key in whole if not key.endswith("-note")} - document


def test_pairs_that_could_not_be_tested_are_told_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr("modelkin.casework.lab.norms_report.draw", lambda figure, out, name, language: None)
    untested = outcomes()[-1]
    write_norms(untested, tmp_path)
    rows = list(csv.DictReader((tmp_path / "pairs.csv").read_text().splitlines()))
    assert {(row["norm_test_log10_p"], row["norm_test_reason"]) for row in rows} == {
        ("", "one of the models lacks this tensor")
    }
    document = (tmp_path / "NORMS.md").read_text()
    assert "is not tested (gains) and not tested (units)" in document
    assert "no correlation could be computed" in document


def test_the_page_runs():
    found = doctest.testfile(str(DOCS / "experiments.md"), module_relative=False)
    assert found.attempted > 5
    assert found.failed == 0


def test_every_pair_is_drawn_beside_its_expectation():
    wanted = result()
    figures = norms_figures(wanted)
    assert all(panel.shows_chance for figure in figures.values() for panel in figure.panels)
    cosines = figures["norms_pairs"].panels[0]
    drawn = [value for m in cosines.marks if isinstance(m, Scatter) and m.role == "data" for value in m.y]
    expected = [v for m in cosines.marks if isinstance(m, Scatter) and m.role == "expectation" for v in m.y]
    assert drawn == [pair.cosine for pair in wanted.pairs]
    assert expected == [pair.expected for pair in wanted.pairs]
    tested = figures["norms_pairs"].panels[2]
    assert 20.0 in [value for m in tested.marks if isinstance(m, Scatter) for value in m.y]


def test_a_relation_without_pairs_has_no_place_in_the_figure():
    wanted = result()
    fewer = replace(wanted, pairs=wanted.pairs[1:])
    ticks = norms_figures(fewer)["norms_pairs"].panels[0].x.ticks
    assert len(ticks) == 3


def test_a_saved_experiment_without_models_is_refused_and_absurd_p_values_are_told():
    document = json.loads((DOCS / "experiments" / "norms.json").read_text())
    for key in ("models", "pairs"):
        with pytest.raises(FormatError, match="expected models and pairs"):
            norms_from_json(json.dumps(document | {key: []}))
    assert p_text(1e308) == "1"
