"""Study files: those that come with the package, any other, and how they are read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Union

from msgspec import Meta
from msgspec.structs import asdict, replace

from modelkin.errors import NotFound, StudyError
from modelkin.message import said_by, say
from modelkin.structs import Fields, Refused, inside
from modelkin.untrusted import YamlRefused, strict_yaml

from .folder import filled_path
from .kinds import KINDS
from .plots import PLOTS, VIEWED
from .reading import File, Label, Scope, Words, converted, form
from .spec import Drawing, Experiment, MainPair, StatedRelation, Study, StudyModel

_ENDING = ".yaml"
MAX_BYTES = 256 * 1024
"""The longest shipped study is about 20 kB."""
MOST_FIGURES = 200
_HINT = say("hint.study-yaml")


def shipped_studies() -> tuple[str, ...]:
    """Return the names of the studies that come with the package."""
    place = resources.files("modelkin.casework.studies").joinpath("data")
    return tuple(
        sorted(item.name.removesuffix(_ENDING) for item in place.iterdir() if item.name.endswith(_ENDING))
    )


def load_study(name_or_file: str) -> Study:
    """Read a study, by its name or from a file; `NotFound` if there is neither."""
    return parse_study(_data(name_or_file), name_or_file)


_EXPERIMENT: Any = Union[KINDS]  # noqa: UP007  one of many
_DRAWING: Any = Union[PLOTS]  # noqa: UP007  one of many
_EARLIER = {view: kind.__struct_config__.tag for kind in VIEWED for view in kind.VIEWS}
"""Views were kinds of figures before they shared them: files may still call them so."""
_Alias: Any = Annotated[str, form("part.name-form", "[a-z][a-z0-9_]{0,23}")]


class _Outline(Fields):
    """The keys of a file. References to models and experiments are read once these are known."""

    format: Annotated[int, Meta(ge=1, le=1)]
    name: Annotated[str, form("part.name-form", "[a-z][a-z0-9-]{0,39}")]
    title: Words
    about: Words
    models: Annotated[dict[str, Any], Meta(min_length=1, max_length=24)]
    experiments: Annotated[tuple[Any, ...], Meta(min_length=1, max_length=40)]
    relations: Annotated[tuple[Any, ...], Meta(max_length=200)] = ()
    compare: Any = None
    figures: Annotated[tuple[Any, ...], Meta(max_length=MOST_FIGURES)] = ()
    results: File | None = None


class _Each(Fields):
    """A figure is repeated for each of these."""

    measure: Annotated[tuple[str, ...], Meta(min_length=1, max_length=40)] = ()
    layer: Annotated[tuple[int, ...], Meta(min_length=1, max_length=40)] = ()
    model: Annotated[tuple[str, ...], Meta(min_length=1, max_length=40)] = ()


def parse_study(data: bytes, file: str = "study") -> Study:
    """Read a study from YAML; the error says where something is not as it must be, and what was expected."""
    scope = Scope(file=file)
    outline = scope.read(_document(data, file), _Outline)
    models: dict[str, StudyModel] = {}
    for alias, entry in outline.models.items():
        scope.read(alias, _Alias, f"models.{alias[:60]}")
        models[alias] = scope.read(_given(entry), StudyModel, f"models.{alias}")
    scope = Scope(file=file, models=tuple(models))
    experiments: list[Experiment] = []
    for number, entry in enumerate(outline.experiments):
        with scope.at(f"experiments[{number}]"):
            found: Experiment = converted(entry, _EXPERIMENT, scope)
            if found.id in scope.experiments:
                raise Refused(say("part.own-id"), found.id, inside="id")
        experiments.append(found)
        kinds = {item.id: item.kind for item in experiments}
        scope = Scope(file=file, models=scope.models, experiments=kinds)
    figures: list[Drawing] = []
    for path, entry in _repeated(outline.figures, scope):
        if isinstance(entry, dict) and (kind := _EARLIER.get(str(entry.get("figure")))):
            entry = {**entry, "figure": kind, "view": entry["figure"]}
        with scope.at(path):
            figure: Drawing = converted(entry, _DRAWING, scope)
            if figure.file in [other.file for other in figures]:
                raise Refused(say("part.own-file"), figure.file, inside="file")
            with inside("data"):
                figure.data.demand(figure.reads, scope, figure.name)
        figures.append(figure)
    compare = outline.compare
    return Study(
        name=outline.name,
        title=outline.title,
        about=outline.about,
        models={alias: replace(model, name=model.name or Label(alias)) for alias, model in models.items()},
        relations=tuple(
            scope.read(entry, StatedRelation, f"relations[{number}]")
            for number, entry in enumerate(outline.relations)
        ),
        compare=None if compare is None else scope.read(compare, MainPair, "compare"),
        experiments=tuple(experiments),
        figures=tuple(figures),
        results=outline.results,
        text=data.decode("utf-8", "replace"),
    )


def _document(data: bytes, file: str) -> object:
    if len(data) > MAX_BYTES:
        raise StudyError(file, say("problem.at-most-bytes", most=MAX_BYTES, got=len(data)))
    try:
        found = strict_yaml(data)
    except YamlRefused as error:
        raise StudyError(file, say("problem.study-not-read", why=error.reason), hint=_HINT) from error
    if isinstance(found, dict) and isinstance(models := found.get("models"), dict):
        return {**_given(found), "models": models}  # a model without a value is a mistake
    return _given(found)


def _given(value: Any) -> Any:  # noqa: ANN401  plain data
    """Remove keys without a value: they count as not given."""
    if isinstance(value, dict):
        return {key: _given(item) for key, item in value.items() if item is not None}
    return [_given(item) for item in value] if isinstance(value, list) else value


def _repeated(entries: Sequence[Any], scope: Scope) -> Iterator[tuple[str, object]]:
    """Yield figures with their places, each repeated for all measures, layers and models of its ``each``."""
    count = 0
    for number, entry in enumerate(entries):
        path = f"figures[{number}]"
        each: dict[str, Sequence[object]] = {}
        if isinstance(entry, dict) and "each" in entry:
            lists = asdict(scope.read(entry["each"], _Each, f"{path}.each"))
            each = {key: values for key, values in lists.items() if values}
            entry = {key: value for key, value in entry.items() if key != "each"}
            for key in each.keys() & entry.keys():
                with scope.at(path):
                    raise Refused(say("part.in-each"), entry[key], inside=key)
        for chosen in itertools.product(*each.values()):
            if (count := count + 1) > MOST_FIGURES:
                raise StudyError(scope.file, say("problem.most-figures", most=MOST_FIGURES))
            if not (own := dict(zip(each, chosen, strict=True))):
                yield path, entry
                continue
            called = {key: str(value).replace("-", "_") for key, value in own.items()}
            yield path, {**entry, **own, "file": filled_path(str(entry.get("file")), **called)}


def _data(name_or_file: str) -> bytes:
    if name_or_file in shipped_studies():
        place = resources.files("modelkin.casework.studies").joinpath("data", f"{name_or_file}{_ENDING}")
        return place.read_bytes()
    path = Path(name_or_file)
    try:
        if path.is_file():
            with path.open("rb") as file:
                return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise StudyError(name_or_file[:200], say("problem.unreadable", why=said_by(error))) from error
    raise NotFound(
        name_or_file[:200],
        say("problem.no-study"),
        hint=say("hint.studies", names=tuple(shipped_studies())),
    )
