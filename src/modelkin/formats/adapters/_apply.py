"""An adapter put on its base: the base's tensors, with those changed that the adapter changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from modelkin.errors import UnsupportedFormat
from modelkin.tensors import TensorIndex, TensorInfo

from ._config import AdapterConfig
from ._fit import Fit, Update
from ._storage import ExpertsLowRank, LowRank, Shifted


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What an adapter did to its base, in numbers."""

    ranks: tuple[int, ...]
    """Ranks that occur, rising."""
    n_updated: int
    """Tensors with an update of low rank."""
    n_replaced: int
    """Tensors that the adapter holds whole."""


def apply_fit(
    config: AdapterConfig, fit: Fit, base: TensorIndex, *, file: str
) -> tuple[TensorIndex, Applied]:
    """Return the base's tensors as the adapter changes them.

    Raises
    ------
    UnsupportedFormat
        The adapter does not fit the base.
    """
    if fit.problems:
        more = f" (and {len(fit.problems) - 1} problems more)" if len(fit.problems) > 1 else ""
        raise UnsupportedFormat(
            file,
            f"this adapter does not fit its base: {fit.problems[0]}{more}",
            hint="Name another base: ADAPTER::BASE.",
        )
    tensors = dict(base)
    tensors |= {name: replace(info, name=name) for name, info in fit.replaced.items()}
    for update in fit.updates:
        tensors |= _changed(update, config.scale_of(update.module), tensors, file)
    files = {info.file for info in (*fit.replaced.values(), *(update.a for update in fit.updates))}
    ranks = {update.a.shape[0] // max(1, update.experts) for update in fit.updates}
    return TensorIndex(tensors.values(), unlisted=base.unlisted, more_files=files), Applied(
        ranks=tuple(sorted(ranks)), n_updated=len(fit.updates), n_replaced=len(fit.replaced)
    )


def _changed(
    update: Update, scale: float, tensors: Mapping[str, TensorInfo], file: str
) -> dict[str, TensorInfo]:
    before = tensors[update.start]
    if not before.is_float:
        raise UnsupportedFormat(file, f"{update.start} of the base holds no numbers that can be added to")
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
            raise UnsupportedFormat(file, f"the adapter adds to {name}, which the base does not have")
        bias = tensors[name]
        added = Shifted(base=bias, added=update.added_bias, scale=scale)
        changed[name] = replace(bias, dtype=f"{bias.dtype}+LoRA", storage=added)
    return changed
