"""The command ``modelkin``: one group, and the last line of defence against tracebacks."""

from __future__ import annotations

import sys

import click

from modelkin._version import __version__
from modelkin.cli.atlas import atlas
from modelkin.cli.bench import bench
from modelkin.cli.cache import cache
from modelkin.cli.check import check
from modelkin.cli.compare import compare
from modelkin.cli.completion import completion
from modelkin.cli.configs import configs
from modelkin.cli.demo import demo
from modelkin.cli.diff import diff
from modelkin.cli.embeddings import embeddings
from modelkin.cli.failures import run
from modelkin.cli.fingerprint import fingerprint
from modelkin.cli.inspect import inspect
from modelkin.cli.lab import lab
from modelkin.cli.matrix import matrix
from modelkin.cli.merge import merge
from modelkin.cli.methods import methods
from modelkin.cli.print import print_report
from modelkin.cli.registry import registry
from modelkin.cli.repositories import repositories
from modelkin.cli.scan import scan
from modelkin.cli.study import study
from modelkin.cli.tokenizers import tokenizers
from modelkin.cli.tree import tree
from modelkin.cli.verify import verify

_M_ARENA_MAX = -8
"""The parameter of glibc's ``mallopt`` that limits its arenas, from ``malloc.h``."""


def share_one_arena() -> None:
    """Let all threads allocate from one arena, if the C library has arenas.

    glibc gives each thread an arena of its own and returns little of what is freed there. Bytes are read and
    decoded by many threads: a study of three models kept half a gigabyte that nothing could use any more.
    Arrays are large and few, so threads hardly ever wait for each other.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries of Linux have none
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


HELP = """Was language model B derived from model A? An honest answer, from the weights.

A MODEL is org/name or org/name@revision (Hugging Face Hub; hf:org/name even if a folder has
that name), org/name/file.gguf, a local folder or file, demo:base and others that come with modelkin,
https://host/path/model.safetensors, s3://bucket/prefix, or ADAPTER::BASE, in safetensors, GGUF,
PyTorch, ONNX and other formats. Only the bytes that the question needs are read; they are
kept in a local store, see `modelkin cache`.

Results go to stdout, everything else to stderr.

\b
Exit codes
  0   finished, whatever was found   3   an input could not be obtained
  1   finished, --fail-on was met    4   an input is malformed or hostile
  2   wrong usage                    70  a bug in modelkin
  130 interrupted                    74  the result could not be written
"""


@click.group(
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: modelkin demo",
)
@click.version_option(__version__, prog_name="modelkin")
def app() -> None:
    """Hold the subcommands, and begin each of them."""
    share_one_arena()


for command in (
    compare,
    diff,
    merge,
    tree,
    check,
    matrix,
    bench,
    study,
    inspect,
    tokenizers,
    embeddings,
    configs,
    repositories,
    fingerprint,
    registry,
    scan,
    atlas,
    demo,
    methods,
    lab,
    cache,
    completion,
    verify,
    print_report,
):
    app.add_command(command)


def main() -> None:
    """Run the command line and exit with its code."""
    sys.exit(run(app))
