"""Which parts of two models face each other: layers, coordinates, units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from modelkin.comparison import Comparison
from modelkin.comparison.alignment import LayerMap
from modelkin.comparison.methods import Tested
from modelkin.document.blocks import (
    Block,
    Bullets,
    Facts,
    HeatMaps,
    Marked,
    Paragraph,
    Runs,
    Section,
    Table,
    table,
)
from modelkin.document.language import Language
from modelkin.document.numbers import runs_text, value_text

from .diff import finding_items, kind_text
from .grids import grids
from .words import undone

_FRAME_COLUMNS = ("kind", "learned_from", "n_rows", "fit", "chance")


def relation_text(result: Comparison, language: Language) -> str:
    """Say what kind of relation it is and which came first, as far as known."""
    relation = result.relation
    kind = kind_text(relation, language)
    parent = relation.direction.parent
    known = language.say("text.parent", parent=parent) if parent else language.say("text.parent_unknown")
    return f"{kind}; {known}"


def relation_section(result: Comparison, language: Language) -> Section:
    """Show what kind of relation it is, what faces what, and how certain that is."""
    alignment, say = result.alignment, language.say
    reasons = (language.tell(reason) for reason in result.relation.direction.reasons)
    sentences = (relation_text(result, language), *reasons)
    paired = (("residual_paired", alignment.residual), ("units_paired", alignment.units))
    blocks: list[Block] = [
        Paragraph(" ".join(f"{text[:1].upper()}{text[1:]}." for text in sentences), "lead"),
        *finding_blocks(result, language, brief=False),
        *grids(result.relation.details, language),
        Facts(
            columns=(say("label.what"), say("label.value")),
            rows=tuple((say(f"label.{key}"), language.word("pairing", how)) for key, how in paired),
        ),
        *alignment_sections(result, language),
    ]
    if alignment.maps:
        blocks.append(_maps(result, language))
    return Section(title=say("title.relation"), key="relation", blocks=tuple(blocks))


def finding_blocks(result: Comparison, language: Language, *, brief: bool) -> Iterator[Block]:
    """Show what was found about the change, each with what it cannot tell."""
    if result.relation.findings:
        yield Bullets(tuple(finding_items(result.relation.findings, language, brief=brief)))
    if result.relation.not_subtracted is not None:
        yield Paragraph(language.tell(result.relation.not_subtracted), "note")


def alignment_sections(result: Comparison, language: Language, *, brief: bool = False) -> Iterator[Section]:
    """Show what faces what, if that was searched for instead of taken by number."""
    say = language.say
    if not (result.alignment.maps or result.alignment.frames):
        return
    blocks: list[Block] = []
    if layers := layer_rows(result, language):
        titles = [say(f"label.{key}") for key in ("candidate_layers", "base_layers", "effect")]
        rows = ((Runs(mine), Runs(theirs), effect) for mine, theirs, effect in layers)
        blocks.append(table(titles, rows, numeric=(2,)))
        blocks += [] if brief else [Paragraph(Marked(say("text.about_alignment")), "note")]
    found = [*reordered_lines(result, language), *silent_maps(result, language)]
    if brief and result.verdict.related:
        paired = (("residual_paired", result.alignment.residual), ("units_paired", result.alignment.units))
        found[:0] = [f"{say(f'label.{key}')}: {language.word('pairing', how)}" for key, how in paired]
    blocks += [Bullets(tuple(found))] if found else []
    if blocks:  # layers may have been searched for and none found
        yield Section(title=say("title.alignment"), blocks=tuple(blocks))
    if result.alignment.frames:
        titles = [language.word("detail", key) for key in _FRAME_COLUMNS]
        frames = table(titles, frame_rows(result, language), numeric=(2, 3, 4))
        note = Paragraph(Marked(say("text.about_frames")), "note")
        yield Section(title=say("title.frames"), blocks=(frames, note))


def frame_rows(result: Comparison, language: Language) -> list[tuple[str, ...]]:
    """Return the coordinates that were tried: kind, learned from, rows, fit, chance."""
    return [
        (
            language.word("frame", frame.kind),
            language.tell(frame.learned_from),
            value_text(frame.n_rows),
            f"{frame.fit:.3f}",
            f"{frame.chance:.3f}",
        )
        for frame in result.alignment.frames
    ]


def layer_rows(result: Comparison, language: Language) -> list[tuple[str, str, str]]:
    """Return the layers that face each other and the strongest effects there, with runs of layers in one row.

    Empty for unrelated models: there the pairing says nothing.
    """
    if not result.verdict.related:
        return []
    runs: list[list[tuple[int, int, float | None]]] = []
    for layer, facing, effect in result.alignment.layers:
        follows = runs and (runs[-1][-1][0] + 1, runs[-1][-1][1] + 1) == (layer, facing)
        if follows and (runs[-1][-1][2] is None) == (effect is None):
            runs[-1].append((layer, facing, effect))
        else:
            runs.append([(layer, facing, effect)])
    return [
        (
            runs_text(layer for layer, _, _ in run),
            runs_text(facing for _, facing, _ in run),
            _span([effect for _, _, effect in run if effect is not None], language),
        )
        for run in runs
    ]


def _span(effects: Sequence[float], language: Language) -> str:
    if not effects:
        return "-"
    low, high = f"{min(effects):.3f}", f"{max(effects):.3f}"
    return low if low == high else language.say("text.span", low=low, high=high)


def reordered_lines(result: Comparison, language: Language) -> Iterator[str]:
    """Yield the components whose units were found in another order, with the layers."""
    layers: dict[str, set[int]] = {}
    for test in result.evidence:
        found = result.verdict.components.get(test.component)
        shared = found is not None and found.conclusion.related
        if shared and isinstance(test, Tested) and test.reordered:
            layers.setdefault(test.component, set()).update(test.layers)
    for component, numbers in layers.items():
        yield language.say(
            "text.reordered_in",
            component=language.word("component", component),
            layers=runs_text(sorted(numbers)),
        )


def silent_maps(result: Comparison, language: Language) -> Iterator[str]:
    """Yield the maps of layers in which nothing stands out, if nothing was found elsewhere either."""
    for item in result.alignment.maps if not result.verdict.related else ():
        if not item.path and item.method != "residual-writers":
            yield language.say(
                "text.no_pair",
                component=language.word("component", item.component),
                place=map_place(item, language),
                number=value_text(item.n_cells),
            )


# -- maps of layers ------------------------------------------------------------------------------------


def _maps(result: Comparison, language: Language) -> HeatMaps:
    """Show how certain it is that layers face each other, for each map in which some stand out."""
    sections = [
        Section(
            title=f"{language.say('title.maps')}: {language.word('component', item.component)} "
            f"({map_place(item, language)})",
            blocks=(path_table(item, language),),
        )
        for item in result.alignment.maps
        if item.path
    ]
    return HeatMaps(result, tuple(sections))


def map_place(item: LayerMap, language: Language) -> str:
    """Say by which method, in which coordinates and against which threshold a map was made."""
    parts = [item.method]
    coordinates = undone(item.frame)
    if coordinates:
        parts.append(language.say("text.frame", frame=language.word("frame", coordinates)))
    parts.append(f"{language.say('label.threshold')}: z {item.threshold:.2f}")
    return "; ".join(parts)


def path_table(item: LayerMap, language: Language) -> Table:
    """List the pairs of layers that stand out in a map."""
    scores = dict(zip(item.candidate_layers, item.scores, strict=True))
    column = {layer: number for number, layer in enumerate(item.base_layers)}
    rows = []
    for mine, theirs in item.path:
        score = scores[mine][column[theirs]] if mine in scores and theirs in column else None
        rows.append((str(mine), str(theirs), f"{score:.1f}" if score is not None else "-"))
    titles = (language.say("label.candidate_layer"), language.say("label.base_layer"), "z")
    return table(titles, rows, numeric=(0, 1, 2))
