"""A model as the rest of modelkin sees it: files, tensors, and what each tensor is for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from modelkin.architecture import Architecture, RoleEntry, detect
from modelkin.errors import ConfigError, FormatError, SourceError, UnsupportedFormat, UsageError
from modelkin.formats import (
    FactorPair,
    OpenedAdapter,
    Weights,
    chosen_file,
    describes_itself,
    find_factors,
    may_describe_itself,
    multiplied,
    open_adapter,
    place_of_adapter,
    read_weights,
)
from modelkin.message import Message, say
from modelkin.options import MIB, FetchOptions
from modelkin.progress import Progress, Silent
from modelkin.source import (
    BytePlan,
    ByteRange,
    Fetcher,
    Location,
    ModelRef,
    RangeStore,
    Source,
    open_source,
    open_store,
)
from modelkin.tensors import Array, TensorChunk, TensorIndex, TensorReader, TensorSlice
from modelkin.tokenizer import TOKENIZER_FILES, TokenizerSummary, summarise_tokenizer
from modelkin.untrusted import JsonRefused, strict_object

if TYPE_CHECKING:
    from modelkin.source import LedgerTotals

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")

MAX_CONFIG_BYTES = 16 * MIB
"""The longest public config is about 100 kB; nothing near this limit is a config."""
MAX_TOKENIZER_BYTES = 40 * MIB
"""The largest public ``tokenizer.json``, with 262 thousand tokens, is 34 MB."""
HELD_FILES = ("tokenizer.json", "tokenizer_config.json")
"""Files that can be embedded in a weight file."""

_PLACES = {
    "hub": "place.hub",
    "local": "place.local",
    "http": "place.http",
    "fsspec": "place.fsspec",
    "memory": "place.memory",
}


class Model:
    """One model, lazily: opening it reads nothing, each property reads what it needs, once."""

    def __init__(
        self,
        fetcher: Fetcher,
        options: FetchOptions,
        *,
        ref: ModelRef | None = None,
        progress: Progress | None = None,
        bases: Mapping[str, str | ModelRef] | None = None,
    ) -> None:
        self._own_fetcher = fetcher
        self._options = options
        self._ref = ref
        self._bases = bases or {}
        self._progress = progress

    def __repr__(self) -> str:
        return f"Model({self._own_fetcher.source!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release connections, threads and handles."""
        if "_adapter" in self.__dict__ and self._adapter is not None:
            self._adapter.fetcher.close()
        self._own_fetcher.close()

    @property
    def found_at(self) -> Message:
        """Where the model was found: a Hub id and a folder can be spelt alike."""
        location = self.location
        place = say(_PLACES[location.kind], origin=location.origin)
        if location.revision:
            place = say("place.at-commit", place=place, commit=location.revision[:12])
        return place if location.ref == location.origin else say("place.of", ref=location.ref, place=place)

    def describe(self) -> str:
        """Say in English where the model was found."""
        return str(self.found_at)

    # -- what it is ------------------------------------------------------------------------------------

    @property
    def fetcher(self) -> Fetcher:
        """Reads the model's files; for an adapter, also those of its base."""
        return self._own_fetcher if self._adapter is None else self._adapter.fetcher

    @property
    def _entry(self) -> str | None:
        """The file to start from, if the reference names one."""
        if self._adapter is not None:
            return self._adapter.base_entry
        return None if self._ref is None else self._ref.entry

    @cached_property
    def _adapter(self) -> OpenedAdapter | None:
        """The adapter with its base, if the reference names an adapter."""
        own, ref = self._own_fetcher, self._ref
        wanted = None if ref is None else ref.base
        entry = None if ref is None else ref.entry
        place = place_of_adapter(own.source, entry, base_named=wanted is not None)
        if place == "none":
            if wanted is None:
                return None
            raise UnsupportedFormat(
                own.source.location.ref,
                say("problem.adapter-before"),
                hint=say("hint.adapter-folder"),
            )

        def open_base(base: ModelRef) -> Source:
            return open_source(
                base, self._options, store=_store_of(base, self._options), budget=own.source.budget
            )

        def make_fetcher(source: Source) -> Fetcher:
            store = open_store(self._options) if source.remote else None
            return Fetcher(source, self._options, store=store, progress=self._progress, ledger=own.ledger)

        return open_adapter(
            own.source,
            ref=own.source.location.ref,
            base=wanted,
            known={
                name: at if isinstance(at, ModelRef) else ModelRef.parse(at)
                for name, at in self._bases.items()
            },
            embedded=place == "embedded",
            open_base=open_base,
            make_fetcher=make_fetcher,
            shown_in_front=TOKENIZER_FILES,
        )

    @property
    def location(self) -> Location:
        """Where the model is, with its commit."""
        return self.fetcher.source.location

    @cached_property
    def config(self) -> Mapping[str, object] | None:
        """Contents of ``config.json``, or what the weight file says instead; None without either.

        Raises
        ------
        ConfigError
            There is one, but it is not a JSON object or is absurdly long.
        """
        with _named(self._own_fetcher.source):
            found = self._given_config()
        if (found is not None and "model_type" in found) or not self._may_describe_itself:
            return found
        # A config.json without a model type is a stub or another program's: the weights fill it in.
        return {**(self._opened.config or {}), **(found or {})} or None

    @cached_property
    def _config_file(self) -> Mapping[str, object] | None:
        if self._entry is None and describes_itself(chosen_file(self.fetcher.source.files())):
            return None  # such files often come with a stub that says next to nothing
        info = self.fetcher.source.find("config.json")
        if info is None:
            return None
        if info.size > MAX_CONFIG_BYTES:
            raise ConfigError(
                "config.json", say("problem.config-bytes", most=MAX_CONFIG_BYTES, got=info.size)
            )
        data = self.fetcher.read_file("config.json", limit=MAX_CONFIG_BYTES)
        try:
            return strict_object(data or b"", as_python_writes=True)
        except JsonRefused as error:
            raise ConfigError("config.json", say("problem.json-object", why=error.reason)) from error

    @cached_property
    def weights(self) -> Weights:
        """The opened weight files: format, tensors, and whatever else they say.

        Matrices that are stored as two factors are their products where an architecture expects one.
        """
        opened, found = self._opened, self._factors()
        if not found:
            return opened
        ranks = [factors.rank for factors in found]
        note = say("format.factored", n=len(found), least=min(ranks), most=max(ranks))
        return replace(opened, index=multiplied(opened.index, found), notes=(*opened.notes, note))

    def _factors(self) -> list[FactorPair]:
        """Return pairs of tensors that are unknown as they are, and known as their product."""
        index = self._opened.index
        found = [] if self._opened.adapter is not None else find_factors(index)
        if not found:
            return []
        try:
            unknown = {item.name for item in self._stored_architecture.unknown}
        except ConfigError:
            return []  # whoever asks for the architecture is told
        found = [factors for factors in found if unknown.issuperset(factors.parts)]
        if not found:
            return []
        detected = self._detected(multiplied(index, found))
        known = {entry.tensor for entry in (*detected.tensors, *detected.mtp_tensors)}
        return [factors for factors in found if factors.name in known]

    @cached_property
    def _opened(self) -> Weights:
        """The weight files as they are stored."""
        with _named(self._own_fetcher.source):
            if self._adapter is not None:
                head_bytes = self._options.head_bytes
                return self._adapter.weights(head_bytes=head_bytes, read_config=self._given_config)
            return read_weights(
                self.fetcher,
                head_bytes=self._options.head_bytes,
                name=self._entry,
                read_config=self._given_config,
            )

    def _given_config(self) -> Mapping[str, object] | None:
        return None if describes_itself(self._entry) else self._config_file

    @property
    def index(self) -> TensorIndex:
        """All tensors with type, shape and place, from the headers."""
        return self.weights.index

    @cached_property
    def architecture(self) -> Architecture:
        """What each tensor is for; an unknown architecture is a value too."""
        _ = self.config  # the smaller read comes first: if it fails, nothing else was read
        return self._stored_architecture if self.weights is self._opened else self._detected(self.index)

    @cached_property
    def _stored_architecture(self) -> Architecture:
        """What each tensor is for if none is a factor."""
        return self._detected(self._opened.index)

    def _detected(self, index: TensorIndex) -> Architecture:
        config = self.config
        stored = sorted(index.values(), key=lambda info: (info.file, info.start, info.name))
        return detect(
            config,
            {name: info.shape for name, info in index.items()},
            order=[info.name for info in stored],
        )

    @property
    def roles(self) -> Mapping[str, Mapping[int | None, tuple[str, ...]]]:
        """Role -> layer -> names of tensors. Layer None is everything outside the layers.

        Multi-token-prediction layers are not among them: see `mtp_roles`.
        """
        return _by_role(self.architecture.tensors)

    @property
    def mtp_roles(self) -> Mapping[str, Mapping[int | None, tuple[str, ...]]]:
        """Role -> layer -> names of tensors, of the multi-token-prediction layers alone."""
        return _by_role(self.architecture.mtp_tensors)

    @cached_property
    def tokenizer(self) -> TokenizerSummary:
        """What the tokenizer's files say."""
        limit = MAX_TOKENIZER_BYTES
        present = [name for name in TOKENIZER_FILES if self.file_size(name) is not None]
        contents: dict[str, bytes] = {}
        skipped: list[Message] = []
        for name in present:
            if name not in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
                continue
            data = self.read_file(name, limit=limit)
            if data is None:
                skipped.append(say("file-too-long", file=name, n=self.file_size(name), limit=limit))
            else:
                contents[name] = data
        return summarise_tokenizer(contents, files=tuple(present), skipped=tuple(skipped))

    # -- small files -----------------------------------------------------------------------------------

    def file_names(self) -> tuple[str, ...]:
        """Names of all files, including those embedded in the weight file."""
        held = (name for name in HELD_FILES if self._held(name) is not None)
        return tuple(sorted({*self.fetcher.source.files(), *held}))

    def file_size(self, name: str) -> int | None:
        """Return the length of a file, or None if there is no such file."""
        if (held := self._held(name)) is not None:
            return len(held)
        info = self.fetcher.source.find(name)
        return None if info is None else info.size

    def read_file(self, name: str, *, limit: int) -> bytes | None:
        """Return a whole file, or None if there is none or it is longer than `limit` bytes."""
        if (held := self._held(name)) is not None:
            return held if len(held) <= limit else None
        return self.fetcher.read_file(name, limit=limit)

    def start_of(self, name: str, *, limit: int) -> bytes:
        """Return the beginning of a file, at most `limit` bytes; empty if there is no such file."""
        if (held := self._held(name)) is not None:
            return held[:limit]
        info = self.fetcher.source.find(name)
        if info is None or info.size == 0:
            return b""
        start = ByteRange(0, min(info.size, limit))
        return bytes(
            self.fetcher.fetch({name: [start]}, task=say("step-reading-file", name=name)).view(name, start)
        )

    def _held(self, name: str) -> bytes | None:
        """Return a file that is embedded in the weight file.

        The weights are opened only if they can embed one, so that a tokenizer is available even from a
        repository whose weights are broken.
        """
        if name not in HELD_FILES:
            return None
        inside = describes_itself(self._entry) or self.fetcher.source.find(name) is None
        return self._opened.files.get(name) if inside and self._may_describe_itself else None

    @property
    def _may_describe_itself(self) -> bool:
        """Whether a weight file may hold a config and a tokenizer."""
        names = self.fetcher.source.files() if self._entry is None else [self._entry]
        return any(may_describe_itself(name) for name in names)

    # -- reading ---------------------------------------------------------------------------------------

    @cached_property
    def _reader(self) -> TensorReader:
        return TensorReader(self.index, self.fetcher)

    def tensor(self, name: str, rows: slice | Sequence[int] | None = None) -> Array:
        """Read one tensor, or some of its rows: only those bytes are fetched."""
        return self._reader.read_one(name, rows)

    def read(self, slices: Sequence[TensorSlice], *, max_waste: float | None = None) -> list[Array]:
        """Read many slices in one planned, concurrent pass; `max_waste` overrides the option of that name."""
        return self._reader.read(slices, max_waste=max_waste)

    def plan(self, slices: Iterable[TensorSlice], *, max_waste: float | None = None) -> BytePlan:
        """Say what `read` would request and how many bytes that is. Tensor bytes are not read."""
        return self.fetcher.plan(self._reader.ranges(slices), max_waste=max_waste)

    def cost(self, slices: Iterable[TensorSlice], *, max_waste: float | None = None) -> int:
        """Return the bytes that `read` would fetch if nothing were stored."""
        return self.fetcher.cost(self._reader.ranges(slices), max_waste=max_waste)

    def chunks(self, names: Iterable[str] | None = None) -> Iterator[TensorChunk]:
        """Walk over tensors, by default all of them, in bounded memory."""
        return self._reader.chunks(names)

    def raw_chunks(self, names: Iterable[str], *, digested: bool = True) -> Iterator[TensorChunk]:
        """Walk over tensors as stored bits, for exact equality; for `digested` see `TensorReader.chunks`."""
        return self._reader.chunks(names, raw=True, digested=digested)

    def mapped(
        self, name: str, start: int, stop: int, *, digested: bool = True
    ) -> AbstractContextManager[Array]:
        """Expose elements of a local tensor as stored bits; see `TensorReader.mapped`."""
        return self._reader.mapped(name, start, stop, digested=digested)

    def totals(self) -> LedgerTotals:
        """Sum up what has been read so far."""
        return self.fetcher.totals()


