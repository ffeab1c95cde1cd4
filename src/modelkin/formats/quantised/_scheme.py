"""What a scheme is given, what it finds, and what is refused because its parts contradict one another."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NoReturn, TypeAlias, TypeVar

from modelkin.errors import HeaderError
from modelkin.message import Message, say
from modelkin.source import ByteRange, Fetcher
from modelkin.tensors import Storage, TensorIndex, TensorInfo
from modelkin.untrusted import quoted

_PLACES = ("quantization_config", "compression_config", "quantization")
_INNER = ("text_config", "llm_config", "language_config")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The part of a config about quantisation, or nothing."""

    method: str | None = None
    """Name of the scheme, in lower case; None if the config declares none."""
    values: Mapping[str, object] = field(default_factory=dict, repr=False)

    def number(self, key: str) -> int | None:
        """Return a whole number, or None when there is none."""
        return _number(self.values.get(key))

    def word(self, key: str) -> str:
        """Return a word in lower case, or the empty string."""
        value = self.values.get(key)
        return value.lower()[:80] if isinstance(value, str) else ""

    def table(self, key: str) -> Mapping[str, object]:
        """Return an object of the config, or an empty one."""
        value = self.values.get(key)
        return value if isinstance(value, dict) else {}

    def pair(self, key: str) -> tuple[int, int] | None:
        """Return two whole numbers above zero, or None."""
        return _pair(self.values.get(key))

    def weights(self) -> Iterator[Settings]:
        """Yield what each group of a compressed-tensors config says about weights."""
        for group in self.table("config_groups").values():
            inner = group.get("weights") if isinstance(group, dict) else None
            if isinstance(inner, dict):
                yield Settings(method=self.method, values=inner)

    def of(self, module: str) -> Settings:
        """Return the settings of one module, if a config makes exceptions by name."""
        own = self.values.get(module)
        return Settings(method=self.method, values={**self.values, **own}) if isinstance(own, dict) else self


def read_settings(config: Mapping[str, object] | None) -> Settings:
    """Find what a config says about quantisation."""
    inner = [config[key] for key in _INNER if isinstance(config.get(key), dict)] if config else []
    for place in (config or {}, *inner):
        for key in _PLACES:
            found = place.get(key) if isinstance(place, dict) else None
            if isinstance(found, dict):
                return Settings(method=_method(found), values=found)
    return Settings()


def _method(found: Mapping[str, object]) -> str | None:
    method = found.get("quant_method")
    if isinstance(method, str):
        return method.lower()[:80]
    if found.get("load_in_4bit") is True or found.get("load_in_8bit") is True:
        return "bitsandbytes"
    if _number(found.get("bits")) and _number(found.get("group_size")):
        return "mlx"  # the only writer that gives no name
    return "compressed-tensors" if isinstance(found.get("config_groups"), dict) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _pair(value: object) -> tuple[int, int] | None:
    if not isinstance(value, list) or len(value) != 2:
        return None
    first, second = _number(value[0]), _number(value[1])
    return (first, second) if first and second and first > 0 and second > 0 else None


_HINT = say("hint.packs-otherwise")
_MOST_AXES = 4


def fail(info: TensorInfo, problem: Message, *, hint: Message = _HINT) -> NoReturn:
    """Refuse a tensor: raise `HeaderError` with the file, the tensor and the problem."""
    raise HeaderError(
        info.file, say("problem.tensor-problem", name=quoted(info.name), problem=problem), hint=hint
    )


def part(index: Mapping[str, TensorInfo], of: TensorInfo, name: str) -> TensorInfo:
    """Return a tensor that another one needs."""
    found = index.get(name)
    if found is None:
        fail(of, say("problem.quant-needs", name=quoted(name)))
    return found


def expect_dtype(info: TensorInfo, *dtypes: str) -> None:
    """Refuse a tensor stored in a format other than the scheme requires."""
    if info.dtype not in dtypes:
        fail(info, say("problem.expected-got", expected=" or ".join(dtypes), got=info.dtype))
    if info.storage is not None:
        fail(info, say("problem.quant-not-plain"))


def expect_shape(info: TensorInfo, *shapes: tuple[int, ...]) -> None:
    """Refuse a tensor whose shape does not match its companions."""
    if info.shape not in shapes:
        wanted = " or ".join(str(list(shape)) for shape in dict.fromkeys(shapes))
        fail(info, say("problem.quant-wanted-shape", wanted=wanted, shape=str(list(info.shape))))


