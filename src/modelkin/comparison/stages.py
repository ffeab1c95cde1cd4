"""Was one model derived from the other: the order of stages. All numbers come from the layers below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modelkin._version import __version__
from modelkin.comparison.adapters import adapter_flags
from modelkin.comparison.claims import read_claims
from modelkin.comparison.controls import (
    Memory,
    agreement_flag,
    calibrated,
    control_scores,
    judge_control,
    worth_calibrating,
)
from modelkin.comparison.deep import DeepResult, DeepStage
from modelkin.comparison.identity import copy_of_relative, full_identity, published_identity
from modelkin.comparison.kinship import alignment_summary, relation_of
from modelkin.comparison.methods import Evidence, load_cards
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.reading import Rehearsal
from modelkin.comparison.record import (
    Comparison,
    ControlResult,
    Environment,
    ledger_record,
    model_summary,
)
from modelkin.comparison.sampling import Sampled, read_samples
from modelkin.comparison.tokens import UNREAD, Tokens, tokenizer_summary
from modelkin.comparison.verdict import GUESSED, Identity, Verdict, decide, load_rule
from modelkin.describe import config_difference
from modelkin.message import Message, say
from modelkin.model import Model, ModelLike, open_models, read_headers
from modelkin.options import CompareOptions
from modelkin.progress import Progress, Silent
from modelkin.source import BytePlan

_SILENT = Silent()


def compare(
    *,
    candidate: ModelLike,
    base: ModelLike,
    options: CompareOptions | None = None,
    controls: Sequence[ModelLike] = (),
    progress: Progress | None = None,
) -> Comparison:
    """Ask whether the candidate was derived from the base.

    Parameters
    ----------
    candidate, base
        Model references, sources, or opened models.
    options
        Depth, seed, and how to fetch.
    controls
        Models that are thought to be unrelated: they are compared with both sides under the same plan.
    progress
        Told about long reads.

    Returns
    -------
    Comparison
        The verdict with all evidence, and everything needed to check it.
    """
    options, told = options or CompareOptions(), progress or Silent()
    with open_models((candidate, base, *controls), options.fetch, progress=progress) as opened:
        read_headers(opened)
        mine, theirs, *others = opened
        pair = ModelPair(candidate=mine, base=theirs, options=options)
        memory = _memory()
        try:
            return _recorded(pair, judge(pair, memory, others, told), others, memory, told)
        finally:
            memory.close()


def plan_comparison(
    *,
    candidate: ModelLike,
    base: ModelLike,
    options: CompareOptions | None = None,
    progress: Progress | None = None,
) -> tuple[BytePlan, BytePlan]:
    """Say what `compare` would request of both models at most. Headers and tokenizers are read, no tensor."""
    options = options or CompareOptions()
    with open_models((candidate, base), options.fetch, progress=progress) as opened:
        read_headers(opened)
        mine, theirs = opened
        pair = ModelPair(candidate=mine, base=theirs, options=options)
        # Either units were reordered, or not; what is said of each model is the dearer of both.
        ways = [Rehearsal(reordered=reordered) for reordered in ((False, True) if pair.is_deep else (False,))]
        memory = _memory()
        for rehearsal in ways:
            judge(pair, memory, rehearsal=rehearsal)
        plans = [(mine.plan(way.asked[0]), theirs.plan(way.asked[1])) for way in ways]
        dearer = [max(side, key=lambda plan: plan.bytes_needed) for side in zip(*plans, strict=True)]
        return dearer[0], dearer[1]


def _memory() -> Memory:
    return Memory(lambda pair, memory: judge(pair, memory).verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on one pair, and what it rests on."""

    verdict: Verdict
    evidence: tuple[Evidence, ...]
    sampled: Sampled
    tokens: Tokens
    deep: DeepResult | None
    flags: tuple[Message, ...]


