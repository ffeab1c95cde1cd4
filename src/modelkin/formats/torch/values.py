"""What a torch file's pickle can turn into: plain data, and descriptions of everything else.

Nothing here executes anything. Strings, numbers and containers are themselves; a tensor is where it is
stored, and any other object is no more than its name. A pickle says "call this by name with these arguments".
Here a name is a key of a table, and the function found there only describes what torch would have made; no
module is imported and no name is looked up anywhere else. The table is short on purpose: what state dicts,
training checkpoints with plain data, and TorchScript hold. Everything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from modelkin.message import Message, Refusal, say
from modelkin.tensors import MAX_RANK
from modelkin.untrusted import plain

Value: TypeAlias = object
"""One of the classes below, or None, bool, int, float, str, bytes, tuple, list, dict of such values."""


@dataclass(frozen=True, slots=True)
class Global:
    """A name of the pickle, never looked up."""

    module: str
    name: str

    def __str__(self) -> str:
        return plain(f"{self.module}.{self.name}")


@dataclass(frozen=True, slots=True)
class StorageRef:
    """A run of numbers that is stored outside the pickle."""

    key: str
    dtype: str
    """A key of `DTYPES`, or torch's name for a format not among them; ``U8`` for an untyped one."""
    numel: int
    """Number of elements of that format."""


@dataclass(frozen=True, slots=True)
class TensorRef:
    """A view of a storage."""

    storage: StorageRef
    dtype: str
    offset: int
    """In elements of `dtype`, as the strides are."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Holder:
    """An object that is nothing but its attributes: a namespace, a module of TorchScript."""

    kind: str
    attributes: dict[Value, Value] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """An object whose contents do not matter here: a device, a date, a numpy array."""

    kind: str


_NAMES = (str, bytes, bool, type(None), Global)
_MAX_KEY_PARTS = 8
_LARGEST_KEY = 1 << 31
_SMALLEST_KEY = 2.0**-30
"""Numbers outside these limits can be chosen to share one hash, which makes a dictionary of them quadratic;
strings cannot, as Python salts their hashes."""


def checked_key(key: Value) -> Value:
    """Return a key of a dictionary, or refuse it if comparing or hashing it could take forever."""
    if isinstance(key, _NAMES):
        return key
    parts = key if isinstance(key, tuple) and len(key) <= _MAX_KEY_PARTS else [key]
    for part in parts:
        if isinstance(part, int | float):
            # NaN is in no range, so it is refused here too.
            if part != 0 and not (_SMALLEST_KEY < abs(part) < _LARGEST_KEY):
                raise Refusal(say("problem.pickle-key-number"))
        elif not isinstance(part, _NAMES):
            raise Refusal(say("problem.pickle-key-kind", got=kind_of(key)))
    return key


def kind_of(value: Value) -> str:
    """Return a short word for a value, which never shows what is inside."""
    return str(value) if isinstance(value, Global) else type(value).__name__


Call: TypeAlias = Callable[[tuple[Value, ...]], Value]
"""Describes the result of a call with these arguments; a `Refusal` says what is wrong with them."""

_MAX_SIZE = 1 << 62

DTYPES_OF_TORCH: Final[Mapping[str, str]] = {
    "bool": "BOOL",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2": "F8_E5M2",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
}
"""Torch's name of a number format -> ours."""

UNREAD_BYTES: Final[Mapping[str, int]] = {"complex32": 4, "complex128": 16, "float4_e2m1fn_x2": 1}
"""Formats that are known but not read, with their bytes per element: such tensors are left out."""

_DTYPES: Final[Mapping[Global, str]] = {
    Global("torch", name): DTYPES_OF_TORCH.get(name, name) for name in (*DTYPES_OF_TORCH, *UNREAD_BYTES)
}
_STORAGES: Final[Mapping[Global, str]] = {
    **{
        Global("torch", f"{kind}Storage"): dtype
        for kind, dtype in {
            "Bool": "BOOL",
            "Byte": "U8",
            "Char": "I8",
            "Short": "I16",
            "Int": "I32",
            "Long": "I64",
            "Half": "F16",
            "BFloat16": "BF16",
            "Float": "F32",
            "Double": "F64",
            "ComplexFloat": "C64",
            "ComplexDouble": "complex128",
        }.items()
    },
    # Untyped: its length counts bytes, and the tensor says what they are.
    Global("torch.storage", "UntypedStorage"): "U8",
    Global("torch.storage", "_UntypedStorage"): "U8",
    Global("torch", "UntypedStorage"): "U8",
}
_TENSOR_CLASSES: Final = frozenset(
    {Global("torch._tensor", "Tensor"), Global("torch", "Tensor"), Global("torch.nn.parameter", "Parameter")}
)


