import pytest

from modelkin.document import ENGLISH
from modelkin.errors import UsageError
from modelkin.figures import (
    Arrow3D,
    Axis,
    Bars,
    BarSeries,
    Figure,
    HeatMap,
    Lines,
    Panel,
    ReferenceLine,
    Scale,
    Scatter,
    TextMark,
    sequential_scale,
    signed_scale,
)
from modelkin.figures.clipping import remarks
from modelkin.figures.marks import Histogram, TableMark
from modelkin.figures.values import brief, digits_for, fixed, grid, numbers

LINE = Lines(name="a", x=(0.0, 1.0), y=(0.2, 0.4))
CHANCE = ReferenceLine(value=0.0, label="chance")


def heat(values, scale, **more):
    rows = tuple(str(i) for i in range(len(values)))
    columns = tuple(str(i) for i in range(len(values[0])))
    return HeatMap(values=grid(values), rows=rows, columns=columns, scale=scale, **more)


def test_a_panel_without_chance_is_refused():
    with pytest.raises(UsageError, match="null or expectation"):
        Panel(title="p", marks=(LINE,))


@pytest.mark.parametrize(
    "mark",
    [
        CHANCE,
        Lines(name="null", x=(0.0,), y=(0.0,), role="null"),
        Histogram(name="null", edges=(0.0, 1.0), counts=(3.0,), role="null"),
        Bars(labels=("x",), series=(BarSeries(name="expected", values=(0.1,), role="expectation"),)),
        heat([[0.1]], signed_scale([0.1], label="r")),
    ],
)
def test_each_way_of_showing_chance_is_accepted(mark):
    assert Panel(title="p", marks=(mark,)).shows_chance


def test_a_threshold_is_not_chance():
    line = ReferenceLine(value=0.95, label="somebody's threshold", role="threshold")
    with pytest.raises(UsageError, match="null or expectation"):
        Panel(title="p", marks=(LINE, line))


def test_a_panel_may_say_why_it_shows_no_chance():
    assert not Panel(title="p", marks=(LINE,), without_null="a count, not a test").shows_chance


def test_words_need_no_chance():
    assert Panel(title="p", marks=(TextMark(text="hello"),)).only_words


def test_bars_that_do_not_start_at_zero_are_refused():
    bars = Bars(labels=("x",), series=(BarSeries(name="cosine", values=(0.99,), role="expectation"),))
    with pytest.raises(UsageError, match="start at zero"):
        Panel(title="p", marks=(bars,), y=Axis(low=0.95))


def test_an_axis_has_room():
    with pytest.raises(UsageError, match="low < high"):
        Axis(low=1.0, high=1.0)


def test_space_and_plane_do_not_mix():
    with pytest.raises(UsageError, match="space or in the plane"):
        Panel(title="p", marks=(CHANCE, Arrow3D(name="a", tip=(1.0, 0.0, 0.0))))


@pytest.mark.parametrize(
    ("kind", "values"),
    [(Lines, {"x": (0.0,), "y": (0.0, 1.0)}), (Scatter, {"x": (0.0,), "y": (0.0, 1.0)})],
)
def test_columns_of_different_length_are_refused(kind, values):
    with pytest.raises(UsageError, match="equal length"):
        kind(name="a", **values)


def test_a_table_has_as_many_cells_as_columns():
    with pytest.raises(UsageError, match="equal length"):
        TableMark(columns=("a", "b"), rows=(("1",),))


def test_a_figure_needs_a_panel():
    with pytest.raises(UsageError, match="at least one panel"):
        Figure(title="empty", panels=())


def test_signed_scales_are_centred_on_chance():
    scale = signed_scale([-0.1, 0.4], label="r")
    assert (scale.low, scale.high, scale.chance) == (-0.4, 0.4, 0.0)
    with pytest.raises(UsageError, match="centred on"):
        Scale(kind="signed", low=-0.1, high=0.4, label="r", chance=0.0)


def test_scales_reach_every_value_unless_told_otherwise():
    values = [[0.1, 0.9], [0.5, -2.0]]
    flat = [value for row in values for value in row]
    assert heat(values, signed_scale(flat, label="r")).clipped() == (0, 0)
    assert heat(values, sequential_scale(flat, label="r")).clipped() == (0, 0)


def test_clipped_cells_are_counted_and_told():
    mark = heat([[0.5, -0.3], [0.05, None]], signed_scale([], label="r", limit=0.1))
    assert mark.clipped() == (1, 1)
    told = " ".join(remarks(Panel(title="p", marks=(mark,)), ENGLISH))
    assert "1 cells below, 1 above, of 4" in told
    assert "1 of 4 cells without a value" in told


def test_values_outside_an_axis_are_told():
    panel = Panel(title="p", marks=(CHANCE, LINE), y=Axis(label="r", low=0.0, high=0.3))
    assert remarks(panel, ENGLISH) == ("1 value outside the axis (r).",)


def test_values_outside_the_bins_are_told():
    mark = Histogram(name="rows", edges=(0.0, 1.0), counts=(5.0,), below=2, above=1)
    panel = Panel(title="p", marks=(CHANCE, mark))
    assert remarks(panel, ENGLISH) == ("rows: 2 values below and 1 above the bins.",)


def test_what_is_clipped_is_in_the_alt_text():
    mark = heat([[0.5]], signed_scale([], label="r", limit=0.1))
    assert "1 above" in Figure(title="t", panels=(Panel(title="p", marks=(mark,)),)).alt


def test_alt_text_is_made_from_the_data():
    figure = Figure(title="Likeness", panels=(Panel(title="by layer", marks=(CHANCE, LINE)),))
    assert figure.alt == "Likeness. by layer: null line: chance at 0; a (line) 0.200 to 0.400, mean 0.300."


def test_missing_bars_are_told_as_missing_not_as_zero():
    bars = BarSeries(name="control", values=(None,), missing="other width")
    panel = Panel(title="p", marks=(CHANCE, Bars(labels=("x",), series=(bars,))))
    assert "x other width" in Figure(title="t", panels=(panel,)).alt


def test_alt_text_given_is_kept():
    assert Figure(title="t", panels=(Panel(title="", marks=(CHANCE,)),), alt="mine").alt == "mine"


def test_nan_is_missing_and_infinity_is_refused():
    assert numbers([1, float("nan"), None]) == (1.0, None, None)
    with pytest.raises(UsageError, match="finite"):
        numbers([float("inf")])


def test_matrices_have_rows_of_one_length():
    with pytest.raises(UsageError, match="equal length"):
        grid([[1.0], [1.0, 2.0]])


def test_what_rounds_to_zero_has_no_sign():
    assert fixed(-0.0002, 3) == "0.000"
    assert fixed(-0.02, 2) == "\N{MINUS SIGN}0.02"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not measured"),
        (0.0, "0"),
        (0.98765, "0.988"),
        (1234.5, "1234"),
        (2.5e-7, "2.5e\N{MINUS SIGN}07"),
    ],
)
def test_brief_numbers(value, text):
    assert brief(value) == text


def test_small_values_get_enough_digits():
    assert digits_for([0.00042, -0.0001]) == 5
    assert digits_for([0.5]) == 2
