"""Every shipped study, end to end: through a Hub, on tiny models under the real names."""

from __future__ import annotations

import csv
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.casework.studies.conftest import CORRELATION, LAYERS, RunStudy, close
from tests.casework.studies.tiny import Tiny, gains
from tests.document.korean import KOREAN, Texts, english, prose, words_of

from modelkin.casework.studies import load_study, shipped_studies
from modelkin.casework.studies.bench import Bench
from modelkin.casework.studies.folder import Folder
from modelkin.casework.studies.plots import PairFigure
from modelkin.casework.studies.reading import AliasPair, DrawnVectors, Earlier
from modelkin.casework.studies.report import report_page, report_text, study_language
from modelkin.document import load_language
from modelkin.figures import Figure, ReferenceLine, alt_of, draw
from modelkin.options import FetchOptions

pytestmark = [pytest.mark.timeout(900), pytest.mark.scale]  # `test_seeds` runs the commands of the studies

NAMES = (
    "additional-experiments",
    "baseline-critique",
    "centred-review",
    "layer-zero",
    "original-claim",
    "sanity-check",
    "three-models",
)
SEVEN = ("cosine", "centered_cosine", "pearson", "mean_abs_diff", "rel_l2", "cv_diff", "p99_abs_diff")
FILES = {
    "original-claim": [
        "00_config_compare.json",
        "01_tokenizer_compare.json",
        "layerwise_similarity.csv",
        "plot_cosine_by_layer.svg",
        "plot_pearson_by_layer.svg",
        "plot_router_aligned_cosine.svg",
        "solar_vs_glm45air_trunc.csv",
        "results/definitive_evidence.svg",
        "results/embedding_comparison.svg",
        "results/embedding_comparison.json",
        "results/layernorm_by_layer.svg",
        "results/summary_comparison.svg",
        "results/solar_vs_glm_detailed.csv",
        "results/cosine_distribution_by_type.svg",
        "results/vocab_mapping_analysis.svg",
        "out_decay/results.json",
        "out_decay/layer_decay_analysis.svg",
        "out_final/statistics.json",
        "out_final/tokenizer.json",
        "out_final/proof_analysis.svg",
        "out_comprehensive/statistics.json",
        "out_comprehensive/tokenizer_analysis.json",
        "out_comprehensive/comprehensive_analysis.svg",
        "out_with_control/statistics.json",
        "out_with_control/tokenizer_expansion_analysis.json",
        "out_with_control/comparison_with_control.svg",
        "embedding_results/embedding_comparison.csv",
        "embedding_results/embedding_similarity.svg",
    ],
    "three-models": [
        *(
            f"outputs/confusions/{name}/confusion_mixed_{name}_s10_g20_p30.{ending}"
            for name in SEVEN
            for ending in ("svg", "json")
        ),
        *(
            f"outputs/confusions/{name}/confusion_{name}_{where}.{ending}"
            for name in SEVEN
            for where in ("layer10", "layer20", "layer30")
            for ending in ("svg", "json")
        ),
        *(
            f"outputs/within_model/{name}/within_{name}_{model}_layers10_20_30.{ending}"
            for name in SEVEN
            for model in ("solar", "glm", "phi")
            for ending in ("svg", "json")
        ),
    ],
    "baseline-critique": [
        "results/baseline_comparison.svg",
        "results/multi_model_comparison.svg",
        "results/RESULTS.md",
    ],
    "additional-experiments": [
        "results/summary_comparison.svg",
        "results/exp1_layer0_outlier.svg",
        "results/exp2_fair_baseline.svg",
        "results/exp3_moe_heatmap.svg",
        "results/exp4_multi_layer.svg",
        "results/exp5_architecture_comparison.svg",
        "results/exp5_full_heatmap.svg",
        "results/exp6_metric_comparison.svg",
        "results/RESULTS.md",
    ],
    "centred-review": [
        f"result/figure_{name}"
        for name in [
            "00_cosine_before_3d.svg",
            "00_cosine_after_3d.svg",
            "00_cosine_bias_animation_3d.gif",
            "01_intuition_independent_input.svg",
            "02_heatmap_all_layers.svg",
            "03_intuition_derivative_input.svg",
            "03_1_glm_intellect_diff_analysis.svg",
            "04a_intuition_phi_solar_input.svg",
            "04b_intuition_glm_phi_input.svg",
            "05_heatmap_multi_pairs.svg",
            "06_layernorm_surface.svg",
            "07_layernorm_pca.svg",
            "08_layernorm_stats.svg",
            "09_ridge_combined.svg",
            "10_input_vs_post_within_layer.svg",
        ]
    ],
    "layer-zero": ["layer_zero_input.svg", "layer_zero_post.svg", "scale_input.svg", "scale_post.svg"],
    "sanity-check": ["layernorm_sanity.csv", "plot_summary.svg", "viz_cossim/results.svg"],
}
COMMON = ("REPORT.md", "report.html", "manifest.json", "study.yaml")
OF_A_PAIR = ("comparison/report.html", "data/comparison.json")
WITHOUT_PAIR = ("layer-zero",)
"""Studies of single models: they compare no pair."""


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_seven_studies_are_shipped_under_their_own_names():
    assert shipped_studies() == NAMES
    assert [load_study(name).name for name in NAMES] == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_study_writes_every_file_that_its_analysis_names(done: RunStudy, name: str):
    run = done(name)
    wanted = (*FILES[name], *COMMON, *(() if name in WITHOUT_PAIR else OF_A_PAIR))
    assert [file for file in wanted if not (run.folder / file).is_file()] == []
    assert run.steps() == {}, run.steps()
    assert run.result.done


