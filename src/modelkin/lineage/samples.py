"""The same places of several models: which blocks of which tensors face each other, and their values.

Positions follow from shapes and the seed alone, so all layers and all models of one shape are sampled at the
same places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from modelkin.comparison.reading import in_batches
from modelkin.model import Model
from modelkin.options import READING, Depth
from modelkin.tensors import Blocks, TensorInfo, TensorSlice, sample_blocks

Floats = NDArray[np.float64]

_MOST_VALUES: Mapping[Depth, int] = {"quick": 4_096, "standard": 32_768, "deep": 262_144, "full": 262_144}
"""Per tensor: more would not narrow any interval noticeably."""
_FEWEST_VALUES = 1_024
"""Of a tensor, however many share the budget: a cosine of that many values is known to 0.03."""
BLOCKS = 2
"""Pieces that a sample of a tensor is read in."""
_WHOLE_GROUPS = 256
"""Pieces begin where groups of quantisers do: their length is a multiple of the usual ones."""
_HEADROOM = 0.85
"""Share of a depth's bytes for samples; the rest is for headers, gains and joined ranges."""
_INDEX_BYTES_A_TENSOR = 100
"""What its entry takes in a header: name, shape and two offsets."""
_EXPERT_OF = {"expert_gate": "mlp_gate", "expert_up": "mlp_up", "expert_down": "mlp_down"}
"""Which matrix of a dense MLP an expert's matrix was made from, if it was."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Site:
    """One tensor of a model by its purpose, whatever its name."""

    module: str
    """Its role, or the roles of a fused tensor."""
    layer: int = -1
    """-1 outside layers."""
    expert: int = -1
    part: str = "weight"

    @property
    def group(self) -> str:
        """The coarse group that tables are made by."""
        word = self.module.split("+")[0]
        if "norm" in word:
            return "norms"
        if word.startswith("attention") or word == "unsplit_attention":
            return "attention"
        if word.startswith(("expert", "shared_expert", "unsplit_experts")):
            return "experts"
        if word.startswith("mlp") or word == "unsplit_mlp":
            return "mlp"
        if word == "output_head":
            return "head"
        return "router" if word.startswith("router") else word


def sites_of(model: Model) -> dict[Site, TensorInfo]:
    """Return the tensors that training touches, by purpose."""
    roles: dict[str, list[str]] = {}
    places: dict[str, Site] = {}
    for entry in model.architecture.tensors:
        if entry.fixed or entry.part not in ("weight", "bias"):
            continue
        roles.setdefault(entry.tensor, []).append(entry.role.value)
        places[entry.tensor] = Site(
            module="",
            layer=-1 if entry.layer is None else entry.layer,
            expert=-1 if entry.expert is None else entry.expert,
            part=entry.part,
        )
    index = model.index
    found: dict[Site, TensorInfo] = {}
    for name, words in roles.items():
        # Two stacks can have the same role and layer: the first one counts, as everywhere else.
        found.setdefault(replace(places[name], module="+".join(dict.fromkeys(words))), index[name])
    return found


def facing(site: Site, there: Mapping[Site, TensorInfo], layer: int | None = None) -> TensorInfo | None:
    """Return the tensor of another model that faces a site; experts may face a dense MLP."""
    wanted = site if layer is None or site.layer < 0 else replace(site, layer=layer)
    if wanted in there:
        return there[wanted]
    dense = replace(wanted, module=_EXPERT_OF.get(wanted.module, wanted.module), expert=-1)
    return there.get(dense) if dense.module != wanted.module else None


def comparable(infos: Sequence[TensorInfo]) -> bool:
    """Say whether tensors have one shape, except for the number of rows of token tables."""
    return len({info.shape[1:] for info in infos}) == 1 and len({len(info.shape) for info in infos}) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much of a tensor is read at most."""

    n_values: int
    seed: int

    def slices(self, site: Site, infos: Sequence[TensorInfo]) -> list[TensorSlice]:
        """Choose the same places of all tensors: those of the one with the fewest rows."""
        smallest = min(infos, key=lambda info: info.n_elements)
        if smallest.n_elements <= self.n_values:
            blocks: tuple[tuple[int, int], ...] = ((0, smallest.n_elements),)
        else:
            key = f"{site.module}|{site.part}"
            length = self.n_values // BLOCKS
            length = length // _WHOLE_GROUPS * _WHOLE_GROUPS or max(1, length)
            chosen = sample_blocks(
                smallest, n_blocks=BLOCKS, block_elements=length, seed=self.seed, key=key
            ).selection
            assert isinstance(chosen, Blocks)
            blocks = chosen.blocks
        return [TensorSlice.blocks(info.name, blocks) for info in infos]

    def held(self, infos: Sequence[TensorInfo]) -> int:
        """Return the bytes of what is read of all tensors, as float64."""
        return 8 * len(infos) * min(self.n_values, min(info.n_elements for info in infos))


def extent_of(models: Sequence[Model], depth: Depth, seed: int) -> Extent:
    """Say how much may be read of every tensor so that no model costs more than its depth allows."""
    ceiling, _ = READING[depth]
    fewest = _MOST_VALUES[depth]
    for model in models:
        index = model.index
        taken = len(index) * _INDEX_BYTES_A_TENSOR
        taken += sum(info.n_bytes for info in index.values() if len(info.shape) == 1)
        matrices = [info for info in index.values() if len(info.shape) > 1 and info.n_elements]
        if matrices:
            room = max(ceiling // 5, int(_HEADROOM * ceiling) - taken)
            widest = max(info.n_bytes / info.n_elements for info in matrices)
            fewest = min(fewest, int(room / len(matrices) / max(widest, 1e-9)))
    return Extent(n_values=max(_FEWEST_VALUES, fewest), seed=seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Faced:
    """One site of the candidate and what faces it in other models."""

    site: Site
    infos: tuple[TensorInfo, ...]
    """Of all models, the candidate first."""
    layers: tuple[int, ...] = ()
    """Which layer of each other model faces it."""


def read_sites(
    models: Sequence[Model], faced: Iterable[Faced], extent: Extent
) -> Iterator[tuple[Faced, list[Floats]]]:
    """Read sites of all models side by side, in batches of bounded size; values are flat, as float64."""
    for batch in in_batches(faced, lambda item: extent.held(item.infos)):
        chosen = [extent.slices(item.site, item.infos) for item in batch]
        wanted = [[slices[side] for slices in chosen] for side in range(len(models))]
        with ThreadPoolExecutor(len(models)) as pool:
            read = list(pool.map(lambda model, slices: model.read(slices), models, wanted))
        for number, item in enumerate(batch):
            yield item, [np.asarray(arrays[number], np.float64).reshape(-1) for arrays in read]
