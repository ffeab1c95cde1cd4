"""Serve a test Hub until standard input ends: ``python -m tests.support --spec FILE``.

The first line of standard output is JSON with the two addresses, `hub` and `cdn`. With ``--spec -`` the
specification is the first line of standard input. Counters are at ``/_control/stats`` and ``/_control/log``
of the Hub, ``/_control/reset`` empties them.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from .hub_repo import read_spec
from .hub_server import HubServer


def main() -> None:
    """Run the server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--spec", required=True, help="JSON file with `repos` and `options`, or - for a line of input"
    )
    asked = parser.parse_args()
    text = sys.stdin.readline() if asked.spec == "-" else Path(asked.spec).read_text(encoding="utf-8")
    repos, options = read_spec(json.loads(text))
    with HubServer(repos, options) as server:
        print(json.dumps({"hub": server.url, "cdn": server.cdn_url}), flush=True)
        # The parent holds the other end: it closes when the parent ends, whichever way.
        sys.stdin.read()


if __name__ == "__main__":
    main()
