"""What an error says and advises is a message: no code that raises one holds an English sentence."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import modelkin
from modelkin import errors

ROOT = Path(modelkin.__file__).parent
OURS = {*errors.__all__, "not_written", "Refused", "Refusal", "BadParameter", "Problem", "fail"}
"""What makes an error that a person reads."""
WORDS = re.compile(r"[A-Za-z]{2,}[,:;]? [A-Za-z]{2,}")
"""Two words in a row: names, paths and patterns have none."""


def texts(node: ast.expr) -> Iterator[str]:
    """Yield what a value holds of literal text; not what is handed to a function, such as a code."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            yield "".join(str(item.value) if isinstance(item, ast.Constant) else "{}" for item in values)
        case ast.BinOp(left=left, right=right):
            yield from (*texts(left), *texts(right))
        case ast.BoolOp(values=values) | ast.Tuple(elts=values):
            for item in values:
                yield from texts(item)
        case ast.IfExp(body=body, orelse=other):
            yield from (*texts(body), *texts(other))


def called(call: ast.Call) -> str:
    """Return the last name of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def literal(path: Path) -> Iterator[str]:
    """Yield the places of errors and hints that hold a sentence."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        hints = [item.value for item in call.keywords if item.arg in ("hint", "advice")]
        given = [*call.args, *(item.value for item in call.keywords)] if called(call) in OURS else hints
        for value in given:
            yield from (
                f"{path.name}:{call.lineno} {text[:40]}" for text in texts(value) if WORDS.search(text)
            )
    for name, value in assigned(tree):
        if "hint" in name.lower() or "advice" in name.lower():
            yield from (f"{path.name} {name} {text[:40]}" for text in texts(value) if WORDS.search(text))


def assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield names with what they are set to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield from ((ast.unparse(target), node.value) for target in node.targets)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield ast.unparse(node.target), node.value


@pytest.mark.more
def test_errors_and_hints_hold_no_sentence():
    """Say a message instead: a code, with its text in document/texts/en.toml and ko.toml."""
    assert [place for path in sorted(ROOT.rglob("*.py")) for place in literal(path)] == []


def test_a_sentence_is_noticed(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(
        "_HINT = 'Look at the page.'\n"
        "def f(x):\n"
        "    raise FormatError(x, say('problem.odd', why='no code'), hint=f'Write {x} or leave it.')\n"
        "def g(x):\n"
        "    hint = None\n"
        "    raise FormatError(f'{x}: model.safetensors', say('problem.odd'), hint=hint or 'Try it again.')\n"
        "def h(x):\n"
        "    raise Refused('a text of letters', x)\n"
    )
    assert list(literal(module)) == [
        "module.py:3 Write {} or leave it.",
        "module.py:6 Try it again.",
        "module.py:8 a text of letters",
        "module.py _HINT Look at the page.",
    ]
