"""The documentation as a site: every page is in it, two clicks away, and no link leads nowhere."""

import importlib.util
import re
import subprocess
import sys

import pytest
import yaml
from tests.places import DOCS, ROOT

CONFIG = (ROOT / "mkdocs.yml").read_text()
BUILT = all(importlib.util.find_spec(name) for name in ("mkdocs", "material", "mkdocstrings"))


def test_every_page_stands_in_the_navigation():
    named = set(re.findall(r"[\w/.-]+\.md", CONFIG.partition("\nnav:")[2]))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert named == pages | {"index.md", "contributing.md", "changelog.md"}


def test_nothing_is_loaded_from_elsewhere():
    read = yaml.safe_load(CONFIG)
    assert read["theme"]["font"] is False
    assert "http" not in (DOCS / "site.css").read_text()


@pytest.mark.skipif(not BUILT, reason="mkdocs is not installed (make site)")
@pytest.mark.timeout(600)
def test_the_site_builds_without_a_dead_link(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    front = (tmp_path / "index.html").read_text()
    reached = set(re.findall(r'href="([\w/.-]+\.html)"', front))
    for page in list(reached):
        reached |= set(re.findall(r'href="([\w/.-]+\.html)"', (tmp_path / page).read_text()))
    everything = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.html")} - {"404.html"}
    assert everything <= {path.removeprefix("../") for path in reached} | {"index.html"}
    assert (tmp_path / "search" / "search_index.json").stat().st_size > 100_000
