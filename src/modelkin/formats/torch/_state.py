"""Which tensors of a checkpoint are the model's weights, and under which names.

A file can be a state dict, or a checkpoint that holds one among other things. The rules are few, and notes
report them: the weights are under a key that trainers use for them, optimizers are left out, names of nested
dictionaries are joined with dots, and prefixes that wrappers put before every name are stripped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from modelkin.errors import HeaderError, UnsupportedFormat
from modelkin.message import Message, say
from modelkin.untrusted import MAX_NAME_LENGTH, name_problem, plain, quoted

from .values import Holder, Opaque, TensorRef, Value

MAX_TENSORS = 250_000
MAX_DEPTH = 32
_MAX_VISITS = 2_000_000
_MAX_PATH = 4 * MAX_NAME_LENGTH
_N_LISTED = 4

_WRAPPERS: Final = (
    *("state_dict", "model_state_dict", "model", "module", "model_state", "net", "network"),
    *("params", "parameters", "weights", "ema", "params_ema", "model_ema", "ema_state_dict"),
)
"""Keys under which checkpoints hold the weights, the likeliest first."""

_OTHER_STATE: Final = frozenset(
    {
        *("optimizer", "optimizers", "optim", "optimizer_state_dict", "optimizer_states", "optimizer_state"),
        *("lr_scheduler", "lr_schedulers", "scheduler", "scheduler_state_dict", "scaler", "grad_scaler"),
        *("amp", "amp_scaler", "rng_state", "rng_states", "cuda_rng_state", "random_states", "callbacks"),
        *("loops", "hyper_parameters", "hparams", "args", "config", "dims"),
    }
)
"""Keys of a checkpoint that are not the model."""

_RANDOM: Final = frozenset({"rng_state", "cuda_rng_state", "torch_rng_state", "cpu_rng_state"})
"""Keys of a tensor that holds the state of a random generator."""

_LIGHTNING: Final = "pytorch-lightning_version"
_PREFIXES: Final = ("module.", "_orig_mod.", "_forward_module.")
# After Lightning's own prefix these are names of a bare model, which usually have `model.` before them.
_OF_BARE_MODELS: Final = ("layers", "embed_tokens", "norm", "encoder", "decoder", "shared", "h", "wte", "wpe")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDict:
    """The weights of one file."""

    tensors: Mapping[str, TensorRef] = field(repr=False)
    """Under the names of the file."""
    beside: Mapping[str, Value] = field(repr=False)
    """What else the checkpoint holds besides the weights; empty if the file is just the weights."""
    left_out: tuple[str, ...] = ()
    """Tensors with unprintable names."""
    notes: tuple[Message, ...] = ()


def find_state(top: Value, *, file: str, is_part: bool = False) -> StateDict:
    """Find the weights in the object of a file. One of several files may hold none.

    Raises `FormatError` if there are none, they are nested too deep, or two have the same name.
    """
    if isinstance(top, TensorRef):
        raise UnsupportedFormat(plain(file), say("problem.single-tensor"))
    beside: Mapping[str, Value] = {}
    notes: list[Message] = []
    current = top
    for _ in range(3):
        items = _items(current)
        texts = {key: value for key, value in items if isinstance(key, str)}
        if any(_is_weight(key, value) for key, value in texts.items()):
            break
        holding = [key for key in _WRAPPERS if key in texts and _has_tensor(texts[key])]
        if not holding:
            break
        code = "format.weights-under-others" if holding[1:] else "format.weights-under"
        notes.append(say(code, key=repr(holding[0]), others=tuple(holding[1:])))
        beside = {**beside, **{key: value for key, value in texts.items() if key != holding[0]}}
        current = texts[holding[0]]
    walk = _Walk(file)
    walk.visit(current, "", 0, ())
    if walk.odd and not walk.tensors and not is_part:
        name, problem = walk.odd[0]
        raise HeaderError(plain(file), say("problem.tensor-name", name=name, problem=problem))
    if not walk.tensors and not is_part:
        raise UnsupportedFormat(
            plain(file),
            say("problem.no-tensors"),
            hint=say("hint.training-state"),
        )
    left = sorted(walk.left_out | {key for key in beside if key in _OTHER_STATE and _has_tensor(beside[key])})
    if left:
        notes.append(say("format.not-model", parts=tuple(left)))
    odd = tuple(name for name, _ in walk.odd)
    if odd:
        notes.append(say("format.odd-tensors", n=len(odd), names=odd[:_N_LISTED]))
    if walk.n_arrays:
        notes.append(say("format.numpy-arrays", n=walk.n_arrays))
    return StateDict(tensors=walk.tensors, beside=beside, left_out=odd, notes=tuple(notes))


def usual_names(state: StateDict) -> tuple[dict[str, str], tuple[Message, ...]]:
    """Return each tensor's name without the prefixes of wrappers, and notes on what was done."""
    names = {name: name for name in state.tensors}
    notes: list[Message] = []
    # Wrappers can be nested, but each adds its prefix to every name.
    for prefix in (*_PREFIXES, *_PREFIXES):
        if all(name.startswith(prefix) and len(name) > len(prefix) for name in names.values()):
            names = {key: name.removeprefix(prefix) for key, name in names.items()}
            notes.append(say("format.wrapper-prefix", prefix=repr(prefix)))
    if _LIGHTNING in state.beside and _is_wrapped(names.values()):
        names = {key: name.removeprefix("model.") for key, name in names.items()}
        notes.append(say("format.lightning-prefix"))
    # What the first checkpoints of BERT call the weights of a norm.
    old = {key: _without_greek(name) for key, name in names.items()}
    if old != names:
        names = old
        notes.append(say("format.norm-letters"))
    return names, tuple(notes)


