"""A check as SARIF 2.1.0, which code hosts and editors show beside the file that makes a claim."""

from __future__ import annotations

from modelkin.comparison.cards import CardCheck, CheckedClaim

from . import codec

_LEVELS = {"contradicted": "error", "untestable": "note", "supported": "none"}
_KINDS = {"contradicted": "fail", "untestable": "open", "supported": "pass"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_json(result: CardCheck) -> str:
    """Write a check as one SARIF document: a result for each claim, a rule for each kind of claim."""
    kinds = list(dict.fromkeys(item.kind for item in result.claims))
    return codec.dumps(
        {
            "$schema": _SCHEMA,
            "version": "2.1.0",
            "runs": [
                {
                    "tool": {
                        "driver": {
                            "name": "modelkin",
                            "version": result.modelkin,
                            "rules": [
                                {
                                    "id": f"claim/{kind}",
                                    "shortDescription": {"text": f"claim of a model card: {kind}"},
                                }
                                for kind in kinds
                            ],
                        }
                    },
                    "results": [_result(item, kinds.index(item.kind)) for item in result.claims],
                    "properties": {"model": result.model.ref, "revision": result.model.revision},
                }
            ],
        }
    )


def _result(item: CheckedClaim, rule: int) -> dict[str, object]:
    file = "config.json" if item.source.startswith("config.json") else item.source.partition(":")[0]
    named = file if file in _FILES else "README.md"
    return {
        "ruleId": f"claim/{item.kind}",
        "ruleIndex": rule,
        "kind": _KINDS[item.status],
        "level": _LEVELS[item.status],
        "message": {"text": f"{item.claim}: {item.status}. {item.reason}"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": named}}}],
        "properties": {
            "status": item.status,
            "against": item.against,
            "conclusion": item.conclusion,
            "relation": item.relation,
            "log10_p": item.log10_p,
        },
    }


_FILES = ("README.md", "config.json", "adapter_config.json", "mergekit_config.yml")
