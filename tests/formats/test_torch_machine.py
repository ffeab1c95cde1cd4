"""The machine against Python: plain data comes out as it went in, and names are only names."""

import pickle
import pickletools
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import pytest
from tests.formats.torch_writer import call, integer, name, text, whole

from modelkin.formats.torch.machine import Machine
from modelkin.formats.torch.values import Global

DATA = [
    None,
    True,
    [1, 255, 256, 65535, 65536, -1, 2**31, -(2**31), 2**63, -(2**200), 1.5, float("inf")],
    {"a": ("b", b"c", "ü", "\ud800", "x" * 300, b"y" * 300), 3: {None: [], "t": ()}},
    ((1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
    [[[]], {"k": [{}]}],
]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("value", DATA)
def test_plain_data_comes_out_as_python_put_it_in(value, protocol):
    data = pickle.dumps(value, protocol)
    machine = Machine(data, file="x")
    found = machine.load()
    assert machine.position == len(data)
    if protocol == 2 and "_codecs" in str(pickletools_names(data)):
        return  # bytes of protocol 2 are made by a call, and stay undescribed
    assert found == value


def pickletools_names(data: bytes) -> set[str]:
    return {str(argument) for code, argument, _ in pickletools.genops(data) if code.name == "GLOBAL"}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_shared_and_recursive_values_keep_their_identity(protocol):
    inner = [1]
    outer: dict[str, object] = {"one": inner, "two": inner, "pair": (inner, inner)}
    outer["self"] = outer
    recursive: tuple[object, ...] = ([],)
    recursive[0].append(recursive)  # type: ignore[attr-defined]
    outer["recursive"] = recursive
    found: Any = Machine(pickle.dumps(outer, protocol), file="x").load()
    assert found["one"] is found["two"] is found["pair"][1]
    assert found["self"] is found
    assert found["recursive"][0][0] is found["recursive"]


def test_sets_and_counters_are_data():
    for protocol in (2, 5):
        value = [
            {1},
            frozenset([2]),
            Counter("aab"),
            OrderedDict(a=1),
            defaultdict(list, k=[1]),
            deque([1, 2]),
        ]
        found = Machine(pickle.dumps(value, protocol), file="x").load()
        assert found == [[1], [2], {"a": 2, "b": 1}, {"a": 1}, {"k": [1]}, [1, 2]]


def test_old_ordered_dictionaries_are_data():
    pairs = b"](](" + text("a") + integer(1) + b"e](" + text("b") + integer(2) + b"ee"
    found = Machine(whole(call(name("collections", "OrderedDict"), pairs)), file="x").load()
    assert found == {"a": 1, "b": 2}


def test_names_are_values_and_never_objects():
    found = Machine(whole(name("os", "system")), file="x").load()
    assert found == Global("os", "system")
    assert not callable(found)
