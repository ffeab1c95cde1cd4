"""From an adapter's files to an adapter on its base: which base, and where it is.

The name of a base comes from a file that anybody may have written. Only a Hub id is followed, at the endpoint
that the user has chosen: never a path, which would make local files part of a model that did not come from
here, and never an address elsewhere. Users can name a base that is not followed themselves:
``ADAPTER::BASE``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from modelkin.errors import (
    AccessDenied,
    BadReference,
    ConfigError,
    FormatError,
    ModelkinError,
    NotFound,
    Offline,
    SourceError,
    UnsupportedFormat,
)
from modelkin.formats._choice import ADAPTER_FILES
from modelkin.formats._open import chosen_file, read_weights
from modelkin.formats.interface import Weights
from modelkin.message import Message, say, told
from modelkin.source import Fetcher, ModelRef, OverlaySource, Source
from modelkin.untrusted import path_problem, plain, quoted

from .config import CONFIG_FILE, MAX_CONFIG_BYTES, AdapterConfig, parse_adapter_config
from .reading import ADAPTER_FOLDER, put_on_base, read_alone

_MODEL_ENDINGS = (".safetensors", ".safetensors.index.json", ".gguf", ".onnx")
_MODEL_BEGINNINGS = ("pytorch_model", "consolidated", "model")
_LOADED_ENDINGS = (".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json")

AdapterPlace = Literal["none", "alone", "embedded"]
"""No adapter, an adapter for some base, or an adapter in the folder of the model it changes."""


def place_of_adapter(source: Source, entry: str | None, *, base_named: bool = False) -> AdapterPlace:
    """Say whether a reference names an adapter. Looks only at file names.

    `entry` is the file that the reference names. If a base is named, an adapter must be meant. Raises
    `UnsupportedFormat` if there are both a whole model and an adapter: loaders do not agree on which is the
    model.
    """
    if entry is not None:
        return "alone" if entry in ADAPTER_FILES and source.find(CONFIG_FILE) is not None else "none"
    files = source.files()
    if CONFIG_FILE not in files or not any(name in files for name in ADAPTER_FILES):
        return "none"
    if base_named or not any(map(_is_model, files)):
        return "alone"
    model = chosen_file({name: info for name, info in files.items() if name not in ADAPTER_FILES})
    # From a folder, transformers loads the model and puts the adapter on it. From a repository, it loads the
    # base that the adapter names if peft is installed, and otherwise the model that is there.
    if not source.remote and "config.json" in files and model is not None and model.endswith(_LOADED_ENDINGS):
        return "embedded"
    raise UnsupportedFormat(
        source.location.ref,
        say("problem.model-and-adapter"),
        hint=say("hint.model-or-adapter", model=plain(str(model)), adapter=ADAPTER_FILES[0]),
    )


def _is_model(name: str) -> bool:
    if "/" in name or name.startswith("adapter_"):
        return False
    old = name.startswith(_MODEL_BEGINNINGS) and name.endswith((".bin", ".pth", ".pt", ".bin.index.json"))
    return old or name.endswith(_MODEL_ENDINGS)


def named_base(config: AdapterConfig) -> ModelRef | Message:
    """Return the base that a config names, or why its name is not followed."""
    name, revision = config.base, config.base_revision
    if not name:
        return say("adapter.no-base")
    shown = quoted(name, 80)
    if Path(name).is_absolute() or name[0] in "./~\\" or "\\" in name or ":" in name or "@" in name:
        return say("adapter.base-path", name=shown)
    if path_problem(name):
        return say("adapter.base-no-id", name=shown)
    if _exists(name):
        return say("adapter.base-folder", name=shown)
    if revision is not None and ("::" in revision or not revision.isprintable()):
        return say("adapter.base-revision", name=shown)
    try:
        ref = ModelRef.parse(f"hf://{name}" + (f"@{revision}" if revision else ""))
    except (BadReference, ModelkinError):
        return say("adapter.base-no-id", name=shown)
    return ref


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:
        return False


_CARD_FILES = ("README.md", "mergekit_config.yml")
_MODEL_ALONE = say("hint.model-alone")

OpenBase = Callable[[ModelRef], Source]
MakeFetcher = Callable[[Source], Fetcher]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedAdapter:
    """An adapter with its base, or with the reason why there is none."""

    fetcher: Fetcher
    """Reads the files of both."""
    config: AdapterConfig | FormatError
    """What its config says, or what is wrong with it: a tokenizer can be read anyway."""
    base: Source | None = None
    base_entry: str | None = None
    """File that the reference to the base names."""
    why_bare: Message | None = field(default=None, repr=False)
    embedded: bool = False
    """Whether the base is in the adapter's folder."""

    def weights(self, *, head_bytes: int, read_config: Callable[[], Mapping[str, object] | None]) -> Weights:
        """Read the headers of both; raises `FormatError` if one is wrong or the adapter cannot be applied."""
        if isinstance(self.config, FormatError):
            if self.embedded:
                self.config.advice = _MODEL_ALONE
            raise self.config
        if self.base is None:
            return read_alone(self.fetcher, self.config, why=self.why_bare, head_bytes=head_bytes)
        weights = read_weights(
            self.fetcher,
            head_bytes=head_bytes,
            name=self.base_entry,
            read_config=read_config,
            ignored=(f"{ADAPTER_FOLDER}/", *(ADAPTER_FILES if self.embedded else ())),
        )
        try:
            made = put_on_base(
                self.fetcher, weights, self.config, base_location=self.base.location, head_bytes=head_bytes
            )
        except FormatError as error:
            if self.embedded:
                error.advice = _MODEL_ALONE
            raise
        return replace(made, notes=(say("adapter.embedded"), *made.notes)) if self.embedded else made


