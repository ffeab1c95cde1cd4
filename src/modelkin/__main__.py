"""``python -m modelkin``."""

from modelkin.cli.app import main

main()
