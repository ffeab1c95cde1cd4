"""Pickles that want to call something: each is refused by name or inert, and nothing is executed."""

import ast
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from tests.formats.torch_writer import call, group, integer, mapping, name, opened, text, whole

import modelkin.formats.torch as package
from modelkin.errors import HeaderError, UnsupportedFormat
from modelkin.formats.torch.machine import Machine

LOADS = pickle.loads


@pytest.fixture(autouse=True)
def nothing_is_executed(monkeypatch, tmp_path):
    """Fail when anything is run, imported or written."""
    monkeypatch.chdir(tmp_path)

    def alarm(*args, **kwargs):
        raise AssertionError(f"something was executed: {args}")

    for module, attribute in ((os, "system"), (os, "popen"), (subprocess, "Popen"), (pickle, "loads")):
        monkeypatch.setattr(module, attribute, alarm)
    for attribute in ("load", "Unpickler", "_Unpickler"):
        monkeypatch.setattr(pickle, attribute, alarm)
    before = set(sys.modules)
    yield
    fresh = {module for module in set(sys.modules) - before if not module.startswith(("modelkin", "numpy"))}
    assert not fresh & {"runpy", "pip", "timeit", "pdb", "torch", "code", "webbrowser", "this", "antigravity"}
    assert list(tmp_path.iterdir()) == []


SH = text("touch executed")

CALLED = [
    ("os", "system"),
    ("posix", "system"),
    ("nt", "system"),
    ("subprocess", "Popen"),
    ("builtins", "eval"),
    ("builtins", "exec"),
    ("builtins", "getattr"),
    ("builtins", "__import__"),
    ("__builtin__", "eval"),
    ("builtins", "list"),
    ("builtins", "print"),
    ("pip", "main"),
    ("pip._internal", "main"),
    ("timeit", "timeit"),
    ("runpy", "run_path"),
    ("runpy", "_run_code"),
    ("code", "InteractiveInterpreter"),
    ("cProfile", "run"),
    ("pdb", "run"),
    ("bdb", "Bdb"),
    ("doctest", "debug_script"),
    ("trace", "Trace.run"),
    ("ensurepip", "_run_pip"),
    ("importlib", "import_module"),
    ("pkgutil", "resolve_name"),
    ("marshal", "loads"),
    ("types", "FunctionType"),
    ("types", "CodeType"),
    ("operator", "attrgetter"),
    ("_operator", "methodcaller"),
    ("functools", "partial"),
    ("functools", "reduce"),
    ("mailcap", "findmatch"),
    ("imaplib", "IMAP4_stream"),
    ("idlelib.run", "Executive.runcode"),
    ("lib2to3.pgen2.grammar", "Grammar.loads"),
    ("asyncio.unix_events", "_UnixSubprocessTransport._start"),
    ("distutils.file_util", "write_file"),
    ("io", "FileIO"),
    ("shutil", "rmtree"),
    ("socket", "socket"),
    ("webbrowser", "open"),
    ("copyreg", "_reconstructor"),
    ("copy_reg", "_reconstructor"),
    ("copyreg", "add_extension"),
    ("pickle", "loads"),
    ("_pickle", "loads"),
    ("dill", "loads"),
    ("joblib", "load"),
    ("numpy", "load"),
    ("numpy.testing._private.utils", "runstring"),
    ("numpy.f2py.crackfortran", "getlincoef"),
    ("torch", "load"),
    ("torch.serialization", "load"),
    ("torch.serialization", "os.system"),
    ("torch.hub", "load"),
    ("torch.jit", "load"),
    ("torch.jit.unsupported_tensor_ops", "execWrapper"),
    ("torch.storage", "_load_from_bytes"),
    ("torch._dynamo.guards", "GuardBuilder.get"),
    ("torch.utils.bottleneck.__main__", "run_cprofile"),
    ("torch.utils._config_module", "load_config"),
    ("torch.utils.collect_env", "run"),
    ("torch.fx.experimental.symbolic_shapes", "ShapeEnv.evaluate_guards_expression"),
    ("torch._inductor.codecache", "compile_file"),
    ("torch", "_utils._rebuild_tensor_v2"),
    ("torch._utils", "_rebuild_tensor_v2.__globals__"),
    ("torch._utils", "_rebuild_sparse_tensor"),
    ("torch._utils", "_rebuild_qtensor"),
    ("torch._utils", "_rebuild_meta_tensor_no_storage"),
    ("torch._utils", "_rebuild_wrapper_subclass"),
    ("torch.nn.modules.linear", "Linear"),
    ("transformers.training_args", "TrainingArguments"),
    ("collections", "OrderedDict.fromkeys"),
    ("collections ", "OrderedDict"),
    ("Collections", "OrderedDict"),
    ("collections\r", "OrderedDict"),
    ("__torch__.torch.nn.modules.linear", "Linear"),
    ("torch.jit._pickle", "restore_type_tag"),
]


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(("module", "attribute"), CALLED)
def test_a_call_that_is_not_of_tensors_is_refused_by_its_name(module, attribute, legacy):
    with pytest.raises(UnsupportedFormat, match=r"calls .*which storing tensors does not need") as caught:
        opened(call(name(module, attribute), SH), legacy=legacy)
    assert f"{module}.{attribute}".strip() in str(caught.value).replace("\\r", "\r")
    assert "Nothing was executed" in str(caught.value.hint)


