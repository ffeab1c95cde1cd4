"""The weights of an adapter: on its base, or alone."""

from __future__ import annotations

from dataclasses import replace

from modelkin.errors import NotFound
from modelkin.formats._interface import Weights
from modelkin.formats._open import read_weights
from modelkin.message import Message, Value, say
from modelkin.source import Fetcher, Location
from modelkin.untrusted import quoted

from ._apply import apply_fit
from ._base import WEIGHT_FILES
from ._config import CONFIG_FILE, AdapterConfig
from ._fit import fit_to_base
from ._parts import sort_out
from ._record import AdapterRecord

ADAPTER_FOLDER = "adapter"
"""Where the files of an adapter are shown, beside those of its base."""
FORMAT_NAME = "peft"


def put_on_base(
    fetcher: Fetcher, base: Weights, config: AdapterConfig, *, base_location: Location, head_bytes: int
) -> Weights:
    """Read an adapter's headers and apply it to the weights of its base, which are read when they are wanted.

    Raises
    ------
    UnsupportedFormat
        It has parts that cannot be applied, or does not fit.
    """
    own = _own_weights(fetcher, head_bytes)
    fit = fit_to_base(config, sort_out(own.index), base.index)
    index, applied = apply_fit(config, fit, base.index, file=_file(CONFIG_FILE))
    name: Value = base_location.ref
    if base_location.revision:
        name = say("adapter.at-commit", model=name, commit=base_location.revision[:12])
    code = "adapter.updated" if applied.ranks else "adapter.updated-none"
    change = say(code, n=applied.n_updated, m=len(index), ranks=applied.ranks)
    if applied.n_replaced:
        change = say("adapter.and-own", change=change, n=applied.n_replaced)
    notes = [say("adapter.put-on", base=name, change=change)]
    if config.base and config.base != base_location.ref.removeprefix("hf://").partition("@")[0]:
        notes.append(say("adapter.names-base", name=quoted(config.base, 80)))
    return replace(
        base,
        format=f"{base.format}+{FORMAT_NAME}",
        index=index,
        notes=(*notes, *own.notes, *base.notes),
        adapter=AdapterRecord(
            config=config,
            base=base_location.origin,
            base_revision=base_location.revision,
            ranks=applied.ranks,
            n_updated=applied.n_updated,
            n_replaced=applied.n_replaced,
        ),
    )


def read_alone(fetcher: Fetcher, config: AdapterConfig, *, why: Message | None, head_bytes: int) -> Weights:
    """Read an adapter's headers; its matrices are then all that there is."""
    own = _own_weights(fetcher, head_bytes)
    tensors = sort_out(own.index)
    ranks = {config.rank_of(module.name) for module in tensors.modules}
    return replace(
        own,
        format=FORMAT_NAME,
        notes=(say("adapter.alone", why=why), *own.notes),
        adapter=AdapterRecord(
            config=config,
            why_bare=why,
            ranks=tuple(sorted(ranks)),
            n_updated=len(tensors.modules),
            n_replaced=len(tensors.replaced),
        ),
    )


def _own_weights(fetcher: Fetcher, head_bytes: int) -> Weights:
    for name in WEIGHT_FILES:
        if fetcher.source.find(_file(name)) is not None:
            return read_weights(fetcher, head_bytes=head_bytes, name=_file(name))
    raise NotFound(
        fetcher.source.location.ref, f"the adapter's weights are missing: {' or '.join(WEIGHT_FILES)}"
    )


def _file(name: str) -> str:
    return f"{ADAPTER_FOLDER}/{name}"
