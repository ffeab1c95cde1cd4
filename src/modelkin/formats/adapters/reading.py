"""The weights of an adapter: on its base, or alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from modelkin.errors import NotFound, UnsupportedFormat
from modelkin.formats._choice import ADAPTER_FILES
from modelkin.formats._open import read_weights
from modelkin.formats.interface import Weights
from modelkin.message import Message, Value, say
from modelkin.source import Fetcher, Location
from modelkin.tensors import TensorIndex, TensorInfo
from modelkin.untrusted import quoted

from ._fit import Fit, Update, fit_to_base, sort_out
from .config import CONFIG_FILE, AdapterConfig
from .storage import ExpertsLowRank, LowRank, Shifted

ADAPTER_FOLDER = "adapter"
"""Where the files of an adapter are shown, beside those of its base."""
FORMAT_NAME = "peft"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterRecord:
    """How a model was made from an adapter: known by construction, not by any test."""

    config: AdapterConfig = field(repr=False)
    base: str | None = None
    """Canonical address of the base it was applied to; None for an adapter without its base."""
    base_revision: str | None = None
    why_bare: Message | None = None
    """Why there is no base."""
    ranks: tuple[int, ...] = ()
    """The ranks of its updates, ascending."""
    n_updated: int = 0
    """Tensors with a low-rank update."""
    n_replaced: int = 0
    """Tensors that the adapter holds whole."""

    @property
    def is_bare(self) -> bool:
        """Whether only the adapter's own matrices are there."""
        return self.base is None

    @property
    def claim(self) -> str | None:
        """The base that the adapter's config names, which nobody has checked."""
        return self.config.base


def apply_fit(config: AdapterConfig, fit: Fit, base: TensorIndex, *, file: str) -> TensorIndex:
    """Return the base's tensors as the adapter changes them; `UnsupportedFormat` if it does not fit."""
    if fit.problems:
        first, more = fit.problems[0], len(fit.problems) - 1
        problem = say("problem.adapter-misfit", problem=first)
        if more:
            problem = say("problem.adapter-misfit-more", problem=first, more=more)
        raise UnsupportedFormat(file, problem, hint=say("hint.another-base"))
    tensors = dict(base)
    tensors |= {name: replace(info, name=name) for name, info in fit.replaced.items()}
    for update in fit.updates:
        tensors |= _changed(update, config.scale_of(update.module), tensors, file)
    files = {info.file for info in (*fit.replaced.values(), *(update.a for update in fit.updates))}
    return TensorIndex(tensors.values(), unlisted=base.unlisted, more_files=files)


def _changed(
    update: Update, scale: float, tensors: Mapping[str, TensorInfo], file: str
) -> dict[str, TensorInfo]:
    before = tensors[update.start]
    if not before.is_float:
        raise UnsupportedFormat(file, say("problem.base-no-numbers", name=update.start))
    storage: LowRank | ExpertsLowRank
    if update.experts:
        storage = ExpertsLowRank(
            base=before, a=update.a, b=update.b, scale=scale, inputs_first=update.inputs_first
        )
    else:
        storage = LowRank(
            base=before,
            a=update.a,
            b=update.b,
            scale=scale,
            inputs_first=update.inputs_first,
            magnitude=update.magnitude,
        )
    kind = "DoRA" if update.magnitude is not None else "LoRA"
    changed = {
        update.target: replace(before, name=update.target, dtype=f"{before.dtype}+{kind}", storage=storage)
    }
    if update.added_bias is not None:
        name = update.target.removesuffix("weight") + "bias"
        if name not in tensors:
            raise UnsupportedFormat(file, say("problem.adapter-adds", name=name))
        bias = tensors[name]
        added = Shifted(base=bias, added=update.added_bias, scale=scale)
        changed[name] = replace(bias, dtype=f"{bias.dtype}+LoRA", storage=added)
    return changed


def put_on_base(
    fetcher: Fetcher, base: Weights, config: AdapterConfig, *, base_location: Location, head_bytes: int
) -> Weights:
    """Read an adapter's headers and apply it to the weights of its base, which are read on demand.

    Raises `UnsupportedFormat` if it has parts that cannot be applied, or does not fit.
    """
    own = _own_weights(fetcher, head_bytes)
    fit = fit_to_base(config, sort_out(own.index), base.index)
    index = apply_fit(config, fit, base.index, file=_in_folder(CONFIG_FILE))
    name: Value = base_location.ref
    if base_location.revision:
        name = say("adapter.at-commit", model=name, commit=base_location.revision[:12])
    code = "adapter.updated" if fit.ranks else "adapter.updated-none"
    change = say(code, n=len(fit.updates), m=len(index), ranks=fit.ranks)
    if fit.replaced:
        change = say("adapter.and-own", change=change, n=len(fit.replaced))
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
            ranks=fit.ranks,
            n_updated=len(fit.updates),
            n_replaced=len(fit.replaced),
        ),
    )


def read_alone(fetcher: Fetcher, config: AdapterConfig, *, why: Message | None, head_bytes: int) -> Weights:
    """Read an adapter's headers; its matrices are all there is."""
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
    for name in ADAPTER_FILES:
        if fetcher.source.find(_in_folder(name)) is not None:
            return read_weights(fetcher, head_bytes=head_bytes, name=_in_folder(name))
    raise NotFound(
        fetcher.source.location.ref, say("problem.adapter-weights", files=" or ".join(ADAPTER_FILES))
    )


def _in_folder(name: str) -> str:
    return f"{ADAPTER_FOLDER}/{name}"