def open_adapter(
    source: Source,
    *,
    ref: str,
    base: ModelRef | None,
    known: Mapping[str, ModelRef],
    embedded: bool,
    open_base: OpenBase,
    make_fetcher: MakeFetcher,
    shown_in_front: tuple[str, ...],
) -> OpenedAdapter:
    """Find the base of an adapter, and show both as one model.

    `ref` is what the user wrote, `base` the base that the user named; None follows the adapter's config as
    far as that is safe. `known` says where bases are which configs name; an `embedded` base is the model in
    the same folder. `open_base` opens a base with the adapter's options and budget, `make_fetcher` continues
    the adapter's ledger. Files in `shown_in_front`, such as a tokenizer, the adapter may bring itself. Raises
    `UnsupportedFormat` if the base is itself an adapter, and `SourceError` if the base that the user named
    cannot be opened.
    """

    def together(behind: Source | None) -> Fetcher:
        return make_fetcher(
            OverlaySource(
                source,
                behind,
                ref=ref,
                folder=ADAPTER_FOLDER,
                shown_in_front=shown_in_front,
                only_in_front=_CARD_FILES,
            )
        )

    alone = together(None)
    try:
        config = _read_config(alone)
    except FormatError as error:
        return OpenedAdapter(fetcher=alone, config=error, embedded=embedded)
    if embedded:
        return OpenedAdapter(fetcher=together(source), config=config, base=source, embedded=True)
    if base is None and config.base is not None:
        base = known.get(config.base)
    chosen = named_base(config) if base is None else base
    if isinstance(chosen, Message):
        return OpenedAdapter(fetcher=alone, config=config, why_bare=chosen)
    behind = open_base(chosen)
    try:
        stacked = place_of_adapter(behind, chosen.entry) != "none"
    except (NotFound, AccessDenied, Offline) as error:
        if base is not None:
            raise
        behind.close()
        why = say("adapter.base-missing", name=chosen.target, problem=told(error))
        return OpenedAdapter(fetcher=alone, config=config, why_bare=why)
    except SourceError as error:
        # It may be reachable tomorrow: the answer must not depend on the connection.
        error.advice = say("hint.named-base")
        raise
    if stacked:
        raise UnsupportedFormat(
            ref,
            say("problem.base-is-adapter", name=chosen.text),
            hint=say("hint.merge-first"),
        )
    return OpenedAdapter(fetcher=together(behind), config=config, base=behind, base_entry=chosen.entry)


def _read_config(fetcher: Fetcher) -> AdapterConfig:
    name = f"{ADAPTER_FOLDER}/{CONFIG_FILE}"
    data = fetcher.read_file(name, limit=MAX_CONFIG_BYTES)
    if data is None:
        raise ConfigError(name, say("problem.most-plain-bytes", most=MAX_CONFIG_BYTES))
    return parse_adapter_config(data, file=name)
