"""CycloneDX 1.6: a machine-learning component with its pedigree."""

from __future__ import annotations

import uuid
from typing import Any

from modelkin.comparison import Comparison, ModelSummary
from modelkin.untrusted import visible

_SPACE = uuid.UUID("5f0f0d5e-6c3c-5d0a-9a0b-6d6f64656c6b")
"""Namespace of our documents: the same comparison gets the same serial number."""


def ml_bom(result: Comparison) -> dict[str, Any]:
    """Return a bill of materials: the candidate, with the base as ancestor if a common origin was found.

    A common ancestor looks the same as parent and child, so the pedigree also says in words what was found.
    """
    verdict = result.verdict
    candidate, base = _component(result.candidate), _component(result.base)
    pedigree: dict[str, object] = {"notes": visible(str(verdict.summary))}
    if verdict.related:
        pedigree = {"ancestors": [base], **pedigree}
    found = {
        "conclusion": verdict.conclusion.value,
        "log10_p": verdict.log10_p,
        "basis": verdict.basis,
        "effect": None if verdict.effect is None else verdict.effect.value,
        "compared-with": result.base.ref,
        "depth": result.environment.depth,
        "stage": verdict.stage,
    }
    candidate |= {
        "pedigree": pedigree,
        "properties": [
            {"name": f"modelkin:{name}", "value": visible(str(value))}
            for name, value in found.items()
            if value is not None
        ],
    }
    name = "|".join((result.candidate.origin, str(result.candidate.revision), result.base.origin))
    tool = {"type": "application", "name": "modelkin", "version": result.environment.modelkin}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_SPACE, name)}",
        "version": 1,
        "metadata": {"tools": {"components": [tool]}, "component": candidate},
        "components": [base] if not verdict.related else [],
    }


def _component(model: ModelSummary) -> dict[str, object]:
    parameters: dict[str, object] = {"architectureFamily": model.family or model.model_type or "unknown"}
    made: dict[str, object] = {
        "type": "machine-learning-model",
        "bom-ref": visible(f"{model.kind}:{model.ref}"),
        "name": visible(model.ref),
        "modelCard": {"modelParameters": parameters},
    }
    if model.revision:
        made["version"] = model.revision
    if model.kind == "hub":
        made["externalReferences"] = [{"type": "distribution", "url": model.origin}]
    return made
