"""What the benchmarks read and over which network: a shape, two selections of tensors, three networks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tests.support import Delays, HubOptions, LlamaShape, VirtualFile, virtual_llama

REPO = "bench/llama"
N_SHARDS = 4

SHAPE = LlamaShape(layers=48, hidden=2048, mlp=4096, heads=16, kv_heads=2, vocab=16_000)
"""48 layers, 3.4 GB: small enough to be downloaded as a whole in a benchmark, long enough to be scattered."""

TINY = LlamaShape(layers=48, hidden=64, mlp=96, heads=4, kv_heads=2, vocab=128)
"""The same layers and names with little in them, for tests of the counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A network to the emulated Hub. Times in seconds."""

    name: str
    hub: float = 0.0
    """Round trip to the Hub."""
    cdn: float = 0.0
    """Round trip to its storage."""
    connection: float = 0.0
    """What a new connection costs on top: handshakes."""
    bandwidth: float | None = None
    """Bytes per second of one connection."""

    def options(self) -> HubOptions:
        """Return the settings of a server with this line."""
        # Small files come directly, as mirrors send them. The Hub itself now redirects them once inside the
        # Hub, which costs every way one more request for the shard index.
        return HubOptions(
            small_files="direct",
            delays=Delays(hub=self.hub, cdn=self.cdn, connection=self.connection, bandwidth=self.bandwidth),
        )

    def transfer(self, n_bytes: float, connections: int = 1) -> float:
        """Return the seconds that bytes take over this many connections, without latency."""
        return 0.0 if self.bandwidth is None else n_bytes / (self.bandwidth * connections)

    @property
    def summary(self) -> str:
        """The line in words."""
        rate = "no limit" if self.bandwidth is None else f"{self.bandwidth / 1e6:.0f} MB/s"
        trips = f"{self.hub * 1e3:.0f} / {self.cdn * 1e3:.0f} / +{self.connection * 1e3:.0f} ms"
        return f"{trips}, {rate}"


USUAL = Network(name="usual", hub=0.080, cdn=0.040, connection=0.060, bandwidth=40e6)
NEAR = Network(name="near", hub=0.030, cdn=0.010, connection=0.020, bandwidth=100e6)
FAR = Network(name="far", hub=0.200, cdn=0.100, connection=0.200, bandwidth=20e6)
DIRECT = Network(name="direct")
"""No delays at all: for counting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Tensors to read from a model."""

    name: str
    tensors: tuple[str, ...]
    n_bytes: int


def repository(shape: LlamaShape = SHAPE, *, n_shards: int = N_SHARDS) -> Mapping[str, bytes | VirtualFile]:
    """Return the files of the model that is read."""
    return virtual_llama(shape, n_shards=n_shards)


def norms(shape: LlamaShape = SHAPE) -> Selection:
    """Select every norm gain: two small vectors per layer, scattered over all shards."""
    return _select("norms", shape, [name for name, extent in shape.tensors() if len(extent) == 1])


def attention(shape: LlamaShape = SHAPE, *, n_layers: int = 8) -> Selection:
    """Select q, k, v and o of evenly spread layers: large, and adjacent in the file."""
    step = shape.layers // n_layers
    chosen = {f"model.layers.{layer * step}.self_attn." for layer in range(n_layers)}
    names = [name for name, _ in shape.tensors() if any(name.startswith(prefix) for prefix in chosen)]
    return _select("attention", shape, names)


def _select(name: str, shape: LlamaShape, tensors: list[str]) -> Selection:
    extents = dict(shape.tensors())
    n_bytes = sum(2 * math.prod(extents[tensor]) for tensor in tensors)  # BF16
    return Selection(name=name, tensors=tuple(tensors), n_bytes=n_bytes)
