"""The matrix benchmark compares equal results; time is not judged."""

from benchmarks import matrix


def test_both_ways_give_the_same_numbers_and_a_ratio_is_printed():
    text = matrix.run(quick=True)
    assert "276 pairs" in text
    for name in matrix.LOOP:
        assert name in text
    assert "| all of them" in text
