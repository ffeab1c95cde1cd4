"""Where an adapter's tensors belong in a base, and whether they fit there. Shapes only: nothing is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from modelkin.errors import UnsupportedFormat
from modelkin.message import Message, say
from modelkin.tensors import TensorIndex, TensorInfo

from .config import AdapterConfig

_PREFIX = "base_model.model."
_PARTS = {
    "lora_A.weight": "a",
    "lora_B.weight": "b",
    "lora_B.bias": "b_bias",
    "lora_embedding_A": "embedding_a",
    "lora_embedding_B": "embedding_b",
    "lora_magnitude_vector": "magnitude",
    "lora_magnitude_vector.weight": "magnitude",
}
_ADAPTER_NAME = "default"
"""What PEFT calls an adapter unless told otherwise; old versions left it in the names."""
_NESTED = ".base_layer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One adapted module: its matrices by part."""

    name: str
    parts: Mapping[str, TensorInfo] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterTensors:
    """The tensors of an adapter's file, by purpose."""

    modules: tuple[Module, ...]
    replaced: Mapping[str, TensorInfo]
    """Whole tensors that replace the base's, by the base's names."""


def sort_out(index: TensorIndex) -> AdapterTensors:
    """Return what each tensor of an adapter's file is for.

    A name that no LoRA adapter uses, or half a pair, is refused as `UnsupportedFormat`.
    """
    found: dict[str, dict[str, TensorInfo]] = {}
    replaced: dict[str, TensorInfo] = {}
    for name, info in index.items():
        plain = name.removeprefix(_PREFIX)
        module, part = _split(plain)
        if part is not None:
            if part in found.setdefault(module, {}):
                raise _refused(info, say("problem.lora-two", module=module))
            found[module][part] = info
            continue
        target = plain.replace(".modules_to_save", "").replace(_NESTED, "").replace(".original_module", "")
        if "lora_" in plain or not target.endswith((".weight", ".bias")):
            raise _refused(info, say("problem.lora-name"))
        if target in replaced:
            raise _refused(info, say("problem.lora-twice", target=target))
        replaced[target] = info
    modules = tuple(Module(name=name, parts=parts) for name, parts in sorted(found.items()))
    _check_pairs(modules)
    return AdapterTensors(modules=modules, replaced=replaced)


def _split(name: str) -> tuple[str, str | None]:
    """Return the module and the part of a tensor; None for the part of whole tensors."""
    words = name.split(".")
    without = [word for word in words if word != _ADAPTER_NAME]
    for length in (1, 2):
        part = _PARTS.get(".".join(without[-length:]))
        if part is not None and len(without) > length:
            return ".".join(without[:-length]), part
    return name, None


def _check_pairs(modules: Iterable[Module]) -> None:
    for module in modules:
        given = module.parts.keys()
        if (
            not ({"a", "b"} <= given) ^ ({"embedding_a", "embedding_b"} <= given)
            or len(given & {"a", "b", "embedding_a", "embedding_b"}) != 2
        ):
            info = next(iter(module.parts.values()))
            raise _refused(info, say("problem.lora-parts", name=module.name, given=", ".join(sorted(given))))


def _refused(info: TensorInfo, why: Message) -> UnsupportedFormat:
    return UnsupportedFormat(
        info.file,
        say("problem.tensor-not-applied", name=info.name, why=why),
        hint=say("hint.merge-adapter"),
    )


