"""What a model's card and files say about its origin: claims, shown as such, never evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from modelkin.errors import ModelkinError
from modelkin.message import Message, say, told
from modelkin.model import Model
from modelkin.untrusted import YamlRefused, strict_yaml

MAX_CARD_BYTES = 256 * 1024
"""Only the beginning of the card is read; its front matter is usually a few hundred bytes."""
_CARD = "README.md"
_MERGE = "mergekit_config.yml"
_FRONT_MATTER = re.compile(rb"\A(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
CARD_FILES = (_CARD, _MERGE)
"""Files in which a model declares something."""
_MOST, _LONGEST = 40, 200
"""Most claims of one kind that are kept, and characters of each: no person makes or reads more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a model declares, unchecked."""

    base_models: tuple[str, ...] = ()
    """``base_model`` of the card."""
    relation: str | None = None
    """``base_model_relation``: finetune, merge, quantized, adapter."""
    license: str | None = None
    datasets: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    name_or_path: str | None = None
    """``_name_or_path`` of the config: what the weights were loaded from when they were last saved."""
    merge_method: str | None = None
    merged_models: tuple[str, ...] = ()
    """Models that a mergekit recipe names: in its own file, or on the card."""
    notes: tuple[Message, ...] = ()
    """What could not be read, with the reason."""

    def sentences(self) -> tuple[Message, ...]:
        """Return the claims as messages, each with its source."""
        said = []
        if self.base_models and self.relation:
            said.append(say("claim-base-how", models=self.base_models, how=self.relation))
        elif self.base_models:
            said.append(say("claim-base", models=self.base_models))
        if self.license:
            said.append(say("claim-licence", name=self.license))
        if self.datasets:
            said.append(say("claim-data", names=self.datasets))
        if self.name_or_path:
            said.append(say("claim-saved", name=self.name_or_path))
        if self.merged_models and self.merge_method:
            said.append(say("claim-merge", method=self.merge_method, models=self.merged_models))
        elif self.merged_models:
            said.append(say("claim-merge-plain", models=self.merged_models))
        return (*said, *self.notes)


def read_claims(model: Model) -> Claims:
    """Read what a model declares; what is malformed or hostile becomes a note, nothing is raised."""
    notes: list[Message] = []
    card = _front_matter(_beginning(model, _CARD, notes), notes)
    _, merge = merge_recipe(model, notes)
    config = model.config or {}
    return Claims(
        base_models=_texts(card.get("base_model")),
        relation=_text(card.get("base_model_relation")),
        license=_text(card.get("license")) or _text(card.get("license_name")),
        datasets=_texts(card.get("datasets")),
        tags=_texts(card.get("tags")),
        name_or_path=_text(config.get("_name_or_path")),
        merge_method=_text(merge.get("merge_method")),
        merged_models=merged_names(merge),
        notes=tuple(notes),
    )


def _beginning(model: Model, name: str, notes: list[Message]) -> bytes:
    """Read the beginning of a file; a failure must not lose a finished comparison."""
    try:
        return model.start_of(name, limit=MAX_CARD_BYTES)
    except ModelkinError as error:
        notes.append(say("not-read", file=name, why=told(error)))
        return b""


def _front_matter(data: bytes, notes: list[Message]) -> Mapping[str, object]:
    if not data.lstrip(b"\xef\xbb\xbf").startswith(b"---"):
        return {}
    found = _FRONT_MATTER.match(data)
    if found is None:
        notes.append(say("front-matter-open", file=_CARD, n=len(data)))
        return {}
    return _mapping(_CARD, found[1], notes)


def _mapping(name: str, data: bytes, notes: list[Message]) -> Mapping[str, object]:
    """Parse YAML strictly: plain data only, no references, no repeated keys."""
    try:
        document = strict_yaml(data)
    except YamlRefused as error:
        notes.append(say("not-read", file=name, why=error.reason))
        return {}
    if document is None:
        return {}
    if not isinstance(document, dict):
        notes.append(say("not-fields", file=name, kind=type(document).__name__))
        return {}
    return document


def merge_recipe(model: Model, notes: list[Message] | None = None) -> tuple[str, Mapping[str, object]]:
    """Return the recipe of a merge, and the file that holds it: its own, or else the card.

    mergekit writes cards on which the recipe stands as a block of YAML.
    """
    notes = [] if notes is None else notes
    data = _beginning(model, _MERGE, notes)
    if data:
        return _MERGE, _mapping(_MERGE, data, notes)
    for block in _yaml_blocks(_beginning(model, _CARD, [])):
        if re.search(rb"^merge_method:", block, re.MULTILINE):
            return _CARD, _mapping(_CARD, block, notes)
    return _CARD, {}


def _yaml_blocks(card: bytes) -> list[bytes]:
    """Return the fenced blocks of YAML on a card, in one pass over its lines."""
    found: list[bytes] = []
    block: list[bytes] | None = None
    for line in card.splitlines():
        if block is None:
            block = [] if line.strip().lower() in (b"```yaml", b"```yml") else None
        elif line.strip() == b"```":
            found.append(b"\n".join(block))
            block = None
        else:
            block.append(line)
    return found


def merged_names(merge: Mapping[str, object]) -> tuple[str, ...]:
    """Collect the models of a merge, wherever the file puts them."""
    found = [_text(merge.get("base_model"))]
    stack: list[object] = [merge.get("models"), merge.get("slices")]
    while stack:
        value = stack.pop(0)
        if isinstance(value, list):
            stack += value
        elif isinstance(value, dict):
            found.append(_text(value.get("model")))
            stack += [value.get("sources"), value.get("models")]
    return tuple(dict.fromkeys(name for name in found if name))[:_MOST]


def _texts(value: object) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else [value]
    return tuple(text for item in listed[:_MOST] if (text := _text(item)) is not None)


def _text(value: object) -> str | None:
    """Return short text; invisible characters are escaped."""
    if not isinstance(value, str) or not value.strip():
        return None
    text = value.strip()[:_LONGEST]
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")[:_LONGEST]
