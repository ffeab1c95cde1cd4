"""Completion: scripts for shells, and what they are offered."""

from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete

from modelkin.cli.app import app
from modelkin.cli.completion import SHELLS


def offered(*words: str, incomplete: str = "") -> list[str]:
    completer = ShellComplete(app, {}, "modelkin", "_MODELKIN_COMPLETE")
    return [
        item.value if item.type == "plain" else item.type
        for item in completer.get_completions([*words], incomplete)
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_printed_for_every_shell(run, shell):
    code, out, _ = run("completion", shell)
    assert code == 0
    assert "_MODELKIN_COMPLETE" in out
    assert "modelkin" in out


def test_an_unknown_shell_is_wrong_usage(run):
    assert run("completion", "csh")[0] == 2


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        (("compare",), "demo:t", ["demo:twin-1"]),
        (("compare", "demo:base"), "demo:moe", ["demo:moe-base", "demo:moe-tuned"]),
        (("inspect",), "./mo", ["file"]),
        (("compare", "--control"), "demo:c", ["demo:continued"]),
        (("study", "run"), "layer", ["layer-zero"]),
        (("methods",), "mlp-u", ["mlp-units"]),
        (("compare", "--depth"), "d", ["deep"]),
        (("compare", "--format"), "s", ["sarif"]),
    ],
)
def test_models_studies_methods_and_paths_are_offered(words, incomplete, expected):
    found = offered(*words, incomplete=incomplete)
    assert set(expected) <= set(found)
    assert all(item.startswith(incomplete) or item == "file" for item in found)
