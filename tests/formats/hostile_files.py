"""Corrupted files: any outcome but a refusal or a readable model is a failure."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np

from modelkin.errors import FormatError
from modelkin.formats import Weights
from modelkin.formats.interface import Format, Request
from modelkin.model import Model
from modelkin.options import FetchOptions
from modelkin.source import Fetcher, MemorySource, ModelRef


def spoilt(data: bytes, rng: random.Random) -> bytes:
    """Return a file with a few bytes, numbers or stretches changed."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(min(len(changed), rng.choice([64, 400, len(changed)])))
        match rng.randrange(5):
            case 0:
                changed[at] = rng.randrange(256)
            case 1:
                number = rng.choice([0, 1, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, len(data)])
                changed[at : at + 4] = number.to_bytes(4, "little")
            case 2:
                del changed[at:]
            case 3:
                del changed[at : at + rng.randint(1, 9)]
            case _:
                changed[at:at] = rng.randbytes(rng.randint(1, 9))
        if not changed:
            break
    return bytes(changed)


def judged(data: bytes, *, name: str = "model.bin") -> bool:
    """Open a file and read all of it; return whether it was taken for a model."""
    ref = ModelRef(kind="hub", text=name, target="org/name", path=name)
    model = Model(Fetcher(MemorySource({name: data}), FetchOptions()), FetchOptions(), ref=ref)
    try:
        index = model.index
        _ = model.architecture, model.config
    except FormatError:
        return False
    for info in index.values():
        assert model.tensor(info.name).shape == info.shape
        assert not np.array_equal(model.tensor(info.name, rows=slice(0, 0)).shape, ())
    return True


def config_of(model: Model) -> Mapping[str, object]:
    """Return the config, which has to be there."""
    assert model.config is not None
    return model.config


def read_as(format_: Format, data: bytes, *, name: str = "model.bin") -> Weights:
    """Read a file with one format, whatever its first bytes are."""
    fetcher = Fetcher(MemorySource({name: data}), FetchOptions())
    return format_.read(Request(fetcher=fetcher, entry=name, head_bytes=1 << 16))
