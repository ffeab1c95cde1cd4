"""Options that several commands share, each group as one decorator that passes one object."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from modelkin.cli.usage import BadValue, Misused
from modelkin.message import Refusal, say

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
        except Refusal as refused:
            raise BadValue(refused.reason, ctx, param) from None


class MethodNames(click.ParamType[tuple[str, ...]]):
    """Names of published methods, separated by commas."""

    name = "names"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Split; the names are checked later."""
        if not isinstance(value, str):
            return value
        names = tuple(name.strip() for name in value.split(",") if name.strip())
        if not names:
            raise BadValue(say("problem.usage-methods"), ctx, param)
        return names


def methods_option(text: str, default: tuple[str, ...] = ()) -> Callable[[Function], Function]:
    """Return the option that names published methods."""
    return click.option(
        "--methods", type=MethodNames(), default=default, metavar="all|NAME[,NAME...]", help=text
    )


class Offered(click.ParamType[str]):
    """Text that is taken as it is; completion offers known names and paths."""

    def __init__(self, name: str, names: Callable[[], Iterable[str]], *, paths: bool = True) -> None:
        self.name = name
        self._names = names
        self._paths = paths

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401
        """Take the text as it is."""
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer what begins like the text, and leave paths to the shell."""
        found = [CompletionItem(name) for name in self._names() if name.startswith(incomplete)]
        if self._paths and (not found or not incomplete):
            found.append(CompletionItem(incomplete, type="file"))
        return found


def _demo_models() -> list[str]:
    from modelkin.demo import DEMO_MODELS

    return [f"demo:{name}" for name in DEMO_MODELS]


def _studies() -> list[str]:
    from modelkin.casework.studies import shipped_studies

    return list(shipped_studies())


def _methods() -> list[str]:
    from modelkin.comparison.methods import load_cards

    return list(load_cards())


MODEL = Offered("model", _demo_models)
STUDY = Offered("study", _studies)
METHOD = Offered("method", _methods, paths=False)

LANGUAGES = ("en", "ko")
"""Same as `modelkin.document.LANGUAGES`, which is not imported just for help."""

seed_option = click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Seed of samples and random draws.",
)


def sampled_depth_option(text: str) -> Callable[[Function], Function]:
    """Return the option for how much is read by commands that only sample."""
    return click.option(
        "--depth",
        type=click.Choice(("standard", "deep")),
        default="standard",
        show_default=True,
        help=text,
    )


_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)=(.+)", re.DOTALL)


def named_models(models: tuple[str, ...]) -> dict[str, str]:
    """Parse models that may have names, NAME=MODEL; others go by their reference."""
    named: dict[str, str] = {}
    for text in models:
        match = _NAMED.fullmatch(text)
        name, ref = (match[1], match[2]) if match and not Path(text).exists() else (text, text)
        if name in named:
            raise BadValue(say("problem.usage-twice-named", name=repr(name)))
        named[name] = ref
    return named


def out_option(text: str, *, required: bool = False) -> Callable[[Function], Function]:
    """Return the option for a folder to write to."""
    place = click.Path(file_okay=False, writable=True, path_type=Path)
    return click.option(
        "--out", type=place, required=required, metavar="DIR", help=text, callback=_that_can_be_written
    )


def _that_can_be_written(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Refuse a folder that cannot be made or written, before any work."""
    if value is None or ctx.resilient_parsing:
        return value
    if not value.exists():
        above = next(parent for parent in value.absolute().parents if parent.exists())
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            raise BadValue(say("problem.usage-folder", folder=str(value), above=str(above)), ctx, param)
    from modelkin.document import try_folder

    # Permissions do not tell: the disk may be full, or the place no real folder.
    try_folder(value)
    return value


def figures_option(function: Function) -> Function:
    """Add the option for figures, which are files in the folder of --out."""

    @click.option(
        "--figures", is_flag=True, help="With --out, also draw figures for papers and slides, as PNG and SVG."
    )
    @functools.wraps(function)
    def wrapped(*args: Any, figures: bool, out: Path | None, **rest: Any) -> Any:  # noqa: ANN401
        if figures and out is None:
            raise Misused(say("problem.usage-needs", a="--figures", b="--out"))
        return function(*args, figures=figures, out=out, **rest)

    return wrapped


def locale_language() -> str:
    """Return the language of the user's locale if there are texts in it, otherwise English."""
    chosen = next((value for name in _LOCALE if (value := os.environ.get(name))), "")
    code = chosen.partition("_")[0].partition(".")[0].lower()
    return code if code in LANGUAGES else LANGUAGES[0]


_LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG")
"""In order of precedence."""

language_option = click.option(
    "--lang",
    type=click.Choice(LANGUAGES),
    default=locale_language,
    show_default="that of the locale, or en",
    help="Language of what is printed and of reports; JSON is the same in all.",
)


registry_option = click.option(
    "--registry",
    required=True,
    envvar="MODELKIN_REGISTRY",
    metavar="PLACE",
    help="A folder, or s3://bucket/prefix; MODELKIN_REGISTRY if not given.",
)
cluster_option = click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Do the work on Dask: tcp://host:8786, or local for processes of this machine.",
)


def fetch_options(function: Function) -> Function:
    """Add the options for reading; the command gets them as `fetch`."""

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
    """Add the options for printing; the command gets them as `output`."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
    @click.option("-q", "--quiet", is_flag=True, help="Print only the result.")
    @click.option("--no-progress", is_flag=True, help="Hide progress bars and notes.")
    @click.option(
        "-v", "--verbose", is_flag=True, help="Show more of the result, what is being read, and tracebacks."
    )
    @language_option
    @functools.wraps(function)
    def wrapped(
        *args: Any,  # noqa: ANN401
        lang: str,
        as_json: bool,
        quiet: bool,
        no_progress: bool,
        verbose: bool,
        **rest: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        from modelkin.cli.output import Output

        output: Output = Output(
            lang=lang,
            as_json=as_json,
            quiet=quiet,
            draw_progress=not (no_progress or quiet),
            verbose=verbose,
        )
        with output:
            return function(*args, output=output, **rest)

    return wrapped