def expect_stack(info: TensorInfo) -> tuple[int, ...]:
    """Refuse a tensor that is not a matrix or stack of matrices, or has an empty axis; return its shape."""
    if not 2 <= len(info.shape) <= _MOST_AXES or 0 in info.shape:
        fail(info, say("problem.quant-matrix", shape=str(list(info.shape))))
    return info.shape


def expect_matrix(info: TensorInfo) -> tuple[int, int]:
    """Refuse a tensor that is not a matrix, or has an empty axis; return its shape."""
    shape = expect_stack(info)
    if len(shape) != 2:
        fail(info, say("problem.quant-one-matrix", shape=str(list(shape))))
    return shape[0], shape[1]


FLOATS = ("F16", "BF16", "F32")
"""Formats of scales."""


ReadSmall: TypeAlias = Callable[[Sequence[str]], Mapping[str, bytes]]
"""Reads whole tensors by name, all with one fetch."""

_Made = TypeVar("_Made")
_NUMBER: Final = re.compile(r"[0-9]+")

MOST_SMALL: Final = 64 * 1024
"""Bytes of a tensor that is read while a model is opened."""
MOST_SMALL_TENSORS: Final = 20_000
"""Tensors that are read while a model is opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundWeight:
    """A weight made of several tensors."""

    info: TensorInfo
    uses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadCodes:
    """A tensor that only looks like a part of a quantised weight, or is one that cannot be put together."""

    info: TensorInfo
    codes: TensorInfo | None
    """The codes that it belongs to, if these are another tensor."""
    error: HeaderError


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeInput:
    """What a scheme looks at, and what it could not use."""

    index: TensorIndex
    settings: Settings
    read_small: ReadSmall
    unread: list[UnreadCodes] = field(default_factory=list)

    def attempt(
        self, info: TensorInfo, make: Callable[[], _Made], *, codes: TensorInfo | None = None
    ) -> Iterator[_Made]:
        """Yield what a tensor becomes; if that is refused, record it and yield nothing.

        Anybody can add a tensor that is named like a part of some scheme, and loaders ignore it: the rest of
        the model is read anyway. Whether too much is missing is decided at the end.
        """
        try:
            made = make()
        except HeaderError as error:
            self.unread.append(UnreadCodes(info=info, codes=codes, error=error))
        else:
            yield made

    def refuse(self, info: TensorInfo, problem: Message) -> None:
        """Record that a tensor cannot be used."""
        next(self.attempt(info, partial(fail, info, problem)), None)

    def small(self, infos: Iterable[TensorInfo]) -> Mapping[str, bytes]:
        """Read small tensors, all with one fetch; those that are not small are left out."""
        wanted = [one for info in infos for one in self.attempt(info, partial(_small, info))]
        if len(wanted) > MOST_SMALL_TENSORS:
            first = wanted[0]
            raise HeaderError(
                first.file,
                say(
                    "problem.quant-many-small",
                    n=len(wanted),
                    name=quoted(first.name),
                    most=MOST_SMALL_TENSORS,
                ),
            )
        return self.read_small([info.name for info in wanted]) if wanted else {}


def _small(info: TensorInfo) -> TensorInfo:
    if info.n_bytes > MOST_SMALL or info.storage is not None:
        fail(info, say("problem.quant-small", n=info.n_bytes))
    return info


def template(name: str) -> str:
    """Return what a tensor's names have in common across layers."""
    return _NUMBER.sub("#", name)


def weight(
    name: str, label: str, shape: tuple[int, ...], main: TensorInfo, storage: Storage, *uses: str
) -> FoundWeight:
    """Return a weight whose codes are in `main`."""
    info = TensorInfo(
        name=name,
        dtype=label,
        shape=shape,
        file=main.file,
        start=main.start,
        stop=main.stop,
        storage=storage,
    )
    return FoundWeight(info=info, uses=(main.name, *uses))


def small_reader(fetcher: Fetcher, index: TensorIndex) -> ReadSmall:
    """Return a way to read small plain tensors of an index."""

    def read(names: Sequence[str]) -> Mapping[str, bytes]:
        infos = [index[name] for name in names]
        wanted: dict[str, list[ByteRange]] = {}
        for info in infos:
            wanted.setdefault(info.file, []).append(ByteRange(info.start, info.stop))
        fetched = fetcher.fetch(wanted, task=say("step-quantised"))
        return {info.name: bytes(fetched.view(info.file, ByteRange(info.start, info.stop))) for info in infos}

    return read
