"""Runs the notebooks and keeps their outputs: ``python notebooks/execute.py``, with the extra `test` installed."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent


def main() -> int:
    """Run each notebook where nothing is installed or stored, offline."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        with tempfile.TemporaryDirectory() as place:
            os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": place, "IPYTHONDIR": f"{place}/ipython"}
            resources = {"metadata": {"path": place}}
            NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
        for cell in notebook.cells:  # when and on what it ran is nobody's business
            cell.metadata.pop("execution", None)
        notebook.metadata.get("language_info", {}).pop("version", None)
        nbformat.write(notebook, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
