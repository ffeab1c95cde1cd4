"""Patterns with a cause other than descent have their own wording, in headline, summary and JSON."""

from dataclasses import replace

import pytest
from tests.comparison.verdict.test_decide import found, judged, null
from tests.places import ZOO

import modelkin as mk
from modelkin.casework.lab import derive, load_zoo
from modelkin.comparison.methods import EQUAL_VALUES
from modelkin.comparison.verdict import Conclusion
from modelkin.document.language import ENGLISH, load_language
from modelkin.source import MemorySource


def shared(component, *flags):
    return replace(found(component, log10_p=-60), flags=flags)


TABLES = [shared("embedding", EQUAL_VALUES), shared("head", EQUAL_VALUES)]
SILENT = [null("mlp", layer=0), null("attention", layer=0)]


def test_equal_token_tables_and_nothing_else_are_called_that():
    verdict = judged([*TABLES, *SILENT, null("norms")], stage="deep")
    assert verdict.conclusion is Conclusion.SHARED_PARTIAL
    assert verdict.reading == "token-tables-only"
    assert "The same token tables, nothing else" in str(verdict.headline)
    assert "trained around the same published or frozen tables" in str(verdict.summary)
    assert "common origin" not in str(verdict.summary)


@pytest.mark.parametrize("evidence", [TABLES, [shared("head")]], ids=["tables", "coordinates"])
@pytest.mark.parametrize("lang", ["en", "ko"])
def test_before_the_deep_stage_a_copy_with_moved_layers_is_not_excluded(evidence, lang):
    verdict = judged([*evidence, *SILENT])
    assert verdict.reading in ("tables-so-far", "coordinates-so-far")
    assert "--depth deep" in load_language(lang).tell(verdict.headline)
    assert "--depth deep" in load_language(lang).tell(verdict.summary)
    assert "layers were moved" in str(verdict.summary)
    assert "Neither body need" not in str(verdict.summary)


def test_what_layers_write_between_common_tables_does_not_change_that():
    verdict = judged([*TABLES, *SILENT, null("norms"), shared("residual")], stage="deep")
    assert verdict.reading == "token-tables-only"


@pytest.mark.parametrize("components", [("head",), ("embedding", "head"), ("embedding", "head", "norms")])
def test_coordinates_without_units_are_a_reading_of_their_own(components):
    evidence = [*(shared(name) for name in components), *SILENT, shared("residual")]
    deep, early = judged(evidence, stage="deep"), judged(evidence[:-1])
    assert deep.reading == "coordinates-only"
    assert "trained on the other's hidden states, or started from the same embeddings" in str(deep.headline)
    assert early.reading == "coordinates-so-far"
    assert "units were reordered" in str(early.summary)  # before the deep stage that cannot be excluded


def test_tables_that_agree_without_being_equal_are_coordinates():
    verdict = judged([shared("embedding", EQUAL_VALUES), shared("head"), *SILENT], stage="deep")
    assert verdict.reading == "coordinates-only"


@pytest.mark.parametrize("unit", ["mlp", "attention", "experts", "router"])
def test_one_shared_component_of_units_is_more_than_coordinates(unit):
    silent = [test for test in SILENT if test.component != unit]
    verdict = judged([*TABLES, *silent, found(unit, log10_p=-40, layer=0)], stage="deep")
    assert verdict.reading is None
    assert "common origin" in str(verdict.summary)


def test_units_that_were_not_tested_are_not_said_to_be_missing():
    assert judged(TABLES, stage="deep").reading is None


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("zeros-alone", "beyond zeros in the same places"),
        ("beginning-alone", "the same initialisation or a common origin"),
    ],
)
def test_what_a_recipe_explains_is_said(flag, words):
    verdict = judged([replace(null("mlp", layer=0), flags=(flag,)), null("norms")])
    assert verdict.conclusion is Conclusion.NO_EVIDENCE
    assert verdict.reading == flag
    assert words in str(verdict.headline)
    assert verdict.summary.code == "sentences"


def test_readings_are_told_in_both_languages():
    for evidence in ([*TABLES, *SILENT], [shared("head"), *SILENT]):
        verdict = judged(evidence, stage="deep")
        assert ENGLISH.tell(verdict.headline) != load_language("ko").tell(verdict.headline)


@pytest.fixture(scope="module")
def zoo():
    return load_zoo(ZOO)


def test_a_copy_without_its_first_layer_is_not_cleared_at_standard_depth(zoo):
    base = zoo["deep-1"].load()
    cut = derive.reorder_layers(base, layers=[1, 2, 3, 4, 5])
    sources = [MemorySource(model.files(), name=name) for name, model in (("cut", cut), ("base", base))]
    verdict = mk.compare(candidate=sources[0], base=sources[1], depth="standard").verdict
    assert verdict.reading == "tables-so-far"
    assert "a copy whose layers were moved or left out" in str(verdict.summary)


def compared(zoo, candidate, base):
    sources = [MemorySource(zoo[name].load().files(), name=name) for name in (candidate, base)]
    return mk.compare(candidate=sources[0], base=sources[1], options=mk.CompareOptions(depth="deep"))


def test_a_model_that_kept_only_embeddings_has_coordinates_and_no_units(zoo):
    result = compared(zoo, "embeddings-only", "base")
    assert result.verdict.reading == "coordinates-only"
    assert mk.Comparison.from_json(result.to_json()) == result


@pytest.mark.more
@pytest.mark.parametrize(
    ("candidate", "base"),
    [("half-of-layers", "base"), ("new-attention", "base"), ("third-of-layers", "deep-1")],
)
def test_partial_copies_with_units_are_not_read_as_students(zoo, candidate, base):
    assert compared(zoo, candidate, base).verdict.reading is None
