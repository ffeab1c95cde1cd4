"""Files in published forms: published columns and keys, and the published sums from published rows."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.casework.studies.conftest import LAYERS, RunStudy
from tests.casework.studies.test_shipped import rows_of

from modelkin.casework.studies import load_study
from modelkin.casework.studies.bench import Bench
from modelkin.casework.studies.folder import Folder
from modelkin.casework.studies.kinds.forms import AnyForm
from modelkin.describe.measures import MeasureRow, MeasureTable
from modelkin.options import FetchOptions

pytestmark = pytest.mark.timeout(900)

COLUMNS = {
    "layerwise_similarity.csv": "layer_B,layer_A,category,cosine,pearson,aligned_expert_cosine,bytes,shape,"
    "key_A,key_B,shard_A,shard_B",
    "solar_vs_glm45air_trunc.csv": "layer,tensor,status,solar_dtype,glm_dtype,solar_shape,glm_shape,"
    "raw_hash_equal,cosine,rel_rmse,z_cos,note",
    "results/solar_vs_glm_detailed.csv": "layer,key,status,cosine,rel_rmse,raw_hash_equal,a_shape,b_shape,"
    "note",
    "embedding_results/embedding_comparison.csv": "token,solar_id,glm_id,same_id,cosine",
}
"""Copied from the published files."""
SANITY = "layer,category,cosine,cosine_shuffled,cosine_centered,A_mean,A_std,B_mean,B_std,key_A,key_B"
SUMS = "mean std min max"
FINGERPRINT = "model_id tokenizer_model_type vocab_size merges_len merges_sha256_first1000 merges_sha256_all"


def plain(keys: str) -> dict[str, str | None]:
    """Keys with nothing below them."""
    return dict.fromkeys(keys.split())


KEYS: dict[str, dict[str, str | None]] = {
    "00_config_compare.json": {"A": "repo config_summary", "B": "repo config_summary"},
    "01_tokenizer_compare.json": {
        "A_fingerprint": FINGERPRINT,
        "B_fingerprint": FINGERPRINT,
        "token_set_overlap": "intersection union jaccard overlap_vs_smaller",
        "same_id_exact_matches": "matches denom ratio",
        "ascii_offset_histogram_top10": "offset count",
        "best_ascii_offset": None,
        "best_offset_longest_contiguous_run": "run_len run_start_in_A sample_tokens_A sample_tokens_B",
    },
    "out_with_control/tokenizer_expansion_analysis.json": plain(
        "vocab_size_A vocab_size_B vocab_diff b_tokens_found_in_a b_tokens_found_in_a_ratio "
        "b_tokens_same_or_close_id most_common_position_diffs merges_len_A merges_len_B merges_intersection "
        "merges_b_in_a merges_b_in_a_ratio first_1000_merges_exact_match first_1000_merges_exact_match_ratio"
    ),
    "out_comprehensive/tokenizer_analysis.json": plain(
        "vocab_size_A vocab_size_B vocab_diff common_tokens common_ratio_over_B dominant_id_shift "
        "tokens_at_dominant_shift first_1000_consistent_mapping first_1000_consistent_ratio"
    )
    | {"sample_token_mappings": "token id_in_GLM id_in_Solar shift", "most_common_shifts": "shift count"}
    | plain("merges_len_A merges_len_B merges_common merges_only_in_A_count merges_only_in_B_count")
    | plain("merges_B_coverage_in_A"),
    "out_final/tokenizer.json": plain("vocab_A vocab_B vocab_diff common_tokens common_ratio")
    | {"top_shifts": "shift count"}
    | plain("merges_A merges_B merges_common merges_B_in_A_ratio"),
    "out_with_control/statistics.json": plain("Solar_vs_GLM GLM_vs_Phi_CONTROL"),
    "out_comprehensive/statistics.json": {
        "norm_pre": f"{SUMS} count",
        "norm_post": f"{SUMS} count",
        "router_or_gate": f"{SUMS} count",
        "random_baseline": "cosine_mean cosine_std cosine_max pearson_mean pearson_std",
    },
    "out_final/statistics.json": {
        "matched_layers": "cosine_mean cosine_std centered_cosine_mean centered_cosine_std pearson_mean",
        "control_mismatched": "cosine_mean centered_cosine_mean",
    },
    "out_decay/results.json": plain(
        "diagonal_mean off_diagonal_mean diagonal_dominance early_layers_sim late_layers_sim decay "
        "pearson_mean"
    )
    | {"layerwise_similarity": "layer sim"},
    "results/embedding_comparison.json": plain(
        "num_tokens mean_cosine std_cosine min_cosine max_cosine baseline_mean high_similarity_count "
        "low_similarity_count"
    )
    | {"sample_results": "token solar_id glm_id cosine"},
}
"""Copied from the published files: keys, and the keys of what is below them."""


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", COLUMNS)
def test_a_table_has_the_published_columns(done: RunStudy, name: str):
    first = (done("original-claim").folder / name).read_text(encoding="utf-8").partition("\n")[0]
    assert first == COLUMNS[name]


def test_the_sanity_check_has_the_published_columns(done: RunStudy):
    first = (done("sanity-check").folder / "layernorm_sanity.csv").read_text().partition("\n")[0]
    assert first == SANITY


@pytest.mark.parametrize("name", KEYS)
def test_a_document_has_the_published_keys(done: RunStudy, name: str):
    found = read(done("original-claim").folder / name)
    assert list(found) == list(KEYS[name])
    for key, below in KEYS[name].items():
        if below is not None:
            inner = found[key][0] if isinstance(found[key], list) else found[key]
            assert list(inner) == below.split(), key


def test_no_two_files_in_published_form_are_the_same(done: RunStudy):
    folder = done("original-claim").folder
    contents = [(folder / name).read_bytes() for name in (*COLUMNS, *KEYS)]
    assert len(set(contents)) == len(contents)


def test_controls_have_a_mean_or_nothing_for_every_category(done: RunStudy):
    found = read(done("original-claim").folder / "out_with_control/statistics.json")
    for pair in found.values():
        assert list(pair) == ["norm_pre", "norm_post", "router_or_gate"]
        assert all(list(sums) == SUMS.split() for sums in pair.values())
    assert found["GLM_vs_Phi_CONTROL"]["norm_pre"]["mean"] > 0.9


def test_no_router_faces_that_of_a_prediction_layer(done: RunStudy):
    run = done("original-claim")
    found = read(run.folder / "data/routers.json")
    # GLM's first layer is dense, and its prediction layer has the number of a decoder layer of Solar.
    assert [row["layer"] for row in found["layers"]] == list(range(1, LAYERS))
    gone = {str(item.what): str(item.reason) for item in run.result.left_out}
    for layer in (0, LAYERS, LAYERS + 1):
        assert gone[f"routers: layer {layer}"] == "the models do not both have a router there"
    rows = rows_of(run.folder / "layerwise_similarity.csv")
    named = [row["category"] for row in rows]
    assert [named.count(name) for name in ("norm_pre", "norm_post")] == [LAYERS, LAYERS]
    assert named.count("router_or_gate") == LAYERS - 1


def test_every_tensor_of_the_windows_has_its_row_and_status(done: RunStudy):
    rows = rows_of(done("original-claim").folder / "solar_vs_glm45air_trunc.csv")
    assert len(rows) == 8 * LAYERS  # published: 8 x 46
    assert Counter(row["status"] for row in rows) == {
        "ok": 6 * LAYERS - 2,
        "shape_mismatch_but_trunc_test_ok": 2 * LAYERS,  # published: q_proj; here o_proj too
        "missing_in_one_repo": 2,
    }
    names = [re.sub(r"^model\.layers\.\d+\.", "", row["tensor"]) for row in rows[:8]]
    assert names == [
        *(f"self_attn.{name}_proj.weight" for name in "kvqo"),
        *("input_layernorm.weight", "post_attention_layernorm.weight"),
        *("mlp.gate.weight", "mlp.gate.e_score_correction_bias"),
    ]
    query = rows[2]
    assert (query["solar_shape"], query["glm_shape"]) == ("32x32", "48x32")
    assert query["cosine"]
    assert query["note"]
    assert all(row["raw_hash_equal"] == "False" for row in rows if row["status"] == "ok")


def test_the_detailed_table_names_who_lacks_a_tensor(done: RunStudy):
    rows = rows_of(done("original-claim").folder / "results/solar_vs_glm_detailed.csv")
    assert len(rows) == 6 * LAYERS  # published: 6 x 46
    assert Counter(row["status"] for row in rows) == {
        "ok": 5 * LAYERS - 1,
        "shape_mismatch": LAYERS,
        "missing_in_GLM-4.5-Air": 1,
    }
    assert (rows[0]["a_shape"], rows[3]["a_shape"]) == ("(16, 32)", "(32,)")
    unmeasured = [row for row in rows if row["status"] != "ok"]
    # As published: pandas reads both as missing, other readers tell these words from an empty cell.
    assert {(row["cosine"], row["rel_rmse"], row["raw_hash_equal"]) for row in unmeasured} == {
        ("nan", "nan", "")
    }
    (absent,) = (row for row in rows if row["status"].startswith("missing"))
    assert absent["b_shape"] == "None"


def test_squares_have_the_published_keys_and_names(done: RunStudy):
    folder = done("three-models").folder / "outputs"
    tensors = ["input_layernorm", "post_attention_layernorm", "k_proj", "v_proj"]
    equal = read(folder / "confusions/cosine/confusion_cosine_layer10.json")
    mixed = read(folder / "confusions/cosine/confusion_mixed_cosine_s10_g20_p30.json")
    within = read(folder / "within_model/cosine/within_cosine_glm_layers10_20_30.json")
    assert list(equal) == ["metric", "layer", "models", "mats"]
    assert list(mixed) == ["metric", "solar_layer", "glm_layer", "phi_layer", "models", "mats"]
    assert list(within) == ["metric", "model", "layers", "params", "mats"]
    assert equal["models"] == mixed["models"] == ["solar", "glm", "phi"]
    assert [list(item["mats"]) for item in (equal, mixed, within)] == [tensors] * 3
    assert (within["model"], within["layers"], within["params"]) == ("glm", [10, 20, 30], tensors)


# -- published sums from published rows ----------------------------------------------------------------


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Bench, MeasureTable]:
    """The published cosines and correlations of all layers, as a table of measures."""
    place = resources.files("modelkin.casework.replay").joinpath("data")
    roles = {"input": "attention_norm", "post": "mlp_norm"}
    rows = [
        (roles[row["role"]], int(row["layer"]), name, float(row[name]))
        for row in csv.DictReader(place.joinpath("norms.csv").read_text().splitlines())
        for name in ("cosine", "pearson")
    ]
    rows += [
        ("router", int(row["layer"]), name, float(row[name]))
        for row in csv.DictReader(place.joinpath("router.csv").read_text().splitlines())
        for name in ("cosine", "pearson")
    ]
    study = load_study("original-claim")
    bench = Bench(
        study=study,
        folder=Folder(tmp_path_factory.mktemp("published")),
        models={},
        missing={},
        seed=0,
        fetch=FetchOptions(offline=True),
    )
    drawn = {"cosine": 0.9999, "cosine_sd": 2e-6, "cosine_max": 1.0, "pearson": 0.0, "pearson_sd": 0.0158}
    bench.folder.json("data/random.json", {"rows": [drawn]})
    table = MeasureTable.of_rows(
        MeasureRow(
            role=role,
            measure=name,
            view="whole",
            model_a="solar",
            layer_a=layer,
            model_b="glm",
            layer_b=layer,
            value=value,
            n=4096,
        )
        for role, layer, name, value in rows
    )
    return bench, table


def written(published: tuple[Bench, MeasureTable], tag: str, **options: Any) -> Any:
    bench, table = published
    kind = next(form for form in get_args(AnyForm) if form.__struct_config__.tag == tag)
    kind(file=f"{tag}.json", **options).write(bench, table)
    return bench.folder.read_json(f"{tag}.json")


def test_the_overview_of_published_rows_is_the_published_one(published: tuple[Bench, MeasureTable]):
    found = written(published, "overview", models=("solar", "glm"), random="random")
    for name, mean, std, low, high, count in (
        ("norm_pre", 0.9487432785656141, 0.15640483572759545, 0.1272473931312561, 0.9942851662635803, 46),
        ("norm_post", 0.9863827422909115, 0.025861222825648626, 0.85386061668396, 0.9979522228240967, 46),
        (
            "router_or_gate",
            0.0037052943885404,
            0.0023862847612805,
            -0.0016588410362601,
            0.008158602751791,
            45,
        ),
    ):
        sums = found[name]
        assert [sums["mean"], sums["std"], sums["min"], sums["max"]] == pytest.approx(
            [mean, std, low, high], abs=1e-6
        )
        assert sums["count"] == count


def test_the_decay_of_published_rows_is_the_published_one(published: tuple[Bench, MeasureTable]):
    norms = ("attention_norm", "mlp_norm")
    found = written(published, "decay", models=("solar", "glm"), roles=norms)
    assert found["diagonal_mean"] == pytest.approx(0.9675630215937661, abs=1e-6)
    assert found["early_layers_sim"] == pytest.approx(0.9404605143155126, abs=1e-6)
    assert found["late_layers_sim"] == pytest.approx(0.9946655288720195, abs=1e-6)
    assert found["decay"] == pytest.approx(-0.05420501455650695, abs=1e-6)
    assert found["pearson_mean"] == pytest.approx(0.005364894078272641, abs=1e-6)
    assert found["layerwise_similarity"][0]["sim"] == pytest.approx(0.4905539375850083, abs=1e-6)
    assert found["off_diagonal_mean"] is None  # these cosines were not published
    assert len(found["layerwise_similarity"]) == 46


def test_the_control_form_of_published_rows_has_the_published_numbers(published: tuple[Bench, MeasureTable]):
    found = written(published, "with-control", models=("solar", "glm"), controls=("phi",))
    assert found["solar_vs_glm"]["router_or_gate"]["max"] == pytest.approx(0.008158602751791477, abs=1e-6)
    # A control without numbers has none; published rules took it for zero.
    assert found["glm_vs_phi_CONTROL"]["norm_pre"] == dict.fromkeys(SUMS.split())


WINDOWED = {
    "k": ("attention_key", "1024x4096", "1024x4096"),
    "v": ("attention_value", "1024x4096", "1024x4096"),
    "q": ("attention_query", "8192x4096", "12288x4096"),
    "o": ("attention_output", "4096x8192", "4096x12288"),
    "input": ("attention_norm", "4096", "4096"),
    "post": ("mlp_norm", "4096", "4096"),
    "router": ("router", "128x4096", "128x4096"),
    "router_bias": ("router_bias", "128", "128"),
}
"""Published names of tensors: the role, and the shapes in both models."""


def test_z_cos_of_published_cosines_is_the_published_one(published: tuple[Bench, MeasureTable]):
    bench, place = published[0], resources.files("modelkin.casework.replay").joinpath("data")
    rows = [*csv.DictReader(place.joinpath("windows.csv").read_text().splitlines())]
    there = [row for row in rows if row["status"] != "missing"]
    bench.id = "windows"
    bench.folder.rows(
        "data/windows-tensors.csv",
        [
            {
                "model": model,
                "role": role,
                "layer": row["layer"],
                "tensor": role,
                "dtype": "BF16",
                "shape": shape,
            }
            for row in there
            for role, *shapes in [WINDOWED[row["tensor"]]]
            for model, shape in zip(("solar", "glm"), shapes, strict=True)
        ],
    )
    table = MeasureTable.of_rows(
        MeasureRow(
            role=WINDOWED[row["tensor"]][0],
            measure="cosine",
            view=view,
            model_a="solar",
            layer_a=int(row["layer"]),
            model_b="glm",
            layer_b=int(row["layer"]),
            value=float(row["cosine"]) if row["cosine"] and view == measured else None,
            expected=0.5,
            expected_sd=0.25,
        )
        for row in there
        for measured in ["prefix" if row["status"] == "prefix" else "whole"]
        for view in dict.fromkeys(("whole", measured))
    )
    form = next(item for item in get_args(AnyForm) if item.__struct_config__.tag == "windows")
    form(file="windows.csv", models=("solar", "glm")).write(bench, table)
    found = {(row["layer"], row["tensor"]): row for row in bench.folder.read_csv("windows.csv")}
    wanted = {(row["layer"], WINDOWED[row["tensor"]][0]): row["z"] for row in there if row["z"]}
    assert len(wanted) == 320
    assert {key: float(found[key]["z_cos"]) for key in wanted} == pytest.approx(
        {key: float(z) for key, z in wanted.items()}, rel=1e-6
    )
    beside = bench.folder.read_csv("data/windows-deviations.csv")
    assert len(beside) == 320
    for row in beside:
        assert float(row["deviations"]) == pytest.approx((float(row["cosine"]) - 0.5) / 0.25)
