"""Every claim of a card is checked against the weights; nothing on a card is trusted or opened."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner
from tests.comparison.disguises import disguised, zoo_model
from tests.document.standards import sarif_schema
from tests.formats.adapters_support import adapter_files, base_files, write
from tests.places import ZOO

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.cli.app import app
from modelkin.document import claims_view, load_language, render_markdown, sarif_json
from modelkin.document.results import schema
from modelkin.lineage.cards import CardCheck, is_hub_id, left_out
from modelkin.lineage.cards.beginnings import from_scratch
from modelkin.lineage.cards.licences import accepted_licences, known_licences
from modelkin.source import MemorySource

FETCH = mk.CompareOptions(fetch=mk.FetchOptions(offline=True, use_store=False))


def model(name: str, card: str, **files: str) -> MemorySource:
    found = {path.name: path.read_bytes() for path in (ZOO / name).iterdir()}
    extra = {file.replace("_", ".", 1): text.encode() for file, text in files.items()}
    return MemorySource({**found, "README.md": card.encode(), **extra}, name=name)


def card(text: str = "", **fields: str) -> str:
    return "---\n" + "".join(f"{key}: {value}\n" for key, value in fields.items()) + f"---\n{text}"


def checked(candidate: MemorySource, **known: MemorySource) -> CardCheck:
    return mk.check_card(candidate, FETCH, known={f"org/{name}": source for name, source in known.items()})


@pytest.fixture(scope="module")
def honest() -> CardCheck:
    child = card(base_model="org/base", base_model_relation="finetune", license="cc-by-nc-4.0")
    return checked(model("finetune-light", child), base=model("base", card(license="cc-by-nc-4.0")))


@pytest.fixture(scope="module")
def dishonest() -> CardCheck:
    child = card(
        "The model was pretrained from scratch on text.",
        base_model="org/base",
        base_model_relation="quantized",
        license="mit",
    )
    return checked(model("finetune-light", child), base=model("base", card(license="cc-by-nc-4.0")))


def statuses(found: CardCheck) -> dict[str, str]:
    return {item.kind: item.status for item in found.claims}


def test_true_claims_are_supported(honest):
    assert statuses(honest) == {"parent": "supported", "relation": "supported", "licence": "supported"}
    assert honest.contradicted == 0
    assert honest.ancestors == (("finetune-light", "org/base"),)


def test_false_claims_are_contradicted(dishonest):
    assert statuses(dishonest) == {
        "parent": "supported",
        "relation": "contradicted",
        "from-scratch": "untestable",
        "licence": "contradicted",
    }
    licence = next(item for item in dishonest.claims if item.kind == "licence")
    assert "no commercial use" in str(licence.reason)


@pytest.mark.more
def test_a_parent_that_shares_nothing_is_contradicted_once_it_was_looked_for():
    child, base = model("twin-1", card(base_model="org/base")), model("base", "")
    deep = mk.check_card(child, replace(FETCH, depth="deep"), known={"org/base": base})
    assert statuses(deep) == {"parent": "contradicted"}
    assert deep.claims[0].conclusion == "no-evidence"
    assert statuses(checked(child, base=base)) == {"parent": "untestable"}


@pytest.mark.parametrize("disguises", [("residual-rotation",), ("residual-permutation", "units")])
def test_the_honest_card_of_a_disguised_copy_is_not_contradicted(disguises):
    files = {
        **disguised(zoo_model("base"), *disguises).files(),
        "README.md": card(base_model="org/base").encode(),
    }
    found = checked(MemorySource(files, name="child"), base=model("base", ""))
    assert found.claims[0].conclusion == "no-evidence"
    assert statuses(found) == {"parent": "untestable"}
    assert found.claims[0].reason.code == "check-look-deeper"


def test_another_shape_is_no_contradiction_before_it_was_looked_for():
    found = checked(model("deep-1", card(base_model="org/base")), base=model("base", ""))
    assert statuses(found) == {"parent": "untestable"}


def test_what_cannot_be_had_is_untestable_and_said():
    found = checked(model("base", card(base_model="org/gone")))
    assert statuses(found) == {"parent": "untestable"}
    assert "org/gone could not be obtained" in str(found.claims[0].reason)


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../secret", "https://host/model.safetensors", "a/../b", "file"]
)
def test_a_card_opens_nothing_but_models_of_the_hub(name):
    assert not is_hub_id(name)
    found = checked(model("base", card(base_model=f'"{name}"')))
    assert statuses(found) == {"parent": "untestable"}
    assert "is not the name of a model on the Hub" in str(found.claims[0].reason)


@pytest.mark.more
def test_circles_of_ancestors_end_and_are_said():
    found = checked(
        model("finetune-light", card(base_model="org/a")),
        a=model("base", card(base_model="org/b")),
        b=model("base", card(base_model="org/a")),
    )
    assert [item.kind for item in found.claims if item.kind != "licence"] == ["parent", "ancestor"]
    assert [note.code for note in found.notes] == ["check-circle"]
    assert ("org/b", "org/a") in found.ancestors


def test_from_scratch_alone_is_neither_proven_nor_refuted():
    found = checked(model("base", card("Trained from scratch.")))
    assert statuses(found) == {"from-scratch": "untestable"}
    stranger = mk.check_card(
        model("base", card("Trained from scratch.")), FETCH, against=[str(ZOO / "twin-1")]
    )
    assert statuses(stranger) == {"from-scratch": "untestable"}
    assert "does not prove the claim" in str(stranger.claims[0].reason)


def from_scratch_against(name: str, other: str, text: str = "") -> CardCheck:
    """Check the statement of one model against another, which has a card of its own."""
    made = model(name, card("Trained from scratch."))
    return mk.check_card(made, FETCH, against=[model(other, text)])


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "other", "status", "reason"),
    [
        ("finetune-light", "base", "contradicted", "check-scratch-related"),
        ("base", "finetune-light", "untestable", "check-scratch-later"),
        ("finetune-light", "finetune-sibling", "contradicted", "check-scratch-unless"),
        ("same-initialisation", "base", "untestable", "check-scratch-begun"),
    ],
)
def test_from_scratch_is_contradicted_by_an_earlier_model_only(name, other, status, reason):
    (claim,) = from_scratch_against(name, other).claims
    assert (claim.status, claim.reason.code) == (status, reason)
    assert claim.against == other


@pytest.mark.more
def test_a_base_is_not_accused_by_what_names_it_as_its_origin():
    (claim,) = from_scratch_against("lora", "base").claims
    assert claim.reason.code == "check-scratch-unless"
    (claim,) = from_scratch_against("lora", "base", card(base_model="lora")).claims
    assert (claim.status, claim.reason.code) == ("untestable", "check-scratch-later")


def test_a_model_to_check_against_that_cannot_be_read_is_an_error_of_the_call(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(mk.errors.ModelkinError, match="no weights"):
        mk.check_card(model("base", card("Trained from scratch.")), FETCH, against=[str(tmp_path)])


def test_models_to_check_against_are_not_left_out_silently():
    found = mk.check_card(model("base", card()), FETCH, against=[model("finetune-light", "")])
    assert [note.code for note in found.notes] == ["check-against-unused"]


def test_sarif_says_what_contradicts_from_scratch():
    found = from_scratch_against("finetune-light", "base")
    (rule,) = json.loads(sarif_json(found))["runs"][0]["tool"]["driver"]["rules"]
    assert "a common origin with an earlier model" in rule["help"]["text"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We trained it from scratch.", "trained it from scratch"),
        ("A 7B model, pre-trained on 2T tokens from scratch", "pre-trained on 2T tokens from scratch"),
        ("It was not trained from scratch.", None),
        ("Rather than being trained from scratch, it builds on Llama.", None),
        ("scratch", None),
        ("이 모델은 처음부터 한국어로 학습했다", "처음부터 한국어로 학습"),
    ],
)
def test_statements_about_a_beginning_are_found_in_the_text(text, expected):
    assert from_scratch(text) == expected


def test_a_licence_is_wider_where_it_leaves_something_out():
    assert left_out("mit", "llama3") == ("named", "use-limits", "user-limits")
    assert left_out("cc-by-nc-4.0", "apache-2.0") == ()
    assert left_out("Apache-2.0", "MIT") == ()
    assert left_out("my-own", "mit") is None
    assert left_out("gpl-3.0", "gpl-3.0") == ()
    assert all(name == name.lower() for name in known_licences())


@pytest.mark.parametrize(
    ("child", "parent", "missing"),
    [
        ("cc-by-sa-4.0", "gpl-3.0", ("share-alike",)),
        ("gpl-2.0", "cc-by-sa-4.0", ("share-alike",)),
        ("cc-by-nc-sa-4.0", "cc-by-sa-4.0", ("share-alike",)),
        ("gpl-3.0", "agpl-3.0", ("share-alike",)),
        # Creative Commons names it, and later versions are accepted.
        ("gpl-3.0", "cc-by-sa-4.0", ()),
        ("cc-by-sa-4.0", "cc-by-sa-3.0", ()),
        ("gpl-3.0", "gpl-2.0", ()),
        ("gpl-3.0", "mpl-2.0", ()),
    ],
)
def test_the_same_terms_are_those_of_the_same_licence_or_of_one_that_it_accepts(child, parent, missing):
    assert left_out(child, parent) == missing


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("finetune-light", "contradicted", "check-licence-derived"),
        ("base", "supported", "check-licence-kept"),
    ],
)
def test_a_licence_without_derivatives_is_kept_by_copies_only(name, status, reason):
    child = card(base_model="org/base", license="cc-by-nd-4.0")
    found = checked(model(name, child), base=model("base", card(license="cc-by-nd-4.0")))
    (licence,) = (item for item in found.claims if item.kind == "licence")
    assert (licence.status, licence.reason.code) == (status, reason)


def test_every_licence_that_is_accepted_is_known():
    accepted = accepted_licences()
    assert {*accepted, *(name for names in accepted.values() for name in names)} <= known_licences().keys()


def test_a_check_follows_its_schema(dishonest):
    jsonschema.validate(json.loads(dishonest.to_json()), schema("modelkin.check/1"))
    assert CardCheck.from_json(dishonest.to_json()) == dishonest


def test_sarif_has_a_result_for_each_claim_and_errors_where_it_is_contradicted(dishonest):
    log = json.loads(sarif_json(dishonest))
    if (known := sarif_schema()) is not None:
        jsonschema.Draft7Validator(known).validate(log)
    run = log["runs"][0]
    assert len({item["partialFingerprints"]["modelkin/1"] for item in run["results"]}) == len(run["results"])
    assert [item["level"] for item in run["results"]] == ["none", "error", "none", "error"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    for item in run["results"]:
        assert rules[item["ruleIndex"]] == item["ruleId"]
        assert item["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "README.md"


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_view_tells_contradicted_claims_first(dishonest, language):
    texts = load_language(language)
    text = render_markdown(claims_view(dishonest, texts))
    words = [texts.word("claim_status", status) for status in ("contradicted", "supported")]
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert words[0] in rows[2]
    assert words[1] in rows[-2]


def test_the_exit_code_is_for_gates(tmp_path):
    for name, text in (("finetune-light", card(base_model="org/base", base_model_relation="quantized")),):
        folder = tmp_path / name
        folder.mkdir()
        for path in (ZOO / name).iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        (folder / "README.md").write_text(text)
    command = ["check", str(folder), "--known", f"org/base={ZOO / 'base'}", "--offline", "--no-store", "-q"]
    passed = CliRunner().invoke(app, command)
    assert (passed.exit_code, "1 contradicted" in passed.stdout) == (0, True)
    failed = CliRunner().invoke(app, [*command, "--fail-on", "contradicted", "--format", "sarif"])
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["version"] == "2.1.0"
    wrong = CliRunner().invoke(app, [*command[:2], "--known", "org/base"])
    assert wrong.exit_code == 2
    assert "expected NAME=MODEL" in wrong.stderr


RECIPE = """models:
  - model: org/light
    parameters:
      weight: {first}
  - model: org/sibling
    parameters:
      weight: {second}
