"""``configs``, ``tokenizers`` and ``raw-bytes``: facts beside the measures."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from modelkin.casework.studies._bench import Bench, Skipped, said, shown_table
from modelkin.casework.studies._folder import FILE
from modelkin.casework.studies._node import Node
from modelkin.casework.studies._spec import Fields, Scope
from modelkin.describe.configs import compare_configs
from modelkin.describe.matrix import parse_layer_list, parse_role
from modelkin.describe.tokenizers import compare_tokenizers, load_tokenizer
from modelkin.document import plain
from modelkin.errors import NotFound, TokenizerError
from modelkin.model import Model
from modelkin.source import ByteRange

from ._kind import Kind
from ._reading import read_layers, read_roles


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Options: two models, and further files for the same document."""

    pair: tuple[str, str]
    files: tuple[str, ...]


def read_pair(parts: dict[str, Node], scope: Scope) -> Pair:
    """Read the options."""
    files = parts["files"].items(most=8) if "files" in parts else []
    return Pair(
        pair=scope.pair(parts["pair"]),
        files=tuple(item.text(form=FILE, what="a path") for item in files),
    )


def run_configs(bench: Bench, options: Pair) -> None:
    """Compare configs field by field, and each with its tensors."""
    a, b = options.pair
    models = bench.available(options.pair, least=2)
    found = compare_configs(models[a], models[b])
    document = plain(found)
    assert isinstance(document, dict)
    for file in options.files:
        bench.folder.json(file, document)
    rows = [
        [field.name, field.candidate, field.base, field.status, field.meaning]
        for field in found.fields
        if field.group != "bookkeeping"
    ]
    bench.document(
        document,
        tables=[
            shown_table(
                "configs",
                ("field", "of_a", "of_b", "status", "meaning"),
                rows,
                a=bench.name(a),
                b=bench.name(b),
            )
        ],
        said=[said("configs", **{name.replace(" ", "_"): count for name, count in found.counts.items()})],
    )


