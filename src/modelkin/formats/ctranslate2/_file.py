"""``model.bin`` of CTranslate2: variables one after another, each after its name and shape, then aliases.

Their names in transformers follow from the specification that the file states.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from modelkin.errors import HeaderError, UnsupportedFormat
from modelkin.formats._forward import MAX_AXES, MAX_TENSORS, Forward
from modelkin.message import Message, say
from modelkin.source import ByteRange
from modelkin.tensors import DTYPES
from modelkin.untrusted import quoted

VERSIONS = range(1, 8)
"""Version 6 has been written since 2023; one more is accepted, since versions have only added to the
format."""

_TYPES = ("F32", "I8", "I16", "I32", "F16", "BF16")
_BY_SIZE = {4: "F32", 2: "I16", 1: "I8"}
"""Before version 4 a file gave the size of an item in place of its type."""
_MAX_ALIASES = MAX_TENSORS


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One variable of a file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    place: ByteRange


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """What a file holds, without its numbers."""

    version: int
    spec: str
    """Which layout of names: ``WhisperSpec``; empty in files of version 1."""
    revision: int
    variables: Mapping[str, Variable]
    aliases: Mapping[str, str]
    """Names of variables that equal others, with the names of those."""
    settings: Mapping[str, int]
    """Values of the integers without axes."""


def read_contents(reader: Forward) -> ModelFile:
    """Walk through a file; one that is truncated, repeats itself, or is not such a file is refused."""
    version = reader.number("I", say("part.version"))
    if version not in VERSIONS:
        raise UnsupportedFormat(
            reader.file,
            say("problem.ct2-version", least=VERSIONS[0], most=VERSIONS[-1], got=version),
            hint=say("hint.bin-others"),
        )
    spec = _text(reader, say("part.specification")) if version >= 2 else ""
    revision = reader.number("I", say("part.revision")) if version >= 2 else 1
    count = _counted(reader, MAX_TENSORS, say("part.variables"))
    variables: dict[str, Variable] = {}
    settings: dict[str, int] = {}
    for _ in range(count):
        start = reader.position
        variable = _variable(reader, version, start)
        if variable.name in variables or variable.name in settings:
            raise HeaderError(reader.file, say("problem.variable-twice", name=quoted(variable.name)))
        if variable.shape == () and variable.dtype in ("I8", "I16", "I32"):
            settings[variable.name] = _setting(reader, variable)
        else:
            variables[variable.name] = variable
            reader.skip(variable.place.length, say("part.variable", name=quoted(variable.name)))
    aliases = _aliases(reader, variables) if version >= 3 else {}
    if reader.left:
        raise HeaderError(reader.file, say("problem.ct2-end", n=reader.left))
    return ModelFile(
        version=version,
        spec=spec,
        revision=revision,
        variables=variables,
        aliases=aliases,
        settings=settings,
    )


def _variable(reader: Forward, version: int, start: int) -> Variable:
    name = _text(reader, say("part.a-variable"))
    what = say("part.variable", name=quoted(name))
    n_axes = reader.number("B", what)
    if n_axes > MAX_AXES:
        raise HeaderError(reader.file, say("problem.part-axes", what=what, most=MAX_AXES, got=str(n_axes)))
    shape = reader.numbers(f"{n_axes}I", what)
    kind, count = reader.numbers("BI", what)
    if version >= 4:
        dtype, n_bytes = (_TYPES[kind] if kind < len(_TYPES) else ""), count
    else:
        dtype, n_bytes = _BY_SIZE.get(kind, ""), count * kind
    if not dtype:
        raise UnsupportedFormat(reader.file, say("problem.part-type", what=what, kind=kind))
    if n_bytes != (expected := DTYPES[dtype].n_bytes(math.prod(shape))):
        raise HeaderError(
            reader.file,
            say("problem.part-shape-bytes", what=what, expected=expected, shape=str(shape), got=n_bytes),
        )
    reader.seen(name, start)
    if n_bytes > reader.left:
        reader.skip(n_bytes, what)
    return Variable(
        name=name, dtype=dtype, shape=shape, place=ByteRange(reader.position, reader.position + n_bytes)
    )


def _setting(reader: Forward, variable: Variable) -> int:
    form = {"I8": "b", "I16": "h", "I32": "i"}[variable.dtype]
    return reader.number(form, say("part.variable", name=quoted(variable.name)))


def _aliases(reader: Forward, variables: Mapping[str, Variable]) -> dict[str, str]:
    found: dict[str, str] = {}
    for _ in range(_counted(reader, _MAX_ALIASES, say("part.aliases"))):
        alias, name = _text(reader, say("part.an-alias")), _text(reader, say("part.an-alias"))
        if alias in variables or alias in found:
            raise HeaderError(reader.file, say("problem.alias-twice", name=quoted(alias)))
        found[alias] = name
    return found


def _counted(reader: Forward, most: int, what: Message) -> int:
    count = reader.number("I", say("part.number-of", what=what))
    if count > most:
        raise HeaderError(reader.file, say("problem.most-of", most=most, what=what, count=count))
    return count


def _text(reader: Forward, what: Message) -> str:
    """Read a text with its length before it and a zero after it."""
    length = reader.number("H", what)
    if not length:
        raise HeaderError(reader.file, say("problem.part-no-name", what=what))
    text = reader.text(length - 1, what)
    if reader.take(1, what) != b"\0":
        raise HeaderError(reader.file, say("problem.part-zero", what=what, name=quoted(text)))
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableRows:
    """A tensor: some rows of a variable."""

    name: str
    variable: str
    share: tuple[int, int] = (0, 1)
    """Which of how many parts of the first axis; part lengths are given by `lengths`, otherwise equal."""
    lengths: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """How a specification is read: all tensors, and what ``config.json`` would say; None if it is unknown."""

    cuts: tuple[VariableRows, ...]
    config: Mapping[str, object] | None
    notes: tuple[Message, ...]


_KINDS: Final = {"gamma": "weight", "beta": "bias", "encodings": "weight", "weight": "weight", "bias": "bias"}
_VARIABLE: Final = re.compile(r"(encoder|decoder)/(?:layer_([0-9]{1,4})/)?(.+)/([a-z]+)")

_WHISPER: Final = {
    "self_attention/linear_0": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attention/linear_1": ("self_attn.out_proj",),
    "self_attention/layer_norm": ("self_attn_layer_norm",),
    "attention/linear_0": ("encoder_attn.q_proj",),
    "attention/linear_1": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "attention/linear_2": ("encoder_attn.out_proj",),
    "attention/layer_norm": ("encoder_attn_layer_norm",),
    "ffn/linear_0": ("fc1",),
    "ffn/linear_1": ("fc2",),
    "ffn/layer_norm": ("final_layer_norm",),
    "layer_norm": ("layer_norm",),
    "conv1": ("conv1",),
    "conv2": ("conv2",),
    "embeddings": ("embed_tokens",),
    "position_encodings": ("embed_positions",),
}
_LLAMA: Final = {
    "self_attention/linear_0": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attention/linear_1": ("self_attn.o_proj",),
    "self_attention/layer_norm": ("input_layernorm",),
    "self_attention/q_norm": ("self_attn.q_norm",),
    "self_attention/k_norm": ("self_attn.k_norm",),
    "ffn/linear_0": ("mlp.gate_proj",),
    "ffn/linear_0_noact": ("mlp.up_proj",),
    "ffn/linear_1": ("mlp.down_proj",),
    "ffn/layer_norm": ("post_attention_layernorm",),
    "layer_norm": ("norm",),
    "embeddings": ("embed_tokens",),
}
_HEAD: Final = "decoder/projection/weight"
_EMBEDDING: Final = "decoder/embeddings/weight"


def translate(contents: ModelFile) -> Translation:
    """Name the tensors of a file; if its specification is unknown, as the file does."""
    if contents.spec == "WhisperSpec" and (config := _whisper_config(contents)) is not None:
        notes = (say("format.whisper-key-bias"),)
        return Translation(cuts=tuple(_cuts(contents, _WHISPER, None)), config=config, notes=notes)
    if contents.spec == "TransformerDecoderSpec" and (config := _llama_config(contents)) is not None:
        heads, shared, width = (
            int(str(config[key])) for key in ("num_attention_heads", "num_key_value_heads", "head_dim")
        )
        rows = heads * width, shared * width, shared * width
        return Translation(cuts=tuple(_cuts(contents, _LLAMA, rows)), config=config, notes=())
    cuts = tuple(
        VariableRows(name=name.replace("/", "."), variable=name)
        for name in _all_names(contents)
        if not _is_scale(name)
    )
    named = say("format.ctranslate2-layout", name=contents.spec)
    note = named if contents.spec else say("format.ctranslate2-no-layout")
    return Translation(cuts=cuts, config=None, notes=(note,))


def _cuts(
    contents: ModelFile, parts: Mapping[str, Sequence[str]], rows: tuple[int, ...] | None
) -> Iterator[VariableRows]:
    whisper = parts is _WHISPER
    for name in _all_names(contents):
        if _is_scale(name):
            continue
        if name == _HEAD:
            if contents.aliases.get(name) != _EMBEDDING:
                yield VariableRows(name="proj_out.weight" if whisper else "lm_head.weight", variable=name)
            continue
        found = _VARIABLE.fullmatch(name)
        owners = parts.get(found[3]) if found else None
        if found is None or owners is None or found[4] not in _KINDS:
            yield VariableRows(name=name.replace("/", "."), variable=name)
            continue
        stack = f"model.{found[1]}." if whisper else "model."
        prefix = stack if found[2] is None else f"{stack}layers.{int(found[2])}."
        for number, owner in enumerate(owners):
            if whisper and owner.endswith("k_proj") and found[4] == "bias":
                continue
            yield VariableRows(
                name=f"{prefix}{owner}.{_KINDS[found[4]]}",
                variable=name,
                share=(number, len(owners)),
                lengths=rows if len(owners) == 3 else None,
            )


def _all_names(contents: ModelFile) -> list[str]:
    """Return the names of variables that are tensors, and of their aliases. A row of bytes is text."""
    own = {
        name
        for name, variable in contents.variables.items()
        if len(variable.shape) > (variable.dtype == "I8")
    }
    return [*sorted(own), *sorted(alias for alias, name in contents.aliases.items() if name in own)]


def _is_scale(name: str) -> bool:
    return name.endswith("_scale")


def _count_layers(contents: ModelFile, stack: str) -> int:
    pattern = re.compile(rf"{stack}/layer_([0-9]{{1,4}})/")
    return len({match[1] for name in _all_names(contents) if (match := pattern.match(name))})


def _shape(contents: ModelFile, name: str) -> tuple[int, ...]:
    variable = contents.variables.get(contents.aliases.get(name, name))
    return variable.shape if variable is not None else ()


def _whisper_config(contents: ModelFile) -> dict[str, object] | None:
    embedding, conv = _shape(contents, _EMBEDDING), _shape(contents, "encoder/conv1/weight")
    if len(embedding) != 2 or len(conv) != 3:
        return None
    config: dict[str, object] = {
        "model_type": "whisper",
        "architectures": ["WhisperForConditionalGeneration"],
        "vocab_size": embedding[0],
        "d_model": embedding[1],
        "num_mel_bins": conv[1],
        "tie_word_embeddings": contents.aliases.get(_HEAD) == _EMBEDDING,
    }
    for stack, positions in (("encoder", "max_source_positions"), ("decoder", "max_target_positions")):
        table = _shape(contents, f"{stack}/position_encodings/encodings")
        inner = _shape(contents, f"{stack}/layer_0/ffn/linear_0/weight")
        heads = contents.settings.get(f"{stack}/num_heads")
        if len(table) != 2 or len(inner) != 2 or heads is None or heads < 1:
            return None
        config[positions] = table[0]
        config[f"{stack}_layers"] = _count_layers(contents, stack)
        config[f"{stack}_attention_heads"] = heads
        config[f"{stack}_ffn_dim"] = inner[0]
    return config


_NOT_LLAMA: Final = ("position_encodings/", "pre_post_layer_norm", "layer_norm_use_residual", "/beta", "moe")
_LLAMA_NEEDS: Final = ("ffn/linear_0_noact/weight", "ffn/linear_0/weight", "self_attention/linear_0/weight")


def _llama_config(contents: ModelFile) -> dict[str, object] | None:
    """Return the config of a decoder that is built like Llama; None for any other."""
    everything = [*_all_names(contents), *contents.settings]
    layer = "decoder/layer_0/"
    attention = f"{layer}self_attention/"
    embedding = _shape(contents, _EMBEDDING)
    up, _, fused = (_shape(contents, layer + name) for name in _LLAMA_NEEDS)
    heads = contents.settings.get("decoder/num_heads", 0)
    shared = contents.settings.get(f"{attention}num_heads_kv", heads)
    turns = contents.settings.get(f"{attention}rotary_interleave") == 0
    if (
        any(mark in name for name in everything for mark in _NOT_LLAMA)
        or any(len(shape) != 2 for shape in (embedding, up, fused))
        or not turns
        or heads < 1
        or shared < 1
        or fused[0] % (heads + 2 * shared)
        or contents.settings.get("decoder/pre_norm") != 1
    ):
        return None
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": embedding[0],
        "hidden_size": embedding[1],
        "intermediate_size": up[0],
        "num_hidden_layers": _count_layers(contents, "decoder"),
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
        "head_dim": fused[0] // (heads + 2 * shared),
        "tie_word_embeddings": contents.aliases.get(_HEAD) == _EMBEDDING,
    }
