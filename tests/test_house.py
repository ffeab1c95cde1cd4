"""The house rules: what packages export, how paths are named, one meaning for each class name."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.imports import imports_of

import modelkin
from modelkin.casework.lab import derive

ROOT = Path(modelkin.__file__).parent
REPOSITORY = Path(__file__).parents[1]
FILES = sorted(ROOT.rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("modelkin", *parts)).removesuffix(".__init__")


def package_of(path: Path) -> str:
    module = module_of(path)
    return module if path.name == "__init__.py" else module.rpartition(".")[0]


def exported() -> Iterator[tuple[str, str]]:
    """Yield (package, name) for what packages below the root export: their `__all__`, or their facade."""
    for path in FILES:
        if path.name == "__init__.py" and path.parent != ROOT:
            yield from ((module_of(path), name) for name in facade(ast.parse(path.read_text())))


def facade(module: ast.Module) -> list[str]:
    """Return `__all__`; or everything public that the module imports or assigns and does not itself use."""
    nodes = list(ast.walk(module))
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    imported = [
        item for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for item in node.names
    ]
    assigned = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    names = [*(item.asname or item.name for item in imported), *(node.id for node in assigned)]
    return [name for name in names if name not in used | {"annotations"} and not name.startswith("_")]


def test_a_facade_exports_what_it_imports():
    code = "from a import b, c as d\nimport e\nF = b\n_g = 1\ndef h():\n    from i import j\n"
    assert facade(ast.parse(code)) == ["d", "e", "j", "F"]
    assert facade(ast.parse(code + "__all__ = ['x']")) == ["x"]


def imports(path: Path, package: str) -> Iterator[tuple[str, str]]:
    """Yield (module, name) for what a file imports from modelkin, relative imports made absolute."""
    for level, module, name in imports_of(path):
        if name:
            base = package.rsplit(".", level - 1)[0] if level else ""
            yield ".".join(part for part in (base, module) if part), name


LOOKED_UP = {
    "modelkin.formats": ("FORMAT", "recognises"),
    "modelkin.casework.lab.derive": tuple(derive.__all__),
}
"""What is found by its name at run time: the code of a format, the functions that recipes name."""


def wanted_by(path: Path, package: str) -> Iterator[tuple[str, str]]:
    """Yield (package, name) for what a file takes from packages that it is not in."""
    for module, name in imports(path, package):
        if not f"{package}.".startswith(f"{module}."):
            yield module, name
        # A package taken as a whole: `catalogue.surfaces`.
        whole = f"{module}.{name}"
        if (ROOT / Path(*whole.split(".")[1:]) / "__init__.py").exists():
            text = path.read_text()
            alias = re.search(rf"\b{name} as (\w+)", text)
            for used in re.findall(rf"\b{alias[1] if alias else name}\.(\w+)", text):
                yield whole, used


def documented() -> Iterator[tuple[str, str]]:
    """Yield (package, name) for what a page says of a package that it names: imports, and names as code."""
    for path in sorted((REPOSITORY / "docs").rglob("*.md")):
        text = path.read_text()
        for package in set(re.findall(r"\bmodelkin\.[a-z_.]*[a-z_]", text)):
            said = re.findall(
                rf"`(\w+)`|{re.escape(package)}\.(\w+)|^(?:>>> )?from {package} import (.+)", text, re.M
            )
            names = " ".join(" ".join(item) for item in said)
            yield from ((package, name) for name in re.findall(r"\w+", names))


def test_packages_export_what_other_packages_use_or_the_documentation_names():
    wanted = {taken for path in FILES for taken in wanted_by(path, package_of(path))} | set(documented())
    idle = [
        f"{package}.{name}"
        for package, name in exported()
        if (package, name) not in wanted
        if not any(package.startswith(where) and name in names for where, names in LOOKED_UP.items())
        if modelkin._HOME.get(name) != package
    ]
    assert idle == []


def test_an_idle_export_is_noticed(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(
        "from modelkin.stats import axis_test\nfrom modelkin import figures as f\n\nf.draw(f.Note)\n"
    )
    taken = {
        ("modelkin.stats", "axis_test"),
        ("modelkin.figures", "draw"),
        ("modelkin.figures", "Note"),
    }
    assert set(wanted_by(module, "modelkin.cli")) == taken
    assert ("modelkin.stats", "axis_test") not in set(wanted_by(module, "modelkin.stats.inner"))
    assert ("modelkin.casework.catalogue.pair", "layer_curves") in set(documented())
    assert ("modelkin.casework.catalogue", "nonsense") not in set(documented())


def test_nobody_imports_past_a_facade():
    wrong = []
    for path, package in ((path, package_of(path)) for path in FILES):
        for module, name in imports(path, package):
            parts = [*module.split("."), name]
            private = next((i for i, part in enumerate(parts) if _is_private(part)), None)
            if parts[0] == "modelkin" and private is not None:
                owner = ".".join(parts[:private])
                if owner != "modelkin" and not f"{package}.".startswith(f"{owner}."):
                    wrong.append(f"{module_of(path)} imports {module}.{name}")
    assert wrong == []


def test_what_a_facade_exports_is_imported_from_it():
    homes = {
        (package_of(path), name): module
        for path in FILES
        if path.name == "__init__.py" and path.parent != ROOT
        for module, name in imports(path, package_of(path))
    }
    wrong = [
        f"{module_of(path)} imports {module}.{name}"
        for path in FILES
        for module, name in imports(path, package_of(path))
        if homes.get((owner := module.rpartition(".")[0], name)) == module
        if not f"{package_of(path)}.".startswith(f"{owner}.")
    ]
    assert wrong == []


def _is_private(part: str) -> bool:
    return part.startswith("_") and not part.startswith("__")


def test_there_is_one_underscore_on_a_path_at_most():
    paths = [path.relative_to(ROOT) for path in FILES]
    assert [str(path) for path in paths if sum(_is_private(part) for part in path.parts) > 1] == []


def classes_in(text: str) -> list[str]:
    """Return the names of the classes of a module, without the underscore of private ones."""
    return re.findall(r"^[ ]*class _?([A-Z]\w*)[(:\[]", text, re.MULTILINE)


def test_a_class_name_has_one_meaning():
    names = Counter(name for path in FILES for name in classes_in(path.read_text()))
    assert {name for name, n in names.items() if n > 1} == set()


def test_a_private_class_has_no_public_twin():
    assert classes_in("class A:\n    class _B(A):\n        pass\n\nclass _A[T]:\n    pass\n") == [
        "A",
        "B",
        "A",
    ]


class _Numbered(ast.NodeTransformer):
    """Calls the parameters and locals of a function by their number, and writes 2.0 as 2."""

    def __init__(self, arguments: ast.arguments, code: ast.AST) -> None:
        nodes = list(ast.walk(code))
        stored = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        inner = [node.arg for node in nodes if isinstance(node, ast.arg)]
        shared = {
            name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names
        }
        self.local = {*stored, *inner} - shared
        self.numbers: dict[str, int] = {}
        for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            self.local.add(item.arg)
            self._called(item.arg)

    def _called(self, name: str) -> str:
        return f"_{self.numbers.setdefault(name, len(self.numbers))}" if name in self.local else name

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._called(node.id))

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self._called(node.arg))

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        value = node.value
        return ast.Constant(int(value)) if isinstance(value, float) and value.is_integer() else node


def body_of(function: ast.FunctionDef) -> str:
    """Return what a function does, whatever it, its parameters, its locals and its docstring are called."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    code = ast.parse(ast.unparse(ast.Module(body, [])))
    return ast.unparse(_Numbered(function.args, code).visit(code))


