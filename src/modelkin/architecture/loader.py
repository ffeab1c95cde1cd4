"""The architecture files that come with modelkin, and the checks that go beyond single entries."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from modelkin.errors import SpecError
from modelkin.message import say
from modelkin.structs import Refused, inside, meant, no_such_key, read_toml

from .spaces import SPACES
from .spec import ArchitectureSpec, demand

_NOT_FAMILIES: Final = frozenset({"wrappers.toml", "fixed_tables.toml", "quantization.toml"})


def read_data(file: str) -> str:
    """Return the text of a data file of this package."""
    return files(__package__).joinpath("data", file).read_text(encoding="utf-8")


@cache
def families() -> tuple[ArchitectureSpec, ...]:
    """Return all architecture files that come with modelkin, sorted by family."""
    names = {item.name for item in files(__package__).joinpath("data").iterdir()} - _NOT_FAMILIES
    specs = [parse_spec(name, read_data(name)) for name in names if name.endswith(".toml")]
    return tuple(sorted(specs, key=lambda spec: spec.family))


def family(name: str) -> ArchitectureSpec:
    """Return one family; raise `SpecError` with the nearest name if there is none."""
    known = {spec.family: spec for spec in families()}
    if name not in known:
        raise SpecError("families", say("problem.no-family", name=repr(name)), hint=meant(name, known))
    return known[name]


def parse_spec(file: str, text: str) -> ArchitectureSpec:
    """Read an architecture file; the error has the place and, for a misspelt word, the nearest known one."""
    return read_toml(file, text, ArchitectureSpec, _check)


def _check(spec: ArchitectureSpec) -> None:
    demand("rope_layout", spec.rope_layout, here=spec.positions == "rope")
    used: set[str] = set()
    for tensor in spec.tensors:
        used.update(space for spaces in tensor.axes for space in spaces)
        if tensor.fusion is not None:
            used.update(space for part in tensor.fusion.parts for space in part.spaces)
            used.update({tensor.fusion.per} if tensor.fusion.per else ())
    defined = spec.sizes.keys() | {name for name, space in SPACES.items() if space.measured} | {"one"}
    for space in sorted(used - defined):
        raise Refused(said=say("problem.space-undefined", space=repr(space)))
    changed = {f"when[{number}].sizes": variant.sizes for number, variant in enumerate(spec.variants)}
    for place, sizes in {"sizes": spec.sizes, **changed}.items():
        with inside(place):
            for name, candidates in sizes.items():
                if name not in spec.sizes:
                    raise no_such_key(name, list(spec.sizes))
                for size in sorted(frozenset[str]().union(*(one.sizes for one in candidates)) - defined):
                    said = say("problem.size-undefined", size=repr(size))
                    raise Refused(said=said, inside=name, hint=meant(size, defined))
