"""Rows of a registry, and the Parquet files that hold them."""

from __future__ import annotations

import io
import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import IO, Any

from modelkin.errors import FormatError, MissingExtra
from modelkin.fingerprint import Fingerprint, FingerprintedModel, SlotRecord
from modelkin.fingerprint.recipe import CODE_BYTES, DATA_BYTES, RECIPE, SLOTS
from modelkin.message import say
from modelkin.untrusted import JsonRefused, strict_json

SEGMENT_SCHEMA = "modelkin.registry-segment/1"
ROW_GROUP = 64
"""Rows read together: 2 MB, as often only one of them is wanted."""
_MOST_GROUP_BYTES = 64 * 1024 * 1024
"""Of an unpacked row group, thirty times the size of ours: a registry may come from anywhere."""
_EMPTY = bytes(DATA_BYTES)
_TEXTS = ("ref", "revision", "kind", "family", "model_type", "format", "added", "reason_code", "reason")
_NUMBERS = ("layers", "hidden_size", "vocab_size", "parameters")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryRow:
    """One model of a registry: its fingerprint, or why it has none."""

    ref: str
    revision: str | None
    kind: str
    added: str
    """When, in UTC."""
    model: FingerprintedModel | None
    slots: tuple[SlotRecord, ...]
    """Without the reasons for empty ones."""
    token_gram: bool
    recipe: str
    reason_code: str | None
    reason: str | None
    """Why there is no block at all."""
    data: bytes = field(repr=False)

    @property
    def key(self) -> tuple[str, str | None]:
        """The unique key: a model at a revision."""
        return self.ref, self.revision

    def fingerprint(self) -> Fingerprint:
        """Return the fingerprint as it was made, except for the reasons of empty slots."""
        model = self.model or FingerprintedModel(
            ref=self.ref,
            kind=self.kind,
            revision=self.revision,
            family=None,
            model_type=None,
            layers=None,
            hidden_size=None,
            vocab_size=None,
            parameters=0,
            format="",
        )
        return Fingerprint(
            recipe=self.recipe, model=model, slots=self.slots, token_gram=self.token_gram, data=self.data
        )


def row_of(made: Fingerprint, *, added: str) -> RegistryRow:
    """Return the row of a fingerprint."""
    reasons = [slot.reason for slot in made.slots if slot.reason is not None]
    nothing = reasons[0] if reasons and not made.n_blocks else None
    return RegistryRow(
        ref=made.model.ref,
        revision=made.model.revision,
        kind=made.model.kind,
        added=added,
        model=made.model,
        slots=tuple(
            SlotRecord(kind=slot.kind, layer=slot.layer, n_units=slot.n_units, marks=slot.marks)
            for slot in made.slots
        ),
        token_gram=made.token_gram,
        recipe=made.recipe,
        reason_code=None if nothing is None else nothing.code,
        reason=None if nothing is None else str(nothing),
        data=made.data,
    )


def failed_row(
    ref: str, revision: str | None, *, kind: str, code: str, reason: str, added: str
) -> RegistryRow:
    """Return the row of a model that could not be read: it is not tried again at this revision."""
    return RegistryRow(
        ref=ref,
        revision=revision,
        kind=kind,
        added=added,
        model=None,
        slots=tuple(SlotRecord(kind=slot.kind, layer=None, n_units=0) for slot in SLOTS),
        token_gram=False,
        recipe=RECIPE,
        reason_code=code,
        reason=reason,
        data=_EMPTY,
    )


def write_segment(rows: Sequence[RegistryRow], codes: Sequence[bytes]) -> bytes:
    """Return a Parquet file of rows and their codes."""
    arrow, parquet = _arrow()
    columns: dict[str, Any] = {name: [] for name in (*_TEXTS, *_NUMBERS, "recipe", "slots", "token_gram")}
    for row in rows:
        model = row.model
        for name in _TEXTS:
            source = row if name in ("ref", "revision", "kind", "added", "reason_code", "reason") else model
            columns[name].append(None if source is None else getattr(source, name))
        for name in _NUMBERS:
            columns[name].append(None if model is None else getattr(model, name))
        columns["recipe"].append(row.recipe)
        columns["slots"].append(_slots_text(row.slots))
        columns["token_gram"].append(row.token_gram)
    columns["code"], columns["data"] = list(codes), [row.data for row in rows]
    arrays = {name: arrow.array(columns[name], type=kind) for name, kind in _columns(arrow).items()}
    table = arrow.table(arrays).replace_schema_metadata({"modelkin.schema": SEGMENT_SCHEMA})
    out = io.BytesIO()
    # Numbers of a sketch look random: compression takes time and saves nothing.
    parquet.write_table(
        table,
        out,
        row_group_size=ROW_GROUP,
        compression={name: "NONE" if name in ("code", "data") else "ZSTD" for name in arrays},
        use_dictionary=[name for name in arrays if name not in ("code", "data")],
        write_statistics=[name for name in arrays if name not in ("code", "data")],
        # A changed byte of a sketch would otherwise go unnoticed.
        write_page_checksum=True,
    )
    return out.getvalue()


def _columns(arrow: Any) -> dict[str, Any]:  # noqa: ANN401  pyarrow
    return {
        **dict.fromkeys((*_TEXTS, "recipe", "slots"), arrow.string()),
        **dict.fromkeys(_NUMBERS, arrow.int64()),
        "token_gram": arrow.bool_(),
        "code": arrow.binary(CODE_BYTES),
        "data": arrow.binary(DATA_BYTES),
    }


