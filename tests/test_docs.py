"""What the documentation says is true."""

import doctest
import importlib
import importlib.util
import json
import re
import sys

import pytest
from tests.places import DOCS, ROOT

import modelkin as mk
from modelkin import errors
from modelkin.cli.app import app
from modelkin.comparison.methods import load_cards
from modelkin.comparison.verdict import Conclusion

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted(DOCS.rglob("*.md")),
]
HEADINGS = [
    "What it measures",
    "Why shared ancestry leaves it",
    "Null hypothesis",
    "What defeats it",
    "Known false alarms",
    "Cost in bytes",
    "Example",
    "References",
    "Version history",
]


def script(name):
    """Import a script of the documentation."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look for the module they are in
    spec.loader.exec_module(module)
    return module


generate, disguises, kinds = script("generate"), script("disguises"), script("kinds")
references, scale_real = script("references"), script("scale_real")


@pytest.mark.parametrize("name", generate.PARTS)
def test_generated_parts_are_up_to_date(name):
    files, make = generate.PARTS[name]
    for file in files:
        text = (DOCS / file).read_text()
        assert generate.regenerated(text, name, make()) == text, "run `make docs`"


def test_a_part_without_markers_is_an_error():
    with pytest.raises(ValueError, match="no markers for 'x'"):
        generate.regenerated("text", "x", "new")


def test_the_tables_of_disguises_are_those_of_the_facts():
    facts = json.loads(disguises.FACTS.read_text())
    text = disguises.PAGE.read_text()
    assert disguises.rendered(text, facts) == text, "run `make disguises`"
    assert f"**{len(facts['strangers']['accused'])} false accusations**" in text
    with pytest.raises(ValueError, match="no markers for 'relations'"):
        disguises.rendered("text", facts)


def test_the_table_of_published_weights_is_that_of_the_facts():
    facts = json.loads(scale_real.FACTS.read_text())
    page = scale_real.PAGE.read_text()
    assert scale_real.written(page, scale_real.table(facts)) == page, "run `make scale-real`"
    assert not any(fact["related"] for fact in facts.values() if scale_real.is_stranger(fact["key"]))


@pytest.mark.more
def test_the_tables_of_kinds_are_those_of_the_facts():
    facts = {fact["name"]: fact for fact in json.loads(kinds.FACTS.read_text())}
    text = kinds.PAGE.read_text()
    assert kinds.rendered(text, facts) == text, "run `make kinds`"
    rows = {row.name: row for row in kinds.kind_rows()}
    assert facts.keys() <= rows.keys()
    right = sum(fact["kind"] == rows[name].kind for name, fact in facts.items())
    assert right >= 0.95 * len(facts) >= 95
    with pytest.raises(ValueError, match="no markers for 'confusion'"):
        kinds.rendered("text", facts)


def test_the_tables_of_published_methods_are_those_of_the_facts():
    facts = json.loads(references.FACTS.read_text())
    text = references.PAGE.read_text()
    assert references.rendered(text, facts) == text, "run `make references`"
    assert facts["pairs"]["relatives"] + facts["pairs"]["strangers"] == len(references.jobs())
    with pytest.raises(ValueError, match="no markers for 'totals'"):
        references.rendered("text", facts)


def test_our_own_verdicts_beside_published_methods_accuse_no_stranger():
    facts = json.loads(references.FACTS.read_text())
    strangers = [group for group in facts["groups"].values() if not group["related"]]
    assert sum(group["pairs"] for group in strangers) >= 100
    for name in references.OURS:
        assert sum(group["methods"][name]["at_level"] for group in strangers) == 0


def test_what_is_compared_under_disguises_is_what_the_page_says():
    relatives, strangers = disguises.relation_jobs(), disguises.stranger_jobs()
    assert len(relatives) == len(set(relatives)) == len(disguises.relations())
    assert len({job.name for job in strangers}) >= 1_000
    assert len(set(strangers)) == len(strangers)
    assert disguises.stranger_jobs() == strangers


def test_the_python_page_runs():
    result = doctest.testfile(str(DOCS / "python.md"), module_relative=False)
    assert result.attempted > 20
    assert result.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_in_the_pages_exist(page):
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^\$ make ([a-z-]+)", page.read_text(), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for line in re.findall(r"^\$ modelkin (.+?)(?:\s+#.*)?$", page.read_text(), re.MULTILINE):
        words = line.split()
        command = app.commands[words[0]]
        while words[1:] and hasattr(command, "commands"):
            words = words[1:]
            command = command.commands[words[0]]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_imports_in_the_pages_work(page):
    lines = re.findall(
        r"^(?:>>> )?from (modelkin[\w.]*) import (\([^)]*\)|[^#\n]+)", page.read_text(), re.MULTILINE
    )
    for module, names in lines:
        for name in re.findall(r"(\w+)(?: as \w+)?", names.replace("...", "")):
            assert hasattr(importlib.import_module(module), name), f"from {module} import {name}"


def test_every_method_has_its_page_with_the_fixed_headings():
    pages = {page.stem: page.read_text() for page in (DOCS / "methods").glob("*.md")}
    assert pages.keys() == load_cards().keys()
    for card in load_cards().values():
        text = pages[card.name]
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
        assert f"- {card.version}: " in text
        assert card.reference == f"docs/methods/{card.name}.md"


def test_the_verdict_page_names_every_conclusion():
    text = (DOCS / "verdicts.md").read_text()
    for conclusion in Conclusion:
        assert f"`{conclusion.value}`" in text


def test_what_the_page_of_statistics_refers_to_is_used():
    page, references = (DOCS / "statistics.md").read_text().split("## References")
    used = page + "".join(file.read_text() for file in (ROOT / "src/modelkin/stats").glob("*.py"))
    authors = re.findall(r"(?:^|(?:\d{4}[.;]))\s*([^,]+?)(?:\s+and others)?,", references)
    assert len(authors) >= 7
    for author in authors:
        assert re.search(rf"\b{author}\b", used), author


def test_every_error_is_documented_and_drawn_in_the_tree():
    for name in errors.__all__:
        assert name in (errors.__doc__ or "")
        assert f"`{name}`" in (DOCS / "errors.md").read_text()


def test_every_public_name_is_in_the_documentation():
    text = "\n".join(page.read_text() for page in PAGES)
    for name in set(mk.__all__) - {"__version__", "Architecture", "BytePlan", "Inspection", "Model"}:
        assert name in text, name


def test_every_option_of_fetching_says_what_it_is_for():
    source = (ROOT / "src/modelkin/options.py").read_text()
    for name in mk.FetchOptions.__dataclass_fields__:
        assert re.search(rf"^    {name}: [^\n]+\n    \"\"\"", source, re.MULTILINE), name
