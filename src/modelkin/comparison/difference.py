"""What changed between two models: tensor by tensor, and what kind of change it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from modelkin.comparison.names import names_alone, names_apart, told_alone, told_apart
from modelkin.comparison.record import Environment, LedgerRecord, ModelSummary, Relation, ledger_record
from modelkin.comparison.relation import TensorChange, TensorCount, all_equal, count_tensors
from modelkin.comparison.stages import compare_and_subtract
from modelkin.comparison.verdict import Verdict, resting_on_samples
from modelkin.errors import UsageError
from modelkin.message import Message, say
from modelkin.model import ModelLike, open_models
from modelkin.options import CompareOptions
from modelkin.progress import Progress, Silent
from modelkin.written import Reported

DIFF_SCHEMA = "modelkin.diff/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDiff(Reported):
    """What changed between a base and a candidate."""

    candidate: ModelSummary
    base: ModelSummary
    verdict: Verdict
    """Whether they have a common origin at all: without one, nothing is said about a change."""
    relation: Relation
    """What kind of change it is, with every finding."""
    tensors: tuple[TensorChange, ...]
    """What became of the tensors that were examined, from samples."""
    counts: tuple[TensorCount, ...]
    """Every value of the tensors that both models have; empty unless all of them were read."""
    only_in: Mapping[str, int]
    """Tensors without a counterpart of the same name and shape, by side. What one model has in a layer for
    multi-token prediction and the other in a decoder layer of that number are no counterparts."""
    notes: tuple[Message, ...]
    ledger: LedgerRecord
    environment: Environment


def diff(
    *,
    candidate: ModelLike,
    base: ModelLike,
    options: CompareOptions | None = None,
    digests: bool = False,
    progress: Progress | None = None,
) -> ModelDiff:
    """Say what changed between a base and a candidate.

    The models are compared first: only for relatives is it said what kind of change it is.

    Parameters
    ----------
    candidate, base
        Model references, sources, or opened models.
    options
        Depth (``standard``, ``deep``, or ``full``, which reads every value of both models), seed, and how to
        fetch.
    digests
        Whether ranges of local files that are read to count every value get their SHA-256 in the ledger. That
        takes several times as long as counting; ranges read over a network always have one.
    progress
        Told about long reads.

    Examples
    --------
    >>> from modelkin.demo import demo_zoo
    >>> with demo_zoo() as zoo:
    ...     found = diff(candidate=str(zoo / "finetune-light"), base=str(zoo / "base"))
    >>> found.relation.kind, found.tensors[0].what
    ('fine-tune', 'trained')
    """
    options, told = options or CompareOptions(), progress or Silent()
    if options.depth == "quick":
        raise UsageError("depth", say("problem.depth-quick"))
    full = options.depth == "full"
    # Every value is counted here, tensor by tensor; the comparison need not do it too.
    asked = replace(options, depth="deep") if full else options
    with open_models((candidate, base), options.fetch, progress=progress) as (mine, theirs):
        counts: tuple[TensorCount, ...] = ()
        equal: bool | None = None
        if full:
            told.note(say("step-every-value"))
            counts = count_tensors(mine, theirs, digested=digests)
            equal = all_equal(mine, theirs, counts)
        differing = [item.tensor for item in counts if item.equal < item.values]
        result, deltas = compare_and_subtract(mine, theirs, asked, told, equal=equal, differing=differing)
        ledger = ledger_record({"candidate": mine, "base": theirs})
        alone = names_alone(mine, theirs)
        return ModelDiff(
            candidate=result.candidate,
            base=result.base,
            verdict=resting_on_samples(result.verdict, alone=alone) if full else result.verdict,
            relation=result.relation,
            tensors=deltas.changes,
            counts=counts,
            only_in={"candidate": len(alone[0]), "base": len(alone[1])},
            notes=(
                *(() if deltas.skipped is None else (deltas.skipped,)),
                *_some_layers(result.relation),
                *told_apart(names_apart(mine, theirs)),
                *(told_alone(mine, theirs) if full else ()),
                *_without_digest(ledger),
            ),
            ledger=ledger,
            environment=replace(result.environment, depth=options.depth),
        )


def _some_layers(relation: Relation) -> tuple[Message, ...]:
    """Say how many layers the kind of change was told from, if not from all."""
    taken = relation.subtracted
    if taken is None or taken.has_every_layer:
        return ()
    return (say("delta-layers", n=taken.layers, m=taken.of_layers),)


def _without_digest(ledger: LedgerRecord) -> tuple[Message, ...]:
    """Say how many bytes were read without a digest, so that the ledger is not taken for more than it is."""
    n_bytes = sum(item.n_bytes for item in ledger.ranges if not item.sha256)
    return (say("without-digest", n=n_bytes),) if n_bytes else ()
