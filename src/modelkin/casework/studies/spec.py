"""A study as a value: what its file declares. Kinds of experiments and figures add their own fields."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import Meta
from msgspec.structs import replace

from modelkin.errors import UsageError
from modelkin.message import say
from modelkin.options import Depth
from modelkin.structs import Fields, Refused

from .reading import Alias, AliasPair, Controls, Earlier, File, Label, Reference, Words, form

if TYPE_CHECKING:
    from modelkin.figures import Animation, Figure
    from modelkin.tensors import TensorSlice

    from .bench import Bench

_LONGEST_NAME = 40
Id = Annotated[str, form("part.id-form", "[a-z][a-z0-9-]{0,39}")]


class StudyModel(Fields):
    """One model: where it is, and its display name."""

    ref: Reference
    name: Label = Label()
    """Its alias, if nothing else is said."""
    group: Label | None = None


class StatedRelation(Fields):
    """What is known or believed about two models before anything is measured."""

    relation: Literal["derived", "related", "independent"]
    """``related`` models have a common origin, but are not parent and child."""
    models: AliasPair
    why: Words


class MainPair(Fields):
    """The question of the study."""

    candidate: Alias
    base: Alias
    controls: Controls = Controls()
    """Models believed to be unrelated to both."""
    relatives: Annotated[tuple[AliasPair, ...], Meta(max_length=20)] = ()
    """Pairs known to be related: the same comparison should find them."""
    depth: Depth = "standard"

    def __post_init__(self) -> None:
        if self.candidate == self.base or {self.candidate, self.base} & set(self.controls):
            raise Refused(said=say("problem.differ-all"))


class Experiment(Fields, tag_field="kind", tag="experiment"):
    """One experiment: it reads models or earlier data, and writes data."""

    id: Id
    title: Words
    about: Words | None = None

    @property
    def kind(self) -> str:
        """Its kind, as files call it."""
        return str(self.__struct_config__.tag)

    def run(self, bench: Bench) -> None:
        """Run it and write its data."""
        raise NotImplementedError

    def wanted(self, bench: Bench) -> Mapping[str, Sequence[TensorSlice]]:
        """Return what it reads of the models, by alias; no tensor is read for that. Nothing, by default."""
        return {}


class Drawing(Fields, tag_field="figure", tag="figure"):
    """One figure, made only from saved data."""

    READS: ClassVar[str]
    """The kind of experiment whose data it draws; a figure with views says it for each."""
    file: File
    """Path in the folder, without suffix."""
    data: Earlier
    """Experiment that the numbers come from, and that it belongs to in the report."""
    caption: Words | None = None

    @property
    def kind(self) -> str:
        """Its kind, as files call it."""
        return str(self.__struct_config__.tag)

    @property
    def reads(self) -> str:
        """The kind of experiment whose data it draws."""
        return self.READS

    @property
    def name(self) -> str:
        """What it is, as files call it."""
        return self.kind

    def document(self, bench: Bench) -> Any:  # noqa: ANN401  whatever was written
        """Read the document of the experiment."""
        return bench.folder.read_json(bench.earlier(self.data))

    def records(self, bench: Bench) -> list[dict[str, Any]]:
        """Read the rows of the document of the experiment, by the names of their columns."""
        document = self.document(bench)
        return [dict(zip(document["columns"], row, strict=True)) for row in document["rows"]]

    def rows(self, bench: Bench, kind: str = ".csv") -> list[dict[str, str]]:
        """Read a table of the experiment."""
        return bench.folder.read_csv(bench.earlier(self.data, kind))

    def make(self, bench: Bench) -> Figure | Animation:
        """Describe the figure."""
        raise NotImplementedError


class Study(Fields):
    """A whole investigation."""

    name: str
    title: Words
    about: Words
    models: Mapping[str, StudyModel]
    relations: tuple[StatedRelation, ...]
    compare: MainPair | None
    experiments: tuple[Experiment, ...]
    figures: tuple[Drawing, ...]
    results: str | None
    """File for only the results of the experiments, in addition to ``REPORT.md``."""
    text: str
    """The file as it was read."""

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Group -> aliases."""
        found: dict[str, tuple[str, ...]] = {}
        for alias, model in self.models.items():
            if model.group is not None:
                found[model.group] = (*found.get(model.group, ()), alias)
        return found

    def known_relatives(self, a: str, b: str) -> bool:
        """Say whether two models are known to be related; such pairs do not belong in a baseline."""
        known = next((item for item in self.relations if set(item.models) == {a, b}), None)
        return known is not None and known.relation != "independent"


def _stand_in(alias: str, ref: str) -> Label:
    """Name a model that stands in for another: no report may use the other's name for it."""
    last = re.split(r"[/\\]", ref.rstrip("/\\"))[-1]
    shown = "".join(letter if letter.isprintable() else "?" for letter in last)
    return Label(f"{alias} = {shown[-_LONGEST_NAME:]}")


def replace_models(study: Study, refs: Mapping[str, str]) -> Study:
    """Return the study with some models replaced; `UsageError` for an alias that it does not have."""
    models = dict(study.models)
    for alias, ref in refs.items():
        if alias not in models:
            raise UsageError(
                study.name,
                say("problem.no-model-called", name=repr(alias[:60])),
                hint=say("hint.there-are", names=tuple(models)),
            )
        models[alias] = replace(models[alias], ref=Reference(ref), name=_stand_in(alias, ref))
    return replace(study, models=models)
