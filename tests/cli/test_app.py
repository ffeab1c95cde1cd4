"""The command line as a user meets it: stdout, stderr, exit codes."""

import errno
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import click
import jsonschema
import pytest
from tests.support import HubServer, LlamaShape, llama_files

from modelkin.cli import failures
from modelkin.document.results import schema
from modelkin.errors import ModelkinError
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.message import say


@pytest.fixture
def folder(tmp_path):
    for name, data in llama_files(LlamaShape(layers=3), n_shards=2).items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def test_inspect_shows_family_layers_and_roles(run, folder):
    status, out, err = run("inspect", str(folder))
    assert status == 0
    assert "llama: Llama and look-alikes (decoder)" in out
    assert "attention_query" in out
    assert "layers 0-2" in out
    assert "local path" in err


def test_json_is_the_only_thing_on_stdout_and_follows_its_schema(run, folder):
    status, out, _ = run("inspect", str(folder), "--json")
    document = json.loads(out)
    jsonschema.validate(document, schema("modelkin.inspection/1"))
    assert status == 0
    assert (document["family"], document["layers"], document["unknown"]) == ("llama", 3, [])
    assert document["ledger"]["bytes_fetched"] < document["n_bytes"]


def test_every_tensor_can_be_listed(run, folder):
    _, out, _ = run("inspect", str(folder), "--tensors")
    assert out.count("self_attn.q_proj.weight") == 3


def test_a_plan_is_shown_and_nothing_is_read(run, folder):
    status, out, _ = run("inspect", str(folder), "--plan", "norms", "--json")
    document = json.loads(out)
    jsonschema.validate(document, schema("modelkin.plan/1"))
    assert (status, document["bytes_needed"]) == (0, 7 * 32 * 4)
    _, out, _ = run("inspect", str(folder), "--plan", "norms", "--plan", "mlp")
    assert "requests for" in out


def test_quiet_says_nothing_beside_the_result(run, folder):
    _, _, err = run("inspect", str(folder), "-q")
    assert err == ""