_TABLES = ("embed_tokens.weight", "wte.weight", "word_embeddings.weight", "embed_in.weight")


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One tensor of the base and what is added to it."""

    module: str
    """Its name as the config's patterns see it."""
    target: str
    """Name of the resulting tensor."""
    start: str
    """Name of the base tensor that it is added to: a different one if the head is tied to the token rows."""
    a: TensorInfo
    b: TensorInfo
    inputs_first: bool = False
    experts: int = 0
    """Number of matrices in the tensor; 0 for a plain one."""
    magnitude: TensorInfo | None = None
    added_bias: TensorInfo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What an adapter would do to a base."""

    updates: tuple[Update, ...]
    replaced: Mapping[str, TensorInfo]
    problems: tuple[Message, ...]
    """Why it cannot be applied; none if it can."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of its updates, ascending."""
        return tuple(sorted({update.a.shape[0] // max(1, update.experts) for update in self.updates}))


def fit_to_base(config: AdapterConfig, tensors: AdapterTensors, base: TensorIndex) -> Fit:
    """Find the tensor of the base for each matrix of an adapter, and compare shapes."""
    rename = _renaming(tensors, base)
    replaced = {rename(name): info for name, info in tensors.replaced.items()}
    shapes = {name: info.shape for name, info in base.items()} | {
        name: info.shape for name, info in replaced.items()
    }
    problems: list[Message] = []
    updates: list[Update] = []
    turned = config.transposed or any(_only_turned(module, rename, shapes) for module in tensors.modules)
    tables = [name for name in base if name.endswith(_TABLES)]
    table = tables[0] if len(tables) == 1 else None
    for module in tensors.modules:
        found = _updated(module, rename, shapes, config, turned=turned, table=table)
        if isinstance(found, Message):
            problems.append(found)
        else:
            updates.append(found)
    counted = Counter(update.target for update in updates)
    problems += [say("adapter.twice", tensor=name) for name, number in counted.items() if number > 1]
    return Fit(updates=tuple(updates), replaced=replaced, problems=tuple(problems))


def _renaming(tensors: AdapterTensors, base: TensorIndex) -> Callable[[str], str]:
    """Return how module names map to names in the base's files.

    Files may lack the outermost names of the model's class, or have additional ones: GPT-2's begin with
    ``h.0`` where the class has ``transformer.h.0``. One mapping must work for all modules.
    """
    wanted = [
        f"{_without_nesting(module.name)}.weight" for module in tensors.modules if _is_inside(module.name)
    ] or [name for name in tensors.replaced if name.endswith(".weight")]
    if not wanted or all(name in base for name in wanted):
        return str
    for way in _ways(wanted, base):
        if all(way(name) in base for name in wanted):
            return way
    return str


def _ways(wanted: Iterable[str], base: TensorIndex) -> Iterator[Callable[[str], str]]:
    first = min(wanted)
    words = first.split(".")
    for n_words in range(1, len(words) - 1):
        prefix = ".".join(words[:n_words]) + "."
        # Modules outside the body, such as the head, keep their names.
        yield lambda name, prefix=prefix: name.removeprefix(prefix)  # type: ignore[misc]
    ending = f".{first}"
    for name in base:
        if name.endswith(ending):
            more = name.removesuffix(first)
            yield lambda name, more=more: f"{more}{name}"  # type: ignore[misc]
            return


def _is_inside(module: str) -> bool:
    """Say whether a module is inside a layer, which all files have."""
    return any(word.isdecimal() for word in module.split(".")) and "experts" not in module


def _without_nesting(module: str) -> str:
    while module.endswith(_NESTED):
        module = module.removesuffix(_NESTED)
    return module


def _only_turned(module: Module, rename: Callable[[str], str], shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Say whether a module's weight fits only with inputs first."""
    shape = shapes.get(rename(f"{module.name}.weight"))
    if shape is None or "a" not in module.parts or len(shape) != 2:
        return False
    plain = _outer(module.parts["a"], module.parts["b"])
    return plain != shape and plain == shape[::-1]


def _outer(a: TensorInfo, b: TensorInfo) -> tuple[int, ...] | None:
    """Return the shape of B times A; None if they do not fit each other."""
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[0] != b.shape[1] or not a.is_float or not b.is_float:
        return None
    return b.shape[0], a.shape[1]


def _updated(
    module: Module,
    rename: Callable[[str], str],
    shapes: Mapping[str, tuple[int, ...]],
    config: AdapterConfig,
    *,
    turned: bool,
    table: str | None,
) -> Update | Message:
    embedding = "embedding_a" in module.parts
    a = module.parts["embedding_a" if embedding else "a"]
    b = module.parts["embedding_b" if embedding else "b"]
    magnitude, bias = module.parts.get("magnitude"), module.parts.get("b_bias")
    product = _outer(a, b)
    if product is None:
        return say("adapter.product", module=module.name, a=str(list(a.shape)), b=str(list(b.shape)))
    inner = _without_nesting(module.name)
    target = rename(f"{inner}.weight")
    if config.parameters and target not in shapes:
        return _of_parameter(module, product, a, b, rename, shapes, config)
    # A head that the base's files leave out is the table of token rows.
    start = target if target in shapes or not target.endswith("lm_head.weight") else table
    if start is None or start not in shapes:
        return say("adapter.no-tensor", tensor=target)
    shape = shapes[start]
    rank = config.rank_of(inner)
    if a.shape[0] != rank:
        return say("adapter.rank", module=module.name, n=rank, m=a.shape[0])
    inputs_first = embedding or (product[::-1] == shape and (product != shape or turned))
    if (product[::-1] if inputs_first else product) != shape:
        return say("adapter.shape", tensor=target, n=product[0], m=product[1], shape=str(list(shape)))
    if config.weight_norms != (magnitude is not None):
        code = "adapter.lengths-missing" if config.weight_norms else "adapter.lengths-extra"
        return say(code, module=module.name)
    if magnitude is not None and (embedding or magnitude.shape != (product[0],)):
        return say("adapter.lengths-shape", module=module.name, shape=str(list(magnitude.shape)))
    if bias is not None and bias.shape != (product[0],):
        return say("adapter.bias-shape", module=module.name, shape=str(list(bias.shape)))
    return Update(
        module=inner,
        target=target,
        start=start,
        a=a,
        b=b,
        inputs_first=inputs_first,
        magnitude=magnitude,
        added_bias=bias,
    )


def _of_parameter(
    module: Module,
    product: tuple[int, ...],
    a: TensorInfo,
    b: TensorInfo,
    rename: Callable[[str], str],
    shapes: Mapping[str, tuple[int, ...]],
    config: AdapterConfig,
) -> Update | Message:
    """Find the parameter of experts that a module's matrices belong to.

    Several parameters of one module are nested in the file without names: only shapes tell them apart.
    """
    inner = _without_nesting(module.name)
    fitting: dict[str, bool] = {}
    for parameter in dict.fromkeys(name.rpartition(".")[2] for name in config.parameters):
        target = rename(f"{inner}.{parameter}")
        shape = shapes.get(target, ())
        if len(shape) != 3 or a.shape[0] != config.rank_of(inner) * shape[0]:
            continue
        if shape[1:] in (product, product[::-1]):
            fitting[target] = shape[1:] != product
            if shape[1] == shape[2]:
                return say("adapter.square", tensor=target)
    if len(fitting) != 1:
        shapes_of = {"a": str(list(a.shape)), "b": str(list(b.shape))}
        return say("adapter.parameters", module=module.name, n=len(fitting), **shapes_of)
    ((target, inputs_first),) = fitting.items()
    return Update(
        module=inner,
        target=target,
        start=target,
        a=a,
        b=b,
        inputs_first=inputs_first,
        experts=shapes[target][0],
    )
