"""From exceptions to one readable line and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

import click

from modelkin.errors import ModelkinError, OutputError, SourceError
from modelkin.message import Message, said_by, say

from .options import locale_language
from .usage import show, usage_problem

if TYPE_CHECKING:
    from modelkin.document import Language

BUG = 70
"""Exit code of an error that we did not foresee, `EX_SOFTWARE` of sysexits."""
INTERRUPTED = 130
"""As shells have it: 128 plus the number of the signal."""
_REPORT = say("hint.bug")
_NO_THREAD = "can't start new thread"
"""How Python reports that no more threads are available."""


_results: list[bool] = []
"""One entry per printed result."""


def result_printed() -> None:
    """Remember that a result is on stdout: an error that follows goes to stderr only."""
    _results.append(True)


def run(command: click.Command) -> int:
    """Run a command and return its exit code; print errors to stderr."""
    _results.clear()
    code = _run(command)
    # What was printed may still be buffered: a result that nobody can read is not a success.
    lost = _lost()
    if lost is not None and code in (0, 1):
        code = _told(lost)
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except (OSError, ValueError):
        _drop(sys.stderr)
    return code


def _lost() -> OutputError | None:
    """Return why results did not reach standard output, if they did not."""
    try:
        if sys.stdout is None:
            return OutputError(say("part.standard-output"), say("problem.output-closed"))
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        if isinstance(error, BrokenPipeError):
            return None  # the reader has seen enough
        _drop(sys.stdout)
        return OutputError(say("part.standard-output"), say("problem.not-printed", why=said_by(error)))
    return None


def _drop(stream: TextIO) -> None:
    """Discard what cannot be printed, or Python would try again at exit, and complain."""
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def _run(command: click.Command) -> int:
    try:
        result = command.main(standalone_mode=False)
        # click returns the code of ctx.exit(), which --help and --version use.
        return result if isinstance(result, int) else 0
    except (click.exceptions.Abort, KeyboardInterrupt):
        say_beside(_language().say("cli.interrupted"))
        return INTERRUPTED
    except click.ClickException as error:
        show(error, _language())
        _as_json(
            type(error).__name__, "", usage_problem(error), None, error.exit_code, error.format_message()
        )
        return error.exit_code
    except SystemExit:
        # Outside standalone mode click exits by itself in only one case: the reader of our output (a
        # pager, `head`) has seen enough. That is not a failure, and exit code 1 has another meaning here.
        return 0
    except ModelkinError as error:
        return _told(error)
    except OSError as error:
        # Errors in reading models have their own types: what is left comes from writing.
        where = str(error.filename) if error.filename else say("part.writing")
        return _told(OutputError(where, say("problem.os", why=said_by(error)), hint=say("hint.room")))
    except Exception as error:
        if isinstance(error, RuntimeError) and _NO_THREAD in str(error):
            return _told(SourceError(say("part.reading"), say("problem.no-threads"), hint=say("hint.later")))
        say_beside(traceback.format_exc() + _language().tell(_REPORT))
        _as_json(type(error).__name__, "", str(error), _REPORT, BUG)
        return BUG


def _told(error: ModelkinError) -> int:
    if verbose():
        say_beside(traceback.format_exc().rstrip())
    language = _language()
    said = say("error.said", where=error.place, problem=error.said) if error.place else error.said
    say_beside(language.say("cli.error", told=language.tell(said)))
    if error.advice is not None:
        say_beside(language.say("cli.hint", told=language.tell(error.advice)))
    _as_json(type(error).__name__, error.where, error.said, error.advice, error.exit_code)
    return error.exit_code


def _language() -> Language:
    """Return the language of errors: they may come before the option was parsed."""
    from modelkin.document import LANGUAGES, load_language

    words = " ".join(sys.argv[1:]).replace("--lang=", "--lang ").split()
    asked = words[words.index("--lang") + 1 :][:1] if "--lang" in words else []
    return load_language(asked[0] if asked and asked[0] in LANGUAGES else locale_language())


def _as_json(
    kind: str, where: str, problem: Message | str, hint: Message | None, code: int, words: str | None = None
) -> None:
    """Print an error as the JSON document that a program expects, if one was requested.

    `words` are English words for the problem, where they are not those of its message.
    """
    wanted = "--json" in sys.argv[1:]
    # If nothing can be printed, neither can this; and a result may already be there.
    if not wanted or code == OutputError.exit_code or _results:
        return
    document = {
        "schema": "modelkin.error/1",
        "error": kind,
        "where": where,
        "problem": problem,
        "hint": hint,
        "exit_code": code,
    }
    from modelkin.document import plain, to_json

    written = plain(document)
    if words is not None and isinstance(written, dict):
        written = written | {"problem": words}
    with suppress(OSError, ValueError):
        click.echo(to_json(written).encode("utf-8"))


def say_beside(text: str) -> None:
    """Say something on stderr, if it is open: a remark that cannot be printed is no reason to fail."""
    with suppress(OSError, ValueError):
        click.echo(text, err=True)


def verbose() -> bool:
    """Say whether -v was given: the error may come before its option was parsed."""
    return any(argument in ("-v", "--verbose") for argument in sys.argv[1:])
