"""An inspection: what a model is, and what each tensor of it is for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from modelkin.describe import InspectedTensor, Inspection, TensorPurpose
from modelkin.document.blocks import Block, Bullets, Facts, Paragraph, Section, Strong, Table, Text, table
from modelkin.document.numbers import count_text, runs_text, size_text

_MOST_UNKNOWN = 12
_FLOW = ("embedding", "positions", "norms", "attention", "router", "experts", "mlp")


def inspection_view(found: Inspection, *, every_tensor: bool = False) -> tuple[Block, ...]:
    """Return an inspection as blocks: one line for each role, or for each tensor."""
    where, ledger = found.model, found.ledger
    commit = f" @ {where.revision[:12]}" if where.revision else ""
    remarks = tuple(_remarks(found))
    read = (
        f"read {size_text(ledger.bytes_fetched)} of {size_text(found.n_bytes)} "
        f"in {ledger.requests} requests, {ledger.cache_hits} ranges from the store"
    )
    return (
        Paragraph((Strong(where.ref), f"{commit}  ({where.kind})")),
        Facts(rows=tuple(_facts(found))),
        _all_tensors(found) if every_tensor else _roles(found),
        *((Section(title="Remarks", blocks=(Bullets(remarks),)),) if remarks else ()),
        Paragraph(read, "note"),
    )


def _facts(found: Inspection) -> Iterator[tuple[str, Text]]:
    family = f"{found.family}: {found.title}" if found.family else "unknown"
    kind = ", ".join(word for word in (found.kind, "guessed" if found.guessed else None) if word)
    yield "architecture", family + (f" ({kind})" if kind else "")
    if found.model_type:
        yield "model type", found.model_type
    if found.layers is not None:
        mtp = f" + {len(found.mtp_layers)} for multi-token prediction" if found.mtp_layers else ""
        yield "layers", f"{found.layers}{mtp}"
    sizes = {name: size for name, size in found.sizes.items() if name != "layers"}
    if sizes:
        yield "sizes", ", ".join(f"{name} {size}" for name, size in sizes.items())
    if found.norm:
        yield "norms, positions", f"{found.norm}, {found.positions}"
    yield "parameters", f"{count_text(found.parameters)} ({found.parameters:,})"
    formats = ", ".join(f"{name} {count_text(number)}" for name, number in found.dtypes.items())
    size = size_text(found.n_bytes)
    yield "stored as", f"{found.format}: {formats} in {len(found.files)} files, {size}"
    yield "tokenizer", _tokenizer(found)


def _tokenizer(found: Inspection) -> str:
    tokenizer = found.tokenizer
    if not tokenizer.files:
        return "none"
    words = [text for text in (tokenizer.kind, tokenizer.class_name) if text]
    for number, what in (
        (tokenizer.vocab_size, "tokens"),
        (tokenizer.added_tokens, "added"),
        (tokenizer.merges, "merges"),
    ):
        if number is not None:
            words.append(f"{number:,} {what}")
    return ", ".join(words) or ", ".join(tokenizer.files)


def _roles(found: Inspection) -> Table:
    """Sum tensors up by role: one line for each role, however many layers there are."""
    rows = []
    groups: dict[tuple[str, ...], list[tuple[InspectedTensor, TensorPurpose]]] = {}
    for tensor in found.tensors:
        for purpose in tensor.purposes:
            groups.setdefault(_group(purpose), []).append((tensor, purpose))
    for members in sorted(groups.values(), key=_model_order):
        purpose = members[0][1]
        shapes = sorted({tensor.shape for tensor, _ in members})
        fused = any(len(tensor.purposes) > 1 for tensor, _ in members)
        name = purpose.role if purpose.part == "weight" else f"{purpose.role} ({purpose.part})"
        rows.append(
            (
                name + (" (fixed table)" if purpose.fixed else ""),
                purpose.component,
                _places([purpose for _, purpose in members], name_stack=found.kind == "encoder-decoder"),
                " or ".join("x".join(map(str, shape)) or "scalar" for shape in shapes[:2]),
                ", ".join(purpose.axes),
                "(fused)" if fused else count_text(sum(math.prod(tensor.shape) for tensor, _ in members)),
            )
        )
    titles = ("role", "component", "where", "shape", "axes", "parameters")
    return table(titles, rows, numeric=(5,))


def _group(purpose: TensorPurpose) -> tuple[str, ...]:
    return (purpose.stack or "", purpose.role, purpose.part, ", ".join(purpose.axes), str(purpose.mtp))


def _model_order(members: list[tuple[InspectedTensor, TensorPurpose]]) -> tuple[object, ...]:
    """Sort as data flows: encoder before decoder, embedding first, head last, MTP after all."""
    purpose = members[0][1]
    last = purpose.component == "head" or purpose.role == "final_norm"
    return (
        purpose.fixed,
        purpose.mtp,
        purpose.stack == "decoder",
        purpose.component == "head",
        last,
        purpose.layer is not None and not last,
        _FLOW.index(purpose.component) if purpose.component in _FLOW else len(_FLOW),
    )


def _places(purposes: list[TensorPurpose], *, name_stack: bool) -> str:
    stack = f"{purposes[0].stack} " if name_stack else ""
    kind = "MTP layer" if purposes[0].mtp else "layer"
    layers = sorted({purpose.layer for purpose in purposes if purpose.layer is not None})
    experts = {purpose.expert for purpose in purposes if purpose.expert is not None}
    if not layers:
        return stack.strip() or "model"
    each = f", {len(experts)} experts" if experts else ""
    return f"{stack}{kind}{'s' if len(layers) > 1 else ''} {runs_text(layers)}{each}"


def _all_tensors(found: Inspection) -> Table:
    rows = []
    for tensor in found.tensors:
        roles = ", ".join(dict.fromkeys(purpose.role for purpose in tensor.purposes)) or "unknown"
        axes = " | ".join(", ".join(purpose.axes) for purpose in tensor.purposes)
        rows.append((tensor.name, tensor.dtype, "x".join(map(str, tensor.shape)) or "scalar", roles, axes))
    return table(("tensor", "format", "shape", "role", "axes"), rows)


def _remarks(found: Inspection) -> Iterable[str]:
    yield from (f"other part: {part}, {number} tensors" for part, number in found.other.items())
    if found.unknown:
        yield f"unknown tensors: {len(found.unknown)}"
    yield from (f"  {item.name}: {item.reason}" for item in found.unknown[:_MOST_UNKNOWN])
    if len(found.unknown) > _MOST_UNKNOWN:
        yield f"  … and {len(found.unknown) - _MOST_UNKNOWN} more (--tensors or --json lists all)"
    yield from (f"note: {note}" for note in (*found.notes, *found.tokenizer.skipped))
