"""SARIF 2.1.0: rules and findings as one log, for code scanning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from modelkin._version import __version__
from modelkin.untrusted import visible

from .home import PAGES

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

Level = Literal["none", "note", "warning", "error"]
Kind = Literal["pass", "fail", "review", "notApplicable", "open", "informational"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SarifRule:
    """A kind of finding."""

    id: str
    """Such as ``MK001``; never reused for something else."""
    name: str
    text: str
    help_text: str
    page: str = "verdicts.md"
    """Page of the documentation."""
    level: Level = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class SarifFinding:
    """One thing that was found, or looked for and not found."""

    rule: str
    kind: Kind
    text: str
    model: str
    """Reference of the model it is about."""
    key: str = ""
    """What identifies it among findings of this rule about this model, from one run to the next."""
    file: str | None = None
    """File in which to fix it; the model itself if there is none."""
    level: Level | None = None
    """Overrides the rule's level if it fails."""
    properties: Mapping[str, object] = field(default_factory=dict)


def sarif_log(
    rules: Iterable[SarifRule],
    findings: Iterable[SarifFinding],
    *,
    properties: Mapping[str, object] | None = None,
) -> dict[str, Any]:
    """Return a log with one run. Only failures have a level, as the standard requires."""
    listed = tuple(rules)
    places = {rule.id: number for number, rule in enumerate(listed)}
    driver = {
        "name": "modelkin",
        "semanticVersion": __version__,
        "informationUri": PAGES,
        "rules": [_rule(rule) for rule in listed],
    }
    run: dict[str, object] = {
        "tool": {"driver": driver},
        "columnKind": "utf16CodeUnits",
        "results": [_result(item, listed[places[item.rule]], places[item.rule]) for item in findings],
    }
    if properties:
        run["properties"] = dict(properties)
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: SarifRule) -> dict[str, object]:
    return {
        "id": rule.id,
        "name": rule.name,
        "shortDescription": {"text": rule.text},
        "help": {"text": rule.help_text},
        "helpUri": f"{PAGES}/{rule.page}",
        "defaultConfiguration": {"level": rule.level},
    }


def _result(finding: SarifFinding, rule: SarifRule, number: int) -> dict[str, object]:
    name = visible(finding.model)
    fails = finding.kind == "fail"
    return {
        "ruleId": rule.id,
        "ruleIndex": number,
        "kind": finding.kind,
        "level": (finding.level or rule.level) if fails else "none",
        "message": {"text": visible(finding.text)},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": _uri(finding.file or finding.model)}},
                "logicalLocations": [{"name": name, "kind": "module"}],
            }
        ],
        "partialFingerprints": {"modelkin/1": ":".join(filter(None, (rule.id, name, visible(finding.key))))},
        **({"properties": dict(finding.properties)} if finding.properties else {}),
    }


def _uri(ref: str) -> str:
    """Return a reference as a relative URI: a folder of the repository, if it is one."""
    path = Path(ref)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        ref = path.relative_to(Path.cwd()).as_posix()
    return quote(ref.removeprefix("./"), safe="/:@._-~")