def run_tokenizers(bench: Bench, options: Pair) -> None:
    """Compare tokenizers, and keep the ids of shared tokens for the figure."""
    a, b = options.pair
    models = bench.available(options.pair, least=2)
    try:
        found = compare_tokenizers(models[a], models[b])
        one, other = (load_tokenizer(models[name]).tokens for name in (a, b))
    except (NotFound, TokenizerError) as error:
        raise Skipped(str(error)) from error
    document = plain(found)
    assert isinstance(document, dict)
    for file in options.files:
        bench.folder.json(file, document)
    shared = sorted((one[token], other[token]) for token in one.keys() & other.keys())
    bench.folder.csv(bench.data("-ids.csv"), (f"id_{a}", f"id_{b}"), shared)
    level = found.background.of_smaller
    merges = found.merges
    rows: list[list[object]] = [
        ["tokens", found.candidate.tokens, found.base.tokens],
        ["added", found.candidate.added, found.base.added],
        ["merges", found.candidate.merges, found.base.merges],
        ["merges_sha256", found.candidate.merges_sha256, found.base.merges_sha256],
    ]
    both: list[list[object]] = [
        ["texts_shared", found.tokens.shared],
        ["jaccard", found.tokens.jaccard],
        ["of_smaller", found.tokens.of_smaller],
        ["same_id", found.ids.same_id],
        ["within_100", found.ids.within_100],
        ["longest_run", found.ids.longest_run.length if found.ids.longest_run else 0],
        ["longest_run_words", found.ids.longest_run.words if found.ids.longest_run else 0],
        ["id_spearman", found.ids.spearman],
        ["merges_of_smaller", merges.overlap.of_smaller if merges else None],
        ["first_1000_merges_equal", merges.first_1000_equal if merges else None],
    ]
    bench.document(
        document,
        tables=[
            shown_table(
                "tokenizers", ("what_tokenizer", "of_a", "of_b"), rows, a=bench.name(a), b=bench.name(b)
            ),
            shown_table("tokenizers_both", ("what_tokenizer", "value"), both),
        ],
        said=[
            said(
                "tokenizers",
                relation=found.relation.value,
                low=level.low,
                high=level.high,
                value=found.tokens.of_smaller,
            )
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RawBytes:
    """Options of ``raw-bytes``."""

    pair: tuple[str, str]
    roles: tuple[str, ...]
    layers: tuple[int, ...] | None
    most: int


def read_raw_bytes(parts: dict[str, Node], scope: Scope) -> RawBytes:
    """Read the options."""
    return RawBytes(
        pair=scope.pair(parts["pair"]),
        roles=read_roles(parts["roles"]),
        layers=parse_layer_list(read_layers(parts["layers"])) if "layers" in parts else None,
        most=parts["most_bytes"].whole(low=1, high=2**32) if "most_bytes" in parts else 2_500_000,
    )


def run_raw_bytes(bench: Bench, options: RawBytes) -> None:
    """Digest tensors as they are stored. Equal bytes are a finding, different ones are none."""
    a, b = options.pair
    models = bench.available(options.pair, least=2)
    rows: list[list[object]] = []
    for role in options.roles:
        one, other = (_stored(models[name], role, options) for name in (a, b))
        for layer in sorted(set(one) | set(other)):
            first, second = one.get(layer), other.get(layer)
            equal = first == second if first is not None and second is not None else None
            rows.append([role, layer, first, second, equal])
    compared = [row for row in rows if row[4] is not None]
    if not compared:
        raise Skipped("no tensor is in both models, or all are too large")
    n_equal = sum(bool(row[4]) for row in compared)
    columns = ("role", "layer", f"sha256_{a}", f"sha256_{b}", "equal")
    bench.folder.csv(bench.data(".csv"), columns, rows)
    counts = {
        role: [
            sum(bool(row[4]) for row in compared if row[0] == role),
            sum(row[0] == role for row in compared),
        ]
        for role in options.roles
    }
    bench.document(
        {"pair": options.pair, "compared": len(compared), "equal": n_equal, "by_role": counts},
        tables=[
            shown_table(
                "raw_bytes", ("role", "equal", "compared"), [[role, *both] for role, both in counts.items()]
            )
        ],
        said=[said("raw_bytes_some" if n_equal else "raw_bytes_none", equal=n_equal, compared=len(compared))],
    )


def _stored(model: Model, role: str, options: RawBytes) -> dict[int, str]:
    choice = parse_role(role)
    names: dict[str, int] = {}
    for layer in model.architecture.layers:
        entry = model.architecture.find(choice.role, layer, choice.part)
        chosen = options.layers is None or layer in options.layers
        if entry is not None and chosen and model.index[entry.tensor].n_bytes <= options.most:
            names[entry.tensor] = layer
    wanted: dict[str, list[ByteRange]] = {}
    for name in names:
        info = model.index[name]
        wanted.setdefault(info.file, []).append(ByteRange(info.start, info.stop))
    if not wanted:
        return {}
    found = model.fetcher.fetch(wanted, task="reading tensors as they are stored")
    return {
        layer: hashlib.sha256(found.view(info.file, ByteRange(info.start, info.stop))).hexdigest()
        for name, layer in names.items()
        for info in [model.index[name]]
    }


CONFIGS = Kind(
    name="configs",
    meaning="configs field by field, experts, odd keys",
    fields=Fields(required=("pair",), optional=("files",), read=read_pair),
    run=run_configs,
)
TOKENIZERS = Kind(
    name="tokenizers",
    meaning="tokenizers, beside what strangers have in common",
    fields=Fields(required=("pair",), optional=("files",), read=read_pair),
    run=run_tokenizers,
)
RAW_BYTES = Kind(
    name="raw-bytes",
    meaning="tensors that are stored byte by byte the same",
    fields=Fields(required=("pair", "roles"), optional=("layers", "most_bytes"), read=read_raw_bytes),
    run=run_raw_bytes,
)
