"""The direction of imports, the facade, and what importing costs."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.imports import Import, imports_of

import modelkin

ROOT = Path(modelkin.__file__).parent
ORDER = [
    {"errors", "_version", "message", "structs", "untrusted", "written"},
    {"options", "progress", "stats", "demo"},
    {"source"},
    {"tensors", "tokenizer"},
    {"formats"},
    {"architecture"},
    {"model"},
    {"describe"},
    {"comparison"},
    {"lineage", "reference", "fingerprint"},
    {"registry"},
    {"atlas"},
    {"figures"},
    {"document"},
    {"casework", "serving"},
    {"cli"},
]
RANK = {layer: rank for rank, layers in enumerate(ORDER) for layer in layers}
MAY_IMPORT = {
    "source": {"errors", "message", "untrusted", "options", "progress", "demo", "_version"},
    "tensors": {"errors", "message", "untrusted", "source"},
    "tokenizer": {"errors", "message", "untrusted", "stats"},
    "formats": {"errors", "message", "untrusted", "source", "tensors"},
    "architecture": {"errors", "message", "structs", "untrusted"},
    "stats": {"message"},
    "figures": {"errors", "message", "untrusted", "comparison", "document"},
}
"""Layers that see less than everything above them: a source knows no tensor, a tensor no architecture."""


UPWARDS = {
    ("comparison", "document"),
    ("written", "document"),
    ("figures", "document"),
    ("message", "document"),
}
"""Results write and show themselves, messages tell themselves: imported when asked."""


def imported_layers(path: Path) -> set[str]:
    modules = {f"{item.module}.{item.name}" for item in imports_of(path) if item.level == 0}
    return {module.split(".")[1] for module in modules if module.startswith("modelkin.")} & RANK.keys()


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


FILES = sorted(ROOT.rglob("*.py"))


def test_every_module_has_a_place_in_the_order():
    assert {layer_of(path) for path in FILES} - {"__init__", "__main__"} == RANK.keys()


def test_layers_import_only_downwards():
    wrong = [
        f"{path.relative_to(ROOT)} imports {other}"
        for path in FILES
        if layer_of(path) in RANK
        for other in imported_layers(path)
        if RANK[other] > RANK[layer_of(path)] and (layer_of(path), other) not in UPWARDS
    ]
    assert wrong == []


def test_low_layers_see_only_what_they_are_about():
    wrong = [
        f"{path.relative_to(ROOT)} imports {other}"
        for path in FILES
        if layer_of(path) in MAY_IMPORT
        for other in imported_layers(path) - {layer_of(path)} - MAY_IMPORT[layer_of(path)]
    ]
    assert wrong == []


def test_the_check_of_imports_can_fail(tmp_path):
    planted = tmp_path / "planted.py"
    planted.write_text(
        "import os, modelkin.figures\n"
        "from modelkin.cli import app\n"
        "from modelkin import (\n    # why\n    document as told,\n    model,  # too\n)\n"
        "def late():\n    from modelkin.casework import lab\n    from ..source import x\n"
    )
    assert imported_layers(planted) == {"figures", "cli", "document", "model", "casework"}
    assert Import(2, "source", "x") in imports_of(planted)


def test_siblings_are_imported_by_file():
    wrong = [
        f"{path.relative_to(ROOT)}: from . import …"
        for path in FILES
        if path.name != "__init__.py"
        if any(item.level > 1 for item in imports_of(path))
    ]
    assert wrong == []


def test_the_facade_is_sorted_and_complete():
    assert modelkin.__all__ == sorted(modelkin.__all__)
    assert set(modelkin._HOME) | {"__version__", "errors"} == set(modelkin.__all__)
    for name in modelkin.__all__:
        assert getattr(modelkin, name) is not None


def test_an_unknown_name_of_the_facade_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = modelkin.nonsense


HEAVY = (
    "numpy",
    "matplotlib",
    "huggingface_hub",
    "urllib3",
    "rich",
    "torch",
    "transformers",
    "ml_dtypes",
    "msgspec",
    "fsspec",
    "pyarrow",
    "distributed",
    "starlette",
    "uvicorn",
)


@pytest.mark.parametrize("statement", ["import modelkin", "import modelkin.cli.app"])
def test_starting_loads_nothing_heavy(statement):
    code = f"import sys; {statement}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_help_loads_nothing_heavy():
    code = (
        "import sys; sys.argv = ['modelkin', '--help']\n"
        "from modelkin.cli.app import app\n"
        "app.main(standalone_mode=False)\n"
        f"print('LOADED', *[name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "LOADED"


def test_the_core_never_names_torch():
    users = [
        str(path.relative_to(ROOT))
        for path in FILES
        if {"torch", "transformers"} & {name.split(".")[0] for name in _top_imports(path)}
    ]
    assert users == []


def _top_imports(path: Path) -> set[str]:
    return {item.module for item in imports_of(path) if item.level == 0}