def test_a_model_of_the_hub_is_read_and_then_stored():
    from huggingface_hub import constants

    with HubServer({"org/model": llama_files(n_shards=2)}) as hub:
        code = "from modelkin.cli.app import main; main()"
        environment = {
            "HF_ENDPOINT": hub.url,
            "HF_ASSETS_CACHE": constants.HF_ASSETS_CACHE,
            "HF_HUB_CACHE": constants.HF_HUB_CACHE,
            "PATH": "",
        }
        command = [sys.executable, "-c", code, "inspect", "org/model", "--json"]
        first = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        hub.reset()
        second = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert [record.path.split("?")[0] for record in hub.log] == ["/api/models/org/model/revision/main"]
        hub.reset()
        offline = subprocess.run(
            [*command, "--offline"], env=environment, capture_output=True, text=True, check=True
        )
        assert hub.log == []
    documents = [json.loads(done.stdout) for done in (first, second, offline)]
    assert [document["family"] for document in documents] == ["llama"] * 3
    assert "Hugging Face Hub" in first.stderr
    assert documents[1]["ledger"]["bytes_fetched"] == 0


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["inspect"], 2, "Missing argument"),
        (["inspect", "a b"], 2, "expected a Hub repository"),
        (["inspect", "./nothing-here"], 3, "no such file or folder"),
        (["inspect", "nothing.safetensors"], 3, "no such file"),
        (["inspect", "org/name", "--offline"], 3, "offline mode is on"),
        (["inspect", ".", "--budget", "much"], 2, "expected a size such as 64MB"),
        (["nonsense"], 2, "No such command"),
    ],
)
def test_mistakes_get_their_exit_code_and_a_line(run, arguments, status, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    got, out, err = run(*arguments)
    assert (got, out) == (status, "")
    assert words in err
    assert "Traceback" not in err


def test_hostile_files_get_exit_code_4(run, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 100)
    status, _, err = run("inspect", str(tmp_path))
    assert status == 4
    assert "model.safetensors" in err


def test_a_budget_too_small_is_wrong_usage(run, folder):
    status, _, err = run("inspect", str(folder), "--budget", "10")
    assert status == 2
    assert "the request was not sent" in err
    assert "hint: Raise the budget" in err


def test_verbose_adds_the_traceback(run, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 100)
    _, _, err = run("inspect", str(tmp_path), "-v")
    assert "Traceback" in err


def test_names_from_a_file_cannot_colour_the_terminal_or_use_markup(run, tmp_path):
    import numpy as np

    tensors = {"[red]x[/]": np.zeros(3, np.float32), "plain": np.zeros((2, 2), np.float32)}
    (tmp_path / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    status, out, _ = run("inspect", str(tmp_path), "--tensors")
    assert status == 0
    assert "[red]x[/]" in out


def test_an_unknown_architecture_is_an_answer_not_an_error(run, tmp_path):
    import numpy as np

    (tmp_path / "model.safetensors").write_bytes(
        safetensors_bytes({"strange.weight": np.zeros((2, 2), np.float32)})
    )
    status, out, _ = run("inspect", str(tmp_path))
    assert status == 0
    assert "unknown tensors: 1" in out
    assert "strange.weight" in out


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (ModelkinError("here", say("quoted", text="something")), 70, "error: here: something"),
        (RuntimeError("surprise"), 70, "This is a bug in modelkin"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_whatever_escapes_ends_in_a_code(capsys, error, status, words, monkeypatch):
    @click.command()
    def broken():
        raise error

    monkeypatch.setattr(sys, "argv", ["modelkin"])
    assert failures.run(broken) == status
    assert words in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_error(folder):
    code = "from modelkin.cli.app import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "inspect", str(folder), "--json", "-q"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": ""},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 0


def test_the_cache_can_be_shown_and_emptied(run):
    status, out, _ = run("cache", "info", "--json")
    document = json.loads(out)
    jsonschema.validate(document, schema("modelkin.store/1"))
    assert (status, document["n_bytes"]) == (0, 0)
    status, out, _ = run("cache", "clear", "--yes")
    assert status == 0
    assert "removed 0 B" in out


def test_emptying_asks_first(run, monkeypatch):
    from pathlib import Path

    from huggingface_hub import constants

    from modelkin.source import ByteRange, RangeStore
    from modelkin.source.store import StoreKey

    store = RangeStore(Path(constants.HF_ASSETS_CACHE) / "modelkin", limit=10**9)
    store.save(StoreKey(origin="a", revision=None, file="f", etag="e"), ByteRange(0, 3), b"abc")
    monkeypatch.setattr("click.confirm", lambda *_, **__: (_ for _ in ()).throw(click.Abort()))
    status, _, _ = run("cache", "clear")
    assert status == 130
    assert store.info().n_bytes == 3


def test_help_names_every_command_and_exit_code(run):
    status, out, _ = run("--help")
    assert status == 0
    for word in ("compare", "inspect", "demo", "methods", "cache", "Exit codes", "130", "--fail-on was met"):
        assert word in out


def test_version(run):
    import modelkin

    _, out, _ = run("--version")
    assert out.strip() == f"modelkin, version {modelkin.__version__}"


FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="there is no device that is always full")


def called(*arguments, **streams):
    """Run the command in a separate process, with given streams."""
    code = streams.pop("code", "from modelkin.cli.app import main; main()")
    opened = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    found = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={"PATH": "", "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        timeout=100,
        **opened,
    )
    return found.returncode, (found.stderr or b"").decode()


@needs_full
@pytest.mark.parametrize("arguments", [("inspect", "FOLDER", "--json"), ("--version",)])
def test_a_result_that_cannot_be_printed_is_no_success(folder, arguments):
    given = [str(folder) if each == "FOLDER" else each for each in arguments]
    with FULL.open("wb") as full:
        status, said = called(*given, stdout=full)
    assert status == 74
    assert said.splitlines()[-2:] == [
        "error: writing: No space left on device",
        "hint: Check the free space, and whether you may write there.",
    ] or said.splitlines()[-1].startswith("error: standard output: the result could not be printed")
    assert "Traceback" not in said
    assert "Exception ignored" not in said


def test_a_closed_output_is_no_success(folder):
    close = "import os; os.close(1); import sys; sys.stdout = None; from modelkin.cli.app import main; main()"
    status, said = called("inspect", folder, "--json", "-q", code=close)
    assert (status, said) == (
        74,
        "error: standard output: it is closed, so the result could not be printed\n",
    )


@needs_full
def test_remarks_that_cannot_be_made_cost_nothing(folder):
    with FULL.open("wb") as full:
        assert called("inspect", folder, "-v", stderr=full)[0] == 0


def test_without_a_stream_for_errors_the_exit_code_still_tells(run, folder, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert run("inspect", str(folder), "-v")[0] == 0
    assert run("inspect", str(folder / "missing"))[0] == 3


def test_a_system_without_threads_is_said(folder):
    without = (
        "import threading\n"
        'def start(self): raise RuntimeError("can\'t start new thread")\n'
        "threading.Thread.start = start\n"
        "from modelkin.cli.app import main; main()"
    )
    status, said = called("compare", folder, folder, code=without)
    assert status == 3
    assert "error: reading: the system cannot start more threads" in said


def test_a_server_of_files_that_is_not_there_is_a_network_error(run):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        port = busy.getsockname()[1]
    status, _, said = run("inspect", f"ftp://127.0.0.1:{port}/model.safetensors")
    assert status == 3
    assert "Connection refused" in said
    assert "bug" not in said


def test_a_full_disk_in_the_lab_is_said(run, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "cosines.csv"))

    monkeypatch.setattr(Path, "write_text", full)
    status, out, said = run("lab", "cosines", "--pairs", "20", "--out", str(tmp_path), "-q")
    assert status == 74
    assert "cosines.csv: No space left on device" in said
    assert out  # the answer is printed all the same
