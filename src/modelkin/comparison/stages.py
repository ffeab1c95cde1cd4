"""Was one model derived from the other: the order of stages. All numbers come from lower layers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from modelkin._version import __version__
from modelkin.comparison.adapters import adapter_flags
from modelkin.comparison.alignment import Frame
from modelkin.comparison.claims import read_claims
from modelkin.comparison.controls import (
    ControlScores,
    DistinctControls,
    Memory,
    agreement_flag,
    calibrated,
    contrast_scores,
    control_scores,
    distinct_controls,
    is_found,
    judge_control,
    looks_alike,
    unread_control,
    worth_calibrating,
)
from modelkin.comparison.deep import DeepResult, DeepStage
from modelkin.comparison.extent import parameters_by_component, unfaced_layers
from modelkin.comparison.identity import (
    CopyKind,
    CopyWalk,
    EveryValue,
    compare_every_value,
    copy_of_relative,
    full_identity,
    published_identity,
)
from modelkin.comparison.kinship import alignment_summary, in_another_order, relation_of
from modelkin.comparison.methods import (
    EQUAL_VALUES,
    EqualityCount,
    Evidence,
    Tested,
    load_cards,
    told_heads,
)
from modelkin.comparison.names import names_alone, told_alone, told_apart
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.reading import Rehearsal
from modelkin.comparison.record import (
    AlignmentSummary,
    Comparison,
    ControlResult,
    Environment,
    ledger_record,
    model_summary,
)
from modelkin.comparison.relation import Deltas, read_deltas
from modelkin.comparison.sampling import Sampled, read_samples
from modelkin.comparison.strangers import with_ranks
from modelkin.comparison.tokens import UNREAD, Tokens, tokenizer_summary
from modelkin.comparison.verdict import (
    GUESSED,
    Conclusion,
    Identity,
    Verdict,
    decide,
    load_rule,
    resting_on_samples,
    retold_by_difference,
    retold_by_equality,
)
from modelkin.describe import Cell, config_difference
from modelkin.errors import BudgetExceeded
from modelkin.message import Message, Value, say, told
from modelkin.model import Model, ModelLike, open_models, read_headers
from modelkin.options import CompareOptions, Depth
from modelkin.progress import Progress, Silent
from modelkin.tokenizer import TokenPairs

_SILENT = Silent()


def compare(
    candidate: ModelLike,
    base: ModelLike,
    *,
    depth: Depth | None = None,
    seed: int | None = None,
    options: CompareOptions | None = None,
    controls: Sequence[ModelLike] = (),
    progress: Progress | None = None,
) -> Comparison:
    """Ask whether the candidate was derived from the base.

    Parameters
    ----------
    candidate, base
        Model references, sources, or opened models.
    depth, seed
        Override those of the options.
    options
        Depth, seed, and how to fetch.
    controls
        Models believed to be unrelated: they are compared with both sides under the same plan.
    progress
        Told about long reads.

    Returns
    -------
    Comparison
        The verdict with all evidence, and everything needed to check it.

    Examples
    --------
    >>> compare("demo:twin-1", "demo:base", depth="quick").verdict.related
    False
    """
    options, told = _chosen(options, depth, seed), progress or Silent()
    with open_models((candidate, base, *controls), options.fetch, progress=progress) as opened:
        read_headers(opened)
        mine, theirs, *others = opened
        pair = ModelPair(candidate=mine, base=theirs, options=options)
        memory, given = new_memory(), distinct_controls(pair, others)
        try:
            return _recorded(pair, judge(pair, memory, given.models, told), given, memory, told)[0]
        finally:
            memory.close()


def _chosen(options: CompareOptions | None, depth: Depth | None, seed: int | None) -> CompareOptions:
    options = options or CompareOptions()
    options = options if depth is None else replace(options, depth=depth)
    return options if seed is None else replace(options, seed=seed)


def compare_and_subtract(
    candidate: Model,
    base: Model,
    options: CompareOptions,
    progress: Progress,
    *,
    equal: bool | None = None,
    differing: Collection[str] = (),
) -> tuple[Comparison, Deltas]:
    """Compare two opened models, and also return what became of each examined tensor.

    If the caller already knows whether all stored values are `equal`, they are not read again. Tensors known
    to be `differing` are among those that are examined.
    """
    read_headers((candidate, base))
    pair = ModelPair(
        candidate=candidate, base=base, options=options, equal=equal, differing=frozenset(differing)
    )
    memory = new_memory()
    try:
        return _recorded(pair, judge(pair, memory, (), progress), DistinctControls(), memory, progress)
    finally:
        memory.close()


def new_memory() -> Memory:
    """Return a memory for one run, which judges pairs as `compare` does."""

    def of_control(pair: ModelPair, memory: Memory) -> tuple[Verdict, Sequence[Evidence]]:
        judged = judge(pair, memory)
        return judged.verdict, judged.evidence

    return Memory(of_control)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on one pair, and what it rests on."""

    verdict: Verdict
    evidence: tuple[Evidence, ...]
    equality: EqualityCount
    """Over samples, or over every value at full depth."""
    tokens: Tokens
    deep: DeepResult | None
    flags: tuple[Message, ...]
    strong_flags: tuple[Message, ...]
    """Those shown with the verdict, since nothing was found although much looks alike."""


