"""What a comparison must say about adapters: what was combined, and what an adapter alone allows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from modelkin.architecture import Architecture, Role
from modelkin.comparison.methods import Factors
from modelkin.formats import Fit, fit_to_base, sort_out
from modelkin.message import Message, say
from modelkin.model import Model
from modelkin.untrusted import quoted

# Names used by Llama, Mistral, Qwen, Gemma, Phi-4 and OLMo, whose units have no inherent order.
_MLP = re.compile(r"\.layers\.(\d{1,5})\.mlp\.(gate|up|down)_proj\Z")
_MLP_ROLES = {"gate": Role.MLP_GATE, "up": Role.MLP_UP, "down": Role.MLP_DOWN}


def is_on(model: Model, base: Model) -> bool:
    """Say whether a model is an adapter that was applied to exactly this base."""
    adapter = model.weights.adapter
    if adapter is None or adapter.base is None or base.weights.adapter is not None:
        return False
    location = base.location
    return (adapter.base, adapter.base_revision) == (location.origin, location.revision)


def bare_updates(model: Model, other: Model) -> Mapping[tuple[Role, int], Factors] | None:
    """Return the matrices of an adapter without its base, by role and layer; None for any other model."""
    adapter = model.weights.adapter
    if adapter is None or not adapter.is_bare:
        return None
    if _is_bare(other):
        return _by_name(model)
    fit = _fit(model, other)
    if fit.problems:
        return {}
    return _by_role(
        other.architecture,
        {
            update.target: Factors(a=update.a.name, b=update.b.name)
            for update in fit.updates
            if not update.inputs_first and not update.experts
        },
    )


def adapter_flags(candidate: Model, base: Model) -> tuple[Message, ...]:
    """Return what a person should know about adapters in a comparison."""
    sides = ("candidate", candidate, base), ("base", base, candidate)
    flags = [flag for name, model, other in sides for flag in _flags(name, model, other)]
    bases = [
        (record.base, record.base_revision)
        for model in (candidate, base)
        if (record := model.weights.adapter)
    ]
    if len(bases) == 2 and bases[0] == bases[1] and bases[0][0] is not None:
        flags.append(say("adapters-one-base"))
    return tuple(flags)


def _flags(name: str, model: Model, other: Model) -> list[Message]:
    adapter = model.weights.adapter
    if adapter is None:
        return []
    side = say(f"side.{name}")
    if not adapter.is_bare:
        return [say("adapter-put-on", side=side, base=adapter.base)]
    claim = adapter.claim
    made_for = say("adapter-claim", name=quoted(claim, 80)) if claim else say("adapter-no-claim")
    flags = [say("adapter-bare", side=side, claim=made_for)]
    if _is_bare(other):
        return flags
    problems = _fit(model, other).problems
    if not problems:
        return [*flags, say("adapter-fits", model=other.location.ref)]
    code = "adapter-misfits" if len(problems) > 1 else "adapter-misfit"
    return [*flags, say(code, model=other.location.ref, problem=problems[0], n=len(problems) - 1)]


def _is_bare(model: Model) -> bool:
    return model.weights.adapter is not None and model.weights.adapter.is_bare


def _fit(model: Model, other: Model) -> Fit:
    adapter = model.weights.adapter
    assert adapter is not None
    return fit_to_base(adapter.config, sort_out(model.index), other.index)


def _by_name(model: Model) -> dict[tuple[Role, int], Factors]:
    """Sort the matrices of an adapter by the names of its modules: no model says what they are."""
    found: dict[tuple[Role, int], Factors] = {}
    for module in sort_out(model.index).modules:
        match = _MLP.search(module.name)
        a, b = module.parts.get("a"), module.parts.get("b")
        if match and a is not None and b is not None and len(a.shape) == len(b.shape) == 2:
            found[_MLP_ROLES[match[2]], int(match[1])] = Factors(a=a.name, b=b.name)
    return found


def _by_role(architecture: Architecture, factors: Mapping[str, Factors]) -> dict[tuple[Role, int], Factors]:
    """Sort factors by what their weight is for; weights with several purposes or experts are left out."""
    entries = [entry for entry in architecture.tensors if entry.tensor in factors]
    counted = Counter(entry.tensor for entry in entries)
    return {
        (entry.role, entry.layer): factors[entry.tensor]
        for entry in entries
        if entry.layer is not None and entry.expert is None and counted[entry.tensor] == 1
    }
