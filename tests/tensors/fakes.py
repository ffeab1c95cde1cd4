"""A model in memory that records every byte it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from modelkin.source import ByteRange
from modelkin.source.ranges import total_length
from modelkin.tensors import DTYPES, TensorIndex, TensorInfo


class RecordingFetcher:
    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files
        self.fetches: list[dict[str, list[ByteRange]]] = []
        self.streamed: list[tuple[str, ByteRange]] = []

    @property
    def n_bytes(self) -> int:
        fetched = sum(total_length(ranges) for fetch in self.fetches for ranges in fetch.values())
        return fetched + total_length(item for _, item in self.streamed)

    def fetch(
        self, wanted: Mapping[str, Sequence[ByteRange]], *, max_waste: float | None = None
    ) -> RecordingFetched:
        self.fetches.append({file: list(ranges) for file, ranges in wanted.items()})
        return RecordingFetched(self, wanted)

    def stream(self, wanted: Iterable[tuple[str, ByteRange]], *, digested: bool = True) -> Iterator[bytes]:
        ahead: list[tuple[str, ByteRange]] = []
        for request in wanted:
            self.streamed.append(request)
            ahead.append(request)
            if len(ahead) > 3:
                yield self.cut(*ahead.pop(0))
        for request in ahead:
            yield self.cut(*request)

    @contextmanager
    def mapped(self, file: str, wanted: ByteRange, *, digested: bool = True) -> Iterator[memoryview]:
        yield memoryview(self.cut(file, wanted))

    def cut(self, file: str, wanted: ByteRange) -> bytes:
        data = self.files[file]
        assert wanted.stop <= len(data)
        return data[wanted.start : wanted.stop]


class RecordingFetched:
    def __init__(self, fetcher: RecordingFetcher, wanted: Mapping[str, Sequence[ByteRange]]) -> None:
        self.fetcher = fetcher
        self.wanted = wanted

    def view(self, file: str, wanted: ByteRange) -> memoryview:
        assert any(item.contains(wanted) for item in self.wanted[file]), f"{wanted} was not asked for"
        return memoryview(self.fetcher.cut(file, wanted))


def info_of(
    shape: tuple[int, ...],
    dtype: str = "F32",
    *,
    name: str = "t",
    start: int = 0,
    file: str = "f.safetensors",
) -> TensorInfo:
    n_elements = 1
    for axis in shape:
        n_elements *= axis
    stop = start + DTYPES[dtype].n_bytes(n_elements)
    return TensorInfo(name=name, dtype=dtype, shape=shape, file=file, start=start, stop=stop)


def index_of(*tensors: TensorInfo) -> TensorIndex:
    return TensorIndex(tensors)
