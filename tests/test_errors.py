"""The tree of errors: drawn as it is, with its exit codes, and safe to send between processes."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import re
from pathlib import Path

import pytest

from modelkin import errors
from modelkin.errors import ModelkinError
from modelkin.message import say

ROOT = Path(errors.__file__).parent
ALL = [
    each
    for _, each in inspect.getmembers(errors, inspect.isclass)
    if issubclass(each, ModelkinError) and each.__module__ == errors.__name__
]


def test_all_names_are_exported_and_sorted():
    assert errors.__all__ == sorted(each.__name__ for each in ALL)


def test_the_drawing_is_the_tree():
    drawn: list[tuple[str, str]] = []
    parents = ["ModelkinError"]
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"    ([│├└─ ]*)(\w+)  ", line):
            depth = len(match[1]) // 4
            drawn.append((match[2], parents[depth - 1] if depth else "Exception"))
            parents[depth:] = [match[2]]
    assert sorted(drawn) == sorted((each.__name__, each.__base__.__name__) for each in ALL if each.__base__)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_error_says_where_and_what_and_survives_a_trip(kind):
    error = kind("model.safetensors", say("quoted", text="expected this, got that"), hint="Do this.")
    assert str(error) == "model.safetensors: expected this, got that"
    assert kind.__doc__
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(same) is kind
        assert (same.where, same.problem, same.hint, str(same)) == (
            error.where,
            error.problem,
            error.hint,
            str(error),
        )


def test_a_message_is_told_in_english_and_kept():
    problem = say("problem.no-revision", revision="'v2'")
    error = errors.NotFound("org/model", problem)
    assert str(error) == "org/model: the repository has no revision 'v2'"
    same = pickle.loads(pickle.dumps(error))
    assert (same.said, same.problem) == (problem, error.problem)


def test_without_a_place_the_sentence_stands_alone():
    assert str(ModelkinError("", say("quoted", text="something"))) == "something"
    assert ModelkinError("a", say("quoted", text="b")).hint is None


@pytest.mark.parametrize(
    ("family", "code"),
    [(errors.UsageError, 2), (errors.SourceError, 3), (errors.FormatError, 4), (errors.OutputError, 74)],
)
def test_families_have_their_exit_codes(family, code):
    members = [each for each in ALL if issubclass(each, family)]
    assert {each.exit_code for each in members} == {code}


def test_every_error_is_of_one_family():
    assert {each.exit_code for each in ALL if each is not ModelkinError} == {2, 3, 4, 74}
    assert ModelkinError.exit_code == 70


def says_a_sentence(call: ast.Call) -> bool:
    """Say whether what an error says is written into the code, in any part of its second argument."""
    inside: list[ast.expr] = [call.args[1]] if len(call.args) > 1 else []
    while inside:
        match inside.pop():
            case ast.Constant(value=str()) | ast.JoinedStr():
                return True
            case ast.IfExp(body=one, orelse=other) | ast.BinOp(left=one, right=other):
                inside += [one, other]
            case ast.BoolOp(values=values):
                inside += values
    return False


@pytest.mark.more
def test_every_error_says_a_message_and_none_a_sentence():
    """A report in another language would quote the sentence: say a code, and tell it in both languages."""
    names, n_raised, wrong = {each.__name__ for each in ALL}, 0, []
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                n_raised += 1
                wrong += [f"{path.relative_to(ROOT)}:{node.lineno}"] if says_a_sentence(node) else []
    assert n_raised > 400
    assert wrong == []