def judge(
    pair: ModelPair,
    memory: Memory,
    controls: Sequence[Model] = (),
    progress: Progress = _SILENT,
    rehearsal: Rehearsal | None = None,
) -> Judgement:
    """Read stage by stage until the verdict is decided; a rehearsal goes through all stages of the depth.

    If the budget runs out within a stage, the verdict is that of the stage before it, and says so. What was
    read in the unfinished stage is ignored: which tests were made would depend on the order of reading.
    """
    identity = published_identity(pair)
    if identity is not None:
        return _decided(pair, "quick", Sampled(), UNREAD, identity=identity)
    quick = read_samples(pair, "quick", UNREAD, rehearsal, progress)
    if pair.options.depth == "quick":
        return _decided(pair, "quick", quick, UNREAD)
    try:
        tokens = memory.tokens(pair)
        sampled = quick + read_samples(pair, "standard", tokens, rehearsal, progress)
        every, identity = _walk(pair, sampled, progress, rehearsal)
    except BudgetExceeded:
        return _decided(pair, "quick", quick, UNREAD, unfinished="standard")
    counted = _counted(pair, every)
    if pair.options.depth == "standard" or identity is not None:
        return _decided(pair, "standard", sampled, tokens, identity=identity, every=every, flags=counted)
    try:
        deep = DeepStage(pair, tokens, sampled.evidence, sampled.kept, progress, rehearsal).run()
        scores = ControlScores()
        if worth_calibrating(deep.evidence):
            progress.note(say("step-ranks"))
            scores = control_scores(pair, controls, memory)
        evidence = calibrated(_ranked(pair, deep, controls, memory), scores)
    except BudgetExceeded:
        return _decided(pair, "standard", sampled, tokens, every=every, flags=counted, unfinished="deep")
    flag = agreement_flag(evidence, len(scores.scores), int(load_rule().agreement["control_pairs"]))
    return _decided(
        pair,
        "deep",
        sampled,
        tokens,
        deep=deep,
        found_deep=evidence,
        every=every,
        flags=(*counted, flag) if flag else counted,
        looks_alike=flag is not None and looks_alike(evidence, load_rule().agreement["attributed"]),
    )


def _walk(
    pair: ModelPair, sampled: Sampled, progress: Progress, rehearsal: Rehearsal | None
) -> tuple[EveryValue | None, Identity | None]:
    """Compare every value: always at full depth, else if that is cheap and nothing differs so far."""
    if pair.options.depth != "full":
        return None, full_identity(pair, sampled.equality) if rehearsal is None else None
    progress.note(say("step-every-value"))
    every = compare_every_value(pair, rehearsal)
    identical = every is not None and every.identical
    return every, Identity(all_files_equal=True, how=say("every-value")) if identical else None


def _counted(pair: ModelPair, every: EveryValue | None) -> tuple[Message, ...]:
    """Say what a walk over all values found, and which tensors it could not compare."""
    if every is None:
        return ()
    count, apart, alone = every.count, told_apart(every.apart), told_alone(*pair.models)
    if not every.n_tensors:
        return (say("every-value-none"), *apart, *alone)
    counted = say("every-value-counted", tensors=every.n_tensors, n=count.n_equal, m=count.n_compared)
    return (counted, *apart, *alone)


def _ranked(
    pair: ModelPair, deep: DeepResult, controls: Sequence[Model], memory: Memory
) -> Sequence[Evidence]:
    """Rank layers that agree among pairs of unrelated models; controls are read if anything agrees."""
    strong = is_found(deep.evidence)
    return with_ranks(deep.evidence, contrast_scores(pair, controls, memory) if strong else [])