@pytest.mark.more
def test_a_function_has_one_home():
    """Functions of modules, not methods: those of two classes may be alike and mean different things.

    So may those that call something private to their module.
    """
    homes: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and len(body := body_of(node)) >= SHORT:
                if re.search(r"\b_[a-zA-Z]", body):
                    continue
                homes.setdefault(body, []).append(f"{module_of(path)}.{node.name}")
    assert [names for names in homes.values() if len(names) > 1] == []


SHORT = 32
"""Shorter bodies, such as `return a / b if b else None`, are no less plain in two places."""


def test_equal_functions_are_noticed():
    one, same, other, third = ast.parse(
        "def f(a, b):\n    'Why.'\n    c = [d for d in a]\n    return c + g(b, 2.0, key=lambda e: e)\n"
        "def h(x, y):\n    z = [w for w in x]\n    return z + g(y, 2, key=lambda v: v)\n"
        "def i(x, y):\n    z = [w for w in y]\n    return z + g(x, 2, key=lambda v: v)\n"
        "def j(x, y):\n    z = [w for w in x]\n    return z + g(y, 2, by=lambda v: v)\n"
    ).body
    assert isinstance(one, ast.FunctionDef)
    assert isinstance(same, ast.FunctionDef)
    assert isinstance(other, ast.FunctionDef)
    assert isinstance(third, ast.FunctionDef)
    assert body_of(one) == body_of(same)
    assert len({body_of(function) for function in (one, other, third)}) == 3


def test_no_module_is_longer_than_one_idea():
    """A module beyond 24 kB, some 600 lines, holds several ideas: they get a file each."""
    sizes = {path.relative_to(ROOT).as_posix(): path.stat().st_size for path in FILES}
    assert {name: size for name, size in sizes.items() if size > 24_000} == {}


def test_the_package_knows_nothing_of_the_tests():
    assert [
        str(path)
        for path in FILES
        for module, _ in imports(path, package_of(path))
        if module.startswith("tests")
    ] == []


def is_size(value: ast.expr) -> bool:
    """Say whether a value is a number or several: a threshold, a limit, a size. Tables hold other things."""
    match value:
        case ast.Constant(value=number):
            return isinstance(number, int | float) and not isinstance(number, bool)
        case ast.UnaryOp(operand=operand):
            return is_size(operand)
        case ast.BinOp(left=left, right=right):
            return all(is_size(side) or isinstance(side, ast.Name) for side in (left, right))
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            return all(map(is_size, items))
    return False


