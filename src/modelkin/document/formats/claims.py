"""A check of a model card as SARIF, which code hosts and editors show next to the file that makes a claim."""

from __future__ import annotations

from modelkin.document.codec import dumps
from modelkin.lineage.cards import CardCheck, CheckedClaim

from .sarif import Kind, SarifFinding, SarifRule, sarif_log

_KINDS: dict[str, Kind] = {"contradicted": "fail", "untestable": "open", "supported": "pass"}
_FILES = ("README.md", "config.json", "adapter_config.json", "mergekit_config.yml")
_HELP = (
    "Supported: the weights have a common origin of the kind that is claimed. Contradicted: they have not."
)
_HELP_OF = {
    "from-scratch": "Contradicted: the weights have a common origin with an earlier model. Never supported: "
    "that no common origin was found does not prove the statement.",
    "licence": "Contradicted: it leaves out what the licence of a parent demands that the weights confirm.",
}
"""Of claims that a common origin does not support."""


def sarif_json(result: CardCheck) -> str:
    """Write a check as one SARIF document: a result for each claim, a rule for each kind of claim."""
    rules = [
        SarifRule(
            id=f"claim/{kind}",
            name="".join(word.capitalize() for word in ("claim", *kind.split("-"))),
            text=f"claim of a model card: {kind}",
            help_text=_HELP_OF.get(kind, _HELP),
            page="cli.md",
            level="error",
        )
        for kind in dict.fromkeys(item.kind for item in result.claims)
    ]
    about = {"model": result.model.ref, "revision": result.model.revision}
    return dumps(sarif_log(rules, (_finding(result, item) for item in result.claims), properties=about))


def _finding(result: CardCheck, item: CheckedClaim) -> SarifFinding:
    file = "config.json" if item.source.startswith("config.json") else item.source.partition(":")[0]
    return SarifFinding(
        rule=f"claim/{item.kind}",
        kind=_KINDS[item.status],
        text=f"{item.claim}: {item.status}. {item.reason}",
        model=result.model.ref,
        key=str(item.claim),
        file=file if file in _FILES else "README.md",
        properties={
            "status": item.status,
            "against": item.against,
            "conclusion": item.conclusion,
            "relation": item.relation,
            "log10_p": item.log10_p,
        },
    )
