"""Training: transformers' own classes and initialisation, AdamW, a cosine schedule, fixed seeds, one thread.

Equal recipes give equal weights on one machine with one version of torch; across machines the last bits may
differ, which is why the zoo is stored and not rebuilt by the tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from .checkpoint import Part, layer_of, part_of
from .extra import lab_module
from .recipes import Recipe

_WARM_UP: Final = 0.05
_CLIP: Final = 1.0
_GAIN_RATE: Final = 3.0
"""How much faster gains and biases learn: in a few hundred steps they move as far as in real training."""
_MASKED: Final = 0.3
_IGNORED: Final = -100  # torch's own number for "no label here"

_STATES_WEIGHT: Final = 4.0
"""Weight of hidden states relative to predictions; both are about one at first."""

Batch = NDArray[np.int64]
States = Literal["last", "all", "blocks", "activations"]
"""Those after the last layer; after every layer and before the first; what each attention and each MLP
makes of the teacher's own states, block by block; or what the units of each MLP of a Llama give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What the loop needs to know, apart from the model."""

    tokens: Sequence[int]
    steps: int
    learning_rate: float
    order_seed: int
    freeze: tuple[Part, ...] = ()
    freeze_steps: int = 0
    rank: int = 0
    init_seed: int = 0
    """Seed of the low-rank factors."""
    window: int = 48
    """Tokens that the model sees at once."""
    rows: int = 12
    """Windows per step."""
    masks: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    """Which weights exist, by the names of parameters; the others are zero after every step."""
    weight_decay: float = 0.1
    """Of matrices."""
    states: States | None = None
    """Hidden states of the teacher that are learned in addition to its predictions, without a projection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What training did."""

    losses: tuple[float, ...]

    @property
    def first_loss(self) -> float:
        """The loss of the first batch."""
        return self.losses[0]

    @property
    def last_loss(self) -> float:
        """The mean loss of the last batches, at most twenty."""
        return float(np.mean(self.losses[-20:]))


def new_model(config: Mapping[str, Any], *, vocab: int, seed: int) -> Any:  # noqa: ANN401
    """Return a model as its class initialises it: norm gains are one, or zero if one is added to them."""
    torch, transformers = lab_module("torch"), lab_module("transformers")
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    arguments = dict(config["arguments"], vocab_size=vocab)
    settings = getattr(transformers, config["config_class"])(**arguments)
    settings._attn_implementation = settings._experts_implementation = "eager"
    return getattr(transformers, config["class"])(settings).float()


def take_over(
    model: Any,  # noqa: ANN401
    parent: Mapping[str, Any],
    *,
    recipe: Recipe,
    rows: Sequence[tuple[int, int]],
) -> None:
    """Copy into a fresh model what its recipe keeps of its parent.

    `parent` is the state dict of the parent, or of what it was turned into first. `keep`, `keep_layers`,
    `keep_outside` and `rows` of the recipe decide. `rows` are (parent, child) numbers of the tokens that both
    have.
    """
    torch = lab_module("torch")
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            layer = layer_of(name)
            if part_of(name) not in recipe.keep:
                continue
            if layer is None and not recipe.keep_outside:
                continue
            if recipe.keep_layers is not None and layer is not None and layer not in recipe.keep_layers:
                continue
            if recipe.rows == "same" or part_of(name) not in ("embeddings", "head"):
                tensor.copy_(parent[name])
            elif recipe.rows == "shared":
                old, new = (torch.tensor(numbers) for numbers in zip(*rows, strict=True))
                tensor[new] = parent[name][old].to(tensor.dtype)


def train(model: Any, training: Training, *, teacher: Any = None) -> Trained:  # noqa: ANN401
    """Train a language model of transformers in place and return its losses.

    With a `teacher`, its predictions are learned instead of the text.
    """
    torch = lab_module("torch")
    torch.set_num_threads(1)
    model.train()
    factors = _add_low_rank(model, training.rank, training.init_seed) if training.rank else []
    optimizer = _optimizer(model, training)
    rng = np.random.default_rng([11, training.order_seed])
    tokens = np.asarray(training.tokens, dtype=np.int64)
    losses = []
    _apply_masks(model, training.masks)
    for step in range(training.steps):
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * _schedule(step, training.steps)
        starts = rng.integers(0, len(tokens) - training.window, size=training.rows)
        batch = tokens[starts[:, None] + np.arange(training.window)]
        _set_frozen(model, training, frozen=step < training.freeze_steps)
        loss = _loss(model, batch, rng=rng, teacher=teacher, states=training.states)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP)
        optimizer.step()
        _apply_masks(model, training.masks)
        losses.append(float(loss.detach()))
    for module in factors:
        torch.nn.utils.parametrize.remove_parametrizations(module, "weight", leave_parametrized=True)
    model.eval()
    return Trained(losses=tuple(losses))


def _schedule(step: int, steps: int) -> float:
    """Return the share of the peak learning rate: a short rise, then half a cosine down to a tenth."""
    rise = max(1, int(_WARM_UP * steps))
    if step < rise:
        return (step + 1) / rise
    progress = (step - rise) / max(1, steps - rise)
    return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * progress))


def _optimizer(model: Any, training: Training) -> Any:  # noqa: ANN401
    """Return AdamW with decay on matrices only: gains should stay where the data puts them."""
    torch = lab_module("torch")
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in trained if parameter.ndim >= 2]
    vectors = [parameter for parameter in trained if parameter.ndim < 2]
    rate = training.learning_rate
    groups = [
        {"params": matrices, "weight_decay": training.weight_decay, "peak": rate},
        {"params": vectors, "weight_decay": 0.0, "peak": rate * _GAIN_RATE},
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], betas=(0.9, 0.95))