def _decided(
    pair: ModelPair,
    stage: str,
    sampled: Sampled,
    tokens: Tokens,
    *,
    identity: Identity | None = None,
    deep: DeepResult | None = None,
    found_deep: Sequence[Evidence] = (),
    every: EveryValue | None = None,
    flags: tuple[Message, ...] = (),
    looks_alike: bool = False,
    unfinished: str | None = None,
) -> Judgement:
    """Apply the rule to what was found; `unfinished` is the stage that the budget was too small for."""
    limited: tuple[Message, ...] = ()
    if unfinished is not None:
        names: dict[str, Value] = {"stage": stage, "wanted": unfinished}
        limited = (say("limitation.budget", **names),)
        flags = (*flags, say("flag-budget", limit=pair.options.fetch.byte_budget, **names))
    evidence = (*sampled.evidence, *found_deep)
    verdict = decide(
        evidence,
        load_rule(),
        candidate=pair.candidate.location.ref,
        base=pair.base.location.ref,
        stage=stage,
        identity=identity,
        parameters=parameters_by_component(pair.candidate),
        unfaced=unfaced_layers(deep.maps) if deep else None,
        extra_limitations=(*limited, *((GUESSED,) if pair.has_guesses else ())),
    )
    if every is not None:
        verdict = resting_on_samples(verdict, alone=names_alone(*pair.models))
    equal = sorted(
        {
            test.component
            for test in evidence
            if isinstance(test, Tested)
            and EQUAL_VALUES in test.flags
            and not verdict.components[test.component].conclusion.related
        }
    )
    if equal:
        flags = (*flags, say("flag-equal", parts=tuple(say(f"component.{name}") for name in equal)))
    return Judgement(
        verdict=verdict,
        evidence=evidence,
        equality=sampled.equality if every is None else every.count,
        tokens=tokens,
        deep=deep,
        flags=flags,
        strong_flags=flags if (looks_alike or limited or equal) and not verdict.related else (),
    )


def _recorded(
    pair: ModelPair, judged: Judgement, controls: DistinctControls, memory: Memory, progress: Progress
) -> tuple[Comparison, Deltas]:
    """Record everything that a reader needs to check the verdict, and what became of single tensors."""
    verdict, options = judged.verdict, pair.options
    decided_early = verdict.stage == "quick"  # then nothing more is read
    tokenizer = _tokenizers(pair, judged.tokens, whole=not decided_early)
    claims = {} if decided_early else _claims(pair)
    alignment = alignment_summary(*pair.models, verdict, judged.evidence, judged.deep)
    walk, deltas = _beside_verdict(pair, judged, alignment)
    same_numbers, everything = in_another_order(*pair.models, alignment, deltas)
    verdict = retold_by_equality(
        verdict,
        same_numbers,
        everything=everything,
        candidate=pair.candidate.location.ref,
        base=pair.base.location.ref,
    )
    relation = relation_of(
        *pair.models,
        verdict,
        alignment,
        judged.equality,
        walk=walk,
        counted=pair.differing,
        deltas=deltas,
        tokens=judged.tokens,
    )
    if relation.kind in ("copy", "precision-copy"):
        names = {"candidate": pair.candidate.location.ref, "base": pair.base.location.ref}
        verdict = retold_by_difference(verdict, **names)
    ledger = ledger_record({"candidate": pair.candidate, "base": pair.base})  # before controls read more
    checked = _checked(pair, controls, memory, progress)
    record = Comparison(
        candidate=model_summary(pair.candidate),
        base=model_summary(pair.base),
        verdict=verdict,
        evidence=judged.evidence,
        alignment=alignment,
        relation=relation,
        controls=checked,
        tokenizer=tokenizer,
        config=config_difference(*pair.models),
        claims=claims,
        ledger=ledger,
        environment=_environment(options, verdict, controls.given),
        flags=(
            *_same_model(pair),
            *adapter_flags(*pair.models),
            *told_heads(pair.seen(judged.tokens, 0)),
            *controls.notes,
            *judged.flags,
        ),
        strong_flags=judged.strong_flags,
    )
    return record, deltas