def unexplained(path: Path, *, shared: bool = False, tables: bool = True) -> Iterator[str]:
    """Yield the numbers of a module that stand alone: no text below or behind them, no comment above.

    Parameters
    ----------
    shared
        Whether constants that stand together may share the text below the last of them.
    tables
        Whether numbers in tables count, too.
    """
    text = path.read_text()
    lines, body = text.splitlines(), ast.parse(text).body
    for at, node in enumerate(body):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        if not tables and not is_size(node.value):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {item.id for target in targets for item in ast.walk(target) if isinstance(item, ast.Name)}
        values = [item.value for item in ast.walk(node.value) if isinstance(item, ast.Constant)]
        numbers = [value for value in values if isinstance(value, int | float) and value not in (True, False)]
        if not numbers or not all(re.fullmatch(r"_?[A-Z][A-Z0-9_]*", name) for name in names):
            continue
        end = at + 1
        while shared and end < len(body) and isinstance(body[end], ast.Assign) and follows(body, end):
            end += 1
        below = end < len(body) and isinstance(body[end], ast.Expr) and follows(body, end)
        above = lines[node.lineno - 2].startswith("#")
        if not below and not above and "#" not in lines[(node.end_lineno or node.lineno) - 1]:
            yield f"{path.name}: {', '.join(sorted(names))}"


PLAIN = (0.0, 0.5, 1.0)
"""Numbers that say what they are: nothing, half, all."""


def bare_numbers(path: Path) -> Iterator[str]:
    """Yield the numbers with a point that something is compared with, unless a comment is there or above."""
    text = path.read_text()
    lines = text.splitlines()
    compared = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Compare)]
    for item in (item for node in compared for item in ast.walk(node)):
        if isinstance(item, ast.Constant) and isinstance(item.value, float) and item.value not in PLAIN:
            here, above = lines[item.lineno - 1], lines[item.lineno - 2].strip()
            if "#" not in here and not above.startswith("#"):
                yield f"{path.name}: {item.value}"


def follows(body: list[ast.stmt], at: int) -> bool:
    return body[at].lineno == (body[at - 1].end_lineno or 0) + 1


EXPLAINED = {
    **dict.fromkeys(("architecture", "atlas", "comparison", "demo", "fingerprint", "lineage"), False),
    **dict.fromkeys(("reference", "registry", "source", "stats", "tensors"), False),
    "casework/bench": True,
}
"""Rooms in which every number of a module has its own text, or shares one with those above it."""
SIZES_EXPLAINED = ("cli", "describe", "figures", "serving", "tokenizer", "untrusted")
"""Rooms in which tables and names need no reason, but thresholds, limits and sizes do."""


def test_every_threshold_has_its_reason_beside_it():
    """A number that decides something was chosen for a reason that the next reader must know."""
    found = [
        f"{room}/{name}"
        for room, shared in EXPLAINED.items()
        for path in sorted((ROOT / room).rglob("*.py"))
        for name in unexplained(path, shared=shared)
    ]
    found += [
        f"{room}/{name}"
        for room in SIZES_EXPLAINED
        for path in sorted((ROOT / room).rglob("*.py"))
        for name in unexplained(path, tables=False)
    ]
    assert found == []


def test_nothing_is_compared_with_a_number_without_a_name():
    assert [f"{path.parent.name}/{name}" for path in FILES for name in bare_numbers(path)] == []


def test_a_number_without_a_name_is_noticed(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(
        "def f(x):\n    return x > 0.25 * x\n\n\n"
        "def g(x):\n    # Why.\n    return x > 0.3 or x < 0.5\n\n\n"
        "def h(x):\n    return x < 0.4  # why\n"
    )
    assert list(bare_numbers(module)) == ["module.py: 0.25"]


def test_a_threshold_without_a_reason_is_noticed(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(
        'A = 1\n"""Why."""\n# Why.\nB = 2.0\nC = 3  # why\n\nD: Final = 4\n\nE, F = 5, 6\nG = 7\n"""Why."""\n'
    )
    assert list(unexplained(module)) == ["module.py: D", "module.py: E, F"]
    assert list(unexplained(module, shared=True)) == ["module.py: D"]
    module.write_text('A = {1: "a"}\nB = (2, 3)\nC = -4.0 * B\nD = "five", 6\nE = f(7)\n')
    assert list(unexplained(module, tables=False)) == ["module.py: B", "module.py: C"]


def reads_of_details(code: str) -> list[int]:
    """Return the lines in which an attribute `details` is read."""
    return sorted(
        node.lineno
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Attribute) and node.attr == "details" and isinstance(node.ctx, ast.Load)
    )


def test_no_comparison_reads_back_what_people_are_shown():
    read = {
        str(path.relative_to(ROOT)): lines
        for path in FILES
        if path.is_relative_to(ROOT / "comparison") and (lines := reads_of_details(path.read_text()))
    }
    assert read == {}


def test_a_reading_of_details_is_noticed():
    assert reads_of_details("x = test.details.get('n')\nmade(details={})\n'n' in test.details") == [1, 3]
