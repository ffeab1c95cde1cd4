"""Controls: what the same tests say about unrelated models, and where the tested pair ranks among them.

Agreement of units has no null of its own: it is a rank among pairs that include an unrelated model. So many
pairs are measured, and `Memory` makes sure that none is judged twice: what is said about a control and what a
rank needs from it come from the same judgement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from math import fsum
from pathlib import Path

from modelkin.architecture import Architecture, Role
from modelkin.comparison.deep import agreements, contrasts
from modelkin.comparison.identity import published_digests
from modelkin.comparison.methods import Agreement, Contrast, Evidence, Rank
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.record import ControlResult
from modelkin.comparison.strangers import ContrastScores, scores_by_part
from modelkin.comparison.tokens import Tokens, pair_tokens
from modelkin.comparison.verdict import Verdict, load_rule
from modelkin.message import Message, joined, say
from modelkin.model import Model, open_model
from modelkin.options import FetchOptions
from modelkin.stats import log10_conformal

LEAST_AGREEMENT = 0.05
"""Below this there is nothing to calibrate: strangers agree this much."""


@dataclass(slots=True)
class Memory:
    """What was found for pairs of models within one run: none is judged twice.

    Verdicts and agreements are small and kept; maps of the residual stream are not.
    """

    judge: Callable[[ModelPair, Memory], tuple[Verdict, Sequence[Evidence]]]
    _verdicts: dict[ModelPair, Verdict] = field(default_factory=dict)
    _agreements: dict[ModelPair, tuple[Evidence, ...]] = field(default_factory=dict)
    _contrasts: dict[ModelPair, tuple[Evidence, ...]] = field(default_factory=dict)
    _tokens: tuple[tuple[Model, Model], Tokens] | None = None
    _references: list[Model] | None = None

    def tokens(self, pair: ModelPair) -> Tokens:
        """Pair the tokens of two models. Only the last pairing is kept: vocabularies are long."""
        if self._tokens is None or self._tokens[0] != pair.models:
            self._tokens = pair.models, pair_tokens(*pair.models)
        return self._tokens[1]

    def verdict(self, pair: ModelPair) -> Verdict:
        """Judge a pair without controls."""
        if pair not in self._verdicts:
            self._verdicts[pair], evidence = self.judge(pair, self)
            if found := measured(evidence):
                self._agreements[pair] = tuple(found)
            if pair.is_deep and (contrasted := contrasted_layers(evidence)):
                self._contrasts[pair] = contrasted
        return self._verdicts[pair]

    def agreements(self, pair: ModelPair) -> tuple[Evidence, ...]:
        """Measure the agreement of a pair and nothing else."""
        if pair not in self._agreements:
            self._agreements[pair] = agreements(pair, self.tokens(pair))
        return self._agreements[pair]

    def contrasts(self, pair: ModelPair) -> tuple[Evidence, ...]:
        """Contrast the layers of a pair and nothing else."""
        if pair not in self._contrasts:
            self._contrasts[pair] = contrasts(pair, self.tokens(pair))
        return self._contrasts[pair]

    def references(self, options: FetchOptions) -> list[Model]:
        """Open the independent models that come with the package."""
        if self._references is None:
            self._references = [open_model(str(folder), options) for folder in reference_folders()]
        return self._references

    def close(self) -> None:
        """Close the models that were opened here."""
        for model in self._references or ():
            model.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlScores:
    """How much pairs with an unrelated model agree."""

    scores: tuple[float, ...] = ()
    n_packaged: int = 0
    """How many of them include a model that comes with the package."""


def control_scores(pair: ModelPair, controls: Sequence[Model], memory: Memory) -> ControlScores:
    """Measure the agreement of all pairs that include an unrelated model.

    The few models of the package are added if the caller's are not enough. If all together are still too few,
    no rank could decide anything, and none is read.
    """
    wanted, folders = int(load_rule().agreement["control_pairs"]), reference_folders()
    if not may_be_ranked(len(controls)):
        return ControlScores()
    usable = [model for model in controls if _is_unrelated(model, pair, memory)]
    shipped: list[Model] = []
    if _n_pairs(len(usable)) < wanted <= _n_pairs(len(usable) + len(folders)):
        references = memory.references(pair.options.fetch)
        shipped = [model for model in references if _is_unrelated(model, pair.to_depth("standard"), memory)]
    if _n_pairs(len(usable) + len(shipped)) < wanted:
        return ControlScores()
    own = scores_of(pair, usable, memory)
    if not shipped:
        return ControlScores(scores=tuple(own))
    every = scores_of(pair, [*usable, *shipped], memory)
    return ControlScores(scores=tuple(every), n_packaged=len(every) - len(own))


def may_be_ranked(n_controls: int) -> bool:
    """Say whether this many controls, plus the models of the package, are enough for a rank."""
    wanted = int(load_rule().agreement["control_pairs"])
    return _n_pairs(n_controls + len(reference_folders())) >= wanted


def scores_of(pair: ModelPair, controls: Sequence[Model], memory: Memory) -> list[float]:
    """Measure controls with both sides and among themselves, each lineage once.

    A control that is a relative of another, or the same model again, would count one coincidence twice.
    """
    kept: list[Model] = []
    scores: list[float | None] = []
    for control in controls:
        among = [_score(pair.of(other, control), memory) for other in kept]
        if any(related for _, related in among):
            continue
        kept.append(control)
        # It is already known that neither side is a relative of a control.
        scores += [_agreement(pair.of(side, control), memory) for side in pair.models]
        scores += [score for score, _ in among]
    return [score for score in scores if score is not None]


def _score(pair: ModelPair, memory: Memory) -> tuple[float | None, bool]:
    """Return the agreement of two controls, None if it cannot be measured, and whether they are relatives."""
    found = memory.agreements(pair)
    if not found:
        return None, False
    related = worth_calibrating(found) and memory.verdict(pair.to_depth("standard")).related
    return agreement_score(found), bool(related)


def _agreement(pair: ModelPair, memory: Memory) -> float | None:
    found = memory.agreements(pair)
    return agreement_score(found) if found else None


def _is_unrelated(control: Model, pair: ModelPair, memory: Memory) -> bool:
    """Say whether a model can represent strangers: comparable, and not visibly a relative."""
    return can_be_control(control.architecture, pair.base.architecture) and not any(
        memory.verdict(pair.of(side, control)).related for side in pair.models
    )


def _n_pairs(n_controls: int) -> int:
    """Return how many pairs of models include a control: with both sides, and among themselves."""
    return 2 * n_controls + n_controls * (n_controls - 1) // 2


def contrast_scores(pair: ModelPair, controls: Sequence[Model], memory: Memory) -> list[ContrastScores]:
    """Measure facing layers of all pairs that include an unrelated model of the caller, each lineage once.

    Controls whose layers show a common origin, as those of the pair may, are relatives of each other.
    """
    kept: list[Model] = []
    scores: list[ContrastScores] = []
    for control in controls:
        if not _is_unrelated(control, pair, memory):
            continue
        among = [memory.contrasts(pair.of(other, control)) for other in kept]
        if any(is_found(found) for found in among):
            continue
        kept.append(control)
        sides = [memory.contrasts(pair.of(side, control)) for side in pair.models]
        scores += [scores_by_part(found) for found in (*sides, *among)]
    return scores


def contrasted_layers(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Return the contrasts of layers among pieces of evidence."""
    return tuple(item for item in evidence if isinstance(item, Contrast))


