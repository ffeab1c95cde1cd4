"""``python -m modelkin``."""

from modelkin._cli.app import main

main()
