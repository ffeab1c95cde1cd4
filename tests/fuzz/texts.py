"""What people and servers write: listings, tokenizers, cards, studies, references, and saved results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.resources import files as resources
from typing import Any

from tests.formats.hostile.fuzz import FRAGMENTS
from tests.places import ZOO
from tests.support import LlamaShape, llama_files

import modelkin as mk
from modelkin.casework.studies.files import parse_study
from modelkin.comparison.claims import read_claims
from modelkin.describe.measures import MeasureRow, MeasureTable, table_from_csv, table_to_csv
from modelkin.errors import FormatError, ModelkinError, TokenizerError
from modelkin.figures import Figure, Lines, Panel, ReferenceLine, figure_from_json
from modelkin.source import MemorySource, ModelRef
from modelkin.source.hub import load_listing
from modelkin.tokenizer import read_tokenizer
from modelkin.untrusted import JsonRefused, YamlRefused, strict_json, strict_yaml

from .engine import Target
from .files import checked

_TAGS = (
    *(
        b"!!bool x",
        b"!!int ''",
        b"!!timestamp x",
        b"!!float y",
        b"!!binary =",
        b"!!set",
        b"!!omap",
        b"!!null",
    ),
    *(
        b"!!python/object:os.system",
        b"!x",
        b"&a",
        b"*a",
        b"<<: *a",
        b"? ",
        b"- ",
        b": ",
        b"|",
        b">",
        b"---\n",
    ),
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b"\t",
        b"\n  ",
        b"2026-13-45",
        b"0x",
        b"1_0",
        b"0o9",
        b".inf",
        b"~",
        b"\xff",
        b"'",
    ),
)
_CARD = b"---\nbase_model: org/base\nlicense: mit\ntags: [a, b]\ndatasets:\n- x\n---\ntext\n"
_MERGE = (
    b"merge_method: slerp\nbase_model: a/b\nslices:\n- sources:\n  - model: a/b\n    layer_range: [0, 2]\n"
)
_PLAIN = llama_files(LlamaShape(layers=1, hidden=8, mlp=8, heads=2, kv_heads=1, vocab=16))


def _refusing(*kinds: type[Exception]) -> Callable[[Callable[[bytes], object]], Callable[[bytes], bool]]:
    def wrap(action: Callable[[bytes], object]) -> Callable[[bytes], bool]:
        def run(data: bytes) -> bool:
            try:
                action(data)
            except kinds as error:
                if isinstance(error, ModelkinError):
                    checked(error)
                return False
            return True

        return run

    return wrap


def _claims(data: bytes) -> object:
    """The first byte says how much of it is the card."""
    cut = int(data[0] / 255 * len(data)) if data else 0
    model = mk.open_model(
        MemorySource({**_PLAIN, "README.md": data[1:cut], "mergekit_config.yml": data[cut:]})
    )
    said = read_claims(model).sentences()
    assert all(str(message) for message in said)
    return said


def _tokenizer(name: str) -> Callable[[bytes], bool]:
    return _refusing(TokenizerError)(lambda data: read_tokenizer({name: data}))


def _tokenizers() -> Sequence[bytes]:
    found = sorted(ZOO.glob("*/tokenizer.json"))[:1]
    return [
        *(path.read_bytes()[:20_000] for path in found),
        b'{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}}',
        b'{"model": {"type": "Unigram", "vocab": [["a", -1.0], ["b", -2]]}, "added_tokens": []}',
        b'{"model": {"type": "WordPiece", "continuing_subword_prefix": "##", "vocab": {"##a": 0}}}',
    ]


_SENTENCEPIECE = b"".join(
    b"\n" + bytes([len(piece)]) + piece
    for piece in (b"\n\x01a\x15\0\0\x80\xbf", b"\n\x05<unk>\x15\0\0\0\0\x18\x02", b"\n\x06<0x0A>\x18\x06")
)


def _listing(data: bytes) -> object:
    return load_listing(data, revision="main", where="org/name")


def _studies() -> Sequence[bytes]:
    folder = resources("modelkin.casework.studies").joinpath("data")
    return [entry.read_bytes() for entry in folder.iterdir() if entry.name.endswith(".yaml")]


def _comparison(data: bytes) -> object:
    return mk.Comparison.from_json(data.decode("utf-8", "replace"))


def _comparisons() -> Sequence[bytes]:
    names = sorted(path.parent for path in ZOO.glob("*/config.json"))[:2]
    options = mk.CompareOptions(depth="quick")
    return [mk.compare(candidate=str(names[0]), base=str(names[1]), options=options).to_json().encode()]


def _table(data: bytes) -> object:
    return table_from_csv(data.decode("utf-8", "replace"))


def _tables() -> Sequence[bytes]:
    named: dict[str, Any] = {"measure": "cosine", "role": "norm", "view": "whole"}
    row = MeasureRow(**named, model_a="=A", layer_a=0, model_b="B", layer_b=None, value=0.5)
    return [table_to_csv(MeasureTable.of_rows([row])).encode()]


def _figure(data: bytes) -> object:
    return figure_from_json(data.decode("utf-8", "replace"))


def _figures() -> Sequence[bytes]:
    line = Lines(name="</script>", x=(0.0, 1.0), y=(0.1, None))
    marks = (ReferenceLine(value=0.0, label="chance"), line)
    return [Figure(title="t", panels=(Panel(title="p", marks=marks),), note="n").to_json().encode()]


def _reference(data: bytes) -> object:
    ref = ModelRef.parse(data.decode("utf-8", "replace"))
    assert str(ref).isprintable() or not any(ord(letter) < 32 for letter in str(ref))
    return ref.entry


_REFERENCES = (
    *(
        b"org/name",
        b"org/name@main",
        b"org/name@refs/pr/1/model.gguf",
        b"./folder",
        b"~nobody/x",
        b"file:///x",
    ),
    *(
        b"https://user:pw@host/model.safetensors?sig=x",
        b"s3://bucket/prefix",
        b"a::b",
        b"a::https://[::1]/m.bin",
    ),
)

TARGETS = (
    Target(
        name="json",
        share=0.5,
        run=_refusing(JsonRefused)(strict_json),
        seeds=lambda: [b'{"a": [1, 2.5, null, true, "\\u00e9"], "b": {"c": {}}}'],
        words=tuple(FRAGMENTS),
        watched=("untrusted",),
    ),
    Target(
        name="yaml",
        share=2.0,
        run=_refusing(YamlRefused)(strict_yaml),
        seeds=lambda: [_MERGE, b"a: 1\nb: [x, 2026-01-01]\n", b"? a\n: b\n"],
        words=_TAGS,
        watched=("untrusted",),
    ),
    Target(
        name="claims",
        share=2.0,
        run=_refusing()(_claims),
        seeds=lambda: [bytes([100]) + _CARD + _MERGE],
        words=(*_TAGS, b"base_model: ", b"models:", b"slices:", b"merge_method"),
        watched=("comparison/claims", "untrusted"),
    ),
    Target(
        name="study",
        share=3.0,
        run=_refusing(FormatError)(parse_study),
        seeds=_studies,
        words=(*_TAGS, b"null", b"models:", b"experiments:", b"kind: ", b"id: ", b"layers: "),
        watched=("casework/studies", "structs"),
    ),
    Target(
        name="tokenizer.json",
        run=_tokenizer("tokenizer.json"),
        seeds=_tokenizers,
        words=(*FRAGMENTS, b'"merges"', b'"vocab"', b'"added_tokens"', b'"ByteLevel"', b'"decoders"'),
        watched=("tokenizer",),
    ),
    Target(
        name="sentencepiece",
        run=_tokenizer("tokenizer.model"),
        seeds=lambda: [_SENTENCEPIECE],
        watched=("tokenizer",),
    ),
    Target(
        name="tiktoken",
        share=0.5,
        run=_tokenizer("qwen.tiktoken"),
        seeds=lambda: [b"YQ== 0\nYg== 1\n/w== 2\n"],
        words=(b"==", b" ", b"\n", b"\r", b"99999999999"),
        watched=("tokenizer",),
    ),
    Target(
        name="listing",
        share=0.5,
        run=_refusing(FormatError)(_listing),
        seeds=lambda: [
            b'{"sha": "' + b"a" * 40 + b'", "siblings": [{"rfilename": "x", "size": 1, "blobId": "'
            b'0123456789abcdef0123456789abcdef01234567"}, {"rfilename": "y", "lfs": {"sha256": "'
            + b"b" * 64
            + b'", "size": 3}}]}'
        ],
        words=(*FRAGMENTS, b'"rfilename"', b'"siblings"', b'"lfs"', b'"sha256"', b"../", b"\\u202e"),
        watched=("source/hub", "untrusted"),
    ),
    Target(
        name="comparison",
        share=2.0,
        run=_refusing(ModelkinError)(_comparison),
        seeds=_comparisons,
        words=(*FRAGMENTS, b'_code"', b'_values"', b"null", b'"schema"'),
        watched=("document/codec", "document/results", "document/evidence"),
    ),
    Target(
        name="table",
        share=0.5,
        run=_refusing(FormatError)(_table),
        seeds=_tables,
        words=(b",", b"\n", b'"', b"'=", b"nan", b"1e400", b"9" * 400, b"\0"),
        watched=("describe/measures",),
    ),
    Target(
        name="figure",
        run=_refusing(ModelkinError)(_figure),
        seeds=_figures,
        words=(*FRAGMENTS, b'"panels"', b'"marks"', b'"schema"'),
        watched=("figures",),
    ),
    Target(
        name="reference",
        run=_refusing(ModelkinError)(_reference),
        seeds=lambda: list(_REFERENCES),
        words=(*_REFERENCES, b"@", b"::", b"\\", b"%00", b"..", b"[", b"\xe2\x80\xae"),
        watched=("source/ref", "untrusted"),
    ),
)