def is_found(evidence: Iterable[Evidence]) -> bool:
    """Say whether facing layers agree more than a verdict needs."""
    return any(isinstance(item, Contrast) and item.log10_p < load_rule().log10_p for item in evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctControls:
    """Controls that can be compared, and those that were given in vain."""

    given: tuple[Model, ...] = ()
    models: tuple[Model, ...] = ()
    sides: tuple[Model, ...] = ()
    """The same models as the candidate or the base."""
    notes: tuple[Message, ...] = ()
    """What was given more than once."""


def distinct_controls(pair: ModelPair, controls: Sequence[Model]) -> DistinctControls:
    """Tell controls apart: one that is given again, or is one of both sides, is not judged."""
    kept: list[Model] = []
    sides: list[Model] = []
    notes: list[Message] = []
    for control in controls:
        if any(_is_same_model(control, side) for side in pair.models):
            sides.append(control)
        elif any(_is_same_model(control, other) for other in kept):
            notes.append(say("flag-control-again", model=control.location.ref))
        else:
            kept.append(control)
    return DistinctControls(
        given=tuple(controls),
        models=tuple(kept),
        sides=tuple(sides),
        notes=tuple(dict.fromkeys(notes)),
    )


def _is_same_model(one: Model, other: Model) -> bool:
    """Say whether two models are read from one place, or from files with equal contents, with one adapter."""
    if one.weights.adapter != other.weights.adapter:
        return False
    places = [model.location for model in (one, other)]
    if all(place.kind == "memory" for place in places):  # a name is no place
        return one.fetcher.source.files() == other.fetcher.source.files()
    if (places[0].origin, places[0].revision) == (places[1].origin, places[1].revision):
        return True
    digests = [published_digests(model) for model in (one, other)]
    return digests[0] is not None and digests[0] == digests[1] and one.config == other.config


def judge_control(pair: ModelPair, control: Model, memory: Memory) -> list[ControlResult]:
    """Compare a control with both sides, under the same plan."""
    verdicts = [(side, memory.verdict(pair.of(side, control))) for side in pair.models]
    return [
        ControlResult(
            pair=(side.location.ref, control.location.ref),
            revision=control.location.revision,
            conclusion=verdict.conclusion.value,
            effect=verdict.effect,
            log10_p=verdict.log10_p,
            usable=verdict.related is False,
            reason=_problem(verdict),
        )
        for side, verdict in verdicts
    ]


def unread_control(pair: ModelPair, control: Model, why: Message) -> list[ControlResult]:
    """Say why a control was not compared."""
    return [
        ControlResult(
            pair=(side.location.ref, control.location.ref),
            revision=control.location.revision,
            conclusion=None,
            effect=None,
            log10_p=None,
            usable=False,
            reason=why,
        )
        for side in pair.models
    ]


def _problem(verdict: Verdict) -> Message | None:
    if verdict.related:
        return say("relative")
    if verdict.related is None:
        reasons = dict.fromkeys(part.reason for part in verdict.components.values() if part.reason)
        return joined(reason for reason in reasons if reason)
    return None


# -- agreement ----------------------------------------------------------------------------------------------


def measured(evidence: Iterable[Evidence]) -> list[Agreement]:
    """Return the agreements among pieces of evidence."""
    return [item for item in evidence if isinstance(item, Agreement)]


def agreement_score(evidence: Iterable[Evidence]) -> float:
    """Return the mean agreement over layers: one number for a pair of models."""
    values = [item.effect.value for item in measured(evidence)]
    return fsum(values) / len(values)


def worth_calibrating(evidence: Iterable[Evidence]) -> bool:
    """Say whether a pair agrees enough for controls to be worth reading."""
    found = measured(evidence)
    return bool(found) and agreement_score(found) > LEAST_AGREEMENT


def calibrated(evidence: Iterable[Evidence], controls: ControlScores) -> list[Evidence]:
    """Give agreements their p-value, the rank of the pair among control pairs; leave other evidence alone."""
    items, scores = list(evidence), controls.scores
    found = measured(items)
    if not found or not scores:
        return items
    rank = Rank(
        log10_p=log10_conformal(agreement_score(found), scores),
        control_pairs=len(scores),
        largest_control=max(scores),
        packaged_pairs=controls.n_packaged,
    )
    return [replace(item, rank=rank) if isinstance(item, Agreement) else item for item in items]


def agreement_flag(evidence: Iterable[Evidence], n_pairs: int, wanted: int) -> Message | None:
    """Say that a pair looks alike although controls are missing: a reason to look closer, not a finding."""
    found = measured(evidence)
    if not found or agreement_score(found) < 4 * LEAST_AGREEMENT or n_pairs >= wanted:
        return None
    return say("flag-agreement", share=agreement_score(found), n=n_pairs, m=wanted)


def looks_alike(evidence: Iterable[Evidence], share: float) -> bool:
    """Say whether more than a given share of units agrees in every tested layer, interval included."""
    found = measured(evidence)
    return bool(found) and all(item.effect.low > share for item in found)


def can_be_control(control: Architecture, base: Architecture) -> bool:
    """Say whether the agreement of a model's units can be compared with that of the base's.

    Either both have gated MLPs or neither does. A layer of the control may have fewer units but not more:
    fewer agree more often by chance, so a smaller control errs on the safe side and a larger one would not.
    """
    gated = [bool(a.layers_of(Role.MLP_GATE) or a.layers_of(Role.EXPERT_GATE)) for a in (control, base)]
    return control.is_known and gated[0] == gated[1] and 0 < _n_units(control) <= _n_units(base)


def _n_units(architecture: Architecture) -> int:
    sizes = architecture.sizes
    return max(sizes.get("mlp", 0), sizes.get("experts", 0) * sizes.get("expert_mlp", 0))


def reference_folders() -> list[Path]:
    """Return the folders of the independent models that come with the package, to serve as controls."""
    root = Path(str(resources.files("modelkin.demo").joinpath("zoo")))
    return [root / name for name in ("base", "twin-1") if (root / name).is_dir()]
