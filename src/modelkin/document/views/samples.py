"""Notes on what part of tensors was read, told once for all layers."""

from __future__ import annotations

from collections.abc import Sequence

from modelkin.message import Message, Value, say


def ranged(notes: Sequence[Message]) -> list[Message]:
    """Say one range for samples of tensors of one size: windows overlap by more or less, layer by layer."""
    sizes: dict[Value, set[int]] = {}
    found: dict[Value | Message, Message] = {}
    for note in notes:
        parts = note["parts"] if note.code == "joined" else (note,)
        for part in parts if isinstance(parts, tuple) else ():
            if not isinstance(part, Message):
                continue
            n = part["n"] if part.code == "matrix-sample" else None
            if isinstance(n, int):
                sizes.setdefault(part["m"], set()).add(n)
            found.setdefault(part if n is None else part["m"], part)
    many = {m: ns for m, ns in sizes.items() if len(ns) > 1}
    if not many:
        return list(notes)
    found |= {m: say("matrix-samples", low=min(ns), high=max(ns), m=m) for m, ns in many.items()}
    return list(found.values())
