"""The notebook: it runs from beginning to end without a network, and ships with what it prints and draws."""

import json
import re

import pytest
from tests.places import ROOT

NOTEBOOK = ROOT / "notebooks" / "solar_glm.ipynb"


def printed(outputs):
    return "".join("".join(output.get("text", "")) for output in outputs)


def pictures(outputs):
    return [output for output in outputs if "image/png" in output.get("data", {})]


def test_it_ships_with_outputs_of_a_run_in_order():
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert "as claimed: 181.9 sigma" in printed(outputs)
    assert "Comparison of demo:finetune-light with demo:base: shared" in printed(outputs)
    assert len(pictures(outputs)) == 8
    assert NOTEBOOK.stat().st_size < 2_000_000
    for word in ("/home/", "/tmp/", "/root/", "site-packages", "stderr"):
        assert word not in json.dumps([output for output in outputs if "data" not in output]), word


def _timeless(text):
    return re.sub(r"\d[\d.]* [kM]?B read", "", text)


@pytest.mark.filterwarnings("default")  # of the tools that run it; its own errors end the run
@pytest.mark.scale
def test_it_runs_from_beginning_to_end(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=100, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert "V14  no-evidence" in printed(outputs)
    assert "no-evidence p" in printed(outputs)
    assert "shared p" in printed(outputs)
    assert len(pictures(outputs)) == 8
    shipped = [
        output for cell in json.loads(NOTEBOOK.read_text())["cells"] for output in cell.get("outputs", [])
    ]
    assert _timeless(printed(shipped)) == _timeless(printed(outputs)), "run `python notebooks/execute.py`"
