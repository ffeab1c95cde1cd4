"""Records that no comparison of tiny models gives: hostile, with maps of layers, without exact tests."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from modelkin.comparison import Comparison, ControlResult
from modelkin.comparison.alignment import LayerMap
from modelkin.comparison.methods import Agreement, Contrast, Effect, Mismatched, Rank, Skipped, Tested
from modelkin.comparison.record import Direction, FrameRecord
from modelkin.comparison.verdict import decide, load_rule
from modelkin.message import say

EVIL = (
    "</script><script>window.ran = 1</script>"
    "<img src=x onerror='window.ran = 2'>\"'><svg onload=window.ran=3>"
    " &lt;b&gt; {pair} javascript:window.ran=4 \u202e\u2066\u200f\x1b[0m\x00 <style>*{display:none}</style>"
)


def hostile(result: Comparison, evil: str = EVIL) -> Comparison:
    """Put hostile text wherever an outsider can put some."""
    verdict, quoted = result.verdict, say("quoted", text=evil)
    return replace(
        result,
        verdict=replace(
            verdict,
            summary=quoted,
            limitations=(quoted,),
            stage=evil,
            rule=quoted,
            components={
                **{f"{name} {evil}": item for name, item in verdict.components.items()},
                evil: replace(max(verdict.components.values(), key=lambda item: item.n_tests), reason=quoted),
            },
        ),
        candidate=replace(
            result.candidate,
            **_all("ref", "kind", "origin", "revision", "family", "model_type", text=evil),
            dtypes={evil: 1},
            skipped=(say("quoted", text=evil),),
        ),
        evidence=tuple(
            replace(
                replace(test, reason=quoted)
                if isinstance(test, Skipped)
                else replace(test, flags=(evil,), details={evil: evil})
                if isinstance(test, Tested)
                else test,
                method=evil,
                version=evil,
                component=evil,
                role=evil,
                null=quoted,
                axis=evil,
            )
            for test in result.evidence
        ),
        alignment=replace(result.alignment, residual=evil, units=evil, unpaired=(say("quoted", text=evil),)),
        relation=replace(
            result.relation,
            kind=evil,
            details={evil: evil},
            direction=Direction(parent=evil, reasons=(say("quoted", text=evil),)),
        ),
        controls=(
            ControlResult(
                pair=(evil, evil),
                revision=evil,
                conclusion=None,
                effect=None,
                log10_p=None,
                usable=False,
                reason=quoted,
            ),
        ),
        tokenizer={evil: evil},
        config={evil: (evil, evil)},
        ledger=replace(
            result.ledger,
            ranges=tuple(
                replace(entry, file=evil, origin=evil, sha256=evil) for entry in result.ledger.ranges
            ),
        ),
        environment=replace(
            result.environment,
            modelkin=evil,
            methods={evil: evil},
            rule=quoted,
            depth=evil,
            thresholds={evil: 1.0},
        ),
    )


def _all(*names: str, text: str) -> dict[str, Any]:
    return dict.fromkeys(names, text)


def with_maps(result: Comparison, *, n_candidate: int = 12, n_base: int = 9, text: str = "mlp") -> Comparison:
    """Add a map of layers: the candidate repeats some layers of the base; one corner was not tested."""
    path = tuple((layer, layer * n_base // n_candidate) for layer in range(n_candidate))
    scores = tuple(
        tuple(
            None if (row, column) == (0, n_base - 1) else (50.25 if column == theirs else (column - row) / 4)
            for column in range(n_base)
        )
        for row, theirs in path
    )
    item = LayerMap(
        component=text,
        method=text,
        candidate_layers=tuple(range(n_candidate)),
        base_layers=tuple(range(n_base)),
        scores=scores,
        path=path,
        threshold=5.5,
        frame="rotation",
    )
    tried = FrameRecord(kind=text, learned_from=say("quoted", text=text), n_rows=77, fit=0.5, chance=0.25)
    mapped = replace(result.alignment, units="permutation", maps=(item,), frames=(tried,))
    return replace(result, alignment=mapped)


def by_own_layers(result: Comparison) -> Comparison:
    """Judge evidence that is not exact, in the record of another comparison."""
    effect = Effect(value=0.94, low=0.9, high=0.97)
    found = [
        Contrast(
            method="own-layers",
            version="1",
            component=component,
            axis="mlp",
            null=say("null-mlp"),
            layers=(layer,),
            frame="rotation",
            statistic=0.94,
            log10_p=-11.5,
            effect=effect,
            n=512,
            n_matched=481,
            mismatched=Mismatched(n_pairs=24, largest=0.0231, limit=0.05),
        )
        for component in ("mlp", "attention")
        for layer in range(3)
    ]
    tests = (*(test for test in result.evidence if test.component not in ("mlp", "attention")), *found)
    verdict = decide(tests, load_rule(), candidate="B", base="A", stage="deep")
    assert verdict.basis == "own-layers"
    return replace(result, evidence=tests, verdict=verdict)


def by_rank(result: Comparison, *, packaged: int) -> Comparison:
    """Judge a rank among controls, in the record of another comparison."""
    found = [
        Agreement(
            method="unit-agreement",
            version="1",
            component="mlp",
            axis="mlp",
            null=say("null-mlp"),
            layers=(layer,),
            statistic=0.9,
            effect=Effect(value=0.9, low=0.85, high=0.95),
            n=512,
            rank=Rank(
                log10_p=math.log10(1 / 28), control_pairs=27, largest_control=0.031, packaged_pairs=packaged
            ),
        )
        for layer in range(3)
    ]
    tests = (*(test for test in result.evidence if test.component != "mlp"), *found)
    verdict = decide(tests, load_rule(), candidate="B", base="A", stage="deep")
    assert verdict.basis == "rank"
    return replace(result, evidence=tests, verdict=verdict)
