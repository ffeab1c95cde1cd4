"""``modelkin compare``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from modelkin.cli.failures import say_beside
from modelkin.cli.options import (
    MODEL,
    Size,
    fetch_options,
    figures_option,
    methods_option,
    out_option,
    output_options,
)
from modelkin.cli.usage import BadValue, Misused
from modelkin.message import say

if TYPE_CHECKING:
    from modelkin.cli.output import Output
    from modelkin.comparison import Comparison
    from modelkin.model import Model
    from modelkin.options import CompareOptions, Depth, FetchOptions
    from modelkin.reference import ReferenceOptions

FORMS = ("sarif", "cyclonedx", "card", "badge")
"""Same as `modelkin.document.formats.FORMATS`, which is not imported just for help."""
DEPTHS = ("quick", "standard", "deep", "full")
FAIL_ON: dict[str, tuple[bool | None, ...]] = {
    "shared": (True,),
    "no-evidence": (False,),
    "not-testable": (None,),
    "any-but-no-evidence": (True, None),
    "flag": (),
}
"""Word of --fail-on -> the `Verdict.related` that meet it."""
ON_FLAG = ("flag", "any-but-no-evidence")
FAILED = 1


class FailOn(click.ParamType[tuple[str, ...]]):
    """One or more words, separated by commas."""

    name = "word"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Split and check."""
        words = tuple(value.split(",")) if isinstance(value, str) else value
        for word in words:
            if word not in FAIL_ON:
                raise BadValue(say("problem.usage-some-of", names=tuple(FAIL_ON), got=repr(word)), ctx, param)
        return words

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the words."""
        return [CompletionItem(word) for word in FAIL_ON if word.startswith(incomplete)]


@click.command()
@click.argument("candidate", type=MODEL)
@click.argument("base", type=MODEL)
@click.option(
    "--control",
    "controls",
    multiple=True,
    type=MODEL,
    metavar="MODEL",
    help="A model believed to be unrelated, to run the same tests on. Repeat for several: five of the same "
    "shapes give the 20 pairs that a rank among controls needs.",
)
@click.option(
    "--depth",
    type=click.Choice(DEPTHS),
    default="standard",
    show_default=True,
    help="How much to read of each model, and how far to look: quick 1 MB (norm gains), standard 20 MB "
    "(parts with the same number), deep 1 GB (also moved layers, reordered units, rotated "
    "coordinates), full like deep, plus every value of all tensors that both have.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Chooses samples and permutations.",
)
@methods_option(
    "Show next to the verdict what published methods say: their names, separated by commas (see "
    "modelkin methods --published), or all for those that read weights. They never change the verdict."
)
@click.option(
    "--methods-budget",
    type=Size(),
    default="1GB",
    show_default=True,
    metavar="SIZE",
    help="Read at most this many bytes of a model for one published method; one that needs more says so.",
)
@click.option(
    "--prompts",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Prompts for published methods that run the models, one per line. Default: 200 of our own.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Show what would be read at most and about how long it takes; no tensor is read.",
)
@out_option("Write the report folder: report.html, REPORT.md, comparison.json, tensors.csv.")
@click.option(
    "--fail-on",
    type=FailOn(),
    multiple=True,
    metavar="WORD[,WORD...]",
    help="Exit with code 1 on one of these results: shared (any kind of common origin), no-evidence, "
    "not-testable, flag (something on the card to look at more closely), any-but-no-evidence (all "
    "but a plain "
    "negative: what a gate wants).",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    help="Print the result for another program: sarif for code scanning, cyclonedx as a bill of materials "
    "with pedigree, card as a snippet for a model card, badge as an SVG.",
)
@click.option(
    "--case",
    "case_id",
    metavar="ID",
    help="Put a case number, the time, the command, versions and the SHA-256 of every weight file "
    "into the record; this reads local files in full.",
)
@figures_option
@fetch_options
@output_options
def compare(
    candidate: str,
    base: str,
    *,
    form: str | None,
    case_id: str | None,
    controls: tuple[str, ...],
    depth: Depth,
    seed: int,
    methods: tuple[str, ...],
    methods_budget: int,
    prompts: Path | None,
    dry_run: bool,
    out: Path | None,
    fail_on: tuple[tuple[str, ...], ...],
    figures: bool,
    fetch: FetchOptions,
    output: Output,
) -> None:
    """Ask whether CANDIDATE was derived from BASE.

    The answer says whether the weights have a common origin, in which parts, how sure that is, and what
    it does not say. Only samples are read. No threshold on a similarity decides: chance is measured on the
    same numbers in shuffled order. -v adds every single test.

    Weights can be permuted or rotated without changing what a model computes. --depth deep looks for that;
    without it such a copy, or one with a different number of layers, may end in "no evidence". If both units
    and coordinates were scrambled, layers that face each other are compared with layers that do not; where
    that leaves it open, several --control models of the same shapes can tell.

    \b
    Examples
      modelkin compare org/new-model org/old-model
      modelkin compare ./candidate ./base --control org/other --out report
      modelkin compare org/new-model org/old-model --dry-run
      modelkin compare org/new-model org/old-model --depth deep
      modelkin compare ./candidate ./base --json --fail-on any-but-no-evidence
      modelkin compare ./candidate ./base --methods all
      modelkin compare demo:continued demo:base --format sarif
    """  # noqa: D301  click wants the character itself
    from modelkin import CompareOptions
    from modelkin import compare as compare_models
    from modelkin.document import check_folder, comparison_as, comparison_view

    if form is not None and (output.as_json or dry_run):
        raise Misused(say("problem.usage-format"))
    options = CompareOptions(depth=depth, seed=seed, fetch=fetch)
    with output.models((candidate, base, *controls), fetch) as opened:
        if dry_run:
            _show_plans(opened, options, output, methods)
            return
        asked = _asked(methods, methods_budget, prompts, seed)
        if out is not None:
            check_folder(out, (opened[0].location.origin, opened[1].location.origin))
        result = compare_models(
            candidate=opened[0], base=opened[1], options=options, controls=opened[2:], progress=output
        )
        if asked is not None:
            result = _with_references(result, opened, asked, output)
        if case_id is not None:
            result = _with_case(result, opened, case_id)
    output.written(
        result,
        lambda: comparison_view(result, output.language, detail=output.detail),
        out=out,
        write=lambda place: result.write(str(place), language=output.lang, figures=figures, progress=output),
        start="report.html",
        as_text=None if form is None else lambda: comparison_as(result, form),
    )
    _gate(result, [word for words in fail_on for word in words], output)


def _asked(methods: tuple[str, ...], budget: int, prompts: Path | None, seed: int) -> ReferenceOptions | None:
    """Return what is asked of published methods; a wrong name or file is refused before anything is read."""
    if not methods:
        return None
    from modelkin.reference import ReferenceOptions, chosen_references, read_prompts

    chosen_references(methods)
    given = () if prompts is None else read_prompts(prompts)
    return ReferenceOptions(methods=methods, byte_limit=budget, seed=seed, prompts=given)


def _with_references(
    result: Comparison, opened: list[Model], asked: ReferenceOptions, output: Output
) -> Comparison:
    from modelkin.reference import reference_scores, with_references

    mine, theirs, *controls = opened
    scores = reference_scores(mine, theirs, asked, controls=controls, progress=output)
    return with_references(result, scores)


def _with_case(result: Comparison, opened: list[Model], case_id: str) -> Comparison:
    from modelkin.comparison.case import with_case
    from modelkin.source.ref import without_secrets

    words = [without_secrets(word) if "://" in word else word for word in sys.argv[1:]]
    return with_case(result, candidate=opened[0], base=opened[1], id=case_id, command=("modelkin", *words))


def _gate(result: Comparison, words: list[str], output: Output) -> None:
    """Exit with a code if --fail-on is met; say so if a result passes only because nothing was tested."""
    related = result.verdict.related
    if any(related in FAIL_ON[word] or (word in ON_FLAG and result.strong_flags) for word in words):
        click.get_current_context().exit(FAILED)
    if words and related is None:
        say_beside(output.language.say("cli.passes_untested", words=",".join(words)))


def _show_plans(
    opened: list[Model], options: CompareOptions, output: Output, methods: tuple[str, ...]
) -> None:
    from modelkin.comparison import price_comparison
    from modelkin.document import price_view

    mine, theirs, *controls = opened
    price = price_comparison(mine, theirs, options=options, controls=controls)
    sides = ("candidate", "base")
    document = {
        "schema": "modelkin.comparison-plan/1",
        **dict(zip(sides, price.plans, strict=True)),
        "at_most": dict(zip(sides, price.at_most, strict=True)),
        "controls": [
            {"model": model.location.ref, "at_most": bound}
            for model, bound in zip(controls, price.controls, strict=True)
        ],
        "unpaired": dict(zip(sides, price.unpaired, strict=True)),
        "seconds": price.seconds,
    }
    if methods:
        from modelkin.document import size_text
        from modelkin.message import Message
        from modelkin.reference import reference_costs

        for name, cost in reference_costs(mine, theirs, methods, seed=options.seed).items():
            if isinstance(cost, Message):
                told = output.language.tell(cost)
            else:
                told = " + ".join(map(size_text, cost))
            output.say("published_method", name=name, cost=told)
    say = output.language.say
    words = [*(say(f"side.{side}") for side in sides), *(say("cost.control") for _ in controls)]
    names = [f"{word}: {model.location.ref}" for word, model in zip(words, opened, strict=True)]
    output.result(document, lambda: price_view(names, price, output.language))
