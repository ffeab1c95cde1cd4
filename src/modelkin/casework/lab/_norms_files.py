"""The norm experiment in files: JSON and back, tables, a document, figures."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from modelkin.errors import FormatError
from modelkin.figures import draw

from ._norms_figures import norms_figures
from ._norms_records import (
    SCHEMA,
    ModelRun,
    NormCosine,
    NormsOptions,
    NormsResult,
    PairResult,
    TestResult,
)
from ._norms_words import groups_of, p_text

__all__ = ["norms_document", "norms_from_json", "norms_to_json", "write_norms"]


def write_norms(result: NormsResult, out: Path) -> None:
    """Write ``norms.json``, ``models.csv``, ``pairs.csv``, ``gains.csv``, ``NORMS.md`` and the figures."""
    out.mkdir(parents=True, exist_ok=True)
    texts = {
        "norms.json": norms_to_json(result),
        "models.csv": _csv(_without(asdict(run), "losses") for run in result.models),
        "pairs.csv": _csv(_pair_row(pair) for pair in result.pairs),
        "gains.csv": _csv(
            {"candidate": pair.candidate, "base": pair.base, "relation": pair.relation} | asdict(norm)
            for pair in result.pairs
            for norm in pair.norms
        ),
        "NORMS.md": norms_document(result),
    }
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")
    for name, figure in norms_figures(result).items():
        draw(figure, out, name)


def norms_to_json(result: NormsResult) -> str:
    """Write everything as one JSON document."""
    return json.dumps(asdict(result), indent=1, allow_nan=False) + "\n"


def norms_from_json(text: str) -> NormsResult:
    """Read what `norms_to_json` wrote; the result is equal.

    Raises
    ------
    FormatError
        It is something else, or of another version.
    """
    try:
        document = json.loads(text)
        if document["schema"] != SCHEMA:
            raise ValueError(f"expected the schema {SCHEMA}, got {str(document['schema'])[:60]!r}")
        options = document["options"]
        return NormsResult(
            schema=document["schema"],
            options=NormsOptions(**options | {"inits": tuple(options["inits"])}),
            versions=tuple((str(name), str(version)) for name, version in document["versions"]),
            chance_losses=tuple((str(name), float(loss)) for name, loss in document["chance_losses"]),
            models=tuple(ModelRun(**run | {"losses": tuple(run["losses"])}) for run in document["models"]),
            pairs=tuple(_pair(pair) for pair in document["pairs"]),
            conclusion=tuple(document["conclusion"]),
            limits=tuple(document["limits"]),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise FormatError("norms.json", f"expected the results of the norm experiment: {error}") from error


def norms_document(result: NormsResult) -> str:
    """Return the conclusion, its limits and the table of groups as Markdown."""
    head = (
        "init",
        "relation",
        "pairs",
        "cosine",
        "expected",
        "r",
        "largest abs r",
        "p gains",
        "p units",
        "found",
        "verdicts",
    )
    rows = [
        (
            group.init,
            group.relation,
            str(group.n),
            f"{group.cosine:.4f}",
            f"{group.expected:.4f}",
            _number(group.pearson, "+.3f"),
            _number(group.largest_pearson, ".3f"),
            _range(group.log10_p_norms),
            _range(group.log10_p_units),
            f"{group.found_by_norms}, {group.found_by_units}",
            ", ".join(f"{count} {word}" for word, count in group.verdicts),
        )
        for group in groups_of(result)
    ]
    options = result.options
    versions = ", ".join(f"{name} {version}" for name, version in result.versions)
    return "\n".join(
        [
            "# Norm gains by how they begin",
            "",
            f"{len(result.models)} {options.family} models ({options.width} dimensions, {options.layers} "
            f"layers), {options.steps} steps, {result.cpu_minutes:.1f} CPU minutes of training, seed "
            f"{options.seed}; {versions}.",
            _learnt(result),
            "",
            *(f"- {sentence}" for sentence in result.conclusion),
            "",
            "## Pairs",
            "",
            *_table(head, rows),
            "",
            "Cosine, expected (the product of both mean directions) and r are means over pairs and norms. "
            "p: smallest and largest of the group, rounded up, not corrected for the number of pairs. "
            "Found: pairs found by the gains, and by the MLP units.",
            "",
            "## Limits",
            "",
            *(f"- {sentence}" for sentence in result.limits),
            "",
        ]
    )


def _learnt(result: NormsResult) -> str:
    """Say how well models know their own corpus and the other one."""
    scratch = [run for run in result.models if run.relation != "fine-tuned"]
    own, other = [run.held_out for run in scratch], [run.held_out_other for run in scratch]
    chance = " and ".join(f"{loss:.2f} ({corpus})" for corpus, loss in result.chance_losses)
    return (
        f"Loss of models from scratch on new text: {min(own):.2f} to {max(own):.2f} of their own corpus, "
        f"{min(other):.2f} to {max(other):.2f} of the other one; knowing only how frequent letters are gives "
        f"{chance}."
    )


def _pair(document: Mapping[str, object]) -> PairResult:
    rest = dict(document)
    norms: Sequence[Mapping[str, object]] = rest.pop("norms")  # type: ignore[assignment]  # checked by use
    tests = {name: TestResult(**rest.pop(name)) for name in ("norm_test", "unit_test")}  # type: ignore[arg-type]
    return PairResult(norms=tuple(NormCosine(**norm) for norm in norms), **tests, **rest)  # type: ignore[arg-type]


def _pair_row(pair: PairResult) -> dict[str, object]:
    row = _without(asdict(pair), "norms", "norm_test", "unit_test")
    for name in ("norm_test", "unit_test"):
        row |= {f"{name}_{key}": value for key, value in asdict(getattr(pair, name)).items()}
    return row


def _without(row: dict[str, object], *names: str) -> dict[str, object]:
    return {key: value for key, value in row.items() if key not in names}


def _csv(rows: Iterable[Mapping[str, object]]) -> str:
    stream = io.StringIO()
    listed = list(rows)
    writer = csv.DictWriter(stream, list(listed[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(listed)
    return stream.getvalue()


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def _number(value: float | None, form: str) -> str:
    return "not measured" if value is None else f"{value:{form}}"


def _range(values: tuple[float, float] | None) -> str:
    if values is None:
        return "not tested"
    texts = [p_text(value) for value in values]
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} to {texts[1]}"
