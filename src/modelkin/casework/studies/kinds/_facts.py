"""``configs``, ``tokenizers`` and ``raw-bytes``: facts in addition to the measures."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta

from modelkin.casework.studies.bench import Bench, NotDone, said, shown
from modelkin.casework.studies.reading import AliasPair, File, Layers, Roles
from modelkin.casework.studies.spec import Experiment
from modelkin.describe import compare_configs, compare_tokenizers, load_tokenizer
from modelkin.describe.matrix import parse_role
from modelkin.document import plain_object
from modelkin.errors import NotFound, TokenizerError
from modelkin.message import say, told
from modelkin.model import Model
from modelkin.source import ByteRange
from modelkin.tensors import TensorSlice

from .forms import AnyTokenizerForm, BothTokenizers

SUMMARY_FIELDS = (
    *("model_type", "architectures", "hidden_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "intermediate_size", "moe_intermediate_size", "n_routed_experts"),
    *("n_shared_experts", "num_experts_per_tok", "max_position_embeddings", "rope_theta"),
    *("partial_rotary_factor", "first_k_dense_replace", "vocab_size", "pad_token_id", "bos_token_id"),
    *("eos_token_id", "num_nextn_predict_layers", "tie_word_embeddings", "torch_dtype"),
    "transformers_version",
)
"""The fields of the published summary of a config; a field that a config lacks is left out."""


class Configs(Experiment, tag="configs"):
    """Configs field by field, experts, odd keys."""

    pair: AliasPair
    summary_file: File | None = None
    """A further file in published form: the fields of the published summary, for each model."""

    def run(self, bench: Bench) -> None:
        """Compare configs field by field, and each with its tensors."""
        a, b = self.pair
        models = bench.available(self.pair, least=2)
        found = compare_configs(models[a], models[b])
        rows = [
            {
                "field": field.name,
                "of_a": field.candidate,
                "of_b": field.base,
                "status": field.status,
                "meaning": field.meaning,
            }
            for field in found.fields
            if field.group != "bookkeeping"
        ]
        counts = {name.replace(" ", "_"): count for name, count in found.counts.items()}
        if self.summary_file is not None:
            bench.folder.json(
                self.summary_file,
                {
                    side: {"repo": models[alias].location.ref, "config_summary": _summary(models[alias])}
                    for side, alias in (("A", a), ("B", b))
                },
            )
        bench.document(
            plain_object(found),
            tables=[shown("configs", rows, a=bench.name(a), b=bench.name(b))],
            said=[said("configs", **counts)],
        )


def _summary(model: Model) -> dict[str, object]:
    config = model.config or {}
    return {name: config[name] for name in SUMMARY_FIELDS if config.get(name) is not None}


class Tokenizers(Experiment, tag="tokenizers"):
    """Tokenizers, next to what those of unrelated models have in common."""

    pair: AliasPair
    write: Annotated[tuple[AnyTokenizerForm, ...], Meta(max_length=8)] = ()
    """Further files, in published forms."""

    def run(self, bench: Bench) -> None:
        """Compare tokenizers, and keep the ids of shared tokens for the figure."""
        a, b = self.pair
        models = bench.available(self.pair, least=2)
        try:
            found = compare_tokenizers(models[a], models[b])
            one, other = (load_tokenizer(models[name]) for name in (a, b))
        except (NotFound, TokenizerError) as error:
            raise NotDone(told(error)) from error
        for form in self.write:
            form.write(bench, BothTokenizers(aliases=self.pair, found=found, one=one, other=other))
        mine, theirs = one.tokens, other.tokens
        shared = sorted((mine[token], theirs[token]) for token in mine.keys() & theirs.keys())
        bench.folder.csv(bench.data("-ids.csv"), (f"id_{a}", f"id_{b}"), shared)
        level, merges, run = found.background.of_smaller, found.merges, found.ids.longest_run
        sides = [
            {
                "what_tokenizer": name,
                "of_a": getattr(found.candidate, name),
                "of_b": getattr(found.base, name),
            }
            for name in ("tokens", "added", "merges", "merges_sha256")
        ]
        both = {
            "texts_shared": found.tokens.shared,
            "jaccard": found.tokens.jaccard,
            "of_smaller": found.tokens.of_smaller,
            "same_id": found.ids.same_id,
            "within_100": found.ids.within_100,
            "longest_run": run.length if run else 0,
            "longest_run_words": run.words if run else 0,
            "id_spearman": found.ids.spearman,
            "merges_of_smaller": merges.overlap.of_smaller if merges else None,
            "first_1000_merges_equal": merges.first_1000_equal if merges else None,
        }
        bench.document(
            plain_object(found),
            tables=[
                shown("tokenizers", sides, a=bench.name(a), b=bench.name(b)),
                shown(
                    "tokenizers_both",
                    [{"what_tokenizer": name, "value": value} for name, value in both.items()],
                ),
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


class RawBytes(Experiment, tag="raw-bytes"):
    """Tensors that are stored as the same bytes."""

    pair: AliasPair
    roles: Roles
    layers: Layers | None = None
    """All, if nothing is said."""
    most_bytes: Annotated[int, Meta(ge=1, le=2**32)] = 2_500_000
    """Larger tensors are not read."""

    def run(self, bench: Bench) -> None:
        """Hash tensors as they are stored. Equal bytes are a finding, different ones are not."""
        a, b = self.pair
        models = bench.available(self.pair, least=2)
        rows: list[dict[str, Any]] = []
        for role in self.roles:
            one, other = (self._stored(models[name], role) for name in (a, b))
            for layer in sorted(set(one) | set(other)):
                first, second = one.get(layer), other.get(layer)
                equal = first == second if first is not None and second is not None else None
                digests = {f"sha256_{a}": first, f"sha256_{b}": second}
                rows.append({"role": role, "layer": layer, **digests, "equal": equal})
        compared = [row for row in rows if row["equal"] is not None]
        if not compared:
            raise NotDone(say("study.no-tensor-in-both"))
        bench.folder.rows(bench.data(".csv"), rows)
        counts = []
        for role in self.roles:
            found = [bool(row["equal"]) for row in compared if row["role"] == role]
            counts.append({"role": role, "equal": sum(found), "compared": len(found)})
        n_equal = sum(bool(row["equal"]) for row in compared)
        bench.document(
            {
                "pair": self.pair,
                "compared": len(compared),
                "equal": n_equal,
                "by_role": {item["role"]: [item["equal"], item["compared"]] for item in counts},
            },
            tables=[shown("raw_bytes", counts)],
            said=[
                said("raw_bytes_some" if n_equal else "raw_bytes_none", equal=n_equal, compared=len(compared))
            ],
        )

    def wanted(self, bench: Bench) -> Mapping[str, Sequence[TensorSlice]]:
        """Return the tensors that are small enough."""
        models = bench.available(self.pair, least=2)
        return {
            alias: [TensorSlice.whole(name) for role in self.roles for name in self._names(model, role)]
            for alias, model in models.items()
        }

    def _names(self, model: Model, role: str) -> dict[str, int]:
        """Return the tensors of a role with their layers."""
        choice = parse_role(role)
        names: dict[str, int] = {}
        layers = model.architecture.mtp_layers if choice.mtp else model.architecture.layers
        for layer in layers:
            entry = model.architecture.find(choice.role, layer, choice.part, mtp=choice.mtp)
            chosen = self.layers is None or layer in self.layers.numbers
            if entry is not None and chosen and model.index[entry.tensor].n_bytes <= self.most_bytes:
                names[entry.tensor] = layer
        return names

    def _stored(self, model: Model, role: str) -> dict[int, str]:
        names = self._names(model, role)
        wanted: dict[str, list[ByteRange]] = {}
        for name in names:
            info = model.index[name]
            wanted.setdefault(info.file, []).append(ByteRange(info.start, info.stop))
        if not wanted:
            return {}
        found = model.fetcher.fetch(wanted, task=say("step-stored-tensors"))
        return {
            layer: hashlib.sha256(found.view(info.file, ByteRange(info.start, info.stop))).hexdigest()
            for name, layer in names.items()
            for info in [model.index[name]]
        }
