"""How the story is told: languages, terminal, Markdown, page, folder, command."""

import html.parser
import io
import json
import re
import string
from dataclasses import replace

import pytest
from click.testing import CliRunner
from rich.console import Console
from tests.document.korean import KOREAN, Texts, english, prose

from modelkin.casework.replay import replay_solar_glm, replay_view, write_replay
from modelkin.casework.replay.figures import CHAPTERS, replay_figures
from modelkin.casework.replay.view import replay_html, replay_language, replay_markdown
from modelkin.cli.app import app
from modelkin.document import LANGUAGES, render_terminal
from modelkin.errors import UsageError
from modelkin.figures import HeatMap, alt_of


@pytest.fixture(scope="module")
def story():
    return replay_solar_glm()


def places(text):
    return sorted((name, spec) for _, name, spec, _ in string.Formatter().parse(text) if name is not None)


def test_languages_have_the_same_keys_and_the_same_places():
    english, korean = (replay_language(code).texts for code in ("en", "ko"))
    assert english.keys() == korean.keys()
    for key, text in english.items():
        assert set(places(text)) == set(places(korean[key])), key


def test_korean_is_korean():
    texts = replay_language("ko").texts
    for key, text in texts.items():
        if key.startswith(("chapter.", "case.")):
            assert re.search("[가-힣]", text), key


def test_an_unknown_language_is_refused():
    with pytest.raises(UsageError, match="expected a language of the replay, one of en, ko"):
        replay_language("tlh")


def test_every_chapter_number_and_table_has_its_words(story):
    texts = replay_language("en").texts
    for chapter in story.chapters:
        used = {name for name, _ in places(texts[f"chapter.{chapter.key}.text"])}
        assert used <= chapter.values.keys()
    told = {key.split(".")[1] for key in texts if key.startswith("chapter.")}
    assert told == {chapter.key for chapter in story.chapters}
    grids = {grid.key for chapter in story.chapters for grid in chapter.grids}
    assert grids == {key.split(".")[1] for key in texts if key.startswith("grid.")}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_terminal_tells_all_of_it(story, language):
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(render_terminal(replay_view(story, language)))
    text = console.export_text()
    assert "182" in text
    assert "V14" in text
    assert "{" not in text
    assert "tokens.jaccard" not in text
    console.print(render_terminal(replay_view(story, language, verbose=True)))
    assert "tokens.jaccard" in console.export_text()


def test_a_number_that_does_not_come_out_is_shown(story):
    first = story.chapters[0]
    broken = replace(first, checks=(replace(first.checks[0], computed=9.0), *first.checks[1:]))
    console = Console(width=100, record=True, file=io.StringIO())
    other = replace(story, chapters=(broken, *story.chapters[1:]))
    console.print(render_terminal(replay_view(other)))
    text = console.export_text()
    assert "46 of 47 published results" in " ".join(text.split())
    assert "These do not come out the same" in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_markdown_has_every_section_and_straight_tables(story, language):
    text = replay_markdown(story, language)
    assert len(re.findall("^## ", text, re.MULTILINE)) == len(story.chapters) + 4
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in {"meta", "img", "br", "wbr"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_no_english_sentence_is_left_in_korean(story):
    alts = {name: alt_of(figure, KOREAN) for name, figure in replay_figures().items()}
    assert english(prose(replay_markdown(story, "ko", alts=alts))) == []
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 1 1'></svg>"
    page = replay_html(story, "ko", alts=alts, images={f"figures/{name}.svg": svg for name in alts})
    assert english(Texts(page).found) == []
    assert english(prose(replay_markdown(story))) != []


def test_the_page_is_well_formed_and_loads_nothing(story):
    tags = Tags()
    page = replay_html(story, "ko")
    tags.feed(page)
    assert tags.open == []
    assert not {tag for tag, _ in tags.seen} & {"link", "iframe", "object"}
    assert [attrs for tag, attrs in tags.seen if tag == "script"] == [{}]
    assert all("src" not in attrs or attrs["src"].startswith("data:") for _, attrs in tags.seen)
    policy = next(attrs for tag, attrs in tags.seen if "http-equiv" in attrs)["content"]
    assert policy.startswith("default-src 'none'")
    assert "script-src 'sha256-" in policy


def test_every_figure_belongs_to_a_chapter_and_shows_chance(story):
    figures = replay_figures()
    assert sorted(name for names in CHAPTERS.values() for name in names) == sorted(figures)
    assert CHAPTERS.keys() <= {chapter.key for chapter in story.chapters}
    claim = figures["claimed_evidence"]
    assert "182 sigma" in claim.to_json()
    # What the published colours cannot tell apart is left out, not drawn as a number.
    heat = figures["pair_matrices"].panels[0].marks[0]
    assert isinstance(heat, HeatMap)
    assert heat.values[0][5] is None
    assert heat.values[0][0] == 1.0
    # The prediction layer of GLM is no decoder layer, and no row or column.
    depth = {"Solar": 47, "GLM": 46, "INTELLECT": 46, "Phi": 32}
    for name in ("pearson_matrix", "pair_matrices"):
        for panel in figures[name].panels:
            (heat,) = (mark for mark in panel.marks if isinstance(mark, HeatMap))
            models = panel.title.partition(":")[0].split(" | ")
            assert [len(heat.values), len(heat.values[0])] == [depth[model] for model in models]
    answer = figures["claimed_evidence"].to_json()
    assert "difference 0.612" in answer
    assert "expected difference 0.617" in answer


@pytest.mark.more
def test_the_folder_holds_what_is_linked(story, tmp_path):
    paths = write_replay(story, tmp_path, dpi=30)
    assert all(path.stat().st_size for path in paths)
    text = (tmp_path / "REPLAY.md").read_text()
    links = re.findall(r"\]\((figures/[^)]+)\)", text)
    assert len(links) == len(replay_figures())
    assert all((tmp_path / link).exists() for link in links)
    assert json.loads((tmp_path / "replay.json").read_text())["base"] == "GLM-4.5-Air"
    assert (tmp_path / "replay.html").read_text().count('class="drawing"') == len(links)


def test_a_folder_that_cannot_be_made_is_an_error(story, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="the folder cannot be made"):
        write_replay(story, tmp_path / "file")


def test_the_command_prints_the_story_and_json():
    told = CliRunner().invoke(app, ["study", "replay", "solar-glm", "--lang", "ko"])
    assert told.exit_code == 0
    assert "182" in told.stdout
    document = CliRunner().invoke(app, ["study", "replay", "solar-glm", "--json", "-q"])
    assert json.loads(document.stdout)["schema"] == "modelkin.replay/1"


def test_the_command_knows_only_disputes_that_ship():
    assert CliRunner().invoke(app, ["study", "replay", "other"]).exit_code == 2


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_verdict_comes_first(story, language):
    headings = re.findall("^## (.*)$", replay_markdown(story, language), re.MULTILINE)
    assert headings[0] == replay_language(language).texts["chapter.verdict.title"]