@pytest.mark.parametrize("name", NAMES)
def test_the_manifest_holds_commits_and_digests_of_what_is_there(done: RunStudy, name: str):
    run = done(name)
    manifest = json.loads((run.folder / "manifest.json").read_text())
    assert manifest["schema"] == "modelkin.study/1"
    for item in manifest["files"]:
        data = (run.folder / item["path"]).read_bytes()
        assert (item["bytes"], item["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    on_disk = {path.relative_to(run.folder).as_posix() for path in run.folder.rglob("*") if path.is_file()}
    assert on_disk - {item["path"] for item in manifest["files"]} == {"manifest.json"}
    assert all(len(model["revision"]) == 40 and model["bytes_fetched"] > 0 for model in manifest["models"])
    assert manifest["versions"].keys() == {"modelkin", "python", "numpy", "matplotlib"}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WITHOUT_PAIR])
def test_the_answer_stands_first_and_finds_no_origin_in_strangers(done: RunStudy, name: str):
    run = done(name)
    assert run.result.answer is not None
    assert run.result.answer["conclusion"] == "no-evidence"
    report = (run.folder / "REPORT.md").read_text(encoding="utf-8")
    first = "결론부터" if run.result.language == "ko" else "The answer first"
    assert report.index(f"## {first}") < report.index("## ", report.index(first) + len(first))
    controls = run.result.answer["controls"]
    assert isinstance(controls, list)
    assert controls
    assert all(item["conclusion"] == "no-evidence" for item in controls)


def test_each_byte_is_fetched_once_although_many_experiments_want_it(done: RunStudy):
    run = done("original-claim")
    for model in run.result.models:
        assert model.bytes_fetched < 0.9 * model.bytes_needed


# -- numbers -------------------------------------------------------------------------------------------


def test_cosine_expectation_and_correlation_are_those_that_were_built_in(done: RunStudy):
    rows = rows_of(done("original-claim").folder / "layerwise_similarity.csv")
    row = next(row for row in rows if row["category"] == "norm_pre" and row["layer_A"] == "20")
    mean, std = 0.2 + 0.02 * 20, 0.03
    rho = mean / np.hypot(mean, std)
    assert close(row["pearson"], CORRELATION)
    assert close(row["cosine"], rho * rho + CORRELATION * (1 - rho * rho))
    assert row["key_A"] == "model.layers.20.input_layernorm.weight"
    assert {row["category"] for row in rows} == {"norm_pre", "norm_post", "router_or_gate"}
    measured = rows_of(done("original-claim").folder / "data/norms.csv")
    (same,) = [
        row
        for row in measured
        if (row["measure"], row["role"], row["layer_a"], row["model_a"], row["model_b"])
        == ("cosine", "attention_norm", "20", "solar", "glm")
    ]
    assert close(same["expected"], rho * rho)
    assert same["n"] == "32"


def test_the_shuffle_test_has_the_means_and_deviations_of_the_weights(done: RunStudy):
    published = rows_of(done("sanity-check").folder / "layernorm_sanity.csv")
    assert [(int(row["layer"]), row["category"]) for row in published] == [
        (layer, category) for layer in range(LAYERS) for category in ("norm_pre", "norm_post")
    ]
    first = rows_of(done("sanity-check").folder / "data/shuffle.csv")[0]
    assert (first["layer"], first["category"]) == ("0", "norm_pre")
    assert close(first["A_mean"], 0.016)
    assert close(first["A_std"], 0.04)
    rho = 0.016 / np.hypot(0.016, 0.04)
    assert close(first["cosine_expected"], rho * rho)
    assert float(first["shuffled_low"]) <= float(first["cosine_shuffled"]) <= float(first["shuffled_high"])


