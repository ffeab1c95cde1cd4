"""Checks every claim of a model card against the weights, and follows the declared ancestors."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from modelkin._version import __version__
from modelkin.comparison import Comparison, compare
from modelkin.comparison.record import model_summary
from modelkin.errors import ModelkinError
from modelkin.lineage.merge_result import MergeResult
from modelkin.lineage.merging import explain_merge
from modelkin.message import Message, say, told
from modelkin.model import Model, ModelLike, open_model
from modelkin.options import CompareOptions, Depth
from modelkin.progress import Progress, Silent
from modelkin.source import ModelRef

from .descents import is_hub_id
from .kinds import RELATIONS, derivative_status, is_certain_copy, relation_status
from .licences import forbids_derivatives, left_out
from .recipes import merge_status, recipe_status
from .result import CardCheck, CheckedClaim, ClaimStatus
from .scratch import Other, scratch_status
from .statements import ReadCard, Statement, read_card

MOST_ANCESTORS = 12
"""Most models that are compared with the one in question: each costs as much as a comparison."""
MOST_GENERATIONS = 4
"""Base, instruction-tuned, merged, quantised: cards seldom declare more."""
_MERGE = ("merge", "merged")
_FEWEST_PARENTS = 2
"""One model alone is not a mixture."""
_SAME = {"finetuned": "finetune", "fine-tuned": "finetune", "lora": "adapter", "quantised": "quantized"}


def check_card(
    model: ModelLike,
    options: CompareOptions | None = None,
    *,
    against: Sequence[ModelLike] = (),
    known: Mapping[str, ModelLike] | None = None,
    progress: Progress | None = None,
) -> CardCheck:
    """Check every claim of a model's card against its weights.

    Parameters
    ----------
    model
        The model whose card is read.
    options
        Depth, seed, and how to fetch, of each comparison.
    against
        Earlier models to test a "from scratch" statement against: a common origin contradicts it, unless the
        card or the weights of the other show that it came later, or the card names what the model was made
        from. Each must be readable.
    known
        Where to find models that cards and adapters name, for those that are not on the Hub under that name.
    progress
        Told about long reads.

    Returns
    -------
    CardCheck
        Each claim as supported, contradicted or untestable, with the reason.
    """
    options = options or CompareOptions()
    with ExitStack() as stack:
        if isinstance(model, Model):
            opened = model
        else:
            bases = {name: at for name, at in (known or {}).items() if isinstance(at, str | ModelRef)}
            opened = stack.enter_context(open_model(model, options.fetch, progress=progress, bases=bases))
        run = _CardRun(opened, options, known or {}, progress or Silent(), stack)
        return run.result(against)


@dataclass(slots=True)
class _CardRun:
    model: Model
    options: CompareOptions
    known: Mapping[str, ModelLike]
    progress: Progress
    stack: ExitStack
    notes: list[Message] = field(default_factory=list)
    edges: list[tuple[str, str]] = field(default_factory=list)
    cards: dict[str, ReadCard] = field(default_factory=dict)
    opened: dict[str, Model | Message] = field(default_factory=dict)
    compared: dict[str, Comparison | Message] = field(default_factory=dict)
    mixed: MergeResult | Message | None = None
    """What the search for a mixture of the declared parents found, once made."""

    def result(self, against: Sequence[ModelLike]) -> CardCheck:
        card = read_card(self.model)
        self.notes += card.claims.notes
        declared = self._follow(card)
        claims = [
            self._parent(item) for item in card.statements if item.kind in ("parent", "merge", "adapter")
        ]
        claims += [self._ancestor(child, name) for child, name in declared]
        claims += [self._saved(item) for item in card.statements if item.kind == "saved-from"]
        claims += [self._relation(card, item) for item in card.statements if item.kind == "relation"]
        claims += self._recipe(card)
        claims += self._scratch(card, against)
        claims += list(self._licences(card))
        return CardCheck(
            model=model_summary(self.model),
            claims=tuple(claims),
            ancestors=tuple(self.edges),
            notes=tuple(dict.fromkeys(self.notes)),
            depth=self.options.depth,
            modelkin=__version__,
        )

    # -- who is named ----------------------------------------------------------------------------------

    def _follow(self, card: ReadCard) -> list[tuple[str, str]]:
        """Follow declared parents of declared parents; each is visited once, so that cycles end."""
        mine = self.model.location.ref
        queue = deque((mine, name, 1) for name in card.parents)
        seen = {mine}
        further: list[tuple[str, str]] = []
        while queue:
            child, name, generation = queue.popleft()
            self.edges.append((child, name))
            if name in seen:
                self.notes.append(say("check-circle", name=name))
                continue
            if len(seen) > MOST_ANCESTORS:
                self.notes.append(say("check-many", n=MOST_ANCESTORS))
                break
            seen.add(name)
            if generation > 1:
                further.append((child, name))
            parent = self._open(name)
            if isinstance(parent, Message):
                continue
            if generation >= MOST_GENERATIONS:
                continue
            self.cards[name] = read_card(parent)
            queue += [(name, other, generation + 1) for other in self.cards[name].parents]
        return further

    def _open(self, name: str) -> Model | Message:
        """Open a model that a card names: what the caller knows, or else the Hub, and nothing else."""
        if name not in self.opened:
            self.opened[name] = self._opened(name)
        return self.opened[name]

    def _opened(self, name: str) -> Model | Message:
        known = self.known.get(name)
        if known is None and not is_hub_id(name):
            return say("check-no-hub-id", name=name)
        try:
            return self._entered(known or f"hf:{name}")
        except ModelkinError as error:
            return say("check-not-had", name=name, why=told(error))

    def _compare(self, name: str) -> Comparison | Message:
        if name not in self.compared:
            other = self._open(name)
            self.compared[name] = other if isinstance(other, Message) else self._with(other)
        return self.compared[name]

    def _with(self, other: ModelLike) -> Comparison | Message:
        try:
            return compare(candidate=self.model, base=other, options=self.options, progress=self.progress)
        except ModelkinError as error:
            return told(error)

    # -- what is claimed -------------------------------------------------------------------------------

    def _parent(self, item: Statement) -> CheckedClaim:
        claim = say(f"claims.{item.kind}", name=item.subject)
        return self._descent(item, claim, self._compare(item.subject), binding=True)

    def _ancestor(self, child: str, name: str) -> CheckedClaim:
        item = Statement(kind="ancestor", source=f"{child}: README.md", subject=name)
        claim = say("claims.ancestor", name=name, child=child)
        return self._descent(item, claim, self._compare(name), binding=True)

    def _saved(self, item: Statement) -> CheckedClaim:
        """Test what a config says it was saved from: tools write it even if only the config was reused."""
        claim = say("claims.saved-from", name=item.subject)
        return self._descent(item, claim, self._compare(item.subject), binding=False)

    def _descent(
        self, item: Statement, claim: Message, found: Comparison | Message, *, binding: bool
    ) -> CheckedClaim:
        if isinstance(found, Message):
            return _claim(item, claim, "untestable", found)
        status, reason = parent_status(found, self.options.depth)
        if status == "contradicted" and not binding:
            status, reason = "untestable", say("check-config-alone")
        if status == "supported" and item.kind in ("parent", "adapter") and self._was_put_on_a_base():
            # What an adapter on a base shares with that base comes from being applied to it.
            return _claim(item, claim, "untestable", say("check-adapter-on-base"))
        if status == "contradicted" and self._was_put_on_a_base():
            # The weights are those of the base that was chosen for it, which says nothing about the adapter.
            status, reason = "untestable", say("check-adapter-on-other")
        return _claim(item, claim, status, reason, found)

    def _was_put_on_a_base(self) -> bool:
        """Say whether the weights are those of a separate base with an adapter applied."""
        adapter = self.model.weights.adapter
        return adapter is not None and not adapter.is_bare and adapter.base != self.model.location.origin

    def _relation(self, card: ReadCard, item: Statement) -> CheckedClaim:
        claim = say("claims.relation", how=item.subject)
        word = _SAME.get(item.subject.lower(), item.subject.lower())
        if word in _MERGE:
            mixed = self._mixed(card)
            if isinstance(mixed, Message):
                return _claim(item, claim, "untestable", mixed)
            return _claim(item, claim, *merge_status(mixed, _mixed_names(card), self._copied(card)))
        if self._was_put_on_a_base():
            return _claim(item, claim, "untestable", say("check-adapter-on-base"))
        if word not in RELATIONS:
            return _claim(item, claim, "untestable", say("check-relation-word", how=item.subject))
        if len(card.parents) != 1:
            return _claim(item, claim, "untestable", say("check-one-parent", n=len(card.parents)))
        found = self._compare(card.parents[0])
        if isinstance(found, Message):
            return _claim(item, claim, "untestable", found)
        return _claim(item, claim, *relation_status(word, found), found)

    def _recipe(self, card: ReadCard) -> Iterator[CheckedClaim]:
        """Check the recipe of a merge against the mixture that is found."""
        if card.merge is None:
            return
        item = Statement(kind="recipe", source=card.merge.source, subject=card.merge.method)
        mixed = self._mixed(card)
        if isinstance(mixed, Message):
            yield _claim(item, card.merge.told(), "untestable", mixed)
        else:
            status, reason = recipe_status(card.merge, mixed, _mixed_names(card), self._copied(card))
            yield _claim(item, card.merge.told(), status, reason)

    def _mixed(self, card: ReadCard) -> MergeResult | Message:
        """Look once for a mixture of the declared parents: those of the recipe, or else those of the card."""
        if self.mixed is None:
            names = _mixed_names(card)
            with_base = card.merge is not None and card.merge.base is not None
            opened = [self._open(name) for name in names]
            missing = next((one for one in opened if isinstance(one, Message)), None)
            models = [one for one in opened if isinstance(one, Model)]
            if missing is not None:
                self.mixed = missing
            elif len(models) < _FEWEST_PARENTS:
                self.mixed = say("check-merge-parents", n=len(names))
            else:
                self.mixed = self._explained(models, with_base=with_base)
        return self.mixed

    def _explained(self, models: Sequence[Model], *, with_base: bool) -> MergeResult | Message:
        parents, base = (models[:-1], models[-1]) if with_base else (models, None)
        try:
            return explain_merge(self.model, parents, base=base, options=self.options, progress=self.progress)
        except ModelkinError as error:
            return told(error)

    def _copied(self, card: ReadCard) -> str | None:
        """Return the declared parent that the model is a copy of."""
        for name in card.parents:
            found = self._compare(name)
            if isinstance(found, Comparison) and is_certain_copy(found):
                return name
        return None

    def _scratch(self, card: ReadCard, against: Sequence[ModelLike]) -> Iterator[CheckedClaim]:
        """Check a statement that the model was trained from scratch against every model at hand."""
        said = [item for item in card.statements if item.kind == "from-scratch"]
        if against and not said:
            self.notes.append(say("check-against-unused"))
        if not said:
            return
        named = {name: model for name, model in self.opened.items() if isinstance(model, Model)}
        others = [
            Other(model=model, found=found, declared=True)
            for name, model in named.items()
            if isinstance(found := self.compared.get(name), Comparison)
        ]
        for given in against:
            # Named by the caller: one that cannot be opened is an error of the call, not of the card.
            model = self._entered(given)
            found = self._with(model)
            if isinstance(found, Message):
                self.notes.append(say("check-not-had", name=model.location.ref, why=found))
            else:
                others.append(Other(model=model, found=found))
        status = scratch_status(self.model, others, self.options, names_origin=bool(card.parents))
        for item in said:
            claim = say("claims.from-scratch", words=item.subject)
            yield _claim(item, claim, status.status, status.reason, status.found)

    def _entered(self, given: ModelLike) -> Model:
        """Open a model until the check ends, unless it is open."""
        if isinstance(given, Model):
            return given
        opened = self.stack.enter_context(open_model(given, self.options.fetch, progress=self.progress))
        _ = opened.weights, opened.config
        return opened

    def _licences(self, card: ReadCard) -> Iterator[CheckedClaim]:
        """Check the licence against those of parents proven by the weights."""
        mine = card.claims.license
        for name, found in self.compared.items():
            other = self.cards.get(name)
            if isinstance(found, Message) or not found.verdict.related or other is None:
                continue
            if self._was_put_on_a_base() and name in card.parents:
                continue  # the weights prove nothing about the adapter
            theirs = other.claims.license
            item = Statement(kind="licence", source="README.md: license", subject=name)
            claim = say("claims.licence", mine=mine or "-", name=name, theirs=theirs or "-")
            missing = left_out(mine, theirs) if mine and theirs else None
            derived = derivative_status(found) if theirs and forbids_derivatives(theirs) else None
            if derived is not None:
                yield _claim(item, claim, *derived, found)
            elif missing is None:
                yield _claim(item, claim, "untestable", say("check-licence-unknown"), found)
            elif missing:
                words = tuple(say(f"licence.{word}") for word in missing)
                yield _claim(item, claim, "contradicted", say("check-licence-wider", words=words), found)
            else:
                yield _claim(item, claim, "supported", say("check-licence-kept"), found)


def _mixed_names(card: ReadCard) -> tuple[str, ...]:
    """Return the models that a merge is said to be made from, first those of the recipe, then of the card."""
    if card.merge is None:
        return card.parents
    return (*card.merge.models, *([card.merge.base] if card.merge.base else []))


def parent_status(found: Comparison, depth: Depth) -> tuple[ClaimStatus, Message]:
    """Say what a comparison with a declared parent means for the declaration."""
    if found.verdict.related:
        return "supported", say("check-related", kind=say(f"relation.{found.relation.kind}"))
    if found.verdict.related is None:
        return "untestable", say("check-not-testable")
    if depth not in ("deep", "full"):
        # Moved, reordered and rotated parts are looked for at deep depth only: before that, silence is no
        # contradiction, or the honest card of a reordered copy would be accused.
        return "untestable", say("check-look-deeper")
    return "contradicted", say("check-unrelated")


def _claim(
    item: Statement, claim: Message, status: ClaimStatus, reason: Message, found: Comparison | None = None
) -> CheckedClaim:
    named = None if item.kind in ("relation", "recipe", "from-scratch") else item.subject
    return CheckedClaim(
        kind=item.kind,
        claim=claim,
        source=item.source,
        status=status,
        reason=reason,
        against=found.base.ref if found else named,
        conclusion=found.verdict.conclusion.value if found else None,
        relation=found.relation.kind if found else None,
        log10_p=found.verdict.log10_p if found else None,
    )
