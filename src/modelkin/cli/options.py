"""Options that several commands share, each group as one decorator that yields one object."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from modelkin.cli.output import Output
    from modelkin.options import FetchOptions

Function = Callable[..., Any]


class Size(click.ParamType[int]):
    """A number of bytes: 64MB, 1GiB, 4096."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401
        """Read the text, or say what was expected."""
        from modelkin.options import parse_size

        try:
            return parse_size(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


LANGUAGES = ("en", "ko")
"""As `modelkin.document.LANGUAGES`, which is not imported for help alone."""

seed_option = click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Seed of samples and random draws.",
)


def out_option(text: str, *, required: bool = False) -> Callable[[Function], Function]:
    """Return the option for a folder to write to."""
    place = click.Path(file_okay=False, writable=True, path_type=Path)
    return click.option("--out", type=place, required=required, metavar="DIR", help=text)


language_option = click.option(
    "--lang",
    type=click.Choice(LANGUAGES),
    default="en",
    show_default=True,
    help="Language of reports; JSON is the same in all.",
)


def fetch_options(function: Function) -> Function:
    """Add the options that govern reading; the command gets them as `fetch`."""

    @click.option("--budget", type=Size(), metavar="SIZE", help="Read at most this many bytes, e.g. 64MB.")
    @click.option(
        "--offline", is_flag=True, help="Make no network requests; use only what is stored locally."
    )
    @click.option("--no-store", is_flag=True, help="Do not use or fill the local store of fetched ranges.")
    @functools.wraps(function)
    def wrapped(*args: Any, budget: int | None, offline: bool, no_store: bool, **rest: Any) -> Any:  # noqa: ANN401
        from modelkin.options import FetchOptions

        fetch: FetchOptions = FetchOptions(
            byte_budget=budget, offline=True if offline else None, use_store=not no_store
        )
        return function(*args, fetch=fetch, **rest)

    return wrapped


def output_options(function: Function) -> Function:
    """Add the options that govern printing; the command gets them as `output`."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
    @click.option("-q", "--quiet", is_flag=True, help="Print only the result.")
    @click.option("--no-progress", is_flag=True, help="Hide progress bars and notes.")
    @click.option(
        "-v", "--verbose", is_flag=True, help="Show more of the result, what is being read, and tracebacks."
    )
    @functools.wraps(function)
    def wrapped(
        *args: Any,  # noqa: ANN401
        as_json: bool,
        quiet: bool,
        no_progress: bool,
        verbose: bool,
        **rest: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        from modelkin.cli.output import Output

        output: Output = Output(
            as_json=as_json, quiet=quiet, draw_progress=not (no_progress or quiet), verbose=verbose
        )
        with output:
            return function(*args, output=output, **rest)

    return wrapped
