"""Weights in CTranslate2: floats as they are, int8 and int16 with their scales, projections taken apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import final

from modelkin.errors import HeaderError
from modelkin.formats._forward import Forward
from modelkin.formats._interface import Request, Weights
from modelkin.formats._lines import ScaledCodes
from modelkin.source import FileInfo
from modelkin.tensors import DTYPES, TensorIndex, TensorInfo, count_lines, line_elements
from modelkin.untrusted import quoted

from ._file import Contents, Variable, read_contents
from ._names import Cut, translate

FILE = "model.bin"
_BESIDE = ("vocabulary.", "shared_vocabulary.", "source_vocabulary.")
_CODES = {"I8": "i1", "I16": "i2"}
_OLD_INT16_SCALE = 1000.0
"""What int16 was multiplied by before files noted it."""


@final
class CTranslate2Format:
    """One file, with a config and a vocabulary beside it."""

    def choose(self, files: Mapping[str, FileInfo]) -> str | None:
        """Take the one name that the library itself looks for, if a vocabulary lies beside it."""
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
                raise HeaderError(request.entry, f"tensor {quoted(cut.name)} is there twice")
            tensors[cut.name] = _tensor(request.entry, contents, cut)
        config = translation.config
        return Weights(
            format="ctranslate2",
            index=TensorIndex(tensors.values()),
            config=None if config is None else {**(request.config or {}), **config},
            notes=translation.notes,
        )


def _tensor(file: str, contents: Contents, cut: Cut) -> TensorInfo:
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


def _rows(file: str, variable: Variable, cut: Cut) -> tuple[int, int]:
    number, count = cut.share
    total = variable.shape[0]
    lengths = cut.lengths or (total // count,) * count
    if sum(lengths) != total:
        raise HeaderError(
            file,
            f"variable {quoted(variable.name)}: expected {' + '.join(map(str, lengths))} rows, got {total}",
        )
    ends = list(itertools.accumulate(lengths))
    return ends[number] - lengths[number], ends[number]


def _check_scales(file: str, variable: Variable, scales: Variable | None) -> None:
    what = f"variable {quoted(variable.name)}"
    if len(variable.shape) < 2:
        raise HeaderError(file, f"{what}: integers of shape {variable.shape} are no weights")
    if scales is None:
        if variable.dtype == "I8":
            raise HeaderError(file, f"{what}: its scales are missing")
        return
    fitting = ((variable.shape[0],), ()) if variable.dtype == "I8" else ((), (1,))
    if scales.dtype != "F32" or scales.shape not in fitting:
        raise HeaderError(
            file, f"{what}: expected {fitting[0]} scales in F32, got {scales.shape} in {scales.dtype}"
        )


FORMAT = CTranslate2Format()
