"""CPU time to start: the interpreter, the CLI library, `import modelkin`, `modelkin --help`."""

from __future__ import annotations

import resource
import subprocess
import sys
from dataclasses import dataclass

from benchmarks.tables import Table, times

HEAVY = ("huggingface_hub", "ml_dtypes", "numpy", "rich", "torch", "urllib3")
"""Modules that neither an import nor the help text may load."""

_HELP = "import sys; sys.argv = ['modelkin', '--help']; from modelkin.cli.app import main; main()"
_CLICK_HELP = """
import click
@click.group()
def app(): pass
@app.command()
@click.argument('model')
def inspect(model): pass
app(['--help'])
"""

CASES = {
    "python -c pass": "pass",
    "import click": "import click",
    "a click group's --help": _CLICK_HELP,
    "import modelkin": "import modelkin",
    "modelkin --help": _HELP,
    "import numpy": "import numpy",
    "import huggingface_hub (HfApi)": "from huggingface_hub import HfApi",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Best CPU time of a start, and what it loaded."""

    cpu_seconds: float
    heavy: tuple[str, ...]


def measure(code: str, *, repeats: int) -> Start:
    """Run code in fresh interpreters; return the smallest CPU time, which noise can only increase."""
    best = min(_cpu_seconds(code) for _ in range(repeats))
    # Help texts end in SystemExit, so the loaded modules are listed when the interpreter ends.
    spy = "import atexit, sys; atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr))\n"
    loaded = set(_run(spy + code).stderr.split())
    return Start(cpu_seconds=best, heavy=tuple(name for name in HEAVY if name in loaded))


def run(*, quick: bool = False) -> str:
    """Measure every case; return it as Markdown."""
    repeats = 5 if quick else 10
    found = {name: measure(code, repeats=repeats) for name, code in CASES.items()}
    click = found["import click"].cpu_seconds
    rows = [
        [
            name,
            f"{start.cpu_seconds * 1e3:.0f}",
            times(start.cpu_seconds / click),
            ", ".join(start.heavy) or "-",
        ]
        for name, start in found.items()
    ]
    columns = ["start", "CPU ms", "to click alone", f"loads of {', '.join(HEAVY)}"]
    return f"{Table(columns, rows).markdown()}\n\nLeast of {repeats} fresh interpreters each."


def _cpu_seconds(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _run(code)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
