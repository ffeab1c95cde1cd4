"""What a verdict says to a person, and what it does not say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from modelkin.message import Message, joined, say

from .pattern import BODY
from .result import ComponentVerdict, Conclusion, Reading, Verdict

EXPLAINED: frozenset[Reading | None] = frozenset(
    {
        *("routers-only", "norm-gains-only", "norm-gains-alone"),
        *("token-tables-only", "tables-so-far"),
        "tables-reordered",
        *("coordinates-only", "coordinates-and-heads", "coordinates-so-far"),
        *("units-found-again", "layers-found-again", "single-layer", "zeros-alone", "beginning-alone"),
    }
)
"""Readings whose summary says what they commonly mean."""
NEVER = 1.0
"""The effect of equal weights: from this detection limit on, no effect is found reliably."""
GUESSED = say("limitation.guessed")
"""For comparisons with a model whose tensor names say nothing."""
FOUND_AGAIN: frozenset[Reading | None] = frozenset({"units-found-again", "layers-found-again"})
"""Readings of units that were copied or learned, and equal numbers tell which."""


def limitations(
    conclusion: Conclusion,
    *,
    stage: str,
    ranked: bool,
    contrasted: bool = False,
    units_in_part: bool = False,
    in_part: bool = False,
    matched: bool = False,
) -> tuple[Message, ...]:
    """Say what a verdict does not say.

    Only the deep stage undoes disguises. `ranked` verdicts rest in part on controls, `contrasted` ones on
    mismatched layers of the same two models. With `units_in_part`, layers were too large to be read whole
    although units must teach coordinates. A changed form that is found `in_part` leaves the rest open. Units
    that were only `matched` may have been learned.
    """
    related = _limitations("ancestor", "seed", "frozen", "wrongdoing", "sampled")
    deep = stage == "deep"
    at_deep = ("retrained", "few_layers", *(("renumbered",) if units_in_part else ()))
    hidden = at_deep if deep else ("not_undone",)
    changed_in_part = in_part and conclusion is Conclusion.SHARED_REPARAMETRISED
    match conclusion:
        case Conclusion.IDENTICAL:
            return _limitations("ancestor", "wrongdoing")
        case Conclusion.NO_EVIDENCE:
            return _limitations("distillation", *hidden, "sampled")
        case Conclusion.NOT_TESTABLE:
            return _limitations("nothing") if deep else _limitations("nothing", "other_shapes")
        case Conclusion.SHARED_PARTIAL:  # what shows nothing may be in disguise
            return (*related, *_limitations(*hidden))
        case _:
            rests_on = (
                *(("own_layers",) if contrasted else ()),
                *(("ranked",) if ranked else ()),
                *(("learned",) if matched else ()),
            )
            return (*_limitations(*rests_on), *related, *(_limitations(*hidden) if changed_in_part else ()))


def _limitations(*names: str) -> tuple[Message, ...]:
    return tuple(say(f"limitation.{name}") for name in names)


def resting_on_samples(verdict: Verdict, *, alone: tuple[Sequence[str], Sequence[str]]) -> Verdict:
    """Say what rests on samples although every value that has a counterpart was compared.

    `alone` are the tensors of candidate and base that have none.
    """
    n, m = map(len, alone)
    said = say("limitation.counted_shared", n=n, m=m) if n or m else say("limitation.counted")
    limits = [said if one.code == "limitation.sampled" else one for one in verdict.limitations]
    return replace(verdict, limitations=tuple(limits))


def is_part(components: Mapping[str, ComponentVerdict]) -> bool:
    """Say whether what is shared is a part: a component or layer shows nothing, or it is no layer at all."""
    found = {name: item for name, item in components.items() if item.conclusion.related}
    silent = any(item.conclusion is Conclusion.NO_EVIDENCE for item in components.values())
    return silent or not found.keys() & BODY or any(item.other_layers for item in found.values())


def headline(
    conclusion: Conclusion,
    reading: Reading | None,
    components: Mapping[str, ComponentVerdict],
    *,
    share: float | None,
    ranked: bool = False,
    contrasted: bool = False,
    same_numbers: bool = False,
) -> Message:
    """State the verdict in a few words; for a part, also how much of the model it is."""
    form = "ranked" if ranked else "own-layers" if contrasted else "reparametrised"
    amount = say("headline.amount-unknown") if share is None else _amount(share)
    parts = tuple(_short_part(name, item) for name, item in components.items() if item.conclusion.related)
    if conclusion is Conclusion.SHARED_REPARAMETRISED and is_part(components) and reading is None:
        return say(f"headline.part-{form}", parts=parts, amount=amount)
    if same_numbers:
        return say("headline.same-numbers")
    if conclusion is Conclusion.SHARED_REPARAMETRISED and reading is None:
        return say(f"headline.shared-{form}")
    if reading is not None and conclusion.related:
        return say(f"headline.{_marked(reading, form)}", amount=amount, parts=parts)
    if conclusion is not Conclusion.SHARED_PARTIAL:
        return say(f"headline.{reading or conclusion.value}")
    partial = [item for item in components.values() if item.conclusion is Conclusion.SHARED_PARTIAL]
    silent = any(item.conclusion is Conclusion.NO_EVIDENCE for item in components.values())
    if partial and not silent and all(item.unfaced_base_layers for item in partial):
        return say("headline.base-has-more", amount=amount)
    return say("headline.shared-partial", parts=parts, amount=amount)


def _marked(reading: Reading | None, form: str) -> str:
    """Name the text of a reading: units found in other coordinates come with what that rests on."""
    marked = reading == "layers-found-again" and form != "reparametrised"
    return f"{reading}-{form}" if marked else str(reading)


def _short_part(name: str, item: ComponentVerdict) -> Message:
    """Name a component and its layer, or how many of its layers: a headline has no room for more."""
    part = say(f"component.{name}")
    if not item.other_layers:
        return part
    if len(item.layers) == 1:
        return say("headline.one-layer", part=part, layers=item.layers)
    n_tested = len(item.layers) + len(item.other_layers)
    return say("headline.some-layers", part=part, n=len(item.layers), m=n_tested)


def _amount(share: float) -> Message:
    """State a share in percent, rounded down: an incomplete share never reads as all of it."""
    percent = 100 * share
    digits = 2 - math.floor(math.log10(percent)) if percent > 0 else 0
    return say("headline.amount", percent=math.floor(percent * 10.0**digits) / 10.0**digits)


def summary(
    conclusion: Conclusion,
    components: Mapping[str, ComponentVerdict],
    identity: Message | None,
    *,
    candidate: str,
    base: str,
    limits: Mapping[str, float],
    stage: str,
    ranked: bool = False,
    contrasted: bool = False,
    reading: Reading | None = None,
    same_numbers: Mapping[str, Sequence[int]] = MappingProxyType({}),
    agreed: Message | None = None,
) -> Message:
    """State the verdict in one sentence; if nothing was testable, also what would make it so.

    A pattern that has a reading is followed by what it commonly means.

    `ranked` is one that rests only on controls, `contrasted` one that rests on mismatched layers of the same
    two models; `same_numbers` are components whose units hold exactly the same numbers in another order,
    with their layers if these are not all. `agreed` takes the place of detection limits where there are none.
    """
    said = _verdict(
        conclusion,
        components,
        identity,
        pair=say("summary.pair", candidate=candidate, base=base),
        limits=limits,
        stage=stage,
        ranked=ranked,
        contrasted=contrasted,
        reading=reading,
        same_numbers=same_numbers,
        agreed=agreed,
    )
    return say("sentences", said=(said, say(f"reading.{reading}"))) if reading in EXPLAINED else said


def _verdict(
    conclusion: Conclusion,
    components: Mapping[str, ComponentVerdict],
    identity: Message | None,
    *,
    pair: Message,
    limits: Mapping[str, float],
    stage: str,
    ranked: bool,
    contrasted: bool,
    reading: Reading | None,
    same_numbers: Mapping[str, Sequence[int]],
    agreed: Message | None,
) -> Message:
    shared = [
        name
        for name, item in components.items()
        if item.conclusion not in (Conclusion.NO_EVIDENCE, Conclusion.NOT_TESTABLE)
    ]
    rest = [name for name, item in components.items() if item.conclusion is Conclusion.NO_EVIDENCE]
    if reading == "single-layer":
        layer = tuple(_part(name, components[name]) for name in shared)
        return _with_rest(say("summary.single-layer", pair=pair, parts=layer), components)
    match conclusion:
        case Conclusion.IDENTICAL:
            return say("summary.identical", pair=pair, reason=identity)
        case Conclusion.SHARED:
            return say("summary.shared", pair=pair, parts=_named(shared))
        case Conclusion.SHARED_PARTIAL:
            parts = tuple(_part(name, components[name]) for name in shared)
            if reading == "norm-gains-alone":
                return say("summary.norm-gains-alone", pair=pair)
            if not rest:
                return say("summary.shared-partial-layers", pair=pair, parts=parts)
            code = f"summary.{reading}" if reading in EXPLAINED else "summary.shared-partial"
            return say(code, pair=pair, parts=parts, rest=_named(rest))
        case Conclusion.SHARED_REPARAMETRISED:
            if same_numbers:
                return _in_another_order(pair, components, same_numbers)
            form = "ranked" if ranked else "own-layers" if contrasted else "reparametrised"
            return _in_changed_form(pair, components, shared, rest, form=form, reading=reading)
        case Conclusion.NO_EVIDENCE:
            blind = [name for name, item in components.items() if item.reason and item.reason.code == "blind"]
            return _no_evidence(pair, limits, blind, agreed)
        case Conclusion.NOT_TESTABLE:
            reasons = dict.fromkeys(item.reason for item in components.values() if item.reason)
            told = [reason for reason in reasons if reason][:3]
            said = say("summary.not-testable", pair=pair, reason=joined(told or [say("no-method")]))
            return say("sentences", said=(said, _remedy(told, stage=stage)))


def _in_changed_form(
    pair: Message,
    components: Mapping[str, ComponentVerdict],
    shared: Sequence[str],
    rest: Sequence[str],
    *,
    form: str,
    reading: Reading | None,
) -> Message:
    """Say which parts are shared in a changed form, and what that rests on."""
    parts = tuple(_part(name, components[name]) for name in shared)
    if reading in FOUND_AGAIN:
        again = say(f"summary.{_marked(reading, form)}", pair=pair, parts=parts)
        return _with_rest(again, components)
    if reading is not None:
        return say(f"summary.{reading}", pair=pair, parts=parts, rest=_named(rest))
    return _with_rest(say(f"summary.shared-{form}", pair=pair, parts=parts), components)


def _named(names: Iterable[str]) -> tuple[Message, ...]:
    return tuple(say(f"component.{name}") for name in names) or (say("summary.everything"),)


def retold_by_equality(
    verdict: Verdict,
    same_numbers: Mapping[str, Sequence[int]],
    *,
    everything: bool,
    candidate: str,
    base: str,
) -> Verdict:
    """Say of a verdict on a changed form that some components hold the same numbers in another order.

    Each comes with the layers that were compared, if these are not all. `everything`: so does all else, and
    every layer was compared. Only words change, and not those of a reading which says it too. That units may
    have been learned is not said any more: nobody learns equal numbers.
    """
    untold = verdict.reading is None or verdict.reading in FOUND_AGAIN
    if not same_numbers or not untold or verdict.conclusion is not Conclusion.SHARED_REPARAMETRISED:
        return verdict
    verdict = _never_learned(verdict)
    if verdict.reading in FOUND_AGAIN:
        verdict = _without_reading(verdict)
    pair = say("summary.pair", candidate=candidate, base=base)
    return replace(
        verdict,
        headline=say("headline.same-numbers") if everything else verdict.headline,
        summary=_in_another_order(pair, verdict.components, same_numbers, whole=everything),
    )


def retold_by_difference(verdict: Verdict, *, candidate: str, base: str) -> Verdict:
    """Say of units found again that they were copied: nothing differs once other coordinates are undone.

    What learns from hidden states comes near, and never within rounding.
    """
    verdict = _never_learned(verdict)
    if verdict.reading not in FOUND_AGAIN:
        return verdict
    ranked, contrasted = verdict.basis == "rank", verdict.basis == "own-layers"
    form = "ranked" if ranked else "own-layers" if contrasted else "reparametrised"
    found = {name: item.conclusion for name, item in verdict.components.items()}
    told = _in_changed_form(
        say("summary.pair", candidate=candidate, base=base),
        verdict.components,
        [name for name, conclusion in found.items() if conclusion.related],
        [name for name, conclusion in found.items() if conclusion is Conclusion.NO_EVIDENCE],
        form=form,
        reading=None,
    )
    return replace(_without_reading(verdict), summary=told)


def _never_learned(verdict: Verdict) -> Verdict:
    """Leave out that units may have been learned: nobody learns equal numbers."""
    left = tuple(item for item in verdict.limitations if item != say("limitation.learned"))
    return replace(verdict, limitations=left)


def _without_reading(verdict: Verdict) -> Verdict:
    """Say in the headline what was found, and not what it may mean."""
    told = headline(
        verdict.conclusion,
        None,
        verdict.components,
        share=verdict.shared_parameters,
        ranked=verdict.basis == "rank",
        contrasted=verdict.basis == "own-layers",
    )
    return replace(verdict, reading=None, headline=told)


def _in_another_order(
    pair: Message,
    components: Mapping[str, ComponentVerdict],
    same_numbers: Mapping[str, Sequence[int]],
    *,
    whole: bool = False,
) -> Message:
    """Say which components hold the same numbers, and apart from these, which are shared or not.

    `whole`: everything does, also where tests found nothing.
    """
    parts = tuple(
        _layers_of(say(f"component.{name}"), tuple(same_numbers[name])) for name in sorted(same_numbers)
    )
    form = "part" if is_part(components) and not whole else "shared"
    said = say(f"summary.{form}-same-numbers", pair=pair, parts=parts)
    wholly = {name for name, layers in same_numbers.items() if not layers}
    if form == "shared":
        wholly.add("residual")  # what layers write was compared with the layers
    others = {name: item for name, item in components.items() if name not in wholly}
    shared = [
        _part(name, item)
        for name, item in others.items()
        if item.conclusion.related and name not in same_numbers
    ]
    also = (say("summary.rest-shared", rest=tuple(shared)),) if shared else ()
    return _with_rest(said, others, also)


def _with_rest(
    said: Message, components: Mapping[str, ComponentVerdict], also: tuple[Message, ...] = ()
) -> Message:
    """Add, of components and layers without a finding, whether they show nothing or were tested elsewhere."""
    silent = [
        _silent_part(name, item)
        for name, item in components.items()
        if item.conclusion is Conclusion.NO_EVIDENCE or item.other_layers
    ]
    elsewhere = [
        name
        for name, item in components.items()
        if item.conclusion is Conclusion.NOT_TESTABLE and item.log10_p is not None
    ]
    rest = [*also, *([say("summary.rest-silent", rest=tuple(silent))] if silent else [])]
    rest += [say("summary.rest-elsewhere", rest=_named(elsewhere))] if elsewhere else []
    return say("sentences", said=(said, *rest)) if rest else said


def _layers_of(part: Message, layers: tuple[int, ...]) -> Message:
    """Name a component and some of its tested layers, or the component alone if no layers are given."""
    if not layers:
        return part
    if len(layers) == 1:
        return say("summary.one_layer", part=part, layers=layers)
    return say("summary.some_layers", part=part, layers=layers)


def _silent_part(name: str, item: ComponentVerdict) -> Message:
    """Name a component without evidence, or the layers of it that have none."""
    part = say(f"component.{name}")
    if not item.other_layers:
        return part
    if len(item.other_layers) == 1:
        return say("summary.other_layer", part=part, layers=item.other_layers)
    return say("summary.other_layers", part=part, layers=item.other_layers)


def _part(name: str, item: ComponentVerdict) -> Message:
    """Name a component, and the layers of it that are shared if others are not."""
    part = say(f"component.{name}")
    if item.unfaced_base_layers:
        return say("summary.base_has_more", part=part, layers=item.unfaced_base_layers)
    return _layers_of(part, item.layers if item.other_layers else ())


_REMEDIES = {
    "tokenizer-missing": "remedy-tokenizer",
    "unknown-architecture": "remedy-architecture",
    "guessed-equal-table": "remedy-architecture",
}
"""Why nothing was testable -> what would make it so, at the deepest stage."""


def _remedy(reasons: Iterable[Message], *, stage: str) -> Message:
    """Say what would make a pair testable: a deeper look if there is one, else what is missing."""
    if stage != "deep":
        return say("summary.remedy-deep")
    codes = [part.code for reason in reasons for part in _parts(reason)]
    return say(f"summary.{next((_REMEDIES[code] for code in codes if code in _REMEDIES), 'remedy-none')}")


def _parts(reason: Message) -> list[Message]:
    """Return joined reasons one by one."""
    if reason.code != "joined":
        return [reason]
    parts = reason["parts"]
    return [part for part in parts if isinstance(part, Message)] if isinstance(parts, tuple) else []


def at_most_agreed(pair: Message, limit: float, needed: float) -> Message:
    """Say of strangers how many units of facing layers agree at most, and how many a finding takes."""
    return say("summary.no-evidence-contrast", pair=pair, limit=rounded_up(100 * limit), needed=100 * needed)


def _no_evidence(
    pair: Message, limits: Mapping[str, float], blind: Sequence[str], agreed: Message | None
) -> Message:
    """Say what would have been found, for the most and the least sensitive component, and where nothing.

    This applies to weights in their places: a disguise hides more.
    """
    never = sorted({*blind, *(name for name in limits if limits[name] >= NEVER)})
    possible = {name: limit for name, limit in limits.items() if name not in never}
    said = agreed if agreed is not None and not possible else _found_from(pair, possible)
    return say("sentences", said=(said, say("summary.never", parts=_named(never)))) if never else said


def _found_from(pair: Message, limits: Mapping[str, float]) -> Message:
    if not limits:
        return say("summary.no-evidence-none", pair=pair)
    ordered = sorted(limits, key=lambda name: limits[name])
    part, limit = say(f"component.{ordered[0]}"), rounded_up(limits[ordered[0]])
    if len(ordered) == 1:
        return say("summary.no-evidence-one", pair=pair, part=part, limit=limit)
    return say(
        "summary.no-evidence",
        pair=pair,
        part=part,
        limit=limit,
        other_part=say(f"component.{ordered[-1]}"),
        other_limit=rounded_up(limits[ordered[-1]]),
    )


def rounded_up(limit: float) -> float:
    """Return a detection limit with two digits, never smaller than it is but for rounding of floats."""
    if limit < 1e-300:  # smaller ones have more digits than a float
        return limit
    digits = 1 - math.floor(math.log10(limit))
    return math.ceil(limit * 10.0**digits - 1e-9) / 10.0**digits