def test_the_argument_of_many_sigmas_holds_as_well_for_shuffled_vectors(done: RunStudy):
    found = json.loads((done("original-claim").folder / "data/claim.json").read_text())
    zero = 0.016 / np.hypot(0.016, 0.04)
    others = [(0.2 + 0.02 * layer) / np.hypot(0.2 + 0.02 * layer, 0.03) for layer in (10, 20, 30, 40)]
    within, across = zero * np.array(others), np.array(others) ** 2
    shuffled = found["same_arithmetic_on_expectations"]
    assert close(shuffled["baseline"], within.mean())
    assert close(shuffled["evidence"], across.mean())
    sigmas = (across.mean() - within.mean()) / np.sqrt((across.var() + within.var()) / 2)
    assert close(shuffled["d"], sigmas, 1e-2)
    assert shuffled["d"] > found["claim"]["d"] > 50


def test_a_truncated_tensor_is_compared_in_both_ways(done: RunStudy):
    rows = rows_of(done("original-claim").folder / "data/windows.csv")
    queries = [
        row
        for row in rows
        if (row["role"], row["layer_a"], row["measure"]) == ("attention_query", "3", "cosine")
    ]
    assert {row["view"]: bool(row["value"]) for row in queries} == {
        "whole": False,
        "prefix": True,
        "groups": True,
    }


def test_matched_experts_are_held_against_the_same_search_on_noise(done: RunStudy):
    found = json.loads((done("original-claim").folder / "data/routers.json").read_text())
    low, middle, high = found["mean"]["null"]
    assert low <= middle <= high
    # Nothing is related: the search finds much in noise, and as much in the models.
    assert middle > 0.2
    assert abs(found["mean"]["matched"] - middle) < 0.03


def test_code_is_shown_beside_the_weights_and_named_no_evidence(done: RunStudy):
    run = done("original-claim")
    found = json.loads((run.folder / "data/code.json").read_text())
    (file,) = found["candidate"]["files"]
    assert (file["copyrights"], file["layer_numbers"]) == (["Copyright 2025 Upstage"], [46])
    assert found["base"]["files"] == []
    assert "No verdict uses this" in (run.folder / "REPORT.md").read_text(encoding="utf-8")


def test_a_model_with_itself_is_not_in_the_squares_and_distances_are_not_mirrored(done: RunStudy):
    folder = done("three-models").folder / "outputs"
    cosine = json.loads((folder / "confusions/cosine/confusion_cosine_layer20.json").read_text())
    assert cosine["models"] == ["solar", "glm", "phi"]
    square = cosine["mats"]["input_layernorm"]
    assert [square[i][i] for i in range(3)] == [None, None, None]
    assert square[0][1] == square[1][0]
    one_way = json.loads((folder / "confusions/rel_l2/confusion_rel_l2_layer20.json").read_text())
    assert one_way["mats"]["input_layernorm"][1][0] is None
    refused = json.loads((folder / "confusions/cv_diff/confusion_cv_diff_layer20.json").read_text())
    assert refused["mats"]["k_proj"][0][2] is None
    left = [str(item.reason) for item in done("three-models").result.left_out]
    assert any("near zero" in reason for reason in left)


def test_the_centred_cosine_is_the_correlation(done: RunStudy):
    folder = done("three-models").folder / "outputs/confusions"
    one, other = (
        json.loads((folder / name / f"confusion_{name}_layer20.json").read_text())["mats"]
        for name in ("pearson", "centered_cosine")
    )
    assert one == other
    assert close(one["input_layernorm"][0][1], CORRELATION)


def test_relatives_are_found_by_the_comparison_and_marked(done: RunStudy):
    run = done("centred-review")
    assert run.result.answer is not None
    relatives = run.result.answer["relatives"]
    assert isinstance(relatives, list)
    assert [(item["models"], item["related"]) for item in relatives] == [(["glm", "intellect"], True)]