merge_method: linear
dtype: bfloat16
"""
ON_CARD = "# merged\n\nThe following YAML configuration was used:\n\n```yaml\n" + RECIPE + "```\n"


@pytest.fixture(scope="module")
def siblings() -> dict[str, MemorySource]:
    return {
        "light": model("finetune-light", card(license="mit")),
        "sibling": model("finetune-sibling", card(license="mit")),
    }


def mixed(text: str, share: float = 0.6, **fields: str) -> MemorySource:
    """Return a mixture of both siblings with a card."""
    first, second = zoo_model("finetune-light"), zoo_model("finetune-sibling")
    tensors = {
        name: share * values + (1 - share) * second.tensors[name] for name, values in first.tensors.items()
    }
    files = first.with_tensors(tensors).files("BF16")
    return MemorySource({**files, "README.md": card(text, **fields).encode()}, name="mixed")


@pytest.mark.more
def test_a_true_recipe_on_a_card_is_supported(siblings):
    text = ON_CARD.format(first=3, second=2)
    found = checked(mixed(text, base_model_relation="merge"), **siblings)
    assert statuses(found) == {
        **{"merge": "supported", "relation": "supported", "recipe": "supported"},
        "licence": "untestable",
    }
    recipe = next(item for item in found.claims if item.kind == "recipe")
    assert recipe.source == "README.md"
    assert "0.60 org/light, 0.40 org/sibling" in str(recipe.claim)
    assert "0.60 org/light, 0.40 org/sibling" in str(recipe.reason)


@pytest.mark.more
def test_other_weights_than_those_of_the_recipe_contradict_it(siblings):
    found = checked(mixed(ON_CARD.format(first=0.2, second=0.8)), **siblings)
    assert statuses(found)["recipe"] == "contradicted"
    assert statuses(found)["merge"] == "supported"
    jsonschema.validate(json.loads(found.to_json()), schema("modelkin.check/1"))


SLERP = """```yaml
slices:
  - sources:
      - {model: org/light, layer_range: [0, 4]}
      - {model: org/heavy, layer_range: [0, 4]}
merge_method: slerp
base_model: org/light
parameters: {t: 0.4}
```
"""


@pytest.mark.more
def test_the_base_of_a_slerp_is_one_of_its_parents():
    made = derive.merge_slerp(zoo_model("finetune-light"), zoo_model("finetune-heavy"), t=0.4).files("BF16")
    source = MemorySource({**made, "README.md": card(SLERP).encode()}, name="made")
    found = checked(source, light=model("finetune-light", ""), heavy=model("finetune-heavy", ""))
    assert [(item.kind, item.status) for item in found.claims if item.kind != "licence"] == [
        ("merge", "supported"),
        ("merge", "supported"),
        ("recipe", "supported"),
    ]
    assert "from org/light, org/heavy" in str(found.claims[2].claim)


@pytest.mark.more
def test_a_copy_of_one_parent_is_no_merge_and_what_is_not_found_accuses_nobody(siblings):
    text = ON_CARD.format(first=0.5, second=0.5)
    copy = model("finetune-light", card(text, base_model_relation="merge"))
    assert statuses(checked(copy, **siblings))["relation"] == "contradicted"
    trained = model("grandchild", card(text, base_model_relation="merge"))
    found = statuses(checked(trained, **siblings))
    assert found["relation"] == found["recipe"] == "untestable"


def test_a_recipe_whose_models_cannot_be_had_is_untestable():
    found = checked(mixed(ON_CARD.format(first=1, second=1)))
    assert {item.status for item in found.claims} == {"untestable"}


def test_recipes_that_are_no_recipes_are_none():
    for text in ("merge_method: 3", "merge_method: linear\nmodels: 7", "merge_method: [linear", "- linear"):
        found = checked(model("base", card(f"```yaml\n{text}\n```\n")))
        assert all(item.status == "untestable" for item in found.claims)


def test_a_known_base_is_used_for_an_adapter_and_proves_nothing_of_it(tmp_path):
    base = write(tmp_path / "base", base_files())
    adapter = write(tmp_path / "adapter", {**adapter_files(), "README.md": b"# Adapter"})
    found = mk.check_card(str(adapter), FETCH, known={"org/base": str(base)})
    assert [(item.kind, item.status, item.reason.code) for item in found.claims] == [
        ("adapter", "untestable", "check-adapter-on-base")
    ]


@pytest.mark.more
def test_the_declared_base_of_an_adapter_is_not_contradicted_by_the_weights_it_was_put_on(tmp_path):
    """The caller put it on a model of the same shapes that shares nothing with the one its config names."""
    rng = np.random.default_rng(1)
    module = "base_model.model.model.layers.0.self_attn.q_proj"
    sizes = {f"{module}.lora_A.weight": (4, 96), f"{module}.lora_B.weight": (96, 4)}
    factors = {name: 0.01 * rng.standard_normal(size).astype(np.float32) for name, size in sizes.items()}
    adapter = write(tmp_path / "adapter", adapter_files(factors, target_modules=["q_proj"]))
    found = mk.check_card(
        f"{adapter}::{ZOO / 'twin-1'}", replace(FETCH, depth="deep"), known={"org/base": model("base", "")}
    )
    assert [(item.kind, item.status, item.reason.code, item.conclusion) for item in found.claims] == [
        ("adapter", "untestable", "check-adapter-on-other", "no-evidence")
    ]


@pytest.mark.more
def test_training_in_full_contradicts_a_declared_adapter():
    child = card(base_model="org/base", base_model_relation="adapter")
    found = checked(model("finetune-light", child), base=model("base", ""))
    assert statuses(found)["relation"] == "contradicted"


@pytest.mark.more
def test_a_licence_is_followed_over_three_generations():
    found = checked(
        model("grandchild", card(base_model="org/light", license="mit")),
        light=model("finetune-light", card(base_model="org/base", license="mit")),
        base=model("base", card(license="cc-by-nc-4.0")),
    )
    assert ("org/light", "org/base") in found.ancestors
    licences = {item.claim["name"]: item.status for item in found.claims if item.kind == "licence"}
    assert licences == {"org/light": "supported", "org/base": "contradicted"}
    assert [item.status for item in found.claims if item.kind == "ancestor"] == ["supported"]
