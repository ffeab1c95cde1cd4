"""A collection becomes a forest: every model is read once, every pair is judged once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from modelkin._version import __version__
from modelkin.comparison.controls import Memory
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.record import model_summary
from modelkin.comparison.stages import compare_and_subtract, judge
from modelkin.errors import UsageError
from modelkin.fingerprint import Fingerprint, fingerprint_model
from modelkin.lineage.family_tree import FamilyGrowth, grown_family
from modelkin.lineage.proposals import Proposal, proposed_pairs
from modelkin.lineage.tree_facts import pairs_of
from modelkin.lineage.tree_result import Family, FamilyForest, JudgedPair, TreeEdge
from modelkin.lineage.tree_samples import ModelSample, read_sample
from modelkin.message import Message, say
from modelkin.model import Model, ModelLike, by_name, open_models, read_headers
from modelkin.options import CompareOptions
from modelkin.progress import Progress, Silent

# A family has two members.
_FEWEST = 2
# For a model that is left alone: enough to find its place in a family, and few enough to afford.
_MOST_DEEP = 8
# For one that is still alone: its likeliest relatives, one of which is enough.
_MOST_GUESSED = 3

WhichPairs = Literal["all", "proposed"]


def family_forest(
    models: Mapping[str, ModelLike] | Sequence[ModelLike],
    *,
    dates: Mapping[str, str] | None = None,
    known: Sequence[JudgedPair] = (),
    pairs: WhichPairs = "all",
    fingerprints: Mapping[str, Fingerprint] | None = None,
    relations: bool = True,
    options: CompareOptions | None = None,
    progress: Progress | None = None,
) -> FamilyForest:
    """Find the families of a collection, and within each which model comes from which.

    Parameters
    ----------
    models
        Model references, sources or opened models; a mapping gives them names.
    dates
        Claimed dates of models, by name, in ISO format. A claim, and reported as one where it decides.
    known
        Earlier verdicts on pairs of these names, such as `FamilyForest.pairs`.
    pairs
        Which are compared: all of them, or those that fingerprints propose. Either way, models that are left
        alone are compared at depth ``deep`` with those that their fingerprints propose, or with up to three
        models whose tokens look most like theirs.
    fingerprints
        Known ones, by name, such as those of a registry; the others are made.
    relations
        Whether to say what was done along each edge: it is compared again, and weights are subtracted.
    options
        Depth and seed of the comparisons.
    progress
        Told about long reads.

    Returns
    -------
    FamilyForest
        Families by accepted pairs only, edges with their evidence, directions with their facts.

    Examples
    --------
    >>> from modelkin.demo import demo_zoo
    >>> with demo_zoo() as zoo:
    ...     found = family_forest({name: str(zoo / name) for name in ("base", "twin-1", "finetune-light")})
    >>> [family.members for family in found.families], found.alone
    ([('base', 'finetune-light')], ('twin-1',))
    """
    options, told = options or CompareOptions(), progress or Silent()
    given = by_name(models)
    if len(given) < _FEWEST:
        raise UsageError("models", say("problem.two-needed", n=len(given)))
    if unknown := sorted(set(dates or {}) - given.keys()):
        raise UsageError(unknown[0], say("problem.date-unknown"))
    with open_models(list(given.values()), options.fetch, progress=progress) as opened:
        read_headers(opened)
        grove = _Forest(dict(zip(given, opened, strict=True)), dict(dates or {}), options, told)
        grove.prints.update(fingerprints or {})
        grove.relations = relations
        return grove.grown(known, pairs)


def judge_pair(
    first: Model, second: Model, options: CompareOptions, memory: Memory
) -> tuple[str, bool | None, float | None, float | None]:
    """Compare two models: conclusion, whether they are relatives, effect, and log10 p."""
    verdict = memory.verdict(ModelPair(candidate=first, base=second, options=options))
    effect = None if verdict.effect is None else verdict.effect.value
    return verdict.conclusion.value, verdict.related, effect, verdict.log10_p


def pair_memory() -> Memory:
    """Return a memory of verdicts without controls."""

    def of_pair(pair: ModelPair, memory: Memory):  # type: ignore[no-untyped-def]  # noqa: ANN202
        judged = judge(pair, memory)
        return judged.verdict, judged.evidence

    return Memory(of_pair)


@dataclass(slots=True)
class _Forest:
    models: Mapping[str, Model]
    dates: Mapping[str, str]
    options: CompareOptions
    told: Progress
    edges: list[TreeEdge] = field(default_factory=list)
    prints: dict[str, Fingerprint] = field(default_factory=dict)
    proposed: dict[frozenset[str], Proposal] | None = None
    relations: bool = True
    looked_deep: set[str] = field(default_factory=set)
    """Models that were alone and were compared again."""
    samples: dict[str, ModelSample] = field(default_factory=dict)

    def grown(self, known: Sequence[JudgedPair], which: WhichPairs) -> FamilyForest:
        judged = {frozenset((pair.first, pair.second)): pair for pair in known}
        memory = pair_memory()
        try:
            proposed = {} if which == "all" else self._proposals()
            wanted = None if which == "all" else {key for key, item in proposed.items() if item.is_found}
            self._judge_all(judged, wanted, memory)
            self._judge_left_over(judged, memory)
            self._judge_with_middles(judged, memory)
        finally:
            memory.close()
        pairs = [judged[key] for names in pairs_of(list(self.models)) if (key := frozenset(names)) in judged]
        groups = _components(list(self.models), [pair for pair in pairs if pair.related])
        families: list[Family] = []
        for members in sorted((group for group in groups if len(group) >= _FEWEST), key=len, reverse=True):
            self.told.note(say("step-family", n=len(members)))
            grown = self._family(members, pairs)
            families.append(grown.family)
            self.edges += map(self._told, grown.edges)
        alone = tuple(name for group in groups if len(group) < _FEWEST for name in group)
        return FamilyForest(
            models={name: model_summary(model) for name, model in self.models.items()},
            families=tuple(families),
            alone=alone,
            edges=tuple(self.edges),
            pairs=tuple(pairs),
            summary=say(
                "tree-summary",
                n=len(self.models),
                families=len(families),
                alone=len(alone),
                edges=len(self.edges),
            ),
            limitations=(
                say("tree-limit-missing"),
                say("tree-limit-alike"),
                say("tree-limit-direction"),
                *self._limits_of_depth(pairs),
            ),
            depth=self.options.depth,
            seed=self.options.seed,
            modelkin=__version__,
        )

    def _judge_all(
        self,
        judged: dict[frozenset[str], JudgedPair],
        wanted: Collection[frozenset[str]] | None,
        memory: Memory,
    ) -> None:
        """Compare all wanted pairs that were not judged before."""
        for second, first in pairs_of(list(self.models)):
            key = frozenset((first, second))
            if key not in judged and (wanted is None or key in wanted):
                judged[key] = self._compared(second, first, self.options, memory)

    def _judge_left_over(self, judged: dict[frozenset[str], JudgedPair], memory: Memory) -> None:
        """Compare models that are alone again: disguises are searched for only at depth ``deep``.

        With those that fingerprints propose, the strongest first; if they are still alone, with the few whose
        tokens look most like theirs. Only the verdict of that comparison connects them.
        """
        if self.options.depth in ("deep", "full") or len(self.models) <= _FEWEST:
            return
        deep = replace(self.options, depth="deep")
        for most, guessed in ((_MOST_DEEP, False), (_MOST_GUESSED, True)):
            for name in self._alone(judged):
                about = [item for key, item in self._proposals().items() if name in key]
                about = sorted(
                    (item for item in about if item.is_guess == guessed), key=lambda item: item.strength
                )
                for item in about[:most]:
                    key = frozenset((item.first, item.second))
                    if key not in judged or judged[key].depth != "deep":
                        self.looked_deep.add(name)
                        judged[key] = self._compared(item.first, item.second, deep, memory)
                    if guessed and judged[key].related:
                        break  # no longer alone

    def _judge_with_middles(self, judged: dict[frozenset[str], JudgedPair], memory: Memory) -> None:
        """Compare models found this way with the middle of their family, unless that was done.

        They are attached to the middle if to nothing else, and only to models they were compared with.
        """
        deep = replace(self.options, depth="deep")
        accepted = [pair for pair in judged.values() if pair.related]
        for members in _components(list(self.models), accepted):
            found = self.looked_deep & {*members}
            if not found or len(members) <= _FEWEST:
                continue
            middle = self._family(members, accepted).family.middle
            for name in sorted(found - {middle}):
                key = frozenset((name, middle))
                if key not in judged or not (judged[key].related or judged[key].depth == "deep"):
                    judged[key] = self._compared(name, middle, deep, memory)

    def _alone(self, judged: Mapping[frozenset[str], JudgedPair]) -> list[str]:
        accepted = [pair for pair in judged.values() if pair.related]
        return [group[0] for group in _components(list(self.models), accepted) if len(group) < _FEWEST]

    def _limits_of_depth(self, pairs: Sequence[JudgedPair]) -> tuple[Message, ...]:
        """Say how many models were examined more deeply, and that nothing more is searched for."""
        if not self.looked_deep:
            return ()
        n = sum(pair.depth == "deep" for pair in pairs)
        return (say("tree-limit-deep", models=len(self.looked_deep), pairs=n),)

    def _proposals(self) -> dict[frozenset[str], Proposal]:
        if self.proposed is None:
            for name, model in self.models.items():
                if name not in self.prints:
                    self.told.note(say("step-fingerprint", model=name))
                    self.prints[name] = fingerprint_model(model)
            self.proposed = proposed_pairs({name: self.prints[name] for name in self.models})
        return self.proposed

    def _compared(self, first: str, second: str, options: CompareOptions, memory: Memory) -> JudgedPair:
        self.told.note(say("step-pair", first=first, second=second))
        conclusion, related, effect, log10_p = judge_pair(
            self.models[first], self.models[second], options, memory
        )
        return JudgedPair(
            first=first,
            second=second,
            conclusion=conclusion,
            related=related,
            effect=effect,
            log10_p=log10_p,
            depth=options.depth,
        )

    def _told(self, edge: TreeEdge) -> TreeEdge:
        """Say what was done along an edge, by subtracting weights; a merge is reported already."""
        if edge.kind == "merge" or edge.pair is None or not self.relations:
            return edge
        child = edge.child or edge.first
        parent = edge.second if child == edge.first else edge.first
        self.told.note(say("step-relation", first=child, second=parent))
        options = replace(self.options, depth=edge.pair.depth)
        result, _ = compare_and_subtract(self.models[child], self.models[parent], options, self.told)
        return replace(edge, relation=result.relation.kind)

    def _family(self, members: Sequence[str], pairs: Sequence[JudgedPair]) -> FamilyGrowth:
        for name in members:
            if name not in self.samples:
                model = self.models[name]
                self.samples[name] = read_sample(name, model, self.options.depth, self.options.seed)
        held = {name: self.samples[name] for name in members}
        inside = {
            frozenset((pair.first, pair.second)): pair
            for pair in pairs
            if pair.first in held and pair.second in held and pair.related
        }
        return grown_family(list(held.values()), inside, self.dates, seed=self.options.seed)


def _components(names: Sequence[str], accepted: Sequence[JudgedPair]) -> list[tuple[str, ...]]:
    """Return groups that accepted pairs connect."""
    group = {name: name for name in names}
    for pair in accepted:
        kept, gone = group[pair.first], group[pair.second]
        if kept != gone:
            group = {name: kept if own == gone else own for name, own in group.items()}
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(group[name], []).append(name)
    return [tuple(members) for members in found.values()]
