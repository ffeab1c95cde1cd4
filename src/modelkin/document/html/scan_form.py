"""The form of a served atlas: name a model or give a fingerprint, and watch the scan."""

from __future__ import annotations

from modelkin.document.blocks import ScanForm
from modelkin.document.language import Language

from .markup import Html, element

_STATES = ("waiting", "running", "done", "failed")


def scan_form(form: ScanForm, language: Language) -> Html:
    """Make the form; a script sends it, since the policy forbids form submission."""

    def said(key: str) -> str:
        return language.say(f"atlas.scan-{key}")

    token = [
        element("label", said("token"), for_="token"),
        element("input", type="password", id="token", autocomplete="off", aria_describedby="token-note"),
        element("p", said("token-note"), class_="note", id="token-note"),
    ]
    return element(
        "div",
        element(
            "form",
            element("label", said("model"), for_="model"),
            element("input", type="text", id="model", autocomplete="off", spellcheck="false", maxlength=200),
            element("label", said("file"), for_="file"),
            element("input", type="file", id="file", accept=".json,application/json"),
            *(token if form.needs_token else ()),
            element("button", said("start"), type="submit", class_="tool"),
            id="scan-form",
        ),
        element("h3", said("progress")),
        element("output", id="scan-state", aria_live="polite"),
        element("ol", id="scan-steps"),
        element("p", element("a", said("report"), id="scan-report"), hidden=True, id="scan-done"),
        id="scan",
        class_="scan",
        **{f"data_{state}": said(state) for state in _STATES},
    )
