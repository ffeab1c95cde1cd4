"""Redraw all figures of a run from its folder alone: no model is opened."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from modelkin.document import LANGUAGES, Language, load_language
from modelkin.document.codec import Reader
from modelkin.errors import FormatError, ModelkinError, NotFound
from modelkin.figures import Animation, Format, alt_of, animate, draw
from modelkin.message import Message, said_by, say, told
from modelkin.options import FetchOptions
from modelkin.untrusted import JsonRefused, strict_object

from .bench import Bench, NotDone
from .files import MAX_BYTES, parse_study
from .folder import Folder
from .reading import Label
from .result import SCHEMA, Step
from .spec import Study

_MANIFEST = "manifest.json"
_LONGEST = 16 * 2**20


def redraw_study(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    dpi: int = 150,
    formats: Sequence[Format] = ("png", "svg"),
) -> tuple[Step, ...]:
    """Draw all figures of a run again, from its saved data.

    They replace the old ones, unless `out` names another folder. Raises `NotFound` if there is no run in the
    folder, `FormatError` or `StudyError` if its manifest or its study is malformed.
    """
    root = Path(folder)
    manifest = _manifest(root)
    saved = Reader(str(root / _MANIFEST))
    study = parse_study(_file(root, "study.yaml", MAX_BYTES), str(root / "study.yaml"))
    bench = Bench(
        study=_named(study, manifest),
        folder=Folder(root),
        models={},
        missing={
            item["alias"]: saved.said(Message, "reason", {"reason": "", **item}, "missing")
            for item in _rows(manifest, "missing")
            if item["alias"] in study.models
        },
        seed=manifest["seed"] if isinstance(manifest.get("seed"), int) else 0,
        fetch=FetchOptions(offline=True),
    )
    code = manifest.get("language")
    language = load_language(code if code in LANGUAGES else "en")
    return tuple(_steps(bench, Path(out) if out is not None else root, dpi, formats, language))


def _steps(
    bench: Bench, place: Path, dpi: int, formats: Sequence[Format], language: Language
) -> Iterator[Step]:
    for item in bench.study.figures:
        where, name = (place / item.file).parent, Path(item.file).name
        try:
            made = item.make(bench)
            if isinstance(made, Animation):
                animate(made, where, name, dpi=min(dpi, 80), language=language)
            else:
                draw(made, where, name, dpi=dpi, formats=formats, language=language)
        except (NotDone, ModelkinError) as error:
            reason = error.reason if isinstance(error, NotDone) else told(error)
            yield Step(id=item.file, kind=item.kind, status="skipped", reason=reason)
            continue
        yield Step(id=item.file, kind=item.kind, status="done", reason=None, alt=alt_of(made, language))


def _file(root: Path, name: str, limit: int) -> bytes:
    path = root / name
    try:
        with path.open("rb") as file:
            return file.read(limit + 1)
    except OSError as error:
        hint = say("hint.study-folder")
        raise NotFound(str(path), say("problem.unreadable", why=said_by(error)), hint=hint) from error


def _manifest(root: Path) -> Mapping[str, Any]:
    data = _file(root, _MANIFEST, _LONGEST)
    try:
        found = strict_object(data, as_python_writes=True)
    except JsonRefused as error:
        raise FormatError(str(root / _MANIFEST), say("problem.no-manifest", why=error.reason)) from error
    if found.get("schema") != SCHEMA:
        raise FormatError(
            str(root / _MANIFEST),
            say("problem.other-schema", wanted=SCHEMA, got=repr(str(found.get("schema"))[:60])),
        )
    return found


def _rows(manifest: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """Return the rows of a list of models that name one."""
    rows = manifest.get(key)
    listed = rows if isinstance(rows, list) else []
    return [row for row in listed if isinstance(row, dict) and isinstance(row.get("alias"), str)]


def _named(study: Study, manifest: Mapping[str, Any]) -> Study:
    """Name models as the run did: one that stood in for another does not get the other's name."""
    models = dict(study.models)
    for row in (*_rows(manifest, "models"), *_rows(manifest, "missing")):
        alias, name = row["alias"], row.get("name")
        plain = isinstance(name, str) and 0 < len(name) <= Label.longest and name.isprintable()
        if plain and alias in models:
            models[alias] = replace(models[alias], name=Label(name))
    return replace(study, models=models)
