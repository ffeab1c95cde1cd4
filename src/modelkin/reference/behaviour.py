"""Methods that compare what models answer: agreement of next tokens, and its rank among controls.

What two models answer says nothing about whose weights they have. It is all that shows of a student that
learned from a teacher's answers, and it is reported as behaviour.
"""

from __future__ import annotations

import math
from typing import final

import numpy as np

from modelkin.message import Message, say
from modelkin.model import Model

from ._interface import RawScore, ReferencePair
from .reading import Floats, SideReader
from .representations import RunningMethod
from .running import Trace, shipped_prompts, traced
from .tokens import RowPairs, pair_rows

FEWEST_CONTROLS = 3
"""With two controls the best rank is one in three, which says nothing."""


def divergences(first: Floats, second: Floats) -> tuple[np.ndarray, np.ndarray]:
    """Return for each prompt the Jensen-Shannon divergence in bits, and whether the first choice is the same.

    Columns are the same tokens; probabilities of other tokens are left out.
    """
    logs = [_log_softmax(rows.astype(np.float64)) for rows in (first, second)]
    middle = np.logaddexp(logs[0], logs[1]) - math.log(2.0)
    parts = [np.sum(np.exp(log) * (log - middle), axis=1) for log in logs]
    same = logs[0].argmax(axis=1) == logs[1].argmax(axis=1)
    return (parts[0] + parts[1]) / (2.0 * math.log(2.0)), same


def _log_softmax(rows: np.ndarray) -> np.ndarray:
    shifted = rows - rows.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def agreement(mine: Trace, theirs: Trace, rows: RowPairs) -> RawScore | Message:
    """Return one minus the mean divergence over the tokens that both vocabularies have."""
    if mine.logits is None or theirs.logits is None:
        return say("reference-no-tokens")
    sides = []
    for trace, numbers in ((mine.logits, rows.candidate), (theirs.logits, rows.base)):
        if max(numbers) >= trace.shape[1]:
            return say("reference-shapes")
        sides.append(trace[:, list(numbers)])
    found, same = divergences(sides[0], sides[1])
    return RawScore(
        score=1.0 - float(found.mean()),
        details={
            "same_first_choice": float(same.mean()),
            "largest_divergence": float(found.max()),
            "tokens": float(len(rows)),
            "prompts": float(len(found)),
        },
    )


@final
class LogitAgreement(RunningMethod):
    """One minus the mean Jensen-Shannon divergence of next-token distributions."""

    def compared(self, pair: ReferencePair, mine: Trace, theirs: Trace) -> RawScore | Message:
        """Compare the answers to all prompts."""
        return pair.rows if isinstance(pair.rows, Message) else agreement(mine, theirs, pair.rows)


@final
class BehaviourRank(RunningMethod):
    """The rank of the candidate's agreement with the base among that of unrelated models with the base.

    Null hypothesis: the candidate is one more model like the controls, so that every rank is equally likely.
    The smallest p is one over the number of controls plus one, however much the models agree.
    """

    uses_controls = True

    def compared(self, pair: ReferencePair, mine: Trace, theirs: Trace) -> RawScore | Message:
        """Run the controls on the same prompts and count those that agree as much."""
        controls = [model for model in pair.controls if _is_another(model, pair)]
        if len(controls) < FEWEST_CONTROLS:
            return say("reference-needs-controls", n=len(controls), m=FEWEST_CONTROLS)
        if isinstance(pair.rows, Message):
            return pair.rows
        own = agreement(mine, theirs, pair.rows)
        if isinstance(own, Message):
            return own
        readers = [SideReader(model) for model in controls]
        found = [_control_agreement(pair, reader, theirs) for reader in readers]
        others = [item.score for item in found if not isinstance(item, Message)]
        if len(others) < FEWEST_CONTROLS:
            return say("reference-needs-controls", n=len(others), m=FEWEST_CONTROLS)
        p = (1 + sum(other >= own.score for other in others)) / (len(others) + 1)
        return RawScore(
            score=-math.log10(p) + 0.0,
            details={
                "p": p,
                "agreement": own.score,
                "largest_control": max(others),
                "controls": float(len(others)),
                "control_bytes": float(sum(reader.n_bytes for reader in readers)),
                "same_first_choice": own.details["same_first_choice"],
            },
        )


def _is_another(control: Model, pair: ReferencePair) -> bool:
    """Say whether a control is neither of the two: a model is not its own control."""
    place = control.location.origin, control.location.revision
    return all(place != (model.location.origin, model.location.revision) for model in pair.models)


def _control_agreement(pair: ReferencePair, reader: SideReader, theirs: Trace) -> RawScore | Message:
    prompts = pair.prompts or shipped_prompts()
    trace = pair.of_controls.recall(reader, ((), prompts), lambda r: traced(r, prompts))
    if isinstance(trace, Message):
        return trace
    with pair.of_controls.lock:
        rows = pair_rows(reader.model, pair.base)
    return rows if isinstance(rows, Message) else agreement(trace, theirs, rows)
