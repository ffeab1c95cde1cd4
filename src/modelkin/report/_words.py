"""Words that all reports share: what a conclusion is called, and how names of strangers are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from modelkin._comparison import Comparison
from modelkin.evidence import Evidence
from modelkin.verdict import ComponentVerdict, Conclusion

from ._numbers import limit_text, runs_text, value_text

HEADLINE: Mapping[Conclusion, str] = {
    Conclusion.IDENTICAL: "Identical weights",
    Conclusion.SHARED: "Common origin: shared weights",
    Conclusion.SHARED_PARTIAL: "Common origin of some parts: partly shared weights",
    Conclusion.SHARED_REPARAMETRISED: "Common origin: shared weights in a changed form",
    Conclusion.NO_EVIDENCE: "No evidence of a common origin",
    Conclusion.NOT_TESTABLE: "Not testable",
}

SHORT: Mapping[Conclusion, str] = {
    Conclusion.IDENTICAL: "identical",
    Conclusion.SHARED: "shared",
    Conclusion.SHARED_PARTIAL: "in part",
    Conclusion.SHARED_REPARAMETRISED: "changed form",
    Conclusion.NO_EVIDENCE: "no evidence",
    Conclusion.NOT_TESTABLE: "not testable",
}

_CHANCE = "how often unrelated models would agree this well by chance, at most"

STRENGTH: Mapping[Conclusion, str] = {
    Conclusion.IDENTICAL: _CHANCE,
    Conclusion.SHARED: _CHANCE,
    Conclusion.SHARED_PARTIAL: _CHANCE,
    Conclusion.SHARED_REPARAMETRISED: _CHANCE,
    Conclusion.NO_EVIDENCE: "not enough for a finding under the decision rule",
    Conclusion.NOT_TESTABLE: "no test was made",
}

SCALE = "0 is chance, 1 is identical"


def visible(text: str) -> str:
    r"""Show control, invisible and direction-changing characters as escapes: ``\x1b``, ``\u202e``.

    Names of tensors, files and models are written by strangers. Unescaped they could clear a screen, hide
    a line or reverse it.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text
    )


def strongest_component(result: Comparison) -> str | None:
    """Name the component whose effect is the verdict's."""
    effect = result.verdict.effect
    return next((name for name, item in tested_components(result) if effect and item.effect == effect), None)


def tested_components(result: Comparison) -> Iterator[tuple[str, ComponentVerdict]]:
    """Yield the components for which a test was made, the strongest first."""
    made = [item for item in result.verdict.components.items() if item[1].log10_p is not None]
    yield from sorted(made, key=lambda item: (item[1].log10_p or 0.0, item[0]))


def layers_text(name: str, item: ComponentVerdict, result: Comparison) -> str:
    """Say which layers were tested, and where a component is shared in only some of them."""
    if item.other_layers:
        return f"{runs_text(item.layers) or 'none'} shared, {runs_text(item.other_layers)} not"
    return tested_layers(name, result) or "-"


def tested_layers(name: str, result: Comparison) -> str:
    """List the layers of a component in which a test was made."""
    made = (test.layers for test in result.evidence if test.component == name and test.ok)
    return runs_text(sorted({layer for layers in made for layer in layers}))


def limits_text(result: Comparison) -> str:
    """Say from which effect on each component without evidence would have been found."""
    parts = [
        f"{name} from {limit_text(item.detection_limit)}"
        for name, item in sorted(
            result.verdict.components.items(), key=lambda found: found[1].detection_limit or 0.0
        )
        if item.conclusion is Conclusion.NO_EVIDENCE and item.detection_limit is not None
    ]
    return ", ".join(parts)


def not_examined(result: Comparison) -> Iterator[str]:
    """Yield everything that was left out, with its reason; equal reasons are told once."""
    groups: dict[tuple[str, str], list[Evidence]] = {}
    for test in result.evidence:
        if not test.ok:
            groups.setdefault((test.component, test.reason or "no reason given"), []).append(test)
    merged: dict[tuple[str, str], list[str]] = {}
    for (component, reason), tests in groups.items():
        where = runs_text(sorted({layer for test in tests for layer in test.layers}))
        merged.setdefault((reason, where), []).append(component)
    for (reason, where), components in merged.items():
        place = f" (layers {where})" if where else ""
        yield f"{', '.join(components)}{place}: {reason}"
    for side, model in (("candidate", result.candidate), ("base", result.base)):
        yield from (f"{side}: {text}" for text in model.skipped)
    yield from result.alignment.unpaired
    used = {test.method for test in result.evidence}
    unused = [name for name in result.environment.methods if name not in used]
    decided = result.verdict.conclusion is Conclusion.IDENTICAL
    if unused and not decided and result.verdict.stage == "quick":
        yield f"methods not used at stage {result.verdict.stage}: {', '.join(unused)}"


def details_text(test: Evidence) -> str:
    """Write what a test says beside its numbers."""
    return "; ".join(f"{name.replace('_', ' ')} {value_text(value)}" for name, value in test.details.items())


def relation_text(result: Comparison) -> str:
    """Say what kind of relation it is and who came first, as far as known."""
    relation = result.relation
    kind = "kind not determined" if relation.kind == "unknown" else relation.kind
    parent = relation.direction.parent
    return f"{kind}; {f'parent: {parent}' if parent else 'which came first is not determined'}"
