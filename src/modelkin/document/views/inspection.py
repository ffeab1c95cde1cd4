"""An inspection: what a model is, and what each tensor of it is for."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator

from modelkin.describe import InspectedTensor, Inspection, TensorPurpose
from modelkin.document.blocks import Block, Bullets, Facts, Paragraph, Section, Strong, Table, Text, table
from modelkin.document.language import ENGLISH, Language
from modelkin.document.numbers import count_text, runs_text, size_text

_MOST_UNKNOWN = 12
_AXIS = re.compile(r"[a-z]\w*")
"""A size in the notation of an axis, such as ``heads * v_dim``."""
_FLOW = ("embedding", "positions", "norms", "attention", "router", "experts", "mlp")


def inspection_view(
    found: Inspection, language: Language = ENGLISH, *, every_tensor: bool = False
) -> tuple[Block, ...]:
    """Return an inspection as blocks: one line for each role, or for each tensor."""
    where, ledger = found.model, found.ledger
    commit = f" @ {where.revision[:12]}" if where.revision else ""
    say = language.of("inspection")
    remarks = tuple(_remarks(found, language))
    read = say(
        "read",
        fetched=size_text(ledger.bytes_fetched),
        all=size_text(found.n_bytes),
        requests=str(ledger.requests),
        stored=str(ledger.cache_hits),
    )
    return (
        Paragraph((Strong(where.ref), f"{commit}  ({language.word('source-kind', where.kind)})")),
        Facts(rows=tuple(_facts(found, language))),
        _all_tensors(found, language) if every_tensor else _roles(found, language),
        *((Section(title=say("remarks"), blocks=(Bullets(remarks),)),) if remarks else ()),
        Paragraph(read, "note"),
    )


def _facts(found: Inspection, language: Language) -> Iterator[tuple[str, Text]]:
    say, word = language.of("inspection"), language.word
    family = f"{found.family}: {_title(found, language)}" if found.family else say("unknown")
    kinds = (
        word("model-kind", found.kind) if found.kind else None,
        say("guessed") if found.guessed else None,
    )
    kind = ", ".join(name for name in kinds if name)
    yield say("architecture"), family + (f" ({kind})" if kind else "")
    if found.model_type:
        yield say("model_type"), found.model_type
    if found.layers is not None:
        mtp = " + " + say("for_mtp", n=str(len(found.mtp_layers))) if found.mtp_layers else ""
        yield say("layers"), f"{found.layers}{mtp}"
    sizes = {name: size for name, size in found.sizes.items() if name != "layers"}
    if sizes:
        yield say("sizes"), ", ".join(f"{word('axis', name)} {size}" for name, size in sizes.items())
    if found.norm:
        yield (
            say("norms_positions"),
            f"{word('norm-kind', found.norm)}, {word('position-kind', str(found.positions))}",
        )
    yield say("parameters"), f"{count_text(found.parameters)} ({found.parameters:,})"
    formats = ", ".join(f"{name} {count_text(number)}" for name, number in found.dtypes.items())
    size = size_text(found.n_bytes)
    places = {"format": found.format, "formats": formats, "n": str(len(found.files)), "size": size}
    yield say("stored_as"), say("stored_in", **places)
    yield say("tokenizer"), _tokenizer(found, say)


def _title(found: Inspection, language: Language) -> str:
    """Return what the family is called; one that was guessed has a title of its own."""
    known = found.family is not None and ENGLISH.word("family", found.family) == found.title
    return language.word("family", str(found.family)) if known else str(found.title)


def _axes(purpose: TensorPurpose, language: Language) -> str:
    return _AXIS.sub(lambda name: language.word("axis", name[0]), ", ".join(purpose.axes))


def _tokenizer(found: Inspection, say: Callable[..., str]) -> str:
    tokenizer = found.tokenizer
    if not tokenizer.files:
        return say("none")
    words = [text for text in (tokenizer.kind, tokenizer.class_name) if text]
    for number, what in (
        (tokenizer.vocab_size, "n_tokens"),
        (tokenizer.added_tokens, "n_added"),
        (tokenizer.merges, "n_merges"),
    ):
        if number is not None:
            words.append(say(what, n=f"{number:,}"))
    return ", ".join(words) or ", ".join(tokenizer.files)


def _roles(found: Inspection, language: Language) -> Table:
    """Summarise tensors by role: one line per role, however many layers there are."""
    say = language.of("inspection")
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
                name + (f" ({say('fixed')})" if purpose.fixed else ""),
                language.word("component", purpose.component),
                _places([purpose for _, purpose in members], say, name_stack=found.kind == "encoder-decoder"),
                say("or").join("x".join(map(str, shape)) or say("scalar") for shape in shapes[:2]),
                _axes(purpose, language),
                f"({say('fused')})"
                if fused
                else count_text(sum(math.prod(tensor.shape) for tensor, _ in members)),
            )
        )
    keys = ("role", "component", "where", "shape", "axes", "parameters")
    return table([say(key) for key in keys], rows, numeric=(5,))


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


def _places(purposes: list[TensorPurpose], say: Callable[..., str], *, name_stack: bool) -> str:
    stack = f"{purposes[0].stack} " if name_stack else ""
    layers = sorted({purpose.layer for purpose in purposes if purpose.layer is not None})
    experts = {purpose.expert for purpose in purposes if purpose.expert is not None}
    if not layers:
        return stack.strip() or say("model")
    each = ", " + say("n_experts", n=str(len(experts))) if experts else ""
    kind = ("mtp_layer" if purposes[0].mtp else "in_layer") + ("s" if len(layers) > 1 else "")
    return f"{stack}{say(kind, layers=runs_text(layers))}{each}"


def _all_tensors(found: Inspection, language: Language) -> Table:
    say = language.of("inspection")
    rows = []
    for tensor in found.tensors:
        roles = ", ".join(dict.fromkeys(purpose.role for purpose in tensor.purposes)) or say("unknown")
        axes = " | ".join(_axes(purpose, language) for purpose in tensor.purposes)
        shape = "x".join(map(str, tensor.shape)) or say("scalar")
        rows.append((tensor.name, tensor.dtype, shape, roles, axes))
    return table([say(key) for key in ("tensor", "format", "shape", "role", "axes")], rows)


def _remarks(found: Inspection, language: Language) -> Iterable[str]:
    say, tell = language.of("inspection"), language.tell
    yield from (say("other_part", part=part, n=str(number)) for part, number in found.other.items())
    if found.unknown:
        yield say("unknown_tensors", n=str(len(found.unknown)))
    yield from (f"  {item.name}: {tell(item.reason)}" for item in found.unknown[:_MOST_UNKNOWN])
    if len(found.unknown) > _MOST_UNKNOWN:
        yield "  … " + say("and_more", n=str(len(found.unknown) - _MOST_UNKNOWN))
    yield from (say("note", text=tell(note)) for note in (*found.notes, *found.tokenizer.skipped))
