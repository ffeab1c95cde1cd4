"""The strict reader of architecture files: an unknown key, space, role or size is an error, never ignored."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeVar, get_args

from modelkin.errors import SpecError

from ._roles import Part, Role
from ._spaces import SPACES, Positions
from ._spec import (
    ArchitectureSpec,
    FusedPart,
    Fusion,
    Kind,
    MergedSpace,
    Norm,
    RopeLayout,
    Stack,
    TensorSpec,
    Variant,
)
from .notation import Expression, parse_expression, parse_product, split_pattern

_FORMAT: Final = 1
_NOT_FAMILIES: Final = frozenset({"wrappers.toml", "fixed_tables.toml", "quantization.toml"})

# Sizes that are no axis of any tensor.
_EXTRA_SIZES: Final = frozenset({"layers", "encoder_layers", "mtp_layers", "expert_groups", "rotary_dim"})

_UNSPLIT: Final = {
    "attention": Role.UNSPLIT_ATTENTION,
    "mlp": Role.UNSPLIT_MLP,
    "experts": Role.UNSPLIT_EXPERTS,
}

T = TypeVar("T")


class TomlTable:
    """A TOML table that knows where it stands and complains about keys nobody asked for.

    Parameters
    ----------
    where
        File and place, for messages.
    data
        The parsed table.
    """

    def __init__(self, where: str, data: object) -> None:
        if not isinstance(data, dict):
            raise SpecError(where, f"expected a table, got {type(data).__name__}")
        self.where = where
        self._data: dict[str, Any] = data
        self._asked: set[str] = set()

    def get(self, key: str, kind: type[T], default: T | None = None) -> T:
        """Return the value of `key`, which has to be of this type; a missing one is an error or `default`."""
        self._asked.add(key)
        if key not in self._data:
            if default is None:
                raise SpecError(self.where, f"the key {key!r} is missing")
            return default
        value = self._data[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise SpecError(
                self.where, f"{key!r} should be {kind.__name__}, got {type(value).__name__} {value!r}"
            )
        return value

    def strings(self, key: str, default: list[str] | None = None) -> tuple[str, ...]:
        """Return a list of strings."""
        value = self.get(key, list, default)
        if not all(isinstance(item, str) for item in value):
            raise SpecError(self.where, f"{key!r} should be a list of strings, got {value!r}")
        return tuple(value)

    def choice(self, key: str, choices: object, default: str | None = None) -> Any:  # noqa: ANN401
        """Return one of the values of a `Literal`, which the caller's annotation names."""
        return pick(self.where, key, self.get(key, str, default), get_args(choices))

    def has(self, key: str) -> bool:
        """Whether the key is there; it is a known key from now on."""
        self._asked.add(key)
        return key in self._data

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return all entries of a table whose keys are free."""
        self._asked.update(self._data)
        return self._data.items()

    def close(self) -> None:
        """Raise if there is a key that nobody asked for."""
        for key in self._data:
            if key not in self._asked:
                raise SpecError(self.where, f"unknown key {key!r}{_did_you_mean(key, self._asked)}")


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, sorted(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(sorted(known))}"


def pick(where: str, what: str, value: str, known: Iterable[str]) -> str:
    """Return `value` if it is one of the known words, else raise with the nearest."""
    if value not in set(known):
        raise SpecError(where, f"unknown {what} {value!r}{_did_you_mean(value, known)}")
    return value


def open_table(file: str, text: str) -> TomlTable:
    """Parse a data file and check its format number; raise `SpecError` if it is not TOML."""
    try:
        top = TomlTable(file, tomllib.loads(text))
    except tomllib.TOMLDecodeError as exc:
        raise SpecError(file, f"is not TOML: {exc}") from exc
    if (number := top.get("format", int)) != _FORMAT:
        raise SpecError(file, f"format should be {_FORMAT}, got {number}")
    return top


def read_data(file: str) -> str:
    """Return the text of a data file of this package."""
    return files(__package__).joinpath("data", file).read_text(encoding="utf-8")


@cache
def families() -> tuple[ArchitectureSpec, ...]:
    """Return all architecture files that come with modelkin, sorted by family."""
    folder = files(__package__).joinpath("data")
    specs = [
        parse_spec(item.name, item.read_text(encoding="utf-8"))
        for item in folder.iterdir()
        if item.name.endswith(".toml") and item.name not in _NOT_FAMILIES
    ]
    return tuple(sorted(specs, key=lambda spec: spec.family))


def family(name: str) -> ArchitectureSpec:
    """Return one family; raise `SpecError` with the nearest name if there is none."""
    known = {spec.family: spec for spec in families()}
    return known[pick("families", "family", name, known)]


def parse_spec(file: str, text: str) -> ArchitectureSpec:
    """Read an architecture file.

    Parameters
    ----------
    file
        Its name, for messages.
    text
        Its content.

    Raises
    ------
    SpecError
        With the place and, for a misspelt word, the nearest known one.
    """
    top = open_table(file, text)
    kind: Kind = top.choice("kind", Kind)
    positions: Positions = top.choice("positions", Positions)
    rope_layout: RopeLayout | None = top.choice("rope_layout", RopeLayout) if positions == "rope" else None
    sizes = _sizes(f"{file} [sizes]", top.get("sizes", dict))
    spec = ArchitectureSpec(
        family=top.get("family", str),
        title=top.get("title", str),
        model_types=frozenset(top.strings("model_types")),
        class_names=frozenset(top.strings("class_names")),
        kind=kind,
        norm=top.choice("norm", Norm),
        positions=positions,
        encoder_positions=top.choice("encoder_positions", Positions, positions),
        rope_layout=rope_layout,
        bodies=top.strings("bodies"),
        precedence=top.get("precedence", int, 0),
        sizes=sizes,
        merged_spaces=_merged(f"{file} [merged_spaces]", top.get("merged_spaces", dict, {})),
        tensors=_tensors(file, top.get("tensors", dict), kind),
        variants=tuple(_variant(f"{file} [[when]]", entry, sizes) for entry in top.get("when", list, [])),
    )
    top.close()
    _check_references(file, spec)
    return spec


def _sizes(where: str, data: object) -> dict[str, tuple[Expression, ...]]:
    table = TomlTable(where, data)
    known = SPACES.keys() | _EXTRA_SIZES
    return {pick(where, "size", name, known): _candidates(table, name) for name, _ in table.items()}


def _candidates(table: TomlTable, name: str) -> tuple[Expression, ...]:
    try:
        return tuple(parse_expression(text) for text in table.strings(name))
    except ValueError as exc:
        raise SpecError(f"{table.where} {name}", str(exc)) from exc


def _variant(where: str, data: object, sizes: Mapping[str, tuple[Expression, ...]]) -> Variant:
    table = TomlTable(where, data)
    changed = TomlTable(f"{where} sizes", table.get("sizes", dict, {}))
    for name, _ in changed.items():
        pick(changed.where, "size", name, sizes)
    equals = table.get("equals", object)
    if not isinstance(equals, str | int | bool):
        raise SpecError(where, f"'equals' should be a string, a number or a truth value, got {equals!r}")
    variant = Variant(
        key=table.get("config", str),
        equals=equals,
        positions=table.choice("positions", Positions) if table.has("positions") else None,
        norm=table.choice("norm", Norm) if table.has("norm") else None,
        rope_layout=table.choice("rope_layout", RopeLayout) if table.has("rope_layout") else None,
        sizes={name: _candidates(changed, name) for name, _ in changed.items()},
        roles={
            _role(where, old): _role(where, new)
            for old, new in TomlTable(where, table.get("roles", dict, {})).items()
        },
    )
    table.close()
    return variant


def _merged(where: str, data: object) -> tuple[MergedSpace, ...]:
    found = []
    for space, entry in TomlTable(where, data).items():
        table = TomlTable(f"{where} {space}", entry)
        found.append(
            MergedSpace(
                space=pick(table.where, "space", space, SPACES),
                into=pick(table.where, "space", table.get("into", str), SPACES),
                unless=_role(table.where, table.get("unless", str)),
            )
        )
        table.close()
    return tuple(found)


def _role(where: str, name: str) -> Role:
    return Role(pick(where, "role", name, {role.value for role in Role}))


def _product(where: str, text: str) -> tuple[str, ...]:
    try:
        names = parse_product(text)
    except ValueError as exc:
        raise SpecError(where, str(exc)) from exc
    return tuple(pick(where, "space", name, SPACES) for name in names)


def _tensors(file: str, data: dict[str, object], kind: Kind) -> tuple[TensorSpec, ...]:
    tensors: list[TensorSpec] = []
    for pattern, entry in data.items():
        table = TomlTable(f"{file} {pattern!r}", entry)
        weight = _tensor(table, pattern, kind)
        tensors.append(weight)
        if table.get("bias", bool, False):
            tensors.append(_bias_of(weight, table.where))
        table.close()
    _check_distinct(file, tensors)
    return tuple(tensors)


def _tensor(table: TomlTable, pattern: str, kind: Kind) -> TensorSpec:
    in_body = pattern.startswith("{body}")
    try:
        template, slots = split_pattern(pattern.removeprefix("{body}"))
    except ValueError as exc:
        raise SpecError(table.where, str(exc)) from exc
    axes = tuple(_product(table.where, text) for text in table.strings("axes"))
    fusion = _fusion(table, axes)
    if fusion is None:
        role = _role(table.where, table.get("role", str))
    else:
        role = _UNSPLIT.get(fusion.parts[0].role.component, Role.UNSPLIT_MLP)
    return TensorSpec(
        pattern=pattern,
        in_body=in_body,
        template=template,
        slots=slots,
        role=role,
        part=table.choice("part", Part, "weight"),
        axes=axes,
        fusion=fusion,
        stack=_stack(table, kind),
        transposed=table.get("transposed", bool, False),
        fixed=table.get("fixed", bool, False),
        optional=table.get("optional", bool, False),
    )


def _stack(table: TomlTable, kind: Kind) -> Stack:
    if kind == "encoder-decoder":
        stack: Stack = table.choice("stack", Stack)
        return stack
    return kind


def _fusion(table: TomlTable, axes: tuple[tuple[str, ...], ...]) -> Fusion | None:
    fused = [index for index, spaces in enumerate(axes) if spaces == ("fused",)]
    if not fused:
        return None
    if len(fused) > 1:
        raise SpecError(table.where, "only one axis can be fused")
    parts = TomlTable(f"{table.where} parts", table.get("parts", dict))
    per = pick(table.where, "space", table.get("per", str), SPACES) if table.has("per") else None
    return Fusion(
        axis=fused[0],
        per=per,
        parts=tuple(
            FusedPart(role=_role(parts.where, role), spaces=_product(parts.where, text))
            for role, text in parts.items()
        ),
    )


def _bias_of(weight: TensorSpec, where: str) -> TensorSpec:
    """Return the bias that goes with a weight: its output axis, and the experts' axis if stacked."""
    stem, dot, last = weight.template.rpartition(".")
    if last != "weight":
        raise SpecError(where, "'bias' is for names that end in '.weight'")
    output = len(weight.axes) - 1 if weight.transposed else max(len(weight.axes) - 2, 0)
    if weight.fusion is not None and weight.fusion.axis != output:
        raise SpecError(where, "the fused axis has to be the output axis to have a bias")
    fusion = weight.fusion and Fusion(axis=0, per=weight.fusion.per, parts=weight.fusion.parts)
    return TensorSpec(
        pattern=weight.pattern.removesuffix("weight") + "bias",
        in_body=weight.in_body,
        template=f"{stem}{dot}bias",
        slots=weight.slots,
        role=weight.role,
        part="bias",
        axes=(weight.axes[output],),
        fusion=fusion,
        stack=weight.stack,
        transposed=False,
        fixed=weight.fixed,
        optional=True,
    )


