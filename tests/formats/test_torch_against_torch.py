"""Files of torch against torch: any state dict that it writes is read as it reads it."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import modelkin as mk
from modelkin.errors import FormatError
from modelkin.source import MemorySource
from modelkin.tensors import TensorSlice

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.lab, pytest.mark.filterwarnings("ignore")]

DTYPES = [
    *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"),
    *("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool", "complex64"),
]
UNTYPED = {getattr(torch, name) for name in DTYPES if name.startswith(("float8", "uint")) and name != "uint8"}


@st.composite
def tensors(draw: st.DrawFn) -> Any:
    """A tensor of any format, as it is or a view of a larger one."""
    shape = draw(st.lists(st.integers(1, 6), max_size=4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    bits = torch.randint(0, 2, (int(np.prod(shape)) * 8,), generator=generator, dtype=torch.uint8)
    dtype = getattr(torch, draw(st.sampled_from(DTYPES)))
    numbers = (torch.arange(bits.numel()) % 11 + bits).to(torch.float32)
    made = numbers[: int(np.prod(shape))].to(dtype).reshape(shape)
    for axis in range(made.ndim):
        kind = draw(st.sampled_from(["as it is", "cut", "stepped", "swapped"]))
        if kind == "cut":
            made = made.narrow(axis, made.shape[axis] // 3, made.shape[axis] - made.shape[axis] // 3)
        elif kind == "stepped":
            made = made[(slice(None),) * axis + (slice(None, None, 2),)]
        elif kind == "swapped":
            made = made.transpose(0, axis)
    if draw(st.booleans()) and made.ndim:
        made = made.expand(draw(st.integers(1, 3)), *made.shape)
    return torch.nn.Parameter(made, requires_grad=False) if draw(st.booleans()) else made


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=150)
@given(
    found=st.dictionaries(st.text("abc.", min_size=1, max_size=4), tensors(), min_size=1, max_size=5),
    older=st.booleans(),
    protocol=st.integers(2, 5),
    wrap=st.booleans(),
)
def test_any_state_dict_is_read_as_torch_reads_it(found, older, protocol, wrap):
    if wrap:
        found["again"] = next(iter(found.values()))
    out = io.BytesIO()
    checkpoint = {"epoch": 1, "state_dict": found} if wrap else found
    torch.save(checkpoint, out, pickle_protocol=protocol, _use_new_zipfile_serialization=not older)
    # torch's own careful loader knows protocol 2 and 3, and no newer format in the older layout.
    unread = protocol > 3 or (older and any(tensor.dtype in UNTYPED for tensor in found.values()))
    loaded = checkpoint if unread else torch.load(io.BytesIO(out.getvalue()), weights_only=True)
    model = mk.open_model(MemorySource({"pytorch_model.bin": out.getvalue()}))
    truth = loaded["state_dict"] if wrap else loaded
    assert set(model.index) == set(truth)
    for name, tensor in truth.items():
        raw = model._reader.raw([TensorSlice.whole(name)])[0]
        assert raw.shape == tuple(tensor.shape)
        plain = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.detach().reshape(-1))
        assert raw.tobytes() == plain.view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize(
    "value",
    [
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.quantize_per_tensor(torch.eye(3), 0.1, 0, torch.qint8),
        lambda: torch.zeros(3, device="meta"),
        lambda: torch.complex(torch.ones(2), torch.ones(2)).conj(),
        lambda: torch.nn.Linear(2, 2),
    ],
)
def test_what_is_no_plain_tensor_is_refused_by_name(value, older):
    out = io.BytesIO()
    torch.save({"a": torch.ones(2), "x": value()}, out, _use_new_zipfile_serialization=not older)
    with pytest.raises(FormatError, match=r"_rebuild_|torch\.nn|storage type|lazy|'module'|five parts"):
        _ = mk.open_model(MemorySource({"a.pt": out.getvalue()})).index


def test_a_training_checkpoint_gives_the_model_alone():
    model = torch.nn.TransformerEncoderLayer(8, 2, 16)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(3, 1, 8)).sum().backward()
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
    out = io.BytesIO()
    parts = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "rng_state": torch.get_rng_state(),
    }
    torch.save({**parts, "scheduler": scheduler.state_dict()}, out)
    opened = mk.open_model(MemorySource({"a.pt": out.getvalue()}))
    assert set(opened.index) == set(model.state_dict())
    assert tuple(map(str, opened.weights.notes)) == (
        "the weights are under 'model'",
        "left out because it is not part of the model: optimizer, rng_state",
    )
