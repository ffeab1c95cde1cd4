"""The notebook: it runs from beginning to end without a network, and ships without outputs."""

import json

import pytest
from tests.places import ROOT

NOTEBOOK = ROOT / "notebooks" / "solar_glm.ipynb"


def test_it_ships_without_outputs_and_every_cell_compiles():
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 5
    for cell in code:
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
        compile("".join(cell["source"]), cell["id"], "exec")


@pytest.mark.filterwarnings("default")  # of the tools that run it; its own errors end the run
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
    printed = "".join(output.get("text", "") for output in outputs)
    assert "as claimed: 181.9 sigma" in printed
    assert "V14  no-evidence" in printed
    assert "no-evidence p" in printed
    assert "shared p" in printed
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 6
