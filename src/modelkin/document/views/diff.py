"""What changed between two models: the kind first, then where and how much."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Literal

from modelkin.comparison import ModelDiff
from modelkin.comparison.record import Relation
from modelkin.comparison.relation import RelationFinding, TensorChange, TensorCount
from modelkin.document.blocks import (
    Block,
    Bullets,
    Card,
    Fact,
    Heading,
    Named,
    Paragraph,
    Picture,
    Section,
    Strong,
    Text,
    table,
)
from modelkin.document.language import ENGLISH, Language
from modelkin.document.numbers import runs_text
from modelkin.tensors import DTYPES

from .words import labels, name_text, tone

_MOST_TENSORS = 40
_MOST_NUMBERS = 6
DiffDetail = Literal["brief", "verbose", "whole"]


def diff_view(
    result: ModelDiff, language: Language = ENGLISH, *, detail: DiffDetail = "whole", picture: str = ""
) -> tuple[Block, ...]:
    """Return what changed as blocks; `picture` is the file of the figure, if there is one."""
    return tuple(_blocks(result, language, detail, picture))


def kind_text(relation: Relation, language: Language) -> str:
    """Say what kind of relation it is."""
    unknown = relation.kind == "unknown"
    if relation.kind == "width-change" and relation.findings:
        numbers = relation.findings[0].numbers
        names = [name.removesuffix("_candidate") for name in numbers if name.endswith("_candidate")]
        return language.say(
            "text.kind_width", names=", ".join(language.word("width", name) for name in names)
        )
    return language.say("text.kind_unknown") if unknown else language.word("relation", relation.kind)


def finding_items(findings: Sequence[RelationFinding], language: Language, *, brief: bool) -> Iterator[Text]:
    """Yield each finding with what it cannot tell; the numbers follow if there is room."""
    for item in findings:
        what, cannot = language.tell(item.what), language.tell(item.cannot_tell)
        shown = [
            f"{name_text(name, language)} {_shown(name, value, language)}"
            for name, value in list(item.numbers.items())[:_MOST_NUMBERS]
        ]
        numbers = "" if brief or not shown else f" [{'; '.join(shown)}]"
        yield f"{what[:1].upper()}{what[1:]}.{numbers} {language.say('text.cannot_tell', what=cannot)}"


def _blocks(result: ModelDiff, language: Language, detail: DiffDetail, picture: str) -> Iterator[Block]:
    say, names = language.say, (result.candidate.ref, result.base.ref)
    question = say("title.diff", candidate=names[0], base=names[1])
    if detail == "whole":
        yield Heading(Named(question, names), 1)
    kind = kind_text(result.relation, language)
    yield Card(
        headline=kind[:1].upper() + kind[1:]
        if result.verdict.related
        else language.tell(result.verdict.headline),
        tone=tone(result.verdict.conclusion),
        summary=Named(language.tell(result.verdict.summary), names),
        facts=(
            Fact(name=say("side.candidate"), text=names[0]),
            Fact(name=say("side.base"), text=names[1]),
            Fact(name=say("label.relation"), text=kind),
        ),
    )
    if result.relation.findings:
        items = tuple(finding_items(result.relation.findings, language, brief=detail == "brief"))
        yield Section(title=say("title.findings"), key="findings", blocks=(Bullets(items),))
    if result.notes:
        yield Bullets(tuple(language.tell(note) for note in result.notes))
    if result.tensors:
        blocks: list[Block] = [_by_component(result.tensors, language)]
        if picture:
            blocks.append(Picture(picture, say("text.about_change_map")))
        blocks.append(Paragraph(say("text.about_steps"), "note"))
        yield Section(title=say("title.changed_parts"), key="parts", blocks=tuple(blocks))
        if detail != "brief":
            most = len(result.tensors) if detail == "whole" else _MOST_TENSORS
            yield Section(
                title=say("title.changed_tensors"),
                key="tensors",
                closed=True,
                blocks=(_by_tensor(result.tensors[:most], language),),
            )
    if result.counts:
        yield Section(
            title=say("title.every_value"), key="counts", blocks=(_counts(result.counts, language),)
        )
    limits = tuple(language.tell(text) for text in result.verdict.limitations)
    if detail == "whole" and limits:
        yield Section(title=say("title.limits"), key="limits", blocks=(Bullets(limits),))


def _by_component(tensors: Sequence[TensorChange], language: Language) -> Block:
    """Sum up tensors by component and what became of them."""
    groups: dict[tuple[str, str], list[TensorChange]] = {}
    for item in tensors:
        groups.setdefault((item.component, item.what), []).append(item)
    rows = [
        (
            language.word("component", component),
            Strong(language.word("change", what)),
            str(len(items)),
            runs_text(sorted({item.layer for item in items if item.layer is not None})) or "-",
            f"{statistics.median(item.relative_change for item in items):.2%}",
            _in_steps(items),
            f"{statistics.median(1 - item.share_equal for item in items):.1%}",
            _reach([item.rank for item in items if item.rank is not None]),
        )
        for (component, what), items in groups.items()
    ]
    titles = ("component", "changed", "tensors", "layers", "change", "in_steps", "share_changed", "rank")
    return table(labels(language, *titles), rows, numeric=(2, 4, 5, 6, 7))


def _in_steps(items: Sequence[TensorChange]) -> str:
    """Tell how many steps numbers moved; how far apart codes are, their format alone does not say."""
    plain = [item.change_in_steps for item in items if {item.dtype, item.base_dtype} <= DTYPES.keys()]
    return f"{statistics.median(plain):.2f}" if plain else "-"


def _by_tensor(tensors: Sequence[TensorChange], language: Language) -> Block:
    rows = [
        (
            item.tensor,
            language.word("change", item.what),
            f"{item.relative_change:.2%}",
            _in_steps([item]),
            f"{1 - item.share_equal:.1%}",
            "-" if item.rank is None else str(item.rank),
            "-" if item.over_chance is None else f"{item.over_chance:.2f}",
            "-" if item.bits is None else str(item.bits),
            f"{item.zeros:.1%}",
        )
        for item in tensors
    ]
    titles = (
        *("tensor", "changed", "change", "in_steps", "share_changed"),
        *("rank", "over_chance", "bits", "zeros"),
    )
    return table(labels(language, *titles), rows, numeric=(2, 3, 4, 5, 6, 7, 8))


def _counts(counts: Sequence[TensorCount], language: Language) -> Block:
    groups: dict[str, list[TensorCount]] = {}
    for item in counts:
        groups.setdefault(item.component, []).append(item)
    rows = []
    for component, items in groups.items():
        values, equal = sum(item.values for item in items), sum(item.equal for item in items)
        near = [item for item in items if item.within_1_ulp is not None]
        close = sum(item.within_1_ulp or 0 for item in near), sum(item.values for item in near)
        changes = [item.relative_change for item in items if item.relative_change is not None]
        rows.append(
            (
                language.word("component", component),
                str(len(items)),
                f"{values:,}",
                f"{equal / values:.2%}" if values else "-",
                f"{close[0] / close[1]:.2%}" if close[1] else "-",
                _range(changes),
            )
        )
    titles = ("component", "tensors", "values_read", "share_equal", "within_step", "change")
    return table(labels(language, *titles), rows, numeric=(1, 2, 3, 4, 5))


def _range(changes: Sequence[float]) -> str:
    """Tell the least and the largest change: of many tensors, few that changed would not show in a median."""
    told = [f"{change:.2%}" for change in (min(changes), max(changes))] if changes else ["-"]
    return "-".join(dict.fromkeys(told))


def _reach(ranks: Sequence[int]) -> str:
    if not ranks:
        return "-"
    return str(ranks[0]) if len({*ranks}) == 1 else f"{min(ranks)}-{max(ranks)}"


def _shown(name: str, value: float | int | str, language: Language) -> str:
    if name == "components":
        return ", ".join(language.word("component", part) for part in str(value).split(", "))
    if name == "side":
        return language.word("side", str(value))
    return f"{value:.3g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
