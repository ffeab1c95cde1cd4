"""The orchestrator of `matrix`: open, choose, read once, measure. All numbers come from `measures`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields

from modelkin._version import __version__
from modelkin.describe.measures import (
    NO_LAYER,
    Baseline,
    Measure,
    MeasuredPairs,
    MeasureRow,
    MeasureTable,
    Pairs,
    Stack,
    chosen_measures,
    describe_rows,
    measured_all,
)
from modelkin.errors import UsageError
from modelkin.message import Message, say
from modelkin.model import Model, ModelLike, by_name, open_models, read_headers
from modelkin.progress import Progress
from modelkin.source import ReadRecord
from modelkin.tensors import TensorSlice

from ._baselines import FoundKey, Ground, baseline_rows
from ._items import Item, Layer, Signature, TokenRows, all_of
from ._options import MatrixOptions, RoleChoice
from ._reading import Chosen, CutPlan, Shelf, SliceReader, model_pairs
from ._result import MatrixModel, MatrixResult, TensorRecord

Models = Mapping[str, ModelLike] | Sequence[ModelLike]


def matrix(
    models: Models, options: MatrixOptions | None = None, *, progress: Progress | None = None
) -> MatrixResult:
    """Measure tensors of several models, layer by layer, with what chance would give for each number.

    Parameters
    ----------
    models
        Model references, sources or opened models; a mapping gives them names.
    options
        What is measured, over what, and against which baselines.
    progress
        Told about long reads.

    Returns
    -------
    MatrixResult
        A table in long form, numbers of each tensor, and baselines. No verdict: for that see `compare`.

    Examples
    --------
    >>> from modelkin.demo import demo_zoo
    >>> with demo_zoo() as zoo:
    ...     models = {"base": str(zoo / "base"), "twin": str(zoo / "twin-1")}
    ...     found = matrix(models, MatrixOptions(measures=("cosine",), roles=("input-norm",)))
    >>> [(row.measure, row.layer_a) for row in found.table][:3]
    [('cosine', 0), ('cosine', 1), ('cosine', 2)]
    """
    options = options or MatrixOptions()
    given = by_name(models)
    if not given:
        raise UsageError("models", say("problem.one-needed"))
    with open_models(list(given.values()), options.fetch, progress=progress) as opened:
        chosen = Chosen(dict(zip(given, opened, strict=True)), options)
        return _MatrixRun(chosen, chosen_measures(options.measures)).result()


def wanted_by_matrix(models: Mapping[str, Model], options: MatrixOptions) -> dict[str, list[TensorSlice]]:
    """Return what `matrix` would read of each model. Headers and tokenizers are read, no tensor."""
    chosen, reading = Chosen(models, options), SliceReader(models)
    chosen.choose(reading)
    found: dict[str, list[TensorSlice]] = {}
    for of_role in reading.wanted.values():
        for name, slices in of_role.items():
            found.setdefault(name, []).extend(slices)
    return found


@dataclass(slots=True)
class _MatrixRun:
    """All models on their way to a table."""

    chosen: Chosen
    measures: tuple[Measure, ...]
    found: dict[FoundKey, Mapping[str, MeasuredPairs]] = field(default_factory=dict)
    """What was measured for the current role: baselines use the same pairs."""

    def result(self) -> MatrixResult:
        models, options = self.chosen.models, self.chosen.options
        read_headers(list(models.values()))
        reading = SliceReader(models)
        self.chosen.choose(reading)
        tables: list[MeasureTable] = []
        tensors: list[TensorRecord] = []
        baselines: list[Baseline] = []
        for choice in self.chosen.roles:
            # One role after another: only its vectors are in memory at a time, and gone before the next.
            found = self._role(choice, reading)
            tables.append(self._in_order(choice, MeasureTable.joined(found[0])))
            tensors += found[1]
            baselines += found[2]
        return MatrixResult(
            models=tuple(_record(name, model) for name, model in models.items()),
            options=options,
            table=MeasureTable.joined(tables),
            tensors=tuple(tensors),
            baselines=tuple(baselines),
            notes=tuple(dict.fromkeys(self.chosen.notes)),
            read=ReadRecord.of([model.totals() for model in models.values()]),
            modelkin=__version__,
        )

    def _role(
        self, choice: RoleChoice, reading: SliceReader
    ) -> tuple[list[MeasureTable], list[TensorRecord], list[Baseline]]:
        reading.read(choice)
        self.found = {}
        shelves = {name: reading.shelve(name, self.chosen.items[name, choice]) for name in self.chosen.models}
        tables = [*self._tables(choice, shelves), *self._cut_tables(choice, shelves, reading)]
        tensors = list(self._describe(choice, shelves))
        ground = Ground(
            choice=choice,
            shelves=shelves,
            measures=self.measures,
            options=self.chosen.options,
            pairs=self.chosen.pairs,
            found=self.found,
            tokens={
                (a, b): rows if isinstance(rows, Message) else _token_stacks((a, b), rows, reading)
                for (a, b, own), rows in self.chosen.tokens.items()
                if own == choice
            },
        )
        return tables, tensors, list(baseline_rows(ground))

    def _in_order(self, choice: RoleChoice, table: MeasureTable) -> MeasureTable:
        """Put the layers of each measure into the order asked for: they were measured shape by shape."""
        columns = [table.column(name).tolist() for name in ("model_a", "model_b", "view", "measure")]
        parts = {part: at for at, part in enumerate(dict.fromkeys(zip(*columns[:3], strict=True)))}
        measures = {measure.name: at for at, measure in enumerate(self.measures)}
        places = {
            (a, b, *(NO_LAYER if layer is None else layer for layer in pair)): at
            for a, b in dict.fromkeys(zip(*columns[:2], strict=True))
            for at, pair in enumerate(self.chosen.pairs(choice, a, b))
        }
        layers = [table.column(name).tolist() for name in ("layer_a", "layer_b")]
        order = sorted(
            (parts[a, b, view], measures[measure], places[a, b, mine, theirs], at)
            for at, (a, b, view, measure, mine, theirs) in enumerate(zip(*columns, *layers, strict=True))
        )
        return table.taken([at for *_, at in order])

    def _tables(self, choice: RoleChoice, shelves: Mapping[str, Shelf]) -> Iterator[MeasureTable]:
        for a, b in (*((name, name) for name in shelves), *model_pairs(self.chosen.models)):
            pairs = self.chosen.pairs(choice, a, b)
            yield from self._measure(choice, (a, b), (shelves[a], shelves[b]), pairs, view="whole")

    def _cut_tables(
        self, choice: RoleChoice, shelves: Mapping[str, Shelf], reading: SliceReader
    ) -> Iterator[MeasureTable]:
        for (a, b, own), plans in self.chosen.cuts.items():
            for plan in plans if own == choice else ():
                yield from self._cut_table(choice, (a, b), plan, shelves, reading)

    def _cut_table(
        self,
        choice: RoleChoice,
        names: tuple[str, str],
        plan: CutPlan,
        shelves: Mapping[str, Shelf],
        reading: SliceReader,
    ) -> Iterator[MeasureTable]:
        reading.read(choice, cut=plan.number)
        shelf = reading.shelve(names[plan.larger], plan.items)
        both = (shelf, shelves[names[1]]) if plan.larger == 0 else (shelves[names[0]], shelf)
        # Layers of other shapes have their own cuts.
        pairs = [
            (mine, theirs)
            for mine, theirs in self.chosen.pairs(choice, *names)
            if mine in both[0].places
            and theirs in both[1].places
            and both[0].places[mine][0] == both[1].places[theirs][0]
        ]
        yield from self._measure(choice, names, both, pairs, view=plan.cut.name)

    def _measure(
        self,
        choice: RoleChoice,
        names: tuple[str, str],
        shelves: tuple[Shelf, Shelf],
        pairs: Sequence[tuple[Layer, Layer]],
        *,
        view: str,
    ) -> Iterator[MeasureTable]:
        """Measure pairs of layers: all of one shape at once, then a reason for each that cannot be."""
        groups: dict[tuple[Signature, Signature], list[tuple[Layer, Layer]]] = {}
        unmeasured: list[tuple[Layer, Layer]] = []
        for pair in pairs:
            places = [shelf.places.get(layer) for shelf, layer in zip(shelves, pair, strict=True)]
            if places[0] is None or places[1] is None or places[0][0] != places[1][0]:
                unmeasured.append(pair)
            else:
                groups.setdefault((places[0][0], places[1][0]), []).append(pair)
        for (mine, theirs), group in groups.items():
            rows = Pairs.of(
                [shelves[0].places[layer][1] for layer, _ in group],
                [shelves[1].places[layer][1] for _, layer in group],
            )
            stacks = shelves[0].stacks[mine], shelves[1].stacks[theirs]
            found = measured_all(self.measures, *stacks, rows, expect=True)
            if view == "whole":
                self.found[(*names, tuple(group))] = found
            for measure in self.measures:
                yield MeasureTable.of_measured(
                    found[measure.name],
                    layers=([layer for layer, _ in group], [layer for _, layer in group]),
                    models=names,
                    measure=measure.name,
                    role=choice.label,
                    n=stacks[0].n,
                    view=view,
                    note=all_of((shelves[0].notes[mine], shelves[1].notes[theirs])),
                )
            shelves[0].let_go(mine)
            shelves[1].let_go(theirs)
        yield from (self._unmeasured(choice, names, shelves, pair, view) for pair in unmeasured)

    def _unmeasured(
        self,
        choice: RoleChoice,
        names: tuple[str, str],
        shelves: tuple[Shelf, Shelf],
        pair: tuple[Layer, Layer],
        view: str,
    ) -> MeasureTable:
        reason = self._why(choice, names, shelves, pair)
        return MeasureTable.of_rows(
            MeasureRow(
                measure=measure.name,
                role=choice.label,
                view=view,
                model_a=names[0],
                layer_a=pair[0],
                model_b=names[1],
                layer_b=pair[1],
                reason=reason,
            )
            for measure in self.measures
        )

    def _why(
        self,
        choice: RoleChoice,
        names: tuple[str, str],
        shelves: tuple[Shelf, Shelf],
        pair: tuple[Layer, Layer],
    ) -> Message:
        """Say why a pair of layers was not measured."""
        parts: list[Message] = []
        for name, shelf, layer in zip(names, shelves, pair, strict=True):
            if layer in shelf.places:
                continue
            if layer in shelf.missing:
                parts.append(say("text.of_side", side=name, text=shelf.missing[layer]))
            elif choice.mtp:
                # All of them are chosen, whatever layers are.
                parts.append(say("matrix-no-mtp-layer", layer=layer, model=name))
            elif layer is None:
                parts.append(say("matrix-no-tensor", model=name))
            else:
                present = layer in self.chosen.models[name].architecture.layers
                code = "matrix-layer-not-chosen" if present else "matrix-no-layer"
                parts.append(say(code, layer=layer, model=name))
        if parts:
            return all_of(parts)
        shapes = [shelf.places[layer][0][0] for shelf, layer in zip(shelves, pair, strict=True)]
        if shapes[0] == shapes[1]:
            return say("matrix-layouts")
        a, b = ("x".join(map(str, shape)) or say("matrix-scalar") for shape in shapes)
        return say("matrix-shapes", a=a, b=b)

    def _describe(self, choice: RoleChoice, shelves: Mapping[str, Shelf]) -> Iterator[TensorRecord]:
        for name, shelf in shelves.items():
            described = {}
            for own, stack in shelf.stacks.items():
                described[own] = describe_rows(stack)
                shelf.let_go(own)
            for layer, item in self.chosen.items[name, choice].items():
                if not isinstance(item, Item):
                    continue
                own, row = shelf.places[layer]
                about = described[own][row]
                yield TensorRecord(
                    model=name,
                    role=choice.label,
                    layer=layer,
                    tensor=" minus ".join(view.info.name for view in item.views),
                    dtype=item.views[0].info.dtype,
                    shape=item.views[0].shape,
                    note=item.note,
                    **{name.name: getattr(about, name.name) for name in fields(about)},
                )


def _token_stacks(
    names: tuple[str, str], rows: TokenRows, reading: SliceReader
) -> tuple[Stack, Stack, Message]:
    mine, theirs = reading.arrays(names[0], [rows.first])[0], reading.arrays(names[1], [rows.second])[0]
    note = say("matrix-shared-tokens", n=len(mine), m=rows.n_shared, how=rows.how)
    return Stack(mine), Stack(theirs), note


def _record(name: str, model: Model) -> MatrixModel:
    location, architecture = model.location, model.architecture
    return MatrixModel(
        name=name,
        ref=location.ref,
        origin=location.origin,
        revision=location.revision,
        family=architecture.family,
        layers=architecture.layers,
        mtp_layers=architecture.mtp_layers,
        hidden_size=architecture.sizes.get("residual"),
    )
