"""Weights in CTranslate2: floats as they are, int8 and int16 with their scales, projections taken apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
import numpy.typing as npt

from modelkin.errors import HeaderError
from modelkin.formats._forward import Forward
from modelkin.formats.interface import Request, Weights
from modelkin.message import say
from modelkin.source import ByteRange, FileInfo
from modelkin.tensors import (
    DTYPES,
    Array,
    LinePlan,
    LineRuns,
    TensorIndex,
    TensorInfo,
    View,
    count_lines,
    line_elements,
    numbers_of,
    runs_of,
)
from modelkin.untrusted import quoted

from ._file import ModelFile, Variable, VariableRows, read_contents, translate

FILE = "model.bin"
_BESIDE = ("vocabulary.", "shared_vocabulary.", "source_vocabulary.")
_CODES = {"I8": "i1", "I16": "i2"}
_OLD_INT16_SCALE = 1000.0
"""What int16 was multiplied by before files noted it."""


@final
class CTranslate2Format:
    """One file, with a config and a vocabulary next to it."""

    def choose(self, files: Mapping[str, FileInfo]) -> str | None:
        """Take the one name that the library itself looks for, if there is a vocabulary next to it."""
        return next((name for name in sorted(files) if self._is_model(name, files)), None)

    def _is_model(self, name: str, files: Mapping[str, FileInfo]) -> bool:
        folder, _, last = name.rpartition("/")
        beside = tuple(f"{folder}/{start}" if folder else start for start in _BESIDE)
        return last == FILE and any(other.startswith(beside) for other in files)

    def read(self, request: Request) -> Weights:
        """Walk through the file and name its tensors."""
        contents = read_contents(Forward(request.fetcher, request.entry))
        translation = translate(contents)
        tensors: dict[str, TensorInfo] = {}
        for cut in translation.cuts:
            if cut.name in tensors:
                raise HeaderError(request.entry, say("problem.tensor-twice", name=quoted(cut.name)))
            tensors[cut.name] = _tensor(request.entry, contents, cut)
        config = translation.config
        return Weights(
            format="ctranslate2",
            index=TensorIndex(tensors.values()),
            config=None if config is None else {**(request.config or {}), **config},
            notes=translation.notes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledCodes:
    """Integers (``i1`` or ``i2``) that were multiplied by a scale, one per group of lines.

    The float32 scales begin at `scales`; None stands for `scale`, the one of all. `lines_per_scale` lines
    share one; 0 if all do.
    """

    file: str
    start: int
    code: str
    n_lines: int
    width: int
    scales: int | None
    lines_per_scale: int
    scale: float = 1.0

    @property
    def n_bytes(self) -> int:
        """Stored bytes of codes and scales."""
        return self.n_lines * self._step + (0 if self.scales is None else 4 * self._n_scales)

    @property
    def _step(self) -> int:
        return self.width * np.dtype(self.code).itemsize

    @property
    def _n_scales(self) -> int:
        return math.ceil(self.n_lines / self.lines_per_scale) if self.lines_per_scale else 1

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan the codes of each run, and the scales they need."""
        codes = [ByteRange(self.start + self._step * a, self.start + self._step * b) for a, b in runs]
        lines = numbers_of(runs)
        owners = lines // self.lines_per_scale if self.lines_per_scale else np.zeros_like(lines)
        needed, which = np.unique(owners, return_inverse=True)
        base = self.scales
        scales = [] if base is None else [ByteRange(base + 4 * a, base + 4 * b) for a, b in runs_of(needed)]
        return LinePlan(
            ranges={self.file: [*codes, *scales]}, build=partial(self._build, codes, scales, which)
        )

    def _build(
        self, codes: list[ByteRange], scales: list[ByteRange], which: npt.NDArray[np.intp], view: View
    ) -> Array:
        stored = np.frombuffer(_joined(view, self.file, codes), f"<{self.code}").reshape(-1, self.width)
        if scales:
            factors = np.frombuffer(_joined(view, self.file, scales), "<f4")
        else:
            factors = np.full(which.max(initial=0) + 1, self.scale, np.float32)
        # As CTranslate2 does it: the reciprocal is rounded first. No honest scale is zero.
        with np.errstate(all="ignore"):
            back = np.float32(1) / factors
            lines: Array = stored.astype(np.float32) * back[which][:, None]
        return lines


def _joined(view: View, file: str, places: list[ByteRange]) -> bytes:
    """Return the bytes of several ranges, one after another."""
    return b"".join(bytes(view(file, place)) for place in places)


def _tensor(file: str, contents: ModelFile, cut: VariableRows) -> TensorInfo:
    name = contents.aliases.get(cut.variable, cut.variable)
    variable = contents.variables[name]
    first, last = _rows(file, variable, cut)
    shape = (last - first, *variable.shape[1:])
    row_bytes = DTYPES[variable.dtype].n_bytes(math.prod(variable.shape[1:]))
    start, stop = variable.place.start + first * row_bytes, variable.place.start + last * row_bytes
    if variable.dtype not in _CODES:
        return TensorInfo(name=cut.name, dtype=variable.dtype, shape=shape, file=file, start=start, stop=stop)
    scales = contents.variables.get(f"{name}_scale")
    _check_scales(file, variable, scales)
    lines = count_lines(shape)
    per_row = scales is not None and variable.dtype == "I8" and scales.shape != ()
    return TensorInfo(
        name=cut.name,
        dtype="INT8" if variable.dtype == "I8" else "INT16",
        shape=shape,
        file=file,
        start=start,
        stop=stop,
        storage=ScaledCodes(
            file=file,
            start=start,
            code=_CODES[variable.dtype],
            n_lines=lines,
            width=line_elements(shape),
            scales=None if scales is None else scales.place.start + (4 * first if per_row else 0),
            lines_per_scale=lines // shape[0] if per_row and shape[0] else 0,
            scale=_OLD_INT16_SCALE,
        ),
    )


def _rows(file: str, variable: Variable, cut: VariableRows) -> tuple[int, int]:
    number, count = cut.share
    total = variable.shape[0]
    lengths = cut.lengths or (total // count,) * count
    if sum(lengths) != total:
        raise HeaderError(
            file,
            say(
                "problem.variable-rows",
                name=quoted(variable.name),
                wanted=" + ".join(map(str, lengths)),
                got=total,
            ),
        )
    ends = list(itertools.accumulate(lengths))
    return ends[number] - lengths[number], ends[number]


def _check_scales(file: str, variable: Variable, scales: Variable | None) -> None:
    what = say("part.variable", name=quoted(variable.name))
    if len(variable.shape) < 2:
        raise HeaderError(file, say("problem.part-integers", what=what, shape=str(variable.shape)))
    if scales is None:
        if variable.dtype == "I8":
            raise HeaderError(file, say("problem.part-no-scales", what=what))
        return
    fitting = ((variable.shape[0],), ()) if variable.dtype == "I8" else ((), (1,))
    if scales.dtype != "F32" or scales.shape not in fitting:
        raise HeaderError(
            file,
            say(
                "problem.part-scales",
                what=what,
                n=str(fitting[0]),
                shape=str(scales.shape),
                dtype=scales.dtype,
            ),
        )


FORMAT = CTranslate2Format()