def judge(
    pair: ModelPair,
    memory: Memory,
    controls: Sequence[Model] = (),
    progress: Progress = _SILENT,
    rehearsal: Rehearsal | None = None,
) -> Judgement:
    """Read stage by stage until the verdict is decided; a rehearsal goes through all stages of the depth."""
    identity = published_identity(pair)
    if identity is not None:
        return _decided(pair, "quick", Sampled(), UNREAD, identity=identity)
    sampled = read_samples(pair, "quick", UNREAD, rehearsal)
    if pair.options.depth == "quick":
        return _decided(pair, "quick", sampled, UNREAD)
    tokens = memory.tokens(pair)
    sampled += read_samples(pair, "standard", tokens, rehearsal)
    identity = full_identity(pair, sampled.equality) if rehearsal is None else None
    if pair.options.depth == "standard" or identity is not None:
        return _decided(pair, "standard", sampled, tokens, identity=identity)
    deep = DeepStage(pair, tokens, sampled.evidence, progress, rehearsal).run()
    scores = []
    if worth_calibrating(deep.evidence):
        progress.note(say("step-ranks"))
        scores = control_scores(pair, controls, memory)
    evidence = calibrated(deep.evidence, scores)
    flag = agreement_flag(evidence, len(scores), int(load_rule().agreement["control_pairs"]))
    return _decided(
        pair,
        "deep",
        sampled,
        tokens,
        deep=deep,
        found_deep=evidence,
        flags=(flag,) if flag else (),
    )


def _decided(
    pair: ModelPair,
    stage: str,
    sampled: Sampled,
    tokens: Tokens,
    *,
    identity: Identity | None = None,
    deep: DeepResult | None = None,
    found_deep: Sequence[Evidence] = (),
    flags: tuple[Message, ...] = (),
) -> Judgement:
    evidence = (*sampled.evidence, *found_deep)
    verdict = decide(
        evidence,
        load_rule(),
        candidate=pair.candidate.location.ref,
        base=pair.base.location.ref,
        stage=stage,
        identity=identity,
        frame=deep.frame if deep else "identity",
        extra_limitations=(GUESSED,) if pair.has_guesses else (),
    )
    return Judgement(
        verdict=verdict, evidence=evidence, sampled=sampled, tokens=tokens, deep=deep, flags=flags
    )


def _recorded(
    pair: ModelPair, judged: Judgement, controls: Sequence[Model], memory: Memory, progress: Progress
) -> Comparison:
    """Put down everything that a reader needs to check the verdict."""
    verdict, options = judged.verdict, pair.options
    decided_early = verdict.stage == "quick"  # then nothing more is read
    tokenizer = tokenizer_summary(*pair.models, judged.tokens, options.depth, whole=not decided_early)
    claims = {} if decided_early else _claims(pair)
    copy = copy_of_relative(pair, verdict)
    ledger = ledger_record({"candidate": pair.candidate, "base": pair.base})  # before controls read on
    checked = _checked(pair, controls, memory, progress)
    alignment = alignment_summary(*pair.models, verdict, judged.evidence, judged.deep)
    return Comparison(
        candidate=model_summary(pair.candidate),
        base=model_summary(pair.base),
        verdict=verdict,
        evidence=judged.evidence,
        alignment=alignment,
        relation=relation_of(*pair.models, verdict, alignment, judged.sampled.equality, copy=copy),
        controls=checked,
        tokenizer=tokenizer,
        config=config_difference(*pair.models),
        claims=claims,
        ledger=ledger,
        environment=_environment(options, verdict, controls),
        flags=(*adapter_flags(*pair.models), *judged.flags),
    )


def _checked(
    pair: ModelPair, controls: Sequence[Model], memory: Memory, progress: Progress
) -> tuple[ControlResult, ...]:
    results: list[ControlResult] = []
    for control in controls:
        progress.note(say("step-control", model=control.location.ref))
        results += judge_control(pair, control, memory)
    return tuple(results)


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