def test_changes_are_counted_in_steps_of_the_format(done: RunStudy):
    found = json.loads((done("centred-review").folder / "data/changes.json").read_text())
    rows = [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
    changed = [row for row in rows if row["role"] == "attention_norm"]
    kept = [row for row in rows if row["role"] == "mlp_norm"]
    # Every third of 32 values was raised by one per cent: up to three steps of bfloat16, or rounded away.
    assert all(0 < row["changed_share"] <= 11 / 32 for row in changed)
    assert all(1 <= row["mean_ulps"] <= 3 for row in changed)
    assert all(row["changed_share"] == 0 and row["mean_ulps"] is None for row in kept)
    assert changed[20]["one_ulp"] == 2.0**-8


def test_the_prediction_layer_stays_apart(done: RunStudy):
    run = done("centred-review")
    vectors = json.loads((run.folder / "data/gains.json").read_text())["vectors"]
    assert vectors["glm|attention_norm"]["layers"] == list(range(LAYERS))
    assert vectors["glm|mtp.attention_norm"]["layers"] == [LAYERS]
    assert "intellect|mtp.attention_norm" not in vectors
    assert any("mtp.attention_norm of solar" in str(item.what) for item in run.result.left_out)


def test_layer_zero_is_odd_where_its_mean_direction_is_low(done: RunStudy):
    folder = done("layer-zero").folder
    rows = [row for row in rows_of(folder / "data/scale.csv") if row["role"] == "attention_norm"]
    rho = {(row["model"], row["layer"]): float(row["rho"]) for row in rows}
    assert rho["qwen3_4b", "0"] < 0.5 < 0.98 < rho["qwen3_14b", "0"]
    cosines = {
        (row["model_a"], row["layer_a"], row["layer_b"]): float(row["value"])
        for row in rows_of(folder / "data/published.csv")
        if (row["measure"], row["role"]) == ("cosine", "attention_norm")
    }
    assert cosines["qwen3_4b", "0", "15"] < 0.6
    assert cosines["qwen3_14b", "0", "15"] > 0.9
    report = (folder / "REPORT.md").read_text(encoding="utf-8")
    assert "this study compares no pair" in report


def test_growth_and_rounding_of_gains_are_told(done: RunStudy):
    rows = rows_of(done("centred-review").folder / "data/precision.csv")
    row = next(row for row in rows if (row["model"], row["role"], row["layer"]) == ("glm", "mlp_norm", "20"))
    mean, std = 0.2 + 0.02 * 20 + 0.3, 0.03
    assert close(row["norm"], np.sqrt(32 * (mean**2 + std**2)), 2e-2)
    # Gains of 0.9 are stored in steps of 2 ** -8, their distances from one in much smaller ones.
    assert close(row["loss_bf16"], (2**-8) ** 2 / 12 / std**2, 2e-4)
    assert float(row["loss_bf16_minus_one"]) < float(row["loss_bf16"]) / 5
    assert float(row["loss_fp16"]) < float(row["loss_bf16"]) / 50
    assert float(row["error_bf16_promoted"]) < float(row["error_bf16_low"])
    assert {row["norm_kind"] for row in rows} == {"rms", "layer"}


def test_relatives_are_in_no_mean_of_strangers(done: RunStudy):
    run = done("additional-experiments")
    table = json.loads((run.folder / "data/architectures.json").read_text())
    named = {(item["baseline"], item["scope"]) for item in table["baselines"]}
    assert ("derived", "yi_6b x yi_9b") in named
    yi = next(
        item
        for item in table["baselines"]
        if (item["baseline"], item["scope"], item["measure"]) == ("derived", "yi_6b x yi_9b", "pearson")
    )
    assert close(yi["null"]["mean"], 1.0)


def test_a_model_that_cannot_be_had_is_listed_and_the_rest_goes_on(done: RunStudy):
    run = done("additional-experiments")
    (gone,) = run.result.missing
    assert (gone.alias, gone.ref) == ("internlm", "internlm/internlm2-chat-7b")
    assert "no such model" in str(gone.reason)
    for name in ("REPORT.md", "results/RESULTS.md"):
        text = (run.folder / name).read_text(encoding="utf-8")
        assert "could not be read" in text
        assert str(gone.reason).split(":")[-1].strip() in text


def test_a_model_of_another_width_is_refused_with_the_reason(done: RunStudy):
    run = done("baseline-critique")
    reasons = [str(item.reason) for item in run.result.left_out if "mixtral_22b" in str(item.what)]
    assert any("shapes differ: 32 and 48" in reason for reason in reasons)


def test_synthetic_cosines_follow_their_closed_form(done: RunStudy):
    rows = rows_of(done("sanity-check").folder / "data/synthetic.csv")
    assert len(rows) == 3 * 5 * 2
    for row in rows:
        assert close(row["cosine"], float(row["closed_form"]), 0.12)
    row = next(row for row in rows if (row["mean_1"], row["sigma"]) == ("1.0", "1.0"))
    assert close(row["closed_form"], 2 / np.sqrt(2 * 5))


def test_random_vectors_like_another_pair_are_not_drawn_for_this_one(done: RunStudy):
    folder, study = Folder(done("additional-experiments").folder), load_study("additional-experiments")
    rows = folder.read_json("data/random.json")["rows"]
    assert [row.get("pair") for row in rows] == [None, ["solar", "glm"], ["solar", "phi"], ["glm", "mixtral"]]
    bench = Bench(study=study, folder=folder, models={}, missing={}, seed=0, fetch=FetchOptions(offline=True))
    ours = AliasPair(("solar", "glm"))
    figure = PairFigure(
        file="x",
        data=Earlier("other-measures"),
        view="comprehensive",
        pair=ours,
        random=DrawnVectors("random"),
    ).make(bench)
    assert isinstance(figure, Figure)
    levels = [mark.label for mark in figure.panels[0].marks if isinstance(mark, ReferenceLine)]
    assert len(levels) == 2
    assert ["N(1, 0.1)" in levels[0], "Solar-Open-100B | GLM-4.5-Air, 10" in levels[1]] == [True, True]


def test_gains_are_saved_without_loss(done: RunStudy):
    with np.load(done("sanity-check").folder / "data/gains.npz", allow_pickle=False) as found:
        values = found["solar|mlp_norm"]
    wanted = gains(Tiny(family="solar_open", layers=LAYERS, seed=1), 5, 1).astype(np.float32)
    assert np.array_equal(values[5], wanted)


def test_the_korean_report_is_in_korean_and_its_data_are_not(done: RunStudy):
    folder = done("sanity-check").folder
    assert "섞기 전과 후" in (folder / "REPORT.md").read_text(encoding="utf-8")
    assert 'lang="ko"' in (folder / "report.html").read_text(encoding="utf-8")
    assert "cosine_shuffled" in (folder / "layernorm_sanity.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_no_english_sentence_is_left_in_a_korean_report_and_its_figures(done: RunStudy, name: str):
    run = done(name)
    for figure in run.figures:
        assert english(words_of(figure)) == []
    bench = Bench(
        study=load_study(name),
        folder=Folder(run.folder),
        models={},
        missing={item.alias: item.reason for item in run.result.missing},
        seed=0,
        fetch=FetchOptions(),
    )
    alts = iter(alt_of(figure, KOREAN) for figure in run.figures)
    steps = tuple(
        replace(step, alt=next(alts)) if step.status == "done" else step for step in run.result.figures
    )
    result = replace(run.result, language="ko", figures=steps)
    assert english(prose(report_text(bench, result))) == []
    assert english(Texts(report_page(bench, result)).found) == []
    assert english(prose(report_text(bench, run.result))) != [] or run.result.language == "ko"


@pytest.mark.parametrize("name", NAMES)
def test_every_table_and_sentence_of_a_report_has_its_text(done: RunStudy, name: str):
    known = study_language("en").texts
    for experiment in load_study(name).experiments:
        report = json.loads((done(name).folder / f"data/{experiment.id}.json").read_text())["report"]
        assert report["tables"] or report["said"]
        for table in report["tables"]:
            assert f"table.{table['title']}" in known
            assert [column for column in table["columns"] if f"column.{column}" not in known] == []
            assert {len(row) for row in table["rows"]} <= {len(table["columns"])}
        assert [item["text"] for item in report["said"] if f"said.{item['text']}" not in known] == []


def test_figures_can_be_drawn_again_from_the_folder_alone(done: RunStudy, tmp_path: Path):
    run = done("sanity-check")
    language = load_language(run.result.language)
    study = load_study("sanity-check")
    bench = Bench(
        study=study,
        folder=Folder(run.folder),
        models={},
        missing={},
        seed=0,
        fetch=FetchOptions(offline=True),
    )
    for item in study.figures:
        figure = item.make(bench)
        assert isinstance(figure, Figure)
        (again,) = draw(figure, tmp_path, "again", dpi=30, formats=("svg",), language=language)
        assert again.read_bytes() == (run.folder / f"{item.file}.svg").read_bytes()