for _name in ("_adapter", "_config_file", "_opened", "config", "weights"):
    # Up to Python 3.11 all instances share one lock: models opened side by side would wait for each
    # other's headers. The architecture keeps its lock, since the first thread to ask builds its tables.
    vars(Model)[_name].lock = nullcontext()


@contextmanager
def _named(source: Source) -> Iterator[None]:
    """Prefix the model's name to errors that name only the file."""
    try:
        yield
    except (FormatError, SourceError) as error:
        ref = source.location.ref
        if ref in error.where or ref.endswith(error.where):
            raise
        place = error.place if isinstance(error.place, Message) else None
        where = say("error.said", where=ref, problem=place) if place else f"{ref}: {error.where}"
        raise type(error)(where, error.said, hint=error.advice) from error


def open_model(
    model: str | ModelRef | Source,
    options: FetchOptions | None = None,
    *,
    progress: Progress | None = None,
    bases: Mapping[str, str | ModelRef] | None = None,
) -> Model:
    """Open a model by reference, without reading it yet.

    Parameters
    ----------
    model
        ``org/name@revision``, a folder, a file or a URL; ``ADAPTER::BASE`` for an adapter on a base of your
        choice; or a `Source`, such as `MemorySource`.
    options
        How to fetch, store and bound.
    progress
        Told about long reads.
    bases
        Where the bases are that adapters name, for those that are not on the Hub under that name.

    Examples
    --------
    >>> with open_model("demo:base") as model:
    ...     rows = model.tensor("model.layers.0.mlp.up_proj.weight", rows=slice(0, 3))
    ...     model.architecture.family, rows.shape
    ('llama', (3, 96))
    """
    options = options or FetchOptions()
    if isinstance(model, Source):
        return Model(Fetcher(model, options, progress=progress), options, progress=progress, bases=bases)
    ref = model if isinstance(model, ModelRef) else ModelRef.parse(model)
    store = _store_of(ref, options)
    source = open_source(ref, options, store=store)
    fetcher = Fetcher(source, options, store=store, progress=progress)
    return Model(fetcher, options, ref=ref, progress=progress, bases=bases)


