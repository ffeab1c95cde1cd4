"""Cells of CSV: no spreadsheet runs one, and all come back as they were."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.casework.studies.folder import Folder
from modelkin.describe.measures import MeasureRow, MeasureTable, table_from_csv, table_to_csv
from modelkin.untrusted import cell_text, records_csv
from modelkin.untrusted.cells import safe_cell

FORMULAS = ["=1+1", "+A1", "-A1", "@SUM(A1)", "\t=1", "\r=1", "=cmd|' /C calc'!A0", "'=1", "''=1", "-2+3"]


@pytest.mark.parametrize("text", FORMULAS)
def test_what_begins_like_a_formula_is_written_as_text(text):
    cell = safe_cell(text)
    assert isinstance(cell, str)
    assert cell.startswith("'")
    assert cell_text(cell) == text


@pytest.mark.parametrize(
    "value", [-1.5, 3, None, True, "-1.5", "+2e-9", "model.norm", "", "-", "'", "a=b", "'a"]
)
def test_everything_else_is_written_as_it_is(value):
    assert safe_cell(value) == value


@given(st.text(alphabet="'=+-@\t\r\nab1.e ", max_size=8))
def test_every_text_comes_back(text):
    cell = safe_cell(text)
    assert cell_text(str(cell)) == text


def test_a_record_of_the_lab_holds_no_formula():
    assert records_csv([{"name": "=1+1", "loss": -0.5}]) == "name,loss\n'=1+1,-0.5\n"


def test_a_table_of_measures_holds_no_formula_and_comes_back():
    row = MeasureRow(
        measure="cosine",
        role="norm",
        view="whole",
        model_a="=A1",
        layer_a=0,
        model_b="'=B",
        layer_b=None,
        value=0.5,
    )
    table = MeasureTable.of_rows([row])
    text = table_to_csv(table)
    cells = [cell for line in csv.reader(io.StringIO(text)) for cell in line]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@"))]
    assert list(table_from_csv(text)) == list(table)


def test_a_table_of_a_study_holds_no_formula_and_comes_back(tmp_path):
    folder = Folder(tmp_path)
    folder.rows("data/x.csv", [{"=name": "@SUM(A1)", "value": -0.25}])
    assert (tmp_path / "data" / "x.csv").read_text() == "'=name,value\n'@SUM(A1),-0.25\n"
    assert folder.read_csv("data/x.csv") == [{"=name": "@SUM(A1)", "value": "-0.25"}]
