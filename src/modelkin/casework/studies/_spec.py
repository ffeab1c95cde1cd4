"""A study as a value, and how it is read from YAML: strictly, with the place of every error."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from modelkin.errors import UsageError
from modelkin.options import READING, Depth

from ._folder import FILE
from ._node import Node, Words

ALIAS = re.compile(r"[a-z][a-z0-9_]{0,23}")
ID = re.compile(r"[a-z][a-z0-9-]{0,39}")
MOST_MODELS = 24
_LONGEST_NAME = 40
MOST_EXPERIMENTS = 40
MOST_FIGURES = 200
RELATIONS = ("derived", "related", "independent")
DEPTHS: tuple[Depth, ...] = get_args(Depth)
_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./{}-]{0,200}")
_NAME = re.compile(r"[^\n]{1,60}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyModel:
    """One model: its alias, where it is, what people call it."""

    alias: str
    ref: str
    name: str
    group: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """What is known, or thought, of two models before anything is measured."""

    relation: str
    """``derived``, ``related`` (a common origin, not parent and child) or ``independent``."""
    models: tuple[str, str]
    why: Words


@dataclass(frozen=True, slots=True, kw_only=True)
class MainPair:
    """The question of the study."""

    candidate: str
    base: str
    controls: tuple[str, ...]
    """Models that are thought to be unrelated to both."""
    relatives: tuple[tuple[str, str], ...]
    """Pairs that are known to be related: the same comparison should find them."""
    depth: Depth


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One experiment: a kind with its options."""

    id: str
    kind: str
    title: Words
    about: Words | None
    options: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """One figure: a kind with its options, and the file it is drawn into."""

    file: str
    """Path in the folder, without ending."""
    figure: str
    of: str | None
    """Experiment that it belongs to in the report."""
    caption: Words | None
    options: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A whole investigation."""

    name: str
    title: Words
    about: Words
    models: Mapping[str, StudyModel]
    relations: tuple[Relation, ...]
    compare: MainPair | None
    experiments: tuple[Experiment, ...]
    figures: tuple[Drawing, ...]
    results: str | None
    """File for the results of the experiments alone, beside ``REPORT.md``."""
    text: str
    """The file as it was read."""

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Group -> aliases."""
        found: dict[str, tuple[str, ...]] = {}
        for model in self.models.values():
            if model.group is not None:
                found[model.group] = (*found.get(model.group, ()), model.alias)
        return found

    def relation_of(self, a: str, b: str) -> Relation | None:
        """Return what is known of two models."""
        return next((item for item in self.relations if set(item.models) == {a, b}), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What options may refer to."""

    models: Mapping[str, StudyModel]
    experiments: tuple[str, ...]

    def alias(self, node: Node) -> str:
        """Read the alias of a model."""
        return node.choice(tuple(self.models))

    def aliases(self, node: Node | None, *, least: int = 1) -> tuple[str, ...]:
        """Read aliases; all of them if nothing is said."""
        return tuple(self.models) if node is None else node.choices(tuple(self.models), least=least)

    def pair(self, node: Node) -> tuple[str, str]:
        """Read two different aliases."""
        both = node.choices(tuple(self.models), least=2, most=2)
        return both[0], both[1]

    def experiment(self, node: Node) -> str:
        """Read the id of an earlier experiment."""
        if not self.experiments:
            node.fail("an experiment above this one")
        return node.choice(self.experiments)


Reader = Callable[[dict[str, Node], Scope], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Which options a kind has, and how they are read."""

    required: tuple[str, ...]
    optional: tuple[str, ...]
    read: Reader


def read_study(
    data: bytes, file: str, *, kinds: Mapping[str, Fields], figures: Mapping[str, Fields]
) -> Study:
    """Read a study.

    Parameters
    ----------
    data
        YAML.
    file
        For errors.
    kinds, figures
        What experiments and figures there are.

    Raises
    ------
    StudyError
        Something is not as it has to be; the message says where and what was expected.
    """
    node = Node.of_file(data, file)
    parts = node.fields(
        required=("format", "name", "title", "about", "models", "experiments"),
        optional=("relations", "compare", "figures", "results"),
    )
    parts["format"].whole(low=1, high=1)
    models = {
        alias: _model(alias, item)
        for alias, item in parts["models"].entries(key=ALIAS, most=MOST_MODELS).items()
    }
    experiments = _experiments(parts["experiments"], models, kinds)
    scope = Scope(models=models, experiments=tuple(item.id for item in experiments))
    drawings = _drawings(parts["figures"], scope, figures) if "figures" in parts else ()
    relations = parts["relations"].items(most=200) if "relations" in parts else []
    return Study(
        name=parts["name"].text(form=ID, what="a name"),
        title=parts["title"].words(),
        about=parts["about"].words(),
        models=models,
        relations=tuple(_relation(item, scope) for item in relations),
        compare=_main_pair(parts["compare"], scope) if "compare" in parts else None,
        experiments=experiments,
        figures=drawings,
        results=parts["results"].text(form=FILE, what="a path") if "results" in parts else None,
        text=data.decode("utf-8", "replace"),
    )


def _model(alias: str, node: Node) -> StudyModel:
    parts = node.fields(required=("ref",), optional=("name", "group"))
    return StudyModel(
        alias=alias,
        ref=parts["ref"].text(longest=500),
        name=parts["name"].text(form=_NAME, what="a name") if "name" in parts else alias,
        group=parts["group"].text(form=_NAME, what="a name") if "group" in parts else None,
    )


def _relation(node: Node, scope: Scope) -> Relation:
    parts = node.fields(required=("relation", "models", "why"))
    return Relation(
        relation=parts["relation"].choice(RELATIONS),
        models=scope.pair(parts["models"]),
        why=parts["why"].words(),
    )


def _main_pair(node: Node, scope: Scope) -> MainPair:
    parts = node.fields(required=("candidate", "base"), optional=("controls", "relatives", "depth"))
    candidate, base = scope.alias(parts["candidate"]), scope.alias(parts["base"])
    controls = scope.aliases(parts["controls"], least=0) if "controls" in parts else ()
    if candidate == base or {candidate, base} & set(controls):
        node.fail("a candidate, a base and controls that all differ")
    depth = parts["depth"].choice(DEPTHS) if "depth" in parts else "standard"
    pairs = parts["relatives"].items(most=20) if "relatives" in parts else []
    return MainPair(
        candidate=candidate,
        base=base,
        controls=controls,
        relatives=tuple(scope.pair(item) for item in pairs),
        depth=next(item for item in READING if item == depth),
    )


def _experiments(
    node: Node, models: Mapping[str, StudyModel], kinds: Mapping[str, Fields]
) -> tuple[Experiment, ...]:
    found: list[Experiment] = []
    for item in node.items(most=MOST_EXPERIMENTS, least=1):
        if not isinstance(item.value, dict) or "kind" not in item.value:
            item.fail("an experiment with a kind")
        kind = kinds[name := item.at("kind", item.value["kind"]).choice(tuple(kinds))]
        parts = item.fields(
            required=("id", "kind", "title", *kind.required), optional=("about", *kind.optional)
        )
        scope = Scope(models=models, experiments=tuple(other.id for other in found))
        identity = parts["id"].text(form=ID, what="an id")
        if identity in scope.experiments:
            parts["id"].fail("an id that no other experiment has")
        found.append(
            Experiment(
                id=identity,
                kind=name,
                title=parts["title"].words(),
                about=parts["about"].words() if "about" in parts else None,
                options=kind.read(parts, scope),
            )
        )
    return tuple(found)


def _drawings(node: Node, scope: Scope, figures: Mapping[str, Fields]) -> tuple[Drawing, ...]:
    found: list[Drawing] = []
    for item in _each(node):
        if not isinstance(item.value, dict) or "figure" not in item.value:
            item.fail("a figure with its kind")
        kind = figures[name := item.at("figure", item.value["figure"]).choice(tuple(figures))]
        parts = item.fields(required=("file", "figure", *kind.required), optional=("caption", *kind.optional))
        file = parts["file"].text(form=FILE, what="a path")
        if file in {other.file for other in found}:
            parts["file"].fail("a file that no other figure has")
        options = kind.read(parts, scope)
        found.append(
            Drawing(
                file=file,
                figure=name,
                of=getattr(options, "data", None),
                caption=parts["caption"].words() if "caption" in parts else None,
                options=options,
            )
        )
    return tuple(found)


_EACH = ("measure", "layer", "model")


def _each(node: Node) -> list[Node]:
    """Repeat a figure for each measure, layer and model of its ``each``."""
    found: list[Node] = []
    for item in node.items(most=MOST_FIGURES):
        if not isinstance(item.value, dict) or "each" not in item.value:
            found.append(item)
            continue
        lists = item.at("each", item.value["each"]).fields(optional=_EACH)
        for key in lists:
            if key in item.value:
                item.at(key, item.value[key]).fail("nothing, as it is in each")
        values = {key: [one.value for one in part.items(most=40, least=1)] for key, part in lists.items()}
        file = item.at("file", item.value.get("file")).text(form=_PATTERN, what="a path")
        for chosen in itertools.product(*values.values()):
            own = dict(zip(values, chosen, strict=True))
            called = {key: str(value).replace("-", "_") for key, value in own.items()}
            rest = {key: value for key, value in item.value.items() if key != "each"}
            found.append(Node({**rest, **own, "file": _filled(file, called)}, item.path, item.file))
        if len(found) > MOST_FIGURES:
            node.fail(f"at most {MOST_FIGURES} figures")
    return found


def _filled(file: str, values: Mapping[str, str]) -> str:
    for key, value in values.items():
        file = file.replace("{" + key + "}", value)
    return file


def _stand_in(alias: str, ref: str) -> str:
    """Name a model that stands in for another: no report may call it by the other's name."""
    last = re.split(r"[/\\]", ref.rstrip("/\\"))[-1]
    shown = "".join(letter if letter.isprintable() else "?" for letter in last)
    return f"{alias} = {shown[-_LONGEST_NAME:]}"


def replace_models(study: Study, refs: Mapping[str, str]) -> Study:
    """Return the study with other models behind some aliases.

    Raises
    ------
    UsageError
        The study has no such alias.
    """
    for alias in refs:
        if alias not in study.models:
            known = ", ".join(study.models)
            raise UsageError(
                study.name, f"there is no model called {alias[:60]!r}", hint=f"There are {known}."
            )
    models = {
        alias: replace(model, ref=refs[alias], name=_stand_in(alias, refs[alias])) if alias in refs else model
        for alias, model in study.models.items()
    }
    return replace(study, models=models)