ModelLike = str | ModelRef | Source | Model
"""What can stand for a model: a reference, a source, or a model that is already open."""


@contextmanager
def open_models(
    models: Sequence[ModelLike], options: FetchOptions | None = None, *, progress: Progress | None = None
) -> Iterator[list[Model]]:
    """Open models side by side and locate them; at the end close all that were not open before.

    If one is not there, the others are closed and the error of the first such model is raised.
    """
    with ExitStack() as stack:
        done = itertools.count(1)

        def opened(model: ModelLike) -> Model:
            if isinstance(model, Model):
                return model
            made = stack.enter_context(open_model(model, options, progress=progress))
            _ = made.location  # lists the files of a remote model
            told.count(next(done), len(models), say("step-opening"))
            return made

        told = progress or Silent()

        yield _side_by_side(opened, models)


def by_name(models: Mapping[str, ModelLike] | Sequence[ModelLike]) -> dict[str, ModelLike]:
    """Return models by name, or by reference where they have none; one given twice needs a name."""
    if isinstance(models, Mapping):
        return dict(models)
    named: dict[str, ModelLike] = {}
    for model in models:
        ref = model.text if isinstance(model, ModelRef) else model
        name = ref if isinstance(ref, str) else ref.location.ref
        if name in named:
            raise UsageError(name, say("problem.model-twice"), hint=say("hint.both-names"))
        named[name] = model
    return named


def read_headers(models: Sequence[Model]) -> None:
    """Read listings, configs and headers of all models side by side."""
    _side_by_side(lambda model: (model.weights, model.config), models)


def _side_by_side(work: Callable[[_Item], _Made], items: Sequence[_Item]) -> list[_Made]:
    with ThreadPoolExecutor(max(1, len(items))) as pool:
        return list(pool.map(work, items))


def _by_role(entries: Iterable[RoleEntry]) -> dict[str, dict[int | None, tuple[str, ...]]]:
    found: dict[str, dict[int | None, tuple[str, ...]]] = {}
    for entry in entries:
        layers = found.setdefault(entry.role.value, {})
        layers[entry.layer] = (*layers.get(entry.layer, ()), entry.tensor)
    return found


def _store_of(ref: ModelRef, options: FetchOptions) -> RangeStore | None:
    return None if ref.kind == "local" else open_store(options)