def _set_frozen(model: Any, training: Training, *, frozen: bool) -> None:  # noqa: ANN401
    if not training.freeze:
        return
    for name, parameter in model.named_parameters():
        if part_of(name) in training.freeze:
            parameter.requires_grad_(not frozen)


def _apply_masks(model: Any, masks: Mapping[str, NDArray[np.bool_]]) -> None:  # noqa: ANN401
    torch = lab_module("torch")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in masks:
                parameter.mul_(torch.from_numpy(masks[name]))


def _loss(
    model: Any,  # noqa: ANN401
    batch: Batch,
    *,
    rng: np.random.Generator,
    teacher: Any,  # noqa: ANN401
    states: States | None,
) -> Any:  # noqa: ANN401
    torch = lab_module("torch")
    if "MaskedLM" in type(model).__name__:
        return _masked_loss(model, batch, rng=rng)
    inputs = torch.from_numpy(batch)
    seen = {"input_ids": inputs, "use_cache": False, "output_hidden_states": states is not None}
    units = [_units(one) for one in (model, teacher)] if states == "activations" else []
    found = model(**seen)
    logits = found.logits[:, :-1].flatten(0, 1)
    if teacher is None:
        return torch.nn.functional.cross_entropy(logits, inputs[:, 1:].flatten())
    with torch.no_grad():
        wanted = teacher(**seen)
    loss = torch.nn.functional.kl_div(
        logits.log_softmax(-1),
        wanted.logits[:, :-1].flatten(0, 1).log_softmax(-1),
        log_target=True,
        reduction="batchmean",
    )
    if states is None:
        return loss
    pairs = list(zip(found.hidden_states, wanted.hidden_states, strict=True))[-1 if states == "last" else 0 :]
    if states == "blocks":
        pairs = [pairs[0], *_blocks(model, teacher, seen)]
    if states == "activations":
        pairs = list(zip(*(collected() for collected in units), strict=True))
    apart = [((mine - theirs) ** 2).mean() / (theirs**2).mean() for mine, theirs in pairs]
    return loss + _STATES_WEIGHT * sum(apart) / len(apart)


def _units(model: Any) -> Callable[[], list[Any]]:  # noqa: ANN401
    """Watch what units of MLPs give in the next pass; what is returned ends it, and returns them by layer."""
    given: list[Any] = []
    hooks = [
        layer.mlp.down_proj.register_forward_pre_hook(lambda _, values: given.append(values[0]))
        for layer in model.model.layers
    ]

    def collected() -> list[Any]:
        for hook in hooks:
            hook.remove()
        return given

    return collected


def _blocks(model: Any, teacher: Any, seen: Mapping[str, Any]) -> list[tuple[Any, Any]]:  # noqa: ANN401
    """Return what each block of a Llama and its teacher's write, both given the teacher's states."""
    torch = lab_module("torch")
    blocks = (("input_layernorm", "self_attn"), ("post_attention_layernorm", "mlp"))
    read: dict[Any, Any] = {}
    ran: dict[Any, tuple[Any, Any]] = {}
    hooks = []
    for layer in teacher.model.layers:
        for norm, block in (map(layer.get_submodule, names) for names in blocks):
            hooks.append(
                norm.register_forward_hook(lambda _, given, __, at=block: read.update({at: given[0]}))
            )
            hooks.append(
                block.register_forward_hook(
                    lambda at, _, options, made: ran.update({at: (options, made)}), with_kwargs=True
                )
            )
    with torch.no_grad():
        teacher(**seen)
    for hook in hooks:
        hook.remove()
    pairs = []
    for mine, theirs in zip(model.model.layers, teacher.model.layers, strict=True):
        for norm, block in blocks:
            at = theirs.get_submodule(block)
            options, wanted = ran[at]
            states = mine.get_submodule(norm)(read[at])
            made = mine.get_submodule(block)(
                **{**options, "hidden_states": states} if options else {"x": states}
            )
            pairs.append(tuple(out[0] if isinstance(out, tuple) else out for out in (made, wanted)))
    return pairs


def _masked_loss(model: Any, batch: Batch, *, rng: np.random.Generator) -> Any:  # noqa: ANN401
    """Return the loss of guessing hidden tokens; token 0 stands for "hidden"."""
    torch = lab_module("torch")
    hidden = rng.random(batch.shape) < _MASKED
    inputs = torch.from_numpy(np.where(hidden, 0, batch))
    labels = torch.from_numpy(np.where(hidden, batch, _IGNORED))
    logits = model(input_ids=inputs).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=_IGNORED)


def _add_low_rank(model: Any, rank: int, seed: int) -> list[Any]:  # noqa: ANN401
    """Freeze a model and give each matrix of its layers a trainable update of low rank; return them."""
    torch = lab_module("torch")
    generator = torch.Generator().manual_seed(seed)

    class LowRankUpdate(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, rows: int, columns: int) -> None:
            super().__init__()
            self.down = torch.nn.Parameter(torch.randn(rank, columns, generator=generator) * columns**-0.5)
            self.up = torch.nn.Parameter(torch.zeros(rows, rank))

        def forward(self, weight: Any) -> Any:  # noqa: ANN401
            return weight + self.up @ self.down

    for parameter in model.parameters():
        parameter.requires_grad_(False)
    changed = []
    for name, module in list(model.named_modules()):
        if isinstance(module, torch.nn.Linear) and layer_of(f"{name}.") is not None:
            torch.nn.utils.parametrize.register_parametrization(
                module, "weight", LowRankUpdate(*module.weight.shape)
            )
            changed.append(module)
    return changed