def _check_distinct(file: str, tensors: list[TensorSpec]) -> None:
    seen: dict[tuple[bool, str], list[TensorSpec]] = {}
    for tensor in tensors:
        rivals = seen.setdefault((tensor.in_body, tensor.template), [])
        for rival in rivals:
            if _overlap(tensor, rival):
                raise SpecError(file, f"{tensor.pattern!r} and {rival.pattern!r} match the same names")
        rivals.append(tensor)


def _overlap(first: TensorSpec, second: TensorSpec) -> bool:
    """Whether some name fits both: false only if they want different plain numbers at the same place."""
    pairs = zip(first.slots, second.slots, strict=True)
    return all(a == b or isinstance(a, str) or isinstance(b, str) for a, b in pairs)


def _check_references(file: str, spec: ArchitectureSpec) -> None:
    if not spec.bodies:
        raise SpecError(file, "'bodies' is empty; use [\"\"] for names without a prefix")
    used: set[str] = set()
    for tensor in spec.tensors:
        used.update(space for spaces in tensor.axes for space in spaces)
        if tensor.fusion is not None:
            used.update(space for part in tensor.fusion.parts for space in part.spaces)
            used.update({tensor.fusion.per} if tensor.fusion.per else ())
    defined = spec.sizes.keys() | {name for name, space in SPACES.items() if space.measured} | {"one"}
    for space in sorted(used - defined):
        raise SpecError(file, f"the space {space!r} is used by a tensor, but [sizes] does not define it")
    every = [*spec.sizes.items(), *(item for variant in spec.variants for item in variant.sizes.items())]
    for name, candidates in every:
        for size in sorted(frozenset[str]().union(*(one.sizes for one in candidates)) - defined):
            raise SpecError(
                f"{file} [sizes] {name}", f"the size {size!r} is not defined{_did_you_mean(size, defined)}"
            )
