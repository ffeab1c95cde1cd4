"""Wrong usage: our own refusals as messages, and click's in the reader's language, by their classes.

In English click speaks for itself. Its sentences are not read: the class of an error, the parameter it is
about and what that one takes say the same.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from modelkin.message import Message, say

if TYPE_CHECKING:
    from modelkin.document import Language


class Misused(click.UsageError):
    """Options or arguments that do not go together."""

    def __init__(self, said: Message) -> None:
        super().__init__(str(said), click.get_current_context(silent=True))
        self.said = said


class BadValue(click.BadParameter):
    """A value that an option or argument does not take."""

    def __init__(
        self,
        said: Message,
        ctx: click.Context | None = None,
        param: click.Parameter | None = None,
        *,
        option: str | None = None,
    ) -> None:
        super().__init__(str(said), ctx, param, option)
        self.said = said


def show(error: click.ClickException, language: Language) -> None:
    """Print an error of usage to stderr; one that cannot be printed is no reason to fail."""
    with suppress(OSError, ValueError):
        if language.code == "en":
            error.show()
            return
        context = error.ctx if isinstance(error, click.UsageError) else None
        if context is not None:
            words = [context.command_path, *context.command.collect_usage_pieces(context)]
            click.echo(language.say("cli.usage", command=" ".join(words)), err=True)
            click.echo(language.say("cli.usage_help", command=context.command_path) + "\n", err=True)
        click.echo(language.say("cli.error", told=language.tell(usage_problem(error))), err=True)
        if hint := usage_hint(error):
            click.echo(language.say("cli.hint", told=language.tell(hint)), err=True)


def usage_problem(error: click.ClickException) -> Message:
    """Return what an error of click says."""
    match error:
        case Misused():
            return error.said
        case BadValue():
            return say("problem.usage-value", name=_named(error), problem=error.said)
        case click.MissingParameter():
            return say("problem.usage-missing", name=_named(error))
        case click.BadParameter():
            return say("problem.usage-expected", name=_named(error), expected=_expected(error.param))
        case click.NoSuchOption():
            return say("problem.usage-no-option", name=repr(error.option_name))
        case click.BadOptionUsage():
            return say("problem.usage-option", name=error.option_name)
        case _ if isinstance(error, _NO_COMMAND):
            return say("problem.usage-no-command", name=repr(error.command_name))
    return say("problem.usage-other")


_NO_COMMAND: Any = getattr(click.exceptions, "NoSuchCommand", ())
"""Older versions of click have no class for it."""


def usage_hint(error: click.ClickException) -> Message | None:
    """Return what may have been meant."""
    near: list[str] | None = getattr(error, "possibilities", None)
    return say("hint.did-you-mean", name=", ".join(near)) if near else None


def _named(error: click.BadParameter) -> str | Message:
    hint = error.param_hint
    if hint is None and error.param is not None:
        hint = error.param.get_error_hint(error.ctx)
    if hint is None:
        return say("part.a-value")
    return hint if isinstance(hint, str) else " / ".join(hint)


def _expected(param: click.Parameter | None) -> Message:
    """Describe what a parameter takes."""
    match None if param is None else param.type:
        case click.Choice(choices=choices):
            return say("part.one-of", known=tuple(map(str, choices)))
        case click.IntRange(min=low, max=high) if low is not None and high is not None:
            return say("part.whole-from", low=int(low), high=int(high))
        case click.IntRange(min=low) if low is not None:
            return say("part.whole-least", low=int(low))
        case click.FloatRange(min=low, max=high) if low is not None and high is not None:
            return say("part.number-from", low=float(low), high=float(high))
        case click.Path() as path:
            return _path(path)
    return say("part.another-value")


def _path(path: click.Path) -> Message:
    if path.file_okay and path.dir_okay:
        return say("part.path-any-there" if path.exists else "part.path-any")
    if path.file_okay:
        return say("part.path-file-there" if path.exists else "part.path-file")
    return say("part.path-folder-there" if path.exists else "part.path-folder")
