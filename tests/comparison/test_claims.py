"""What cards say is shown as a claim; what they try is refused."""

import json

import pytest
from tests.support import llama_files

import modelkin as mk
from modelkin.comparison.claims import MAX_CARD_BYTES, Claims, read_claims
from modelkin.errors import NetworkError
from modelkin.message import say
from modelkin.source import MemorySource

CARD = """---
license: apache-2.0
base_model:
  - org/parent
  - org/other
base_model_relation: merge
datasets: [org/data]
tags:
- chat
---
# Title

base_model: somebody/else
"""
MERGE = """
merge_method: slerp
base_model: org/parent
slices:
  - sources:
      - model: org/parent
        layer_range: [0, 32]
      - model: org/donor
"""


def claims(**files):
    contents = {name.replace("_md", ".md").replace("_yml", ".yml"): text for name, text in files.items()}
    source = MemorySource({name: text.encode() for name, text in contents.items()})
    return read_claims(mk.open_model(source))


def test_the_front_matter_of_a_card_is_read_and_its_text_is_not():
    found = claims(README_md=CARD)
    assert found.base_models == ("org/parent", "org/other")
    assert (found.relation, found.license) == ("merge", "apache-2.0")
    assert (found.datasets, found.tags) == (("org/data",), ("chat",))
    assert tuple(map(str, found.sentences())) == (
        "the card says: base model org/parent, org/other (merge)",
        "the card says: licence apache-2.0",
        "the card says: trained on org/data",
    )


def test_a_merge_names_its_models_once():
    found = claims(mergekit_config_yml=MERGE)
    assert (found.merge_method, found.merged_models) == ("slerp", ("org/parent", "org/donor"))
    assert tuple(map(str, found.sentences())) == (
        "the merge file says: made by slerp from org/parent, org/donor",
    )


def test_the_config_says_where_it_was_saved_from():
    source = MemorySource({"config.json": json.dumps({"_name_or_path": "org/before"}).encode()})
    found = read_claims(mk.open_model(source))
    assert tuple(map(str, found.sentences())) == ("the config says: saved from org/before",)


def test_a_model_that_says_nothing_claims_nothing():
    assert claims(README_md="# only a title") == Claims()
    assert claims(x="") == Claims()
    assert claims(README_md="---\n---\n") == Claims()


@pytest.mark.parametrize(
    ("front", "problem"),
    [
        ("a: &x [1]\nb: *x", "it uses references"),
        ("a: &x {b: *x}", "it uses references"),
        ("a: 1\na: 2", "a key occurs twice"),
        ("base_model: !!python/object/apply:os.system [id]", "it uses tags"),
        ("a: [1", "it is not valid YAML"),
        ("a: 2024-99-99", "it is not valid YAML"),
        ("? [a]\n: 1", "a key occurs twice or is not plain text"),
        ("- a", "expected fields, got list"),
        ("[" * 200_000, "it is nested more than 32 levels deep"),
        ("- " * 100_000, "it is nested more than 32 levels deep"),
        ("{a: " * 50_000, "it is nested more than 32 levels deep"),
    ],
)
def test_a_hostile_card_is_a_note_and_no_claim(front, problem):
    found = claims(README_md=f"---\n{front}\n---\n")
    assert found.base_models == ()
    assert problem in str(found.notes[0])
    assert str(found.notes[0]).startswith("README.md: not read, ")


def test_a_front_matter_without_end_is_a_note():
    found = claims(README_md="---\n" + "a: 1\n" * MAX_CARD_BYTES)
    assert tuple(map(str, found.notes)) == (
        f"README.md: not read, its front matter does not end within the first {MAX_CARD_BYTES:,} bytes",
    )


def test_values_of_other_types_are_no_claims_and_odd_letters_are_escaped():
    found = claims(README_md='---\nbase_model: [1, null, {a: b}, "x\\u202ey"]\nlicense: {a: 1}\n---\n')
    assert found.base_models == ("x\\u202ey",)
    assert found.license is None


def test_long_claims_are_cut():
    found = claims(README_md=f"---\nbase_model: {'x' * 5000}\ntags: {list(range(1000))}\n---\n")
    assert len(found.base_models[0]) == 200
    assert found.tags == ()


def test_a_comparison_shows_claims_and_decides_without_them():
    files = llama_files()
    plain = mk.compare(candidate=MemorySource(files), base=MemorySource(llama_files(seed=1)))
    claimed = mk.compare(
        candidate=MemorySource(files | {"README.md": CARD.encode()}), base=MemorySource(llama_files(seed=1))
    )
    assert str(claimed.claims["candidate"][0]) == "the card says: base model org/parent, org/other (merge)"
    assert plain.claims == {}
    assert claimed.verdict == plain.verdict
    assert mk.Comparison.from_json(claimed.to_json()) == claimed


def test_claims_that_were_written_without_codes_are_quoted():
    files = llama_files() | {"README.md": CARD.encode()}
    claimed = mk.compare(candidate=MemorySource(files), base=MemorySource(llama_files(seed=1)))
    document = json.loads(claimed.to_json())
    del document["claims"]["candidate_codes"]
    read = mk.Comparison.from_json(json.dumps(document))
    assert {said.code for said in read.claims["candidate"]} == {"quoted"}
    assert list(map(str, read.claims["candidate"])) == list(map(str, claimed.claims["candidate"]))


TAGS = (
    "!!bool x",
    "!!int ''",
    "!!timestamp x",
    "!!float y",
    "!!binary \u00e9",
    "!!set {a}",
    "!!python/name:os.system",
)


@pytest.mark.parametrize("value", TAGS)
@pytest.mark.parametrize("file", ["README_md", "mergekit_config_yml"])
def test_a_tag_becomes_a_note_and_ends_nothing(file, value):
    text = f"base_model: {value}\n"
    found = claims(**{file: f"---\n{text}---\n" if file == "README_md" else text})
    assert found.base_models == found.merged_models == ()
    assert [note.code for note in found.notes] == ["not-read"]
    assert "it uses tags" in str(found.notes[0])


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "number", ["1:" * 120_000 + "1", "0x" + "f" * 200_000, "1." + "1" * 200_000, "9" * 5_000]
)
def test_an_endless_number_becomes_a_note(number):
    found = claims(README_md=f"---\nlicense: {number}\n---\n")
    assert "a number has more than 1,000 characters" in str(found.notes[0])


def test_a_card_that_cannot_be_had_becomes_a_note(monkeypatch):
    read = MemorySource._read

    def broken(source, file, wanted):
        if file.name == "README.md":
            raise NetworkError("README.md", say("quoted", text="the line was cut"))
        return read(source, file, wanted)

    monkeypatch.setattr(MemorySource, "_read", broken)
    found = claims(README_md=CARD, mergekit_config_yml=MERGE)
    assert found.merge_method == "slerp"
    assert [str(note) for note in found.notes] == ["README.md: not read, README.md: the line was cut"]
