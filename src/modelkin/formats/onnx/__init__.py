"""Weights in ONNX: the graph tells what each of its tensors is, and most of the file is skipped."""

from ._read import FORMAT
