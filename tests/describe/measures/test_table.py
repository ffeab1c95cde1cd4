"""Tables: rows and columns are the same thing, files give back what was written, matrices come out right."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.describe.measures import (
    COLUMNS,
    MEASURES,
    NOTHING,
    PLACED_COLUMNS,
    LayerMatrix,
    MeasureRow,
    MeasureTable,
    Pairs,
    Stack,
    layer_pairs,
    layer_zero,
    measured,
    off_diagonal,
    offset_profile,
    placed_cells,
    table_from_cells,
    table_from_csv,
    table_to_csv,
)
from modelkin.errors import FormatError
from modelkin.message import say
from modelkin.untrusted import csv_text

ROW = MeasureRow(
    measure="pearson",
    role="attention_norm",
    view="whole",
    model_a="a",
    layer_a=0,
    model_b="b",
    layer_b=1,
    value=0.25,
    reason=None,
    expected=0.0,
    expected_sd=None,
    n=3,
)
SAID = say("quoted", text='because, of "this"')
MISSING = replace(ROW, value=None, reason=SAID, layer_a=None, layer_b=None, n=0)
TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\x00"), min_size=1, max_size=8
)
NUMBER = st.none() | st.floats(allow_nan=False, allow_infinity=False)


def test_rows_come_back_as_they_were():
    table = MeasureTable.of_rows([ROW, MISSING])
    assert list(table) == [ROW, MISSING]
    assert (len(table), repr(table)) == (2, "MeasureTable(2 rows, 1 measured)")
    assert table == MeasureTable.joined([MeasureTable.of_rows([ROW]), MeasureTable.of_rows([MISSING])])
    assert table != MeasureTable.of_rows([ROW])
    assert MeasureTable.joined([]) == MeasureTable.of_rows([])


@given(st.lists(st.tuples(TEXT, TEXT, st.none() | st.integers(0, 99), NUMBER, NUMBER), max_size=5))
def test_csv_gives_back_every_number_and_name(cells):
    rows = [
        replace(ROW, role=role, model_a=name, layer_a=layer, value=value, expected=expected)
        for role, name, layer, value, expected in cells
    ]
    rows = [row if row.value is not None else replace(row, reason=SAID) for row in rows]
    table = MeasureTable.of_rows(rows)
    assert table_from_csv(table_to_csv(table)) == table
    assert table_from_cells([list(cells) for cells in table.cells()]) == table


NOTED = replace(MISSING, reason=say("matrix-no-layer", model="a", layer=3), note=say("quoted", text="n"))


def test_a_csv_gives_back_messages_by_their_codes_and_not_by_their_sentences():
    table = MeasureTable.of_rows([NOTED, MISSING, ROW])
    text = table_to_csv(table)
    assert table_from_csv(text) == table
    assert text.count(",a has no layer 3,") == 1
    assert table_from_csv(text.replace(",a has no layer 3,", ",other words,")) == table


def test_a_csv_of_an_older_version_has_no_codes_and_its_sentences_are_quoted():
    table = MeasureTable.of_rows([NOTED])
    old = csv_text(COLUMNS, table.cells())
    (row,) = table_from_csv(old)
    assert row == replace(NOTED, reason=say("quoted", text=str(NOTED.reason)))


@pytest.mark.parametrize(
    "beside", ["no-such-message,", "matrix-no-layer,{", 'matrix-no-layer,"{""a"": 1}"', ",{}"]
)
def test_a_code_that_we_cannot_tell_leaves_the_sentence(beside):
    text = ",".join(COLUMNS) + ",reason_code,reason_values,note_code,note_values\n"
    text += f"pearson,r,whole,a,0,b,0,,why,,,3,,{beside},,\n"
    (row,) = table_from_csv(text)
    assert (row.reason, row.note) == (say("quoted", text="why"), NOTHING)


def test_rows_name_their_messages_by_place():
    table = MeasureTable.of_rows([NOTED, ROW, MISSING])
    rows = [list(cells) for cells in placed_cells(table)]
    assert table_from_cells(rows, table.messages(), names=PLACED_COLUMNS) == table
    turned = tuple(say("quoted", text=str(n)) for n, _ in enumerate(table.messages()))
    again = table_from_cells(rows, turned, names=PLACED_COLUMNS)
    assert again.distinct("reason") == (turned[0], None, turned[1])


@pytest.mark.parametrize("place", [9, -1, True, "0", 0.0])
def test_a_place_without_a_message_is_refused(place):
    cells = [*next(placed_cells(MeasureTable.of_rows([NOTED])))]
    cells[-2] = place
    with pytest.raises(FormatError, match="row 1, reason_message: unexpected"):
        table_from_cells([cells], (SAID,), names=PLACED_COLUMNS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected the columns"),
        ("a,b\n1,2\n", "expected the columns"),
        (",".join(COLUMNS) + "\nx\n", "row 1: expected 13 cells"),
        (",".join(COLUMNS) + "\npearson,r,whole,a,0,b,0,nan,,,,3,\n", "row 1, value: unexpected 'nan'"),
        (",".join(COLUMNS) + "\npearson,r,whole,a,-1,b,0,1,,,,3,\n", "row 1, layer_a: unexpected '-1'"),
        (",".join(COLUMNS) + "\npearson,r,whole,a,0,b,0,,,,,3,\n", "either a value or a reason"),
        (",".join(COLUMNS) + "\npearson,r,whole,a,0,b,0,1,why,,,3,\n", "either a value or a reason"),
        ('"', "expected CSV"),
    ],
)
def test_a_file_that_is_not_ours_is_refused(text, words):
    with pytest.raises(FormatError, match=words):
        table_from_csv(text)


@pytest.mark.parametrize(
    "cells", [["pearson"], "text", [1] * 13, ["p", "r", "v", "a", True, "b", 0, 1.0, None, None, None, 3, ""]]
)
def test_cells_of_the_wrong_kind_are_refused(cells):
    with pytest.raises(FormatError, match="row 1"):
        table_from_cells([cells])


@pytest.mark.parametrize(
    ("column", "number"),
    [
        *(("layer_a", number) for number in (2**63, 10**30, 10**400, "9" * 400)),
        *(("n", number) for number in (2**63, 10**400)),
        *(("value", number) for number in (10**400, "9" * 400)),
    ],
    ids=lambda value: str(value)[:20],
)
def test_numbers_that_no_column_holds_are_refused(column, number):
    row: dict[str, object] = dict.fromkeys(COLUMNS, "x")
    row |= {"layer_a": 0, "layer_b": 0, "value": 0.5, "expected": None, "expected_sd": None, "n": 3}
    row[column] = number
    with pytest.raises(FormatError, match=f"row 1, {column}: unexpected"):
        table_from_cells([[row[name] for name in COLUMNS]])


def full_table(measure="pearson"):
    rng = np.random.default_rng(0)
    a, b = Stack(rng.normal(size=(3, 20))), Stack(rng.normal(size=(2, 20)))
    pairs = Pairs.grid(3, 2)
    table = MeasureTable.of_measured(
        measured(MEASURES[measure], a, b, pairs, expect=True),
        layers=([0, 0, 5, 5, 7, 7], [1, 2, 1, 2, 1, 2]),
        models=("a", "b"),
        measure=measure,
        role="attention_norm",
        n=20,
    )
    return table, MEASURES[measure].grid(a, b)


def test_a_matrix_comes_out_of_the_table_either_way_round():
    table, grid = full_table()
    chosen = {"measure": "pearson", "role": "attention_norm"}
    straight = table.matrix(**chosen, model_a="a", model_b="b")
    turned = table.matrix(**chosen, model_a="b", model_b="a")
    assert (straight.layers_a, straight.layers_b) == ((0, 5, 7), (1, 2))
    np.testing.assert_array_equal(straight.values, grid)
    np.testing.assert_array_equal(turned.values, grid.T)


def test_an_asymmetric_measure_is_not_mirrored():
    table, grid = full_table("relative-l2")
    chosen = {"measure": "relative-l2", "role": "attention_norm"}
    np.testing.assert_array_equal(table.matrix(**chosen, model_a="a", model_b="b").values, grid)
    assert table.matrix(**chosen, model_a="b", model_b="a").values.size == 0
    names, cells = table.model_matrix(**chosen, layer={"a": 5, "b": 2})
    assert names == ("a", "b")
    assert cells[0, 1] == grid[1, 1]
    assert cells[1, 0] is np.ma.masked
    assert cells[0, 0] is np.ma.masked  # a model with itself was not measured, whatever it would be


def test_what_was_not_measured_is_masked_in_a_matrix():
    missing = replace(ROW, layer_a=1, layer_b=0, value=None, reason=SAID)
    matrix = MeasureTable.of_rows([ROW, missing]).matrix(
        measure="pearson", role="attention_norm", model_a="a", model_b="b"
    )
    assert matrix.values.count() == 1
    assert matrix.values[0, 1] == 0.25


def test_rows_are_chosen_by_any_column():
    table, _ = full_table()
    assert len(table.where(layer_a=5)) == 2
    assert len(table.where(layer_a=(0, 5), layer_b=1)) == 2
    assert len(table.where(reason=None)) == 6
    assert len(MeasureTable.of_rows([ROW, MISSING]).where(layer_a=None)) == 1
    assert table.distinct("layer_a") == (0, 5, 7)


def test_profiles_of_a_matrix_of_layers():
    values = np.ma.masked_invalid([[1.0, 0.2, 0.4], [0.2, np.nan, 0.6], [0.0, 0.8, 1.0]])
    matrix = LayerMatrix(values=values, expected=values, layers_a=(0, 1, 2), layers_b=(0, 1, 2))
    profile = offset_profile(matrix)
    assert {offset: item.n for offset, item in profile.items()} == {-2: 1, -1: 2, 0: 2, 1: 2, 2: 1}
    assert profile[1].mean == pytest.approx(0.4)
    others = off_diagonal(matrix)
    assert others is not None
    assert others.n == 6
    assert others.mean == pytest.approx(2.2 / 6)
    first, others = layer_zero(matrix)
    assert first is not None
    assert others is not None
    assert (first.n, others.n, others.mean) == (2, 1, 0.6)
    assert first.mean == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("pairing", "first", "second", "expected"),
    [
        ("same", [0, 1], [1, 2], ((0, 0), (1, 1), (2, 2))),
        ("all", [0, 1], [5], ((0, 5), (1, 5))),
        ("within", [2, 4], [2, 4], ((2, 4),)),
        ("mixed", [10], [20], ((10, 20),)),
        ("relative", [], [1], ()),
    ],
)
def test_layers_are_paired(pairing, first, second, expected):
    assert layer_pairs(pairing, first, second) == expected


def test_relative_depth_pairs_ends_with_ends_and_ties_with_the_shallower():
    assert layer_pairs("relative", range(32), range(48), depths=(32, 48))[0] == (0, 0)
    assert layer_pairs("relative", range(32), range(48), depths=(32, 48))[-1] == (31, 47)
    assert layer_pairs("relative", [1], range(4), depths=(3, 4)) == ((1, 1),)