OS_SYSTEM = name("os", "system")
WAYS = {
    "REDUCE": OS_SYSTEM + group(SH) + b"R",
    "REDUCE by STACK_GLOBAL": text("os") + text("system") + b"\x93" + group(SH) + b"R",
    "REDUCE by short texts": b"\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R",
    "REDUCE by old texts": b"U\x02osU\x06system\x93U\x02id\x85R",
    "REDUCE by memo": text("system") + b"q\x07" + b"0" + text("os") + b"h\x07\x93" + group(SH) + b"R",
    "memo of both kinds": text("os") + b"q\x00" + text("system") + b"\x94" + b"0h\x01\x93" + group(SH) + b"R",
    "NEWOBJ": OS_SYSTEM + group(SH) + b"\x81",
    "NEWOBJ_EX": OS_SYSTEM + group(SH) + b"}" + b"\x92",
    "NEWOBJ_EX with names": OS_SYSTEM + b")" + mapping({"command": SH}) + b"\x92",
    "BUILD": OS_SYSTEM + mapping({"__setstate__": OS_SYSTEM}) + b"b",
    "BUILD with slots": name("numpy", "prod") + b"N" + mapping({"a": SH}) + b"\x86b",
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_call_is_refused(way):
    with pytest.raises(UnsupportedFormat, match=r"os\.system|numpy\.prod"):
        opened(WAYS[way])


def test_a_state_with_setstate_does_nothing():
    namespace = name("argparse", "Namespace") + b")\x81"
    state = mapping({"__setstate__": OS_SYSTEM, "__class__": OS_SYSTEM, "__reduce__": OS_SYSTEM})
    weights = opened(namespace + state + b"b" + SH + b"0" + mapping({"later": integer(1)}) + b"b")
    assert list(weights.index) == ["a"]
    assert "os.system" in str(weights.notes[-1])


@pytest.mark.parametrize("method", ["items", "keys", "update", "__class__"])
def test_a_dictionary_gets_no_other_methods(method):
    ordered = name("collections", "OrderedDict")
    assert list(opened(call(ordered) + mapping({"_metadata": b"}"}) + b"b").index) == ["a"]
    with pytest.raises(UnsupportedFormat, match="replaces a method of a dictionary"):
        opened(call(ordered) + mapping({method: ordered}) + b"b")


INSTRUCTIONS = {
    "INST": b"(" + SH + b"ios\nsystem\n",
    "OBJ": b"(" + OS_SYSTEM + SH + b"o",
    "EXT1": b"\x82\x01)R",
    "EXT2": b"\x83\x01\x00)R",
    "EXT4": b"\x84\x01\x00\x00\x00)R",
    "PERSID": b"Pstorage\n",
    "INT": b"I1\n",
    "LONG": b"L1L\n",
    "FLOAT": b"F1.0\n",
    "STRING": b"S'os'\n",
    "UNICODE": b"Vos\n",
    "GET": b"g0\n",
    "PUT": b"Np0\n",
    "LIST": b"(l",
    "DICT": b"(d",
    "DUP": b"N2",
    "NEXT_BUFFER": b"\x97",
    "READONLY_BUFFER": b"N\x98",
    "no such": b"\xff",
}


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_instructions_that_no_writer_of_weights_uses_are_refused(instruction):
    with pytest.raises(HeaderError, match=r"instruction b.* is refused"):
        opened(INSTRUCTIONS[instruction])


def test_a_name_that_is_only_mentioned_is_inert_and_said():
    weights = opened(OS_SYSTEM)
    assert list(weights.index) == ["a"]
    assert tuple(map(str, weights.notes)) == (
        "its pickle mentions 1 names that were not resolved: os.system",
    )


def test_an_allowed_call_does_not_call_its_arguments():
    factory = call(name("collections", "defaultdict"), OS_SYSTEM)
    assert list(opened(factory + text("k") + SH + b"s").index) == ["a"]


def test_a_name_with_control_characters_cannot_colour_the_terminal():
    with pytest.raises(UnsupportedFormat) as caught:
        opened(call(name("os\x1b[31m", "x"), SH))
    assert "\x1b" not in str(caught.value)


# -- the code itself -----------------------------------------------------------------------------------


def test_the_reader_has_no_means_to_execute_anything():
    allowed = {"__future__", "collections.abc", "dataclasses", "functools", "itertools", "math", "re", "stat"}
    allowed |= {"struct", "types", "typing", "numpy", "numpy.typing"}
    forbidden = {"eval", "exec", "compile", "getattr", "setattr", "__import__", "globals", "vars", "open"}
    for path in Path(package.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert {alias.name for alias in node.names} <= allowed, path.name
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                assert node.module in allowed or str(node.module).startswith("modelkin."), path.name
            elif isinstance(node, ast.Name):
                assert node.id not in forbidden, f"{path.name}: {node.id}"


def test_pythons_own_loader_calls_what_such_pickles_name():
    data = whole(call(name("builtins", "len"), text("abc")))
    assert LOADS(data) == 3
    with pytest.raises(UnsupportedFormat, match=r"calls builtins\.len"):
        Machine(data, file="x").load()