def _is_wrapped(found: Collection[str]) -> bool:
    bare = tuple(f"model.{part}." for part in _OF_BARE_MODELS)
    return all(name.startswith("model.") for name in found) and not any(
        name.startswith(bare) for name in found
    )


def _without_greek(name: str) -> str:
    for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


class _Walk:
    """Collects tensors with the path to each."""

    def __init__(self, file: str) -> None:
        self.tensors: dict[str, TensorRef] = {}
        self.left_out: set[str] = set()
        self.odd: list[tuple[str, Message]] = []
        self.n_arrays = 0
        self._file = file
        self._visits = 0

    def visit(self, value: Value, path: str, depth: int, above: tuple[int, ...]) -> None:
        # A dictionary that holds itself, or the same ones again and again, would never end.
        if id(value) in above:
            raise HeaderError(plain(self._file), say("problem.torch-itself", path=quoted(path)))
        if depth > MAX_DEPTH:
            raise HeaderError(plain(self._file), say("problem.torch-deep", path=quoted(path), most=MAX_DEPTH))
        for key, item in _items(value):
            self._visits += 1
            if self._visits > _MAX_VISITS:
                raise HeaderError(plain(self._file), say("problem.torch-values", most=_MAX_VISITS))
            if len(path) + len(str(key)) > _MAX_PATH:
                raise HeaderError(plain(self._file), say("problem.torch-path", most=_MAX_PATH))
            if isinstance(item, TensorRef):
                if depth == 0 and key in _RANDOM:
                    self.left_out.add(str(key))
                else:
                    self._add(f"{path}{key}", item)
            elif isinstance(item, Opaque):
                self.n_arrays += item.kind == "numpy array"
            elif isinstance(item, dict | list | tuple | Holder):
                if key in _OTHER_STATE and depth == 0:
                    if _has_tensor(item):
                        self.left_out.add(str(key))
                else:
                    self.visit(item, f"{path}{key}.", depth + 1, (*above, id(value)))

    def _add(self, name: str, tensor: TensorRef) -> None:
        if name in self.tensors:
            raise HeaderError(plain(self._file), say("problem.two-tensors", name=quoted(name)))
        if len(self.tensors) + len(self.odd) >= MAX_TENSORS:
            raise HeaderError(plain(self._file), say("problem.torch-tensors", most=MAX_TENSORS))
        if problem := name_problem(name):
            self.odd.append((quoted(name), problem))
            return
        self.tensors[name] = tensor


def _is_weight(key: str, value: Value) -> bool:
    """Say whether a tensor is where weights would be: counters and random states are elsewhere."""
    return isinstance(value, TensorRef) and bool(value.shape) and key not in _RANDOM


def _items(value: Value) -> Iterator[tuple[str | int, Value]]:
    """Return what a container holds, by keys that can be part of a name."""
    if isinstance(value, Holder):
        value = value.attributes
    if isinstance(value, dict):
        # bool is an int, but True is not a name.
        return ((key, item) for key, item in value.items() if type(key) in (str, int))
    if isinstance(value, list | tuple):
        return iter(enumerate(value))
    return iter(())


def _has_tensor(value: Value) -> bool:
    """Say whether there is a tensor near the top of a value."""
    level = [value]
    seen: set[int] = set()
    while level and len(seen) < _MAX_VISITS:
        below: list[Value] = []
        for item in level:
            if isinstance(item, TensorRef):
                return True
            if isinstance(item, dict | list | tuple | Holder) and id(item) not in seen:
                seen.add(id(item))
                below.extend(inner for _, inner in _items(item))
        level = below
    return False
