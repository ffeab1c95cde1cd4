"""Agreement measured on controls: what pairs of unrelated models show, and where the tested pair stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import resources
from math import fsum
from pathlib import Path

from modelkin.architecture import Architecture, Role
from modelkin.comparison.methods import Agreement, Evidence, Rank
from modelkin.stats import log10_conformal

LEAST_AGREEMENT = 0.05
"""Below this there is nothing to calibrate: strangers agree as much."""


def measured(evidence: Iterable[Evidence]) -> list[Agreement]:
    """Return the agreements among pieces of evidence."""
    return [item for item in evidence if isinstance(item, Agreement)]


def agreement_score(evidence: Iterable[Evidence]) -> float:
    """Return the mean agreement over layers: one number for a pair of models."""
    values = [item.effect.value for item in measured(evidence)]
    return fsum(values) / len(values)


def worth_calibrating(evidence: Iterable[Evidence]) -> bool:
    """Say whether a pair agrees so much that controls are worth reading."""
    found = measured(evidence)
    return bool(found) and agreement_score(found) > LEAST_AGREEMENT


def calibrated(evidence: Iterable[Evidence], scores: Sequence[float]) -> list[Evidence]:
    """Give agreements their p-value, the rank of the pair among control pairs; leave other evidence alone."""
    items = list(evidence)
    found = measured(items)
    if not found or not scores:
        return items
    log10_p = log10_conformal(agreement_score(found), scores)
    rank = Rank(log10_p=log10_p, control_pairs=len(scores), largest_control=max(scores))
    return [replace(item, rank=rank) if isinstance(item, Agreement) else item for item in items]


def agreement_flag(evidence: Iterable[Evidence], n_pairs: int, wanted: int) -> str | None:
    """Say that a pair looks alike where controls are missing: a reason to look closer, no finding."""
    found = measured(evidence)
    if not found or agreement_score(found) < 4 * LEAST_AGREEMENT or n_pairs >= wanted:
        return None
    return (
        f"The MLP units look alike once coordinates are removed (agreement {agreement_score(found):.0%}). "
        f"Only {n_pairs} pairs with unrelated models were there to compare it with and {wanted} are needed: "
        "give more unrelated models of the same shapes as controls."
    )


def can_be_control(control: Architecture, base: Architecture) -> bool:
    """Say whether the agreement of a model's units can be held against that of the base's.

    Both have gated MLPs, or neither has. A layer of the control may have fewer units but not more: fewer
    agree more often by chance, so a smaller control errs on the safe side and a larger one would not.
    """
    gated = [bool(a.layers_of(Role.MLP_GATE) or a.layers_of(Role.EXPERT_GATE)) for a in (control, base)]
    return control.is_known and gated[0] == gated[1] and 0 < _n_units(control) <= _n_units(base)


def _n_units(architecture: Architecture) -> int:
    sizes = architecture.sizes
    return max(sizes.get("mlp", 0), sizes.get("experts", 0) * sizes.get("expert_mlp", 0))


def reference_folders() -> list[Path]:
    """Return the folders of the independent models that come with the package, to serve as controls."""
    root = Path(str(resources.files("modelkin.demo").joinpath("zoo")))
    return [root / name for name in ("base", "twin-1") if (root / name).is_dir()]
