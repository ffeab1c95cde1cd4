"""The decision rule: loaded data, versioned, named in every report."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources

from modelkin.errors import SpecError
from modelkin.message import say

CURRENT = "rule-7"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRule:
    """When evidence is enough."""

    version: str
    log10_p: float
    effect_floor: float
    matched_floor: int
    blind_from: float
    """Detection limit from which a test finds nothing reliably, so that finding nothing says nothing."""
    layer_log10_p: float
    body: Sequence[str]
    """Components of which one must be shared before a whole model is called shared; empty for any."""
    echo: float
    """Share of the effect in new coordinates below which an effect in the old ones does not count."""
    coordinates: bool
    """Whether heads that are alike count as shared coordinates where these are shared and no units are."""
    opposed: bool
    """Whether nothing small is found in MLPs whose gates point away from each other."""
    stages: Mapping[str, float]
    agreement: Mapping[str, float]
    """When an agreement calibrated on controls counts: floor, control_pairs, layers."""
    own_layers: Mapping[str, float]
    """When an agreement contrasted with mismatched layers of the pair counts: floor, layers, part.

    From rule 6 on also same: heads that agree less are alike, which `coordinates` is about. From rule 7 on
    also beside: layers that agree so much are shared beside those that exact tests found."""
    calibration: Mapping[str, str]

    def stage_penalty(self, stage: str) -> float:
        """Return what is added to log10 p for the choice of stages."""
        return -math.log10(self.stages[stage])


@cache
def load_rule(name: str = CURRENT) -> DecisionRule:
    """Read a rule; an unknown or missing key is an error."""
    file = f"{name}.toml"
    text = resources.files("modelkin.comparison.verdict").joinpath("data", file).read_text(encoding="utf-8")
    table = tomllib.loads(text)
    expected = {field.name for field in fields(DecisionRule)}
    if table.keys() != expected:
        odd = sorted(table.keys() ^ expected)
        raise SpecError(file, say("problem.rule-keys", known=str(sorted(expected)), odd=str(odd)))
    rule = DecisionRule(**table)
    if not math.isclose(sum(rule.stages.values()), 1.0):
        raise SpecError(file, say("problem.rule-shares", got=sum(rule.stages.values())))
    return rule
