"""A published card, checked against its weights."""

from __future__ import annotations

from tests.real.published import published

import modelkin as mk

PARENT = "sentence-transformers/all-MiniLM-L6-v2"
OFFLINE = mk.FetchOptions(offline=True, use_store=False)


def test_a_parent_that_only_the_text_names_is_supported():
    """Its front matter declares none; its first sentence is "Fine-tuned [the parent](its address) for …"."""
    found = mk.check_card(
        str(published("cloneguard")),
        mk.CompareOptions(fetch=OFFLINE),
        known={PARENT: str(published("minilm"))},
    )
    said = [(item.kind, item.source, item.status) for item in found.claims if item.kind != "licence"]
    assert said == [
        ("parent", "README.md: text", "supported"),
        ("relation", "README.md: text", "supported"),
    ]
    assert [name for _, name in found.ancestors] == [PARENT]