class SegmentFile:
    """One Parquet file of rows, read in groups."""

    def __init__(self, source: IO[bytes] | bytes, where: str) -> None:
        arrow, parquet = _arrow()
        self._where = where
        self._errors = (arrow.ArrowException, OSError, ValueError)
        self._source = io.BytesIO(source) if isinstance(source, bytes) else source
        try:
            self._file = parquet.ParquetFile(self._source, page_checksum_verification=True)
            schema = (self._file.schema_arrow.metadata or {}).get(b"modelkin.schema", b"").decode()
        except self._errors as error:
            self._source.close()
            raise self._damaged(error) from error
        if schema != SEGMENT_SCHEMA:
            self._source.close()
            raise FormatError(
                where, say("problem.schema-expected", known=SEGMENT_SCHEMA, got=repr(schema[:60]))
            )
        lacking = [name for name in _columns(arrow) if name not in self._file.schema_arrow.names]
        wrong = [
            name
            for name, kind in _columns(arrow).items()
            if name not in lacking and self._file.schema_arrow.field(name).type != kind
        ]
        if lacking or wrong:
            self._source.close()
            name = repr((lacking or wrong)[0])
            problem = say("problem.segment-lacks" if lacking else "problem.segment-type", name=name)
            raise FormatError(where, problem)
        about = self._file.metadata
        groups = [about.row_group(at) for at in range(about.num_row_groups)]
        if any(not 0 <= group.total_byte_size <= _MOST_GROUP_BYTES for group in groups):
            self._source.close()
            raise FormatError(where, say("problem.row-group", most=_MOST_GROUP_BYTES))
        self.n_rows: int = about.num_rows
        self._ends = list(accumulate(group.num_rows for group in groups))

    def __enter__(self) -> SegmentFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._source.close()

    def keys(self) -> list[tuple[str, str | None]]:
        """Return models and revisions of all rows."""
        table = self._read(["ref", "revision"])
        return list(zip(table["ref"].to_pylist(), table["revision"].to_pylist(), strict=True))

    def column(self, name: str) -> list[Any]:
        """Return one column."""
        found: list[Any] = self._read([name])[name].to_pylist()
        return found

    def rows(self, numbers: Iterable[int]) -> Iterator[RegistryRow]:
        """Yield some rows, in the order of their numbers; one group is held at a time."""
        held: tuple[int, Any] | None = None
        for number in sorted(numbers):
            group = bisect_right(self._ends, number)
            if held is None or held[0] != group:
                try:
                    held = group, self._file.read_row_group(group)
                except self._errors as error:
                    raise self._damaged(error) from error
            yield self._row(held[1], number - (self._ends[group - 1] if group else 0))

    def codes(self) -> bytes:
        """Return the codes of all rows, one after another."""
        return b"".join(self.column("code"))

    def _read(self, columns: list[str]) -> Any:  # noqa: ANN401  a table
        try:
            return self._file.read(columns=columns)
        except self._errors as error:
            raise self._damaged(error) from error

    def _row(self, table: Any, at: int) -> RegistryRow:  # noqa: ANN401
        values = {name: table[name][at].as_py() for name in _columns(_arrow()[0]) if name != "code"}
        if any(values[name] is None for name in ("ref", "kind", "recipe", "slots", "token_gram", "data")):
            raise FormatError(self._where, say("problem.segment-row"))
        model = None
        if values["format"] is not None:
            model = FingerprintedModel(
                **{
                    name: values[name]
                    for name in ("ref", "kind", "revision", "family", "model_type", "format")
                },
                **{name: values[name] for name in _NUMBERS},
            )
        row = RegistryRow(
            **{name: values[name] for name in ("ref", "revision", "kind", "added", "reason_code", "reason")},
            model=model,
            slots=_slots(values["slots"], self._where),
            token_gram=values["token_gram"],
            recipe=values["recipe"],
            data=values["data"],
        )
        row.fingerprint().check(self._where)
        return row

    def _damaged(self, error: Exception) -> FormatError:
        return FormatError(
            self._where,
            say("problem.segment-damaged-why", why=str(error).splitlines()[0][:200]),
            hint=say("hint.registry-verify"),
        )


def _slots_text(slots: Sequence[SlotRecord]) -> str:
    return json.dumps([[slot.kind, slot.layer, slot.n_units, list(slot.marks)] for slot in slots])


def _slots(text: str, where: str) -> tuple[SlotRecord, ...]:
    try:
        return tuple(
            SlotRecord(
                kind=str(kind),
                layer=None if layer is None else int(layer),
                n_units=int(n_units),
                marks=tuple(map(str, marks)),
            )
            for kind, layer, n_units, marks in _listed(text)
        )
    except (ValueError, TypeError) as error:
        raise FormatError(where, say("problem.segment-blocks")) from error


def _listed(text: str) -> list[Any]:
    found = strict_json(text)
    if not isinstance(found, list):
        raise JsonRefused(say("problem.no-blocks"))
    return found


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "registry",
            say("problem.needs-pyarrow"),
            hint=say("hint.install", command="pip install 'modelkin[registry]'"),
        ) from error
    return pyarrow, pyarrow.parquet
