"""Which parts of two models face each other, as rows of texts: layers, coordinates, units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from modelkin.comparison import Comparison
from modelkin.comparison.methods import Agreement, Tested
from modelkin.comparison.verdict import ComponentVerdict

from ._rows import map_place
from .language import ENGLISH, Language
from .numbers import runs_text, value_text

FRAME_COLUMNS = ("kind", "learned_from", "n_rows", "fit", "chance")


def was_looked_for(result: Comparison) -> bool:
    """Say whether parts that face each other were looked for, instead of taken by number."""
    return bool(result.alignment.maps or result.alignment.frames)


def frame_rows(result: Comparison, language: Language = ENGLISH) -> list[tuple[str, ...]]:
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


def layer_rows(result: Comparison, language: Language = ENGLISH) -> list[tuple[str, str, str]]:
    """Return the layers that face each other and the strongest effects there, runs of layers in one row.

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


def reordered_lines(result: Comparison, language: Language = ENGLISH) -> Iterator[str]:
    """Yield the components whose units were found in another order, with the layers."""
    layers: dict[str, set[int]] = {}
    for test in result.evidence:
        found = result.verdict.components.get(test.component)
        if isinstance(test, Tested) and test.reordered and found is not None and found.conclusion.related:
            layers.setdefault(test.component, set()).update(test.layers)
    for component, numbers in layers.items():
        yield language.say(
            "text.reordered_in",
            component=language.word("component", component),
            layers=runs_text(sorted(numbers)),
        )


def silent_maps(result: Comparison, language: Language = ENGLISH) -> Iterator[str]:
    """Yield the maps of layers in which nothing stands out, where nothing was found elsewhere either."""
    for item in result.alignment.maps if not result.verdict.related else ():
        if not item.path and item.method != "residual-writers":
            yield language.say(
                "text.no_pair",
                component=language.word("component", item.component),
                place=map_place(item, language),
                number=value_text(item.n_cells),
            )


def ranked_among(result: Comparison, name: str | None = None) -> int | None:
    """Return among how many control pairs a component, or the verdict, was ranked; None where p is exact."""
    components = result.verdict.components
    # The p-value of a verdict is that of an exact test if there is one beside the rank.
    wanted = [key for key, item in components.items() if item.log10_p == result.verdict.log10_p]
    ranked = [key for key in (wanted if name is None else [name]) if _is_ranked(components.get(key))]
    numbers = [
        test.rank.control_pairs
        for test in result.evidence
        if test.component in ranked and isinstance(test, Agreement) and test.rank
    ]
    return max(numbers, default=0) if ranked else None


def ranked_text(result: Comparison, language: Language = ENGLISH, name: str | None = None) -> str | None:
    """Say that a p-value is a rank among controls; None where it is exact."""
    number = ranked_among(result, name)
    return None if number is None else language.say("text.ranked", number=value_text(number))


def about_controls(result: Comparison, language: Language = ENGLISH) -> str:
    """Say what controls are for: to show what chance looks like, or also to rank a part of the verdict."""
    ranked = any(item.calibrated for item in result.verdict.components.values())
    return language.say("text.about_ranked_controls" if ranked else "text.about_controls")


def _is_ranked(item: ComponentVerdict | None) -> bool:
    return item is not None and item.calibrated


def _span(effects: Sequence[float], language: Language) -> str:
    if not effects:
        return "-"
    low, high = f"{min(effects):.3f}", f"{max(effects):.3f}"
    return low if low == high else language.say("text.span", low=low, high=high)
