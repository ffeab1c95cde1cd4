"""How a language model sits inside a larger checkpoint, and tensors that accompany a quantised weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ._roles import Part
from ._spec import ArchitectureSpec
from .loader import TomlTable, open_table, read_data


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where the names of a family stand in a checkpoint.

    Parameters
    ----------
    outer
        A prefix before every name.
    body
        What ``{body}`` stands for.
    wrapped
        The prefix a wrapper adds, or the empty string for a plain model.
    """

    outer: str
    body: str
    wrapped: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrappers:
    """The file about wrappers.

    Parameters
    ----------
    outer, bodies
        Prefixes before everything, and before everything but the output head.
    configs
        Dotted paths at which the language model's config may sit.
    components
        Prefix of other components to what they are.
    """

    outer: tuple[str, ...]
    bodies: tuple[str, ...]
    configs: tuple[str, ...]
    components: Mapping[str, str]

    def component(self, name: str) -> str | None:
        """Return what component beside the language model a tensor belongs to, or None."""
        if not name.startswith(tuple(self.components)):
            return None
        return next((what for prefix, what in self.components.items() if name.startswith(prefix)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suffix:
    """How the name of a piece of a quantised weight ends.

    Parameters
    ----------
    ending, weight
        Replace one by the other to get the name of the weight.
    part
        Which piece it is.
    """

    ending: str
    weight: str
    part: Part


def parse_wrappers(file: str, text: str) -> Wrappers:
    """Read the file about wrappers; raise `SpecError` if something in it is not known."""
    top = open_table(file, text)
    components = TomlTable(f"{file} [components]", top.get("components", dict))
    result = Wrappers(
        outer=top.strings("outer"),
        bodies=top.strings("bodies"),
        configs=top.strings("configs"),
        components={prefix: components.get(prefix, str) for prefix, _ in components.items()},
    )
    top.close()
    return result


def parse_suffixes(file: str, text: str) -> tuple[Suffix, ...]:
    """Read the file about quantised storage; raise `SpecError` if something in it is not known."""
    top = open_table(file, text)
    found = []
    for ending, entry in top.get("suffixes", dict).items():
        table = TomlTable(f"{file} {ending!r}", entry)
        found.append(Suffix(ending=ending, weight=table.get("weight", str), part=table.choice("part", Part)))
        table.close()
    top.close()
    return tuple(found)


@cache
def wrappers() -> Wrappers:
    """Return what is known about wrappers."""
    return parse_wrappers("wrappers.toml", read_data("wrappers.toml"))


@cache
def quantization_suffixes() -> tuple[Suffix, ...]:
    """Return how names of quantised pieces end."""
    return parse_suffixes("quantization.toml", read_data("quantization.toml"))


def placements(spec: ArchitectureSpec) -> tuple[Placement, ...]:
    """Return where the names of a family may stand, plain ones first."""
    known = wrappers()
    plain = [Placement(outer="", body=body, wrapped="") for body in spec.bodies]
    moved = [Placement(outer="", body=body, wrapped=body) for body in known.bodies if body not in spec.bodies]
    nested = [
        Placement(outer=outer, body=body, wrapped=outer) for outer in known.outer for body in spec.bodies
    ]
    return (*plain, *nested, *moved)