def storage_of(pid: Value) -> StorageRef:
    """Return the storage of a persistent id, ``('storage', type, key, location, numel)``, or refuse it."""
    if not isinstance(pid, tuple) or len(pid) not in (5, 6) or pid[0] != "storage":
        raise Refusal(say("problem.pickle-storage-parts"))
    _, kind, key, location, numel = pid[:5]
    if not isinstance(kind, Global):
        raise Refusal(say("problem.pickle-storage-type"))
    if kind not in _STORAGES:
        raise Refusal(say("problem.pickle-storage-kind", kind=str(kind)))
    if not isinstance(key, str) or not isinstance(location, str):
        raise Refusal(say("problem.pickle-storage-key"))
    if len(pid) == 6 and pid[5] is not None:
        raise Refusal(say("problem.pickle-views"))
    return StorageRef(key, _STORAGES[kind], _count(numel, say("part.storage-length")))


# -- tensors -------------------------------------------------------------------------------------------


# Used for every tensor: made once.
_SHAPE, _STRIDES, _OFFSET = say("part.shape"), say("part.strides"), say("part.offset")


def _tensor(args: tuple[Value, ...], dtype: str | None = None) -> TensorRef:
    if len(args) < 4:
        raise Refusal(say("problem.pickle-tensor-args", n=len(args)))
    storage, offset, shape, strides = args[:4]
    if not isinstance(storage, StorageRef):
        raise Refusal(say("problem.pickle-first-storage"))
    axes, steps = _counts(shape, _SHAPE), _counts(strides, _STRIDES)
    if len(axes) != len(steps):
        raise Refusal(say("problem.pickle-strides", n=len(axes), m=len(steps)))
    return TensorRef(storage, dtype or storage.dtype, _count(offset, _OFFSET), axes, steps)


def _tensor_v2(args: tuple[Value, ...]) -> TensorRef:
    if not 4 <= len(args) <= 7:
        raise Refusal(say("problem.pickle-up-to-7", n=len(args)))
    _check_metadata(args[6:])
    return _tensor(args)


def _tensor_v3(args: tuple[Value, ...]) -> TensorRef:
    if not 7 <= len(args) <= 8:
        raise Refusal(say("problem.pickle-7-or-8", n=len(args)))
    dtype = args[6]
    if not isinstance(dtype, Global) or dtype not in _DTYPES:
        raise Refusal(say("problem.pickle-seventh"))
    _check_metadata(args[7:])
    return _tensor(args, _DTYPES[dtype])


def _check_metadata(rest: tuple[Value, ...]) -> None:
    """Refuse a tensor that is the negative or the conjugate of what is stored."""
    metadata = rest[0] if rest else None
    if metadata is None or metadata == {}:
        return
    raise Refusal(say("problem.pickle-lazy"))


def _parameter(args: tuple[Value, ...]) -> TensorRef:
    if len(args) != 3 or not isinstance(args[0], TensorRef):
        raise Refusal(say("problem.pickle-tensor-and-2", n=len(args)))
    return args[0]


def _parameter_with_state(args: tuple[Value, ...]) -> TensorRef:
    if len(args) != 4:
        raise Refusal(say("problem.pickle-4", n=len(args)))
    _check_state(args[3])
    return _parameter(args[:3])


def _check_state(state: Value) -> None:
    """Refuse attributes: torch sets every one of them, and `data` would replace a tensor's numbers."""
    parts = state if isinstance(state, tuple) else (state,)
    if any(part is not None and part != {} for part in parts):
        raise Refusal(say("problem.pickle-own-attributes"))


def _from_type(args: tuple[Value, ...]) -> Value:
    """Describe a tensor by its class; only torch's own classes are read, and without attributes."""
    if len(args) != 4:
        raise Refusal(say("problem.pickle-4", n=len(args)))
    function, kind, inner, state = args
    if not isinstance(kind, Global) or kind not in _TENSOR_CLASSES:
        raise Refusal(say("problem.pickle-class", kind=kind_of(kind)))
    if not isinstance(function, Global) or function not in _REBUILDS or not isinstance(inner, tuple):
        raise Refusal(say("problem.pickle-rebuild"))
    _check_state(state)
    return _REBUILDS[function](inner)


def _count(value: Value, what: Message) -> int:
    # A bool is an int to Python, but no writer uses one here.
    if type(value) is not int or not 0 <= value < _MAX_SIZE:
        raise Refusal(say("problem.pickle-number", what=what))
    return value


def _counts(value: Value, what: Message) -> tuple[int, ...]:
    if not isinstance(value, tuple | list) or len(value) > MAX_RANK:
        raise Refusal(say("problem.pickle-numbers", most=MAX_RANK, what=what))
    each = say("part.the", what=what)
    return tuple(_count(item, each) for item in value)


