"""The JSON interface as data: every route, what it does, who may use it, and its description for programs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from modelkin._version import __version__

Who = Literal["all", "scan", "token"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRoute:
    """One route of the interface."""

    method: Literal["get", "post"]
    path: str
    name: str
    """Of the function that answers."""
    about: str
    who: Who = "all"
    """Everybody; those who may scan; only holders of the token."""
    body: str | None = None
    """Schema of what is sent, by its name below."""
    query: tuple[tuple[str, str], ...] = ()


ROUTES = (
    ApiRoute(method="get", path="/api/atlas", name="atlas", about="The whole atlas (modelkin.atlas/1)."),
    ApiRoute(
        method="get",
        path="/api/models",
        name="models",
        about="Models whose reference or name holds a text.",
        query=(("q", "string"), ("limit", "integer")),
    ),
    ApiRoute(
        method="get",
        path="/api/models/{key}",
        name="model",
        about="One model with its claims, unnamed origins, licences, merges, edges and nearest relatives.",
    ),
    ApiRoute(method="get", path="/api/families", name="families", about="All families."),
    ApiRoute(method="get", path="/api/pairs/{key}", name="pair", about="What is known of two models."),
    ApiRoute(
        method="post",
        path="/api/scans",
        name="begin_scan",
        about="Begin a scan of a model of the Hub, or of a fingerprint. The registry is not changed.",
        who="scan",
        body="Scan",
    ),
    ApiRoute(method="get", path="/api/scans/{id}", name="scan", about="State and steps of a scan."),
    ApiRoute(
        method="get",
        path="/api/scans/{id}/events",
        name="scan_events",
        about="The same as server-sent events, step and state, until the scan is over.",
    ),
    ApiRoute(
        method="get",
        path="/api/scans/{id}/result",
        name="scan_result",
        about="The result of a scan that is done (modelkin.scan/1).",
    ),
    ApiRoute(
        method="post",
        path="/api/fingerprints",
        name="add_fingerprint",
        about="Add a fingerprint of a model of the Hub to the registry, for the next atlas.",
        who="token",
        body="Fingerprint",
    ),
)
_BODIES: dict[str, dict[str, Any]] = {
    "Scan": {
        "type": "object",
        "description": "Either the name of a model, or a fingerprint as `modelkin fingerprint` writes it.",
        "properties": {
            "model": {"type": "string", "maxLength": 200, "examples": ["org/name"]},
            "fingerprint": {"$ref": "#/components/schemas/Fingerprint"},
        },
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    },
    "Fingerprint": {
        "type": "object",
        "description": "A document of the schema modelkin.fingerprint/1.",
        "properties": {"schema": {"const": "modelkin.fingerprint/1"}},
        "required": ["schema"],
    },
}


def openapi(*, scans: Literal["all", "token", "none"]) -> dict[str, Any]:
    """Return the description of the interface, by OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        told: dict[str, Any] = {"operationId": route.name, "summary": route.about}
        inside = re.findall(r"\{(\w+)\}", route.path)
        parameters = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in inside
        ] + [{"name": name, "in": "query", "schema": {"type": kind}} for name, kind in route.query]
        if parameters:
            told["parameters"] = parameters
        kind = "text/event-stream" if route.path.endswith("/events") else "application/json"
        answers = {
            "202" if route.name == "begin_scan" else "200": {"description": "Done", "content": {kind: {}}}
        }
        for status, about in _refusals(route):
            answers[status] = {"description": about, "content": {"application/json": {"schema": _ERROR}}}
        told["responses"] = answers
        if route.body is not None:
            body = {"schema": {"$ref": f"#/components/schemas/{route.body}"}}
            told["requestBody"] = {"required": True, "content": {"application/json": body}}
        if route.who == "token" or (route.who == "scan" and scans == "token"):
            told["security"] = [{"token": []}]
        paths.setdefault(route.path, {})[route.method] = told
    return {
        "openapi": "3.1.0",
        "info": {"title": "modelkin atlas", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": _BODIES,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


_ERROR = {
    "type": "object",
    "properties": {
        "error": {"type": "string", "description": "in the language of Accept-Language, or of the server"},
        "error_code": {"type": "string", "description": "the same in every language"},
        "error_values": {"type": "object"},
    },
    "required": ["error", "error_code"],
}


def _refusals(route: ApiRoute) -> list[tuple[str, str]]:
    found = [("404", "There is no such thing")] if "{" in route.path else []
    if route.method == "post":
        found += [
            ("400", "The body is not what was expected"),
            ("401", "The token is missing or another"),
            ("403", "This server does not allow it"),
            ("413", "The body is too large"),
        ]
    return [*found, ("503", "Too many scans are waiting")] if route.name == "begin_scan" else found
