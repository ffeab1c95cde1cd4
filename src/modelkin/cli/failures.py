"""From exceptions to one readable line and an exit code."""

from __future__ import annotations

import sys
import traceback

import click

from modelkin.errors import ModelkinError

BUG = 70
INTERRUPTED = 130
_REPORT = "This is a bug in modelkin. Please report it with the lines above."


def run(command: click.Command) -> int:
    """Run a command and return its exit code; print errors to stderr."""
    try:
        result = command.main(standalone_mode=False)
        # click returns the code of ctx.exit(), which --help and --version use.
        return result if isinstance(result, int) else 0
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except SystemExit:
        # Outside of its standalone mode click exits by itself in one case only: the reader of our output (a
        # pager, `head`) has seen enough. That is no failure, and exit code 1 has another meaning here.
        return 0
    except ModelkinError as error:
        if verbose():
            traceback.print_exc()
        click.echo(f"error: {error}", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        return error.exit_code
    except Exception:
        traceback.print_exc()
        click.echo(_REPORT, err=True)
        return BUG


def verbose() -> bool:
    """Say whether -v was given: the error may come before its option was parsed."""
    return any(argument in ("-v", "--verbose") for argument in sys.argv[1:])
