"""Files for other people's pipelines: what they say is run here, in their own words."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from tests.places import ROOT, ZOO

CONTAINER = [
    line for line in (ROOT / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")
]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> str:
    """Return a search path on which `modelkin` is this code."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "modelkin").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m modelkin "$@"\n')
    (folder / "modelkin").chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def said(word: str) -> list[str]:
    """Return what follows a word of the Dockerfile, line by line."""
    return [line.removeprefix(word).strip() for line in CONTAINER if line.startswith(f"{word} ")]


# -- the container -------------------------------------------------------------------------------------


def test_what_the_container_is_built_from_is_enough_for_a_wheel(tmp_path):
    """The folder is sent without what .dockerignore names; the wheel made of it is the wheel of the tree."""
    assert said("COPY")[0] == ". /source"
    left_out = (ROOT / ".dockerignore").read_text().split()
    sent = tmp_path / "source"

    def ignored(folder, names):
        inside = Path(folder).relative_to(ROOT)
        return [name for name in names for rule in left_out if fnmatch.fnmatch(str(inside / name), rule)] + [
            "__pycache__"
        ]

    shutil.copytree(ROOT, sent, ignore=ignored)
    assert not (sent / "tests").exists()
    listed = []
    for place in (sent, ROOT):
        made = tmp_path / place.name
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(made / "dist")]
        subprocess.run(command, cwd=place, check=True, capture_output=True)
        (wheel,) = (made / "dist").glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            listed.append({item.filename: item.CRC for item in archive.infolist()})
    assert listed[0] == listed[1]


def test_the_container_installs_an_extra_that_there_is_and_a_python_that_fits():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (installed,) = [line for line in said("RUN") if "pip install" in line]
    (extras,) = re.findall(r"/source\[([a-z,]+)\]", installed)
    assert set(extras.split(",")) <= project["optional-dependencies"].keys()
    for image in said("FROM"):
        version = re.match(r"python:(\d+\.\d+)-slim", image)
        assert version is not None
        assert f"Programming Language :: Python :: {version[1]}" in project["classifiers"]
    prefix = re.search(r"--prefix=(\S+)", installed)
    assert prefix is not None
    assert f"--from=built {prefix[1]} /usr/local" in said("COPY")


def test_the_container_runs_our_command_as_an_ordinary_user_and_keeps_what_it_fetched(path, tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (entry,), (default,) = (json.loads(said(word)[0]) for word in ("ENTRYPOINT", "CMD"))
    assert entry in project["scripts"]
    (user,), (cache,) = said("USER"), said("VOLUME")
    assert any(
        f"useradd --create-home {user}" in line and f"chown {user} {cache}" in line for line in said("RUN")
    )
    (setting,) = said("ENV")
    name, _, value = setting.partition("=")
    assert value == cache
    environment = {"PATH": path, "HOME": str(tmp_path), name: str(tmp_path / "kept")}
    environment |= {key: os.environ[key] for key in ("PYTHONPATH",) if key in os.environ}
    told = subprocess.run(
        [entry, "cache", "info"], env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout.startswith(str(tmp_path / "kept"))
    helped = subprocess.run([entry, default, "--help"], env=environment, capture_output=True, check=True)
    assert b"No network" in b" ".join(helped.stdout.split())


# -- the action ----------------------------------------------------------------------------------------


def run_action(path: str, folder: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """Run the last step of the action as its runner would: inputs become variables of the shell."""
    inputs = {name: about.get("default") for name, about in ACTION["inputs"].items()} | {
        name.replace("_", "-"): value for name, value in given.items()
    }
    step = ACTION["runs"]["steps"][-1]
    variables = {}
    for name, text in step["env"].items():
        (wanted,) = re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", text).groups()  # type: ignore[union-attr]
        assert inputs[wanted] is not None, f"{wanted} has no default"
        variables[name] = inputs[wanted]
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder,
        env={**os.environ, **variables, "PATH": path},
        capture_output=True,
        text=True,
    )


def test_the_action_writes_a_log_and_a_report(path, tmp_path):
    done = run_action(path, tmp_path, candidate="demo:continued", base="demo:base", depth="quick")
    assert done.returncode == 0, done.stderr
    outputs = {name: about["value"] for name, about in ACTION["outputs"].items()}
    assert outputs == {"sarif": "${{ inputs.sarif }}", "report": "${{ inputs.report }}"}
    log = json.loads((tmp_path / ACTION["inputs"]["sarif"]["default"]).read_text())
    assert log["runs"][0]["results"][0]["kind"] == "fail"
    assert (tmp_path / ACTION["inputs"]["report"]["default"] / "report.html").is_file()


def test_the_action_fails_the_job_and_still_writes_the_log(path, tmp_path):
    wanted = {"controls": "demo:twin-1\n\n", "fail_on": "shared", "budget": "50MB"}
    done = run_action(path, tmp_path, candidate="demo:continued", base="demo:base", depth="quick", **wanted)
    assert done.returncode == 1, done.stderr
    assert json.loads((tmp_path / "modelkin.sarif").read_text())["version"] == "2.1.0"


def test_a_name_given_to_the_action_never_becomes_a_command(path, tmp_path):
    evil = "$(touch done); touch done #`touch done`"
    done = run_action(path, tmp_path, candidate=evil, base="--version", depth="quick", controls=evil)
    assert done.returncode in (2, 3), done.stderr
    assert not (tmp_path / "done").exists()


def test_what_the_action_installs_is_given_as_a_variable_too():
    (install,) = [step for step in ACTION["runs"]["steps"] if "pip install" in step.get("run", "")]
    assert install["run"].endswith('"$VERSION"')
    assert all("${{" not in step.get("run", "") for step in ACTION["runs"]["steps"])


# -- hooks ---------------------------------------------------------------------------------------------


def run_hook(path: str, name: str, *files: str) -> int:
    words = [*HOOKS[name]["entry"].split(), *HOOKS[name].get("args", ()), *files]
    environment = {**os.environ, "PATH": path}
    return subprocess.run(words, env=environment, capture_output=True).returncode


def test_a_hook_looks_at_all_files_of_a_commit(path, tmp_path):
    names = [str(ZOO / name / "model.safetensors") for name in ("base", "twin-1")]
    assert all(re.search(HOOKS["modelkin-inspect"]["files"], name) for name in names)
    assert run_hook(path, "modelkin-inspect", *names) == 0
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"\xff" * 64)
    assert run_hook(path, "modelkin-inspect", names[0], str(broken)) == 4


def test_a_hook_stops_a_commit_of_a_derived_model(path):
    quick = ("--depth", "quick")
    assert run_hook(path, "modelkin-compare", "demo:continued", "demo:base", *quick) == 1
    assert run_hook(path, "modelkin-compare", "demo:twin-1", "demo:base", *quick) == 0
