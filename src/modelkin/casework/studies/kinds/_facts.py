"""``configs``, ``tokenizers`` and ``raw-bytes``: facts beside the measures."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from msgspec import Meta

from modelkin.casework.studies.bench import Bench, NotDone, said, shown
from modelkin.casework.studies.reading import AliasPair, File, Layers, Roles
from modelkin.casework.studies.spec import Experiment
from modelkin.describe import compare_configs, compare_tokenizers, load_tokenizer
from modelkin.describe.matrix import parse_role
from modelkin.document import plain
from modelkin.errors import NotFound, TokenizerError
from modelkin.message import say
from modelkin.model import Model
from modelkin.source import ByteRange


class ModelFacts(Experiment, tag="facts"):
    """Two models and one document about them."""

    pair: AliasPair
    files: Annotated[tuple[File, ...], Meta(max_length=8)] = ()
    """Further places for the same document."""

    def document(self, bench: Bench, found: object, **told: Any) -> None:  # noqa: ANN401  tables, sentences
        """Write the document everywhere."""
        document = plain(found)
        assert isinstance(document, dict)
        for file in self.files:
            bench.folder.json(file, document)
        bench.document(document, **told)


class Configs(ModelFacts, tag="configs"):
    """Configs field by field, experts, odd keys."""

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
                "meaning": None if field.meaning is None else str(field.meaning),
            }
            for field in found.fields
            if field.group != "bookkeeping"
        ]
        counts = {name.replace(" ", "_"): count for name, count in found.counts.items()}
        self.document(
            bench,
            found,
            tables=[shown("configs", rows, a=bench.name(a), b=bench.name(b))],
            said=[said("configs", **counts)],
        )


class Tokenizers(ModelFacts, tag="tokenizers"):
    """Tokenizers, beside what those of unrelated models have in common."""

    def run(self, bench: Bench) -> None:
        """Compare tokenizers, and keep the ids of shared tokens for the figure."""
        a, b = self.pair
        models = bench.available(self.pair, least=2)
        try:
            found = compare_tokenizers(models[a], models[b])
            one, other = (load_tokenizer(models[name]).tokens for name in (a, b))
        except (NotFound, TokenizerError) as error:
            raise NotDone(say("quoted", text=str(error))) from error
        shared = sorted((one[token], other[token]) for token in one.keys() & other.keys())
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
        self.document(
            bench,
            found,
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
    """Tensors that are stored byte by byte the same."""

    pair: AliasPair
    roles: Roles
    layers: Layers | None = None
    """All, if nothing is said."""
    most_bytes: Annotated[int, Meta(ge=1, le=2**32)] = 2_500_000
    """Larger tensors are not read."""

    def run(self, bench: Bench) -> None:
        """Digest tensors as they are stored. Equal bytes are a finding, different ones are none."""
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

    def _stored(self, model: Model, role: str) -> dict[int, str]:
        choice = parse_role(role)
        names: dict[str, int] = {}
        for layer in model.architecture.layers:
            entry = model.architecture.find(choice.role, layer, choice.part)
            chosen = self.layers is None or layer in self.layers.numbers
            if entry is not None and chosen and model.index[entry.tensor].n_bytes <= self.most_bytes:
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