_REBUILDS: Final[Mapping[Global, Call]] = {
    Global("torch._utils", "_rebuild_tensor"): _tensor,
    Global("torch._utils", "_rebuild_tensor_v2"): _tensor_v2,
    Global("torch._utils", "_rebuild_tensor_v3"): _tensor_v3,
    Global("torch._utils", "_rebuild_parameter"): _parameter,
    Global("torch._utils", "_rebuild_parameter_with_state"): _parameter_with_state,
}


# -- other data ----------------------------------------------------------------------------------------


def _mapping(args: tuple[Value, ...]) -> dict[Value, Value]:
    """Describe a dictionary that is filled afterwards; old writers passed its items at once, as pairs."""
    items = args[-1] if args else ()
    if not isinstance(items, list | tuple):
        return {}
    made: dict[Value, Value] = {}
    for pair in items:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise Refusal(say("problem.pickle-pairs"))
        made[checked_key(pair[0])] = pair[1]
    return made


def _empty_mapping(args: tuple[Value, ...]) -> dict[Value, Value]:
    """Describe a dictionary whose arguments are a factory, or the items themselves."""
    return args[0] if args and isinstance(args[0], dict) else {}


def _sequence(args: tuple[Value, ...]) -> list[Value]:
    return args[0] if args and isinstance(args[0], list) else []


def _size(args: tuple[Value, ...]) -> tuple[int, ...]:
    return _counts(args[0] if args else (), say("part.size"))


def _opaque(kind: str) -> Call:
    made = Opaque(kind)
    return lambda args: made


def _holder(kind: str) -> Call:
    return lambda args: Holder(kind)


def _first(args: tuple[Value, ...]) -> Value:
    if not args:
        raise Refusal(say("problem.pickle-argument"))
    return args[0]


def _table() -> dict[Global, Call]:
    calls: dict[Global, Call] = dict(_REBUILDS)
    calls |= {
        Global("torch._tensor", "_rebuild_from_type_v2"): _from_type,
        Global("collections", "OrderedDict"): _mapping,
        Global("collections", "defaultdict"): _empty_mapping,
        Global("collections", "Counter"): _empty_mapping,
        Global("collections", "deque"): _sequence,
        Global("torch", "Size"): _size,
        Global("torch", "device"): _opaque("device"),
        Global("torch.serialization", "_get_layout"): _opaque("layout"),
        Global("argparse", "Namespace"): _holder("namespace"),
        Global("types", "SimpleNamespace"): _holder("namespace"),
        Global("_codecs", "encode"): _opaque("bytes"),
        Global("datetime", "datetime"): _opaque("date"),
        Global("datetime", "date"): _opaque("date"),
        Global("datetime", "timedelta"): _opaque("date"),
        Global("numpy", "dtype"): _opaque("numpy dtype"),
    }
    for builtins in ("builtins", "__builtin__"):
        calls |= {Global(builtins, name): _sequence for name in ("set", "frozenset")}
        calls |= {
            Global(builtins, name): _opaque(name) for name in ("bytearray", "complex", "slice", "range")
        }
    calls |= {Global("pathlib", name): _opaque("path") for name in ("Path", "PosixPath", "WindowsPath")}
    for core in ("numpy.core.multiarray", "numpy._core.multiarray"):
        calls[Global(core, "scalar")] = _opaque("numpy number")
        calls[Global(core, "_reconstruct")] = _opaque("numpy array")
    return calls


CALLS: Final[Mapping[Global, Call]] = _table()
"""What may be called in any file."""

TORCHSCRIPT_CALLS: Final[Mapping[Global, Call]] = {
    Global("torch.jit._pickle", name): _first
    for name in (
        "build_intlist",
        "build_tensorlist",
        "build_doublelist",
        "build_boollist",
        "restore_type_tag",
    )
}
"""What may also be called in a TorchScript archive: containers that record their type."""

HARMLESS: Final = frozenset(
    {
        *_DTYPES,
        *_STORAGES,
        *_TENSOR_CLASSES,
        *CALLS,
        *TORCHSCRIPT_CALLS,
        Global("numpy", "ndarray"),
        *(
            Global(module, name)
            for module in ("builtins", "__builtin__")
            for name in ("dict", "list", "int", "float")
        ),
    }
)
"""Names that are not worth reporting."""


def is_script_class(name: Global) -> bool:
    """Say whether a name is a class of TorchScript's own, whose objects are their attributes."""
    return name.module == "__torch__" or name.module.startswith("__torch__.")


def script_object(name: Global) -> Holder:
    """Describe an object of such a class."""
    return Holder(f"TorchScript {name.name}")
