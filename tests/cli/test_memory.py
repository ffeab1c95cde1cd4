"""The memory that a command keeps."""

import subprocess
import sys

SCRIPT = """
import ctypes, sys, threading
from click.testing import CliRunner
from modelkin.cli.app import app

if sys.argv[2] == "command":
    assert CliRunner().invoke(app, ["methods"]).exit_code == 0
gate = threading.Barrier(4)
threads = [threading.Thread(target=lambda: (gate.wait(), bytearray(200_000))) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
if hasattr(libc, "malloc_info"):
    libc.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
    libc.malloc_info(0, file)
    libc.fclose(file)
"""


def arenas(folder, way):
    """Return how many arenas threads made in a process; None where the C library has none."""
    path = folder / f"{way}.xml"
    subprocess.run([sys.executable, "-c", SCRIPT, str(path), way], check=True)
    return path.read_text().count("<heap nr=") if path.exists() else None


def test_threads_of_a_command_share_one_arena(tmp_path):
    shared, usual = arenas(tmp_path, "command"), arenas(tmp_path, "none")
    assert (shared, usual) == (None, None) or (shared == 1 and usual > 1)
