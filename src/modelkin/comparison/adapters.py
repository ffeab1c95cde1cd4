"""What a comparison must say of adapters: what was put together, and what an adapter alone allows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from modelkin.architecture import Architecture, Role
from modelkin.comparison.methods import Factors
from modelkin.formats import Fit, fit_to_base, sort_out
from modelkin.model import Model
from modelkin.untrusted import quoted

_BY_CONSTRUCTION = (
    "what it has in common with that model it has by construction, "
    "and whether it was trained on that model is not tested"
)

# Llama, Mistral, Qwen, Gemma, Phi-4, OLMo: the names are theirs, and their units have no order of their own.
_MLP = re.compile(r"\.layers\.(\d{1,5})\.mlp\.(gate|up|down)_proj\Z")
_MLP_ROLES = {"gate": Role.MLP_GATE, "up": Role.MLP_UP, "down": Role.MLP_DOWN}


def is_on(model: Model, base: Model) -> bool:
    """Say whether a model is an adapter that was put on just this base."""
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


def adapter_flags(candidate: Model, base: Model) -> tuple[str, ...]:
    """Say what a person should know of adapters in a comparison."""
    sides = ("candidate", candidate, base), ("base", base, candidate)
    flags = [flag for name, model, other in sides for flag in _flags(name, model, other)]
    bases = [
        (record.base, record.base_revision)
        for model in (candidate, base)
        if (record := model.weights.adapter)
    ]
    if len(bases) == 2 and bases[0] == bases[1] and bases[0][0] is not None:
        flags.append("both are adapters on the same base, so they share its weights by construction")
    return tuple(flags)


def _flags(name: str, model: Model, other: Model) -> list[str]:
    adapter = model.weights.adapter
    if adapter is None:
        return []
    if not adapter.is_bare:
        return [f"the {name} is an adapter, put on {adapter.base}: {_BY_CONSTRUCTION}"]
    claim = f"it claims to be made for {quoted(adapter.claim, 80)}" if adapter.claim else "it names no base"
    flags = [f"the {name} is an adapter without a base ({claim}): only what it adds to weights can be tested"]
    if _is_bare(other):
        return flags
    problems = _fit(model, other).problems
    if problems:
        more = f"; {len(problems) - 1} more do not fit" if len(problems) > 1 else ""
        flags.append(f"it cannot be an adapter of {other.location.ref}: {problems[0]}{more}")
    else:
        flags.append(
            f"its shapes fit {other.location.ref}, as they fit every model of that shape; what training on a "
            "base leaves in an adapter is faint, so that finding nothing says little"
        )
    return flags


def _is_bare(model: Model) -> bool:
    return model.weights.adapter is not None and model.weights.adapter.is_bare


def _fit(model: Model, other: Model) -> Fit:
    adapter = model.weights.adapter
    assert adapter is not None
    return fit_to_base(adapter.config, sort_out(model.index), other.index)


def _by_name(model: Model) -> dict[tuple[Role, int], Factors]:
    """Sort the matrices of an adapter by the names of its modules: there is no model to ask what they are."""
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
