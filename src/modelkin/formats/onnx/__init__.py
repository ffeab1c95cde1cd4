"""Weights in ONNX: the graph tells what each of its tensors is, and most of the file is hopped over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from modelkin.formats._interface import Request, Weights
from modelkin.source import FileInfo

from ._choose import choose


@final
class OnnxFormat:
    """One file, an encoder with its decoder, and whatever files they keep their data in."""

    def choose(self, files: Mapping[str, FileInfo]) -> str | None:
        """Choose the most precise of the whole models."""
        return choose(files)

    def read(self, request: Request) -> Weights:
        """Read the graph."""
        from ._read import read

        return read(request)


FORMAT = OnnxFormat()