def _beside_verdict(
    pair: ModelPair, judged: Judgement, alignment: AlignmentSummary
) -> tuple[CopyWalk, Deltas]:
    """Say whether it is a copy, and what was changed, as far as the budget allows."""
    walk = CopyWalk()
    try:
        walk = copy_of_relative(pair, judged.verdict)
        if walk.differs is not None:  # samples must not miss what is known to differ
            pair = replace(pair, differing=pair.differing | {walk.differs})
        return walk, _subtracted(pair, judged, alignment, walk.kind)
    except BudgetExceeded as error:
        return walk, Deltas(skipped=told(error))


def _subtracted(
    pair: ModelPair, judged: Judgement, alignment: AlignmentSummary, copy: CopyKind | None
) -> Deltas:
    """Subtract the weights of relatives; for copies and strangers that would say nothing."""
    verdict = judged.verdict
    if (
        not verdict.related
        or verdict.conclusion is Conclusion.IDENTICAL
        or copy in ("copy", "precision-copy")
    ):
        return Deltas()
    if pair.options.depth == "quick":
        return Deltas(skipped=say("delta-quick"))
    layers = [(layer, facing) for layer, facing, _ in alignment.layers]
    found = read_deltas(
        pair,
        layers,
        _tokens_used(judged, alignment.residual),
        residual=alignment.residual,
        units=alignment.units,
        frame=_frame_used(judged.deep, alignment.residual),
    )
    return found.unlike_in(
        [name for name, item in verdict.components.items() if item.conclusion is Conclusion.NO_EVIDENCE]
    )


def _tokens_used(judged: Judgement, residual: str) -> Tokens:
    """Return rows of shared tokens, unless they were only assumed and other coordinates bear out none.

    Without a tokenizer, rows of equal number are paired. In coordinates learned from layers, tables that show
    nothing may be in another order as well as replaced.
    """
    tokens = judged.tokens
    tables = [judged.verdict.components.get(name) for name in ("embedding", "head")]
    shared = any(item is not None and item.conclusion.related for item in tables)
    if residual == "identity" or shared or not (isinstance(tokens, TokenPairs) and tokens.assumed):
        return tokens
    return say("tokenizer-missing")


def _frame_used(deep: DeepResult | None, kind: str) -> Frame | None:
    """Return the best-fitting map of the residual stream, of the kind in which something was found."""
    frames = [frame for frame in (deep.frames if deep else ()) if frame.kind == kind]
    return max(frames, key=lambda frame: frame.fit, default=None)


def _same_model(pair: ModelPair) -> tuple[Message, ...]:
    """Say that a model is compared with itself, which is hardly intended."""
    places = [(model.location.origin, model.location.revision) for model in pair.models]
    return (say("flag-same-model"),) if places[0] == places[1] else ()


def _checked(
    pair: ModelPair, controls: DistinctControls, memory: Memory, progress: Progress
) -> tuple[ControlResult, ...]:
    results: list[ControlResult] = []
    for control in dict.fromkeys(controls.given):
        if control in controls.sides:
            results += unread_control(pair, control, say("control-is-side"))
        if control not in controls.models:
            continue
        progress.note(say("step-control", model=control.location.ref))
        try:
            results += judge_control(pair, control, memory)
        except BudgetExceeded as error:
            results += unread_control(pair, control, told(error))
    return tuple(results)


def _tokenizers(pair: ModelPair, tokens: Tokens, *, whole: bool) -> Mapping[str, Cell]:
    depth = pair.options.depth
    try:
        return tokenizer_summary(*pair.models, tokens, depth, whole=whole)
    except BudgetExceeded as error:
        return tokenizer_summary(*pair.models, tokens, depth, unread=told(error))


def _claims(pair: ModelPair) -> dict[str, tuple[Message, ...]]:
    sides = {"candidate": pair.candidate, "base": pair.base}
    return {name: said for name, model in sides.items() if (said := read_claims(model).sentences())}


def _environment(options: CompareOptions, verdict: Verdict, controls: Sequence[Model]) -> Environment:
    rule = load_rule()
    return Environment(
        modelkin=__version__,
        methods={name: card.version for name, card in load_cards().items()},
        rule=verdict.rule,
        thresholds={
            "log10_p": rule.log10_p,
            "effect_floor": rule.effect_floor,
            "matched_floor": float(rule.matched_floor),
        },
        seed=options.seed,
        depth=options.depth,
        byte_budget=options.fetch.byte_budget,
        controls=tuple(model.location.ref for model in controls),
    )
