"""Which layers a checkpoint has, and which of them only serve multi-token prediction (MTP)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from modelkin.message import Message, say

from ._entries import Finding, TensorUse
from ._spec import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """Indices of layers, ascending.

    Parameters
    ----------
    kind
        That of the family, unless one half of an encoder-decoder was left out.
    main
        Of the decoder, or of the encoder in a model without decoder.
    encoder
        Of the encoder of an encoder-decoder.
    mtp
        Of multi-token-prediction layers, which are stored behind the decoder's.
    notes
        What disagrees with the config, and gaps.
    """

    kind: Kind
    main: tuple[int, ...]
    encoder: tuple[int, ...]
    mtp: tuple[int, ...]
    notes: tuple[Message, ...]


def find_layers(found: list[tuple[Finding, list[TensorUse]]], kind: Kind, sizes: Mapping[str, int]) -> Layers:
    """Return the layers that are there; the config only helps to tell which of them are MTP layers."""
    stacks: dict[str, set[int]] = {"decoder": set(), "encoder": set(), "shared": set()}
    mtp: set[int] = set()
    for finding, plan in found:
        if finding.layer is not None and finding.tensor is not None:
            stacks[finding.tensor.stack].add(finding.layer)
            if finding.layer not in mtp and plan[0].role.is_mtp:
                mtp.add(finding.layer)
    claimed, extra = sizes.get("layers"), sizes.get("mtp_layers", 0)
    if kind == "encoder-decoder" and not stacks["decoder"]:
        kind, claimed = "encoder", sizes.get("encoder_layers")
    elif kind == "encoder-decoder" and not stacks["encoder"]:
        kind = "decoder"
    main = stacks["encoder" if kind == "encoder" else "decoder"]
    if claimed is not None:
        mtp |= {index for index in main if claimed <= index < claimed + extra}
    main = main - mtp
    encoder = stacks["encoder"] if kind == "encoder-decoder" else set()
    notes = [
        *_odd("", main, claimed),
        *(_odd("encoder-", encoder, sizes.get("encoder_layers")) if encoder else ()),
    ]
    return Layers(
        kind=kind,
        main=tuple(sorted(main)),
        encoder=tuple(sorted(encoder)),
        mtp=tuple(sorted(mtp)),
        notes=tuple(notes),
    )


def _odd(stack: str, present: set[int], claimed: int | None) -> list[Message]:
    notes = []
    if claimed is not None and claimed != len(present):
        notes.append(say(f"config-{stack}layers", n=claimed, m=len(present)))
    if present and max(present) + 1 != len(present):
        notes.append(say(f"{stack}layer-numbers", n=max(present), m=len(present)))
    return notes
