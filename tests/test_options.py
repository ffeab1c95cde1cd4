"""Options: their checks and the sizes people write."""

import pytest

from modelkin.options import FetchOptions, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("64MB", 64_000_000),
        ("64 MB", 64_000_000),
        ("1GiB", 2**30),
        ("1.5kb", 1500),
        ("2M", 2_000_000),
        ("1_000", 1000),
        ("0", 0),
        ("3B", 3),
    ],
)
def test_sizes_are_read_as_people_write_them(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1", "ten", "1XB", "nan", "inf", "1e400", "9" * 40])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("connections", 0),
        ("head_bytes", 0),
        ("piece_bytes", 0),
        ("max_gap", -1),
        ("max_waste", -0.1),
        ("retries", 21),
        ("stall_timeout", 0),
        ("byte_budget", -1),
        ("store_limit", -1),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(field, value):
    with pytest.raises(ValueError, match=field):
        FetchOptions(**{field: value})


def test_a_token_is_not_in_the_repr():
    assert "hf_secret" not in repr(FetchOptions(token="hf_secret"))
