from __future__ import annotations

import pickle

import pytest
from tests.tensors.fakes import index_of, info_of


def test_a_matrix_knows_its_rows():
    info = info_of((3, 5, 2), "BF16", start=100)
    assert (info.n_elements, info.n_bytes, info.n_rows, info.row_elements, info.row_bits) == (
        30,
        60,
        3,
        10,
        160,
    )


def test_a_scalar_is_one_row_of_one_element():
    info = info_of(())
    assert (info.n_elements, info.n_rows, info.row_elements) == (1, 1, 1)


def test_rows_of_packed_formats_need_not_be_whole_bytes():
    assert info_of((2, 3), "F4").row_bits == 12


def test_an_empty_tensor_has_no_bytes():
    info = info_of((0, 7))
    assert (info.n_elements, info.n_bytes, info.n_rows) == (0, 0, 0)


class TestTensorIndex:
    INDEX = index_of(
        info_of((2, 2), "BF16", name="b", file="2.safetensors"),
        info_of((3,), "F32", name="a", file="1.safetensors"),
        info_of((5,), "BF16", name="c", file="1.safetensors", start=12),
    )

    def test_names_are_sorted(self):
        assert list(self.INDEX) == ["a", "b", "c"]

    def test_it_sums_up(self):
        assert self.INDEX.files == ("1.safetensors", "2.safetensors")
        assert self.INDEX.n_parameters == 12
        assert self.INDEX.n_bytes == 8 + 12 + 10
        assert list(self.INDEX.dtypes.items()) == [("BF16", 9), ("F32", 3)]
        assert repr(self.INDEX) == "TensorIndex(3 tensors in 2 files, 12 parameters)"

    def test_it_is_equal_whatever_the_order_it_was_made_in(self):
        assert index_of(*reversed(list(self.INDEX.values()))) == self.INDEX

    def test_it_survives_pickling(self):
        assert pickle.loads(pickle.dumps(self.INDEX)) == self.INDEX

    def test_an_absent_name_is_a_key_error(self):
        with pytest.raises(KeyError, match="nothing"):
            self.INDEX["nothing"]

    def test_it_cannot_be_changed(self):
        with pytest.raises(TypeError, match="does not support item assignment"):
            self.INDEX["a"] = info_of(())  # type: ignore[index]

    def test_two_tensors_of_one_name_are_refused(self):
        with pytest.raises(ValueError, match="tensors: two have the same name"):
            index_of(info_of(()), info_of(()))
