"""Sections of documents that benchmarks rewrite."""

import pytest
from benchmarks.tables import replace_section


@pytest.mark.parametrize(
    ("begin", "end"),
    [("<!-- begin: costs -->", "<!-- end: costs -->"), ("<!-- costs -->", "<!-- /costs -->")],
)
def test_a_section_is_replaced_and_the_rest_stays(tmp_path, begin, end):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{begin}\nold\n{end}\nafter <!-- /other -->\n")
    replace_section(page, "costs", "new \\1\n")
    assert page.read_text() == f"before\n{begin}\n\nnew \\1\n\n{end}\nafter <!-- /other -->\n"


@pytest.mark.parametrize("text", ["nothing", "<!-- costs -->\n", "<!-- costs -->a<!-- /costs -->" * 2])
def test_a_section_that_is_not_there_once_is_an_error(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match="expected one section 'costs'"):
        replace_section(page, "costs", "new")
    assert page.read_text() == text
