"""A candidate and its possible parents: the answer, weights, how well they fit, and the recipe."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import takewhile

from modelkin.document.blocks import (
    Block,
    Bullets,
    Card,
    Code,
    Facts,
    Heading,
    Paragraph,
    Section,
    Table,
    Text,
    Tone,
    table,
)
from modelkin.document.language import ENGLISH, Language
from modelkin.document.numbers import size_text
from modelkin.lineage import MergeResult
from modelkin.lineage.merge_result import GroupShare, MethodFit, MixtureShare
from modelkin.untrusted import short_names

_MOST_DIGITS = 8
"""Decimals of a share: weights stored as F32 have no more."""
_MOST_CELLS = 2_000
_LONG_NAME = 20
"""Letters of a name above a column of numbers: about as many as a number and its interval have."""
_TONES: dict[str, Tone] = {"merge": "shared", "single-parent": "shared", "not-a-merge": "none"}
"""Of conclusions; what was not determined or tested stays open."""


def merge_view(
    found: MergeResult, language: Language = ENGLISH, *, every_tensor: bool = False
) -> tuple[Block, ...]:
    """Return what is said about a merge as blocks; `every_tensor` adds the weights of each."""
    return tuple(_blocks(found, language, every_tensor=every_tensor))


def _blocks(found: MergeResult, language: Language, *, every_tensor: bool) -> Iterator[Block]:
    said = language.of("merge")
    yield Heading(said("question", candidate=found.candidate.ref), 1)
    headline = said(f"conclusion-{found.conclusion}")
    yield Card(
        headline=headline[:1].upper() + headline[1:],
        tone=_TONES.get(found.conclusion, "open"),
        summary=language.tell(found.summary),
    )
    if found.weights:
        # Where no merge was found these are numbers of a fit, and no shares that the candidate has.
        title = said("weights" if found.conclusion == "merge" else "weights_nearest")
        yield Section(title=title, blocks=(_weights(found, language),), key="weights")
    yield Section(title=said("fit"), blocks=(_fit(found, language),), key="fit")
    if found.methods:
        yield Section(
            title=said("methods"),
            blocks=(Paragraph(said("methods_note"), "note"), _methods(found.methods, language)),
            key="methods",
        )
    if found.groups:
        yield Section(
            title=said("by_module"),
            blocks=(_groups(found, found.groups, said("module"), language),),
            key="modules",
        )
    if found.layers:
        yield Section(
            title=said("by_layer"),
            blocks=(_groups(found, found.layers, said("layer"), language),),
            key="layers",
        )
    if any(layer != facing for layer, *others in found.layer_map for facing in others):
        yield Section(title=said("layer_map"), blocks=(_layer_map(found, language),), key="layer-map")
    recipe: Block = Code(found.recipe.rstrip()) if found.recipe else Paragraph(said("no_recipe"))
    yield Section(title=said("recipe"), blocks=(recipe,), key="recipe")
    if every_tensor and found.cells:
        yield Section(title=said("by_tensor"), blocks=(_cells(found, language),), key="tensors", closed=True)
    if found.warnings:
        yield Section(title=said("warnings"), blocks=(Bullets(tuple(map(language.tell, found.warnings))),))
    yield Section(
        title=said("limits"), blocks=(Bullets(tuple(map(language.tell, found.limitations))),), key="limits"
    )
    read = said(
        "read",
        fetched=size_text(found.read.bytes_fetched),
        requests=str(found.read.requests),
        depth=found.depth,
        seed=str(found.seed),
    )
    yield Paragraph(read, "note")


def _weights(found: MergeResult, language: Language) -> Table:
    rows = []
    for place, (name, share) in enumerate(zip(found.names, found.weights, strict=True)):
        is_base = found.base is not None and place == len(found.parents)
        label = f"{name} ({language.say('merge.base')})" if is_base else name
        rows.append((label, f"{share.value:.3f}", _interval(share), f"{found.collinearity[place]:.2f}"))
    titles = [language.say(f"merge.{key}") for key in ("model", "weight", "interval", "collinear")]
    return table(titles, rows, numeric=(1, 2, 3))


def _fit(found: MergeResult, language: Language) -> Facts:
    said = language.of("merge")
    rows: list[tuple[str, Text]] = [(said("conclusion"), said(f"conclusion-{found.conclusion}"))]
    if found.method is not None:
        rows.append((said("method"), language.say(f"message.merge-method-{found.method}")))
    if found.opposition is not None:
        text = f"{found.opposition.value:.3f} ({_interval(found.opposition)}); {said('opposition_note')}"
        rows.append((said("opposition"), text))
    if found.best_single is not None:
        rows.append((said("best_single"), found.best_single))
    if found.gain is not None:
        rows.append((said("gain"), f"{found.gain:.3f}"))
    if found.left is not None:
        rows.append((said("left"), f"{found.left:.2g}; {said('left_note')}"))
    if found.to_rounding is not None:
        rows.append((said("to_rounding"), f"{found.to_rounding:.0%}"))
    return Facts(rows=tuple(rows))


def _methods(methods: tuple[MethodFit, ...], language: Language) -> Table:
    rows = []
    for fit in methods:
        if fit.left is None:
            why = language.tell(fit.reason) if fit.reason is not None else "-"
            rows.append((fit.method, "-", language.say("merge.not_tried", why=why)))
        else:
            details = ", ".join(
                f"{language.say(f'merge.detail-{name}')} {value:.3g}" for name, value in fit.details
            )
            rows.append((fit.method, f"{fit.left:.2g}", details))
    titles = [language.say(f"merge.{key}") for key in ("method", "left", "details")]
    return table(titles, rows, numeric=(1,))


def _groups(found: MergeResult, groups: tuple[GroupShare, ...], title: str, language: Language) -> Table:
    rows = []
    for item in groups:
        name = str(item.layer) if item.layer is not None else language.word("component", item.group)
        rows.append(
            (name, *(_short(share) for share in item.weights), f"{item.left:.2g}", str(item.n_tensors))
        )
    titles = (title, *_columns(found), language.say("merge.left"), language.say("merge.tensors"))
    return table(titles, rows, numeric=range(1, len(titles)))


def _layer_map(found: MergeResult, language: Language) -> Table:
    rows = [tuple(map(str, row)) for row in found.layer_map]
    return table(
        (language.say("merge.candidate_layer"), *_columns(found)), rows, numeric=range(len(found.names) + 1)
    )


def _cells(found: MergeResult, language: Language) -> Table:
    rows = []
    for cell in found.cells[:_MOST_CELLS]:
        if cell.reason is not None:
            rows.append((cell.tensor, *("-" for _ in found.names), language.tell(cell.reason)))
        else:
            rows.append((cell.tensor, *(_short(share) for share in cell.weights), f"{cell.left:.2g}"))
    titles = (language.say("merge.tensor"), *_columns(found), language.say("merge.left"))
    return table(titles, rows, numeric=range(1, len(titles)))


def _columns(found: MergeResult) -> tuple[str, ...]:
    """Return names of models that fit above numbers; in full they stand next to their weights."""
    names = short_names(found.names)
    if max(map(len, names)) <= _LONG_NAME:
        return names
    alike = takewhile(lambda letters: len({*letters}) == 1, zip(*names, strict=False))
    common = re.sub(r"[^\W_]*$", "", "".join(letters[0] for letters in alike))
    return tuple(f"…{name[len(common) :]}" if len(common) > 1 else name for name in names)


def _short(share: MixtureShare) -> str:
    # To both sides as far as to the farther one: rounding may have moved a weight one way.
    half, digits = max(share.high - share.value, share.value - share.low), _digits(share)
    return f"{share.value:.{digits}f} ± {half:.{digits}f}"


def _interval(share: MixtureShare) -> str:
    digits = _digits(share)
    return f"{share.low:.{digits}f} … {share.high:.{digits}f}"


def _digits(share: MixtureShare) -> int:
    """Return how many decimals show the width of an interval: three, and more for narrow ones."""
    width = share.high - share.low
    return 3 if width <= 0 else min(_MOST_DIGITS, max(3, math.ceil(-math.log10(width)) + 1))
