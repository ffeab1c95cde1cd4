"""``python -m modelkin.lab``: builds the zoo, needs the extra ``lab``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from ._build import build_zoo, copy_embedded
from ._recipes import load_recipes


def main(arguments: list[str] | None = None) -> int:
    """Run one of the commands ``build`` and ``embed``."""
    parser = argparse.ArgumentParser(prog="python -m modelkin.lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="train the models that the folder does not have yet")
    build.add_argument("--out", type=Path, required=True, metavar="DIR")
    build.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these, and what they come from")
    embed = commands.add_parser("embed", help="copy the models that come with the package out of a built zoo")
    embed.add_argument("--zoo", type=Path, required=True, metavar="DIR")
    embed.add_argument("--out", type=Path, required=True, metavar="DIR")
    chosen = parser.parse_args(arguments)
    if chosen.command == "build":
        build_zoo(load_recipes(), chosen.out, only=chosen.only, report=_reporter())
    else:
        copy_embedded(load_recipes(), chosen.zoo, chosen.out)
    return 0


def _reporter() -> Any:  # noqa: ANN401
    started = time.monotonic()

    def report(record: dict[str, Any]) -> None:
        seconds = time.monotonic() - started
        told = {key: record.get(key) for key in ("first_loss", "last_loss", "gain_spread", "change")}
        sys.stdout.write(f"{seconds:7.0f} s  {record['name']:20} {json.dumps(told)}\n")
        sys.stdout.flush()

    return report


if __name__ == "__main__":
    sys.exit(main())
