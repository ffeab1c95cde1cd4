"""An inspection for a person at a terminal. What is drawn here is also in the JSON."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from modelkin.describe.inspection import InspectedTensor, Inspection, TensorPurpose

from .numbers import count_text, runs_text, size_text

_MOST_UNKNOWN = 12
_FLOW = ("embedding", "positions", "norms", "attention", "router", "experts", "mlp")


def inspection_view(found: Inspection, *, every_tensor: bool = False) -> RenderableType:
    """Draw an inspection."""
    parts: list[RenderableType] = [_headline(found), Padding(_facts(found), (1, 0, 1, 2))]
    parts.append(_all_tensors(found) if every_tensor else _roles(found))
    parts += _remarks(found)
    ledger = found.ledger
    parts.append(
        Text(
            f"\nread {size_text(ledger.bytes_fetched)} of {size_text(found.n_bytes)} "
            f"in {ledger.requests} requests, {ledger.cache_hits} ranges from the store",
            style="dim",
        )
    )
    return Group(*parts)


def _headline(found: Inspection) -> Text:
    where = found.model
    text = Text(where.ref, style="bold")
    if where.revision:
        text.append(f" @ {where.revision[:12]}", style="dim")
    text.append(f"  ({where.kind})", style="dim")
    return text


def _facts(found: Inspection) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    family = f"{found.family}: {found.title}" if found.family else "unknown"
    kind = ", ".join(word for word in (found.kind, "guessed" if found.guessed else None) if word)
    table.add_row("architecture", escape(family + (f" ({kind})" if kind else "")))
    if found.model_type:
        table.add_row("model type", escape(found.model_type))
    if found.layers is not None:
        mtp = f" + {len(found.mtp_layers)} for next-token prediction" if found.mtp_layers else ""
        table.add_row("layers", f"{found.layers}{mtp}")
    sizes = {name: size for name, size in found.sizes.items() if name != "layers"}
    if sizes:
        table.add_row("sizes", ", ".join(f"{name} {size}" for name, size in sizes.items()))
    if found.norm:
        table.add_row("norms, positions", f"{found.norm}, {found.positions}")
    table.add_row("parameters", f"{count_text(found.parameters)} ({found.parameters:,})")
    formats = ", ".join(f"{name} {count_text(number)}" for name, number in found.dtypes.items())
    table.add_row(
        "stored as", f"{found.format}: {formats} in {len(found.files)} files, {size_text(found.n_bytes)}"
    )
    table.add_row("tokenizer", escape(_tokenizer(found)))
    return table


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
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("role", "component", "where", "shape", "axes", "parameters"):
        table.add_column(title, overflow="fold", justify="right" if title == "parameters" else "left")
    groups: dict[tuple[str, ...], list[tuple[InspectedTensor, TensorPurpose]]] = {}
    for tensor in found.tensors:
        for purpose in tensor.purposes:
            groups.setdefault(_group(purpose), []).append((tensor, purpose))
    for members in sorted(groups.values(), key=_model_order):
        purpose = members[0][1]
        shapes = sorted({tensor.shape for tensor, _ in members})
        fused = any(len(tensor.purposes) > 1 for tensor, _ in members)
        name = purpose.role if purpose.part == "weight" else f"{purpose.role} ({purpose.part})"
        table.add_row(
            name + (" [dim]fixed table[/]" if purpose.fixed else ""),
            purpose.component,
            _places([purpose for _, purpose in members], name_stack=found.kind == "encoder-decoder"),
            " or ".join("x".join(map(str, shape)) or "scalar" for shape in shapes[:2]),
            ", ".join(purpose.axes),
            "(fused)" if fused else count_text(sum(_product(tensor.shape) for tensor, _ in members)),
        )
    return table


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
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("tensor", "format", "shape", "role", "axes"):
        table.add_column(title, overflow="fold")
    for tensor in found.tensors:
        roles = ", ".join(dict.fromkeys(purpose.role for purpose in tensor.purposes)) or "[yellow]unknown[/]"
        axes = " | ".join(", ".join(purpose.axes) for purpose in tensor.purposes)
        shape = "x".join(map(str, tensor.shape)) or "scalar"
        table.add_row(escape(tensor.name), tensor.dtype, shape, roles, axes)
    return table


def _remarks(found: Inspection) -> list[RenderableType]:
    lines: list[str] = []
    lines += [f"other part: {part}, {number} tensors" for part, number in found.other.items()]
    lines += _unknown_lines(found)
    lines += [f"note: {note}" for note in (*found.notes, *found.tokenizer.skipped)]
    return [Text("\n" + "\n".join(lines), style="yellow")] if lines else []


def _unknown_lines(found: Inspection) -> Iterable[str]:
    if found.unknown:
        yield f"unknown tensors: {len(found.unknown)}"
    for item in found.unknown[:_MOST_UNKNOWN]:
        yield f"  {item.name}: {item.reason}"
    if len(found.unknown) > _MOST_UNKNOWN:
        yield f"  … and {len(found.unknown) - _MOST_UNKNOWN} more (--tensors or --json lists all)"


def _product(shape: tuple[int, ...]) -> int:
    total = 1
    for length in shape:
        total *= length
    return total
