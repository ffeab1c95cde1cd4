"""Our maps against the real thing: names and shapes, and that exchangeable axes really may be reordered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.architecture.handwritten_cases import recorded
from tests.architecture.record_fixtures import CASES, build, memory_shapes, saved

from modelkin.architecture import Architecture, Role, RoleEntry, detect

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("safetensors")

pytestmark = [
    pytest.mark.lab,
    pytest.mark.filterwarnings("ignore"),  # of other people's packages
]


@pytest.mark.parametrize("case", CASES)
def test_every_tensor_of_the_module_is_explained(case):
    model = build(case, device="meta")
    shapes = {name: tuple(shape) for name, shape in memory_shapes(model).items()}
    architecture = detect(model.config.to_dict(), shapes)
    assert architecture.is_known
    assert architecture.unknown == ()


@pytest.mark.parametrize("case", CASES)
def test_recorded_cases_are_what_transformers_writes(case):
    _, shapes = saved(build(case, device="cpu"))
    assert recorded(case)[1] == {name: tuple(shape) for name, shape in shapes.items()}


# Reordering ----------------------------------------------------------------------------------------------


def _logits(model: Any) -> np.ndarray[Any, Any]:
    tokens = torch.tensor([[5, 9, 33, 2, 71, 8, 40, 11]])
    inputs: dict[str, Any] = {"input_ids": tokens}
    if model.config.model_type == "whisper":
        generator = torch.Generator().manual_seed(1)
        inputs = {
            "input_features": torch.rand(1, 8, 40, generator=generator).double(),
            "decoder_input_ids": tokens,
        }
    elif model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = tokens
    with torch.no_grad():
        return np.asarray(model(**inputs).logits.double().numpy())


def _scrambled_model(case: str) -> Any:
    """Return a tiny model all of whose numbers are random: gains of one would hide a wrong order."""
    torch.manual_seed(0)
    model = build(case, device="cpu").double().eval()
    model.config._attn_implementation = "eager"
    model.config._experts_implementation = "eager"
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator, dtype=torch.float64) - 0.3)
            parameter.mul_(1.0 if parameter.ndim < 2 else 4 * parameter.shape[-1] ** -0.5)
    return model


def _reorder(entry: RoleEntry, array: Any, space: str, order: Any, sizes: dict[str, int]) -> None:
    """Reorder one space in one entry, in place; of a fused tensor only its own indices."""
    cut = entry.segment
    indices = np.concatenate([np.arange(*pair) for pair in cut.ranges()] if cut else [np.arange(0)])
    block = np.take(array, indices, axis=cut.axis) if cut else array.copy()
    for axis, spaces in enumerate(entry.axes):
        if space in spaces:
            grid = np.arange(block.shape[axis]).reshape([sizes[name] for name in spaces])
            block = np.take(block, np.take(grid, order, axis=spaces.index(space)).ravel(), axis=axis)
    if cut:
        np.moveaxis(array, cut.axis, 0)[indices] = np.moveaxis(block, cut.axis, 0)
    else:
        array[...] = block


def _orders(architecture: Architecture, space: str, rng: np.random.Generator) -> dict[str, Any]:
    """Return the order of a space, and of those that have to move with it."""
    sizes = architecture.sizes
    order = rng.permutation(sizes[space])
    if space == "kv_heads":
        per = sizes["heads"] // sizes["kv_heads"]
        heads = np.arange(sizes["heads"]).reshape(-1, per)[order].ravel()
        return {"kv_heads": order, "heads": heads}
    return {space: order}


def _may_reorder(architecture: Architecture, space: str) -> bool:
    if not architecture.space(space).exchangeable or architecture.space(space).measured:
        return False
    if space == "heads" and "kv_heads" in architecture.sizes:
        return False  # query heads move with their KV group
    return architecture.sizes.get(space, 0) > 1


def _layers_to_try(architecture: Architecture, space: str) -> list[int | None]:
    return [None] if architecture.space(space).scope == "model" else [1]


def _spaces(architecture: Architecture) -> list[str]:
    used = {name for entry in architecture.tensors for spaces in entry.axes for name in spaces}
    return sorted(space for space in used if _may_reorder(architecture, space))


_WITH_LOGITS = [
    case
    for case in CASES
    if "bare" not in case
    and "encoder" not in case
    and case not in {"llava", "gemma3_multimodal", "qwen2_5_vl"}
]


@pytest.mark.parametrize("case", _WITH_LOGITS)
def test_exchangeable_spaces_can_be_reordered_without_changing_the_model(case):
    model = _scrambled_model(case)
    architecture = detect(
        model.config.to_dict(), {name: tuple(shape) for name, shape in memory_shapes(model).items()}
    )
    before = _logits(model)
    original = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    rng = np.random.default_rng(3)
    tried = 0
    for space in _spaces(architecture):
        for layer in _layers_to_try(architecture, space):
            state = {name: tensor.clone().numpy() for name, tensor in original.items()}
            orders = _orders(architecture, space, rng)
            for entry in architecture.tensors:
                if layer is not None and entry.layer != layer:
                    continue
                for name, order in orders.items():
                    _reorder(entry, state[entry.tensor], name, order, dict(architecture.sizes, one=1))
            for alias, source in (getattr(model, "all_tied_weights_keys", None) or {}).items():
                state[alias] = state[source]
            model.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
            after = _logits(model)
            np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5, err_msg=f"{case}: {space}")
            tried += 1
    assert tried >= 2


def test_a_wrong_order_is_noticed():
    """Guard of the check above: reordering the rows of RoPE heads does change the model."""
    model = _scrambled_model("llama")
    architecture = detect(
        model.config.to_dict(), {name: tuple(shape) for name, shape in memory_shapes(model).items()}
    )
    before = _logits(model)
    state = {name: tensor.clone().numpy() for name, tensor in model.state_dict().items()}
    for role in (Role.ATTENTION_QUERY, Role.ATTENTION_KEY):
        entry = architecture.find(role, 0)
        assert entry is not None
        _reorder(entry, state[entry.tensor], "qk_dim", np.roll(np.arange(12), 1), dict(architecture.sizes))
    model.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
    assert np.abs(_logits(model) - before).max() > 1e-3


@pytest.mark.parametrize("case", ["mixtral", "phimoe", "qwen2_moe", "qwen3_moe", "glm4_moe", "deepseek_v3"])
def test_stacked_experts_hold_what_single_experts_hold(case, tmp_path):
    from safetensors.numpy import load_file

    model = build(case, device="cpu")
    model.save_pretrained(tmp_path)
    single = load_file(tmp_path / "model.safetensors")
    stacked = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    maps = [
        detect(model.config.to_dict(), {name: array.shape for name, array in tensors.items()})
        for tensors in (single, stacked)
    ]
    for role in (Role.EXPERT_GATE, Role.EXPERT_UP, Role.EXPERT_DOWN):
        for expert in range(4):
            one = maps[0].find(role, 1, expert=expert)
            all_of_them = maps[1].find(role, 1)
            assert one is not None
            assert all_of_them is not None
            array = stacked[all_of_them.tensor]
            if all_of_them.segment is not None:
                ((start, stop),) = all_of_them.segment.ranges()
                array = np.take(array, np.arange(start, stop), axis=all_of_them.segment.axis)
            np.testing.assert_array_equal(array[expert], single[one.tensor])
