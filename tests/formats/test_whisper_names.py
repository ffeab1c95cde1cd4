"""The original names of Whisper's tensors and sizes, and what they become."""

import pytest

from modelkin.architecture import detect
from modelkin.formats.whisper_names import DIMS, is_openai_whisper, whisper_config, whisper_name

TINY_DIMS = {
    **{"n_mels": 80, "n_vocab": 51864, "n_audio_ctx": 1500, "n_audio_state": 384, "n_audio_head": 6},
    **{"n_audio_layer": 4, "n_text_ctx": 448, "n_text_state": 384, "n_text_head": 6, "n_text_layer": 4},
}


def original_shapes(*, width: int = 384, layers: int = 4) -> dict[str, tuple[int, ...]]:
    """All tensors of an original checkpoint, by hand."""
    shapes: dict[str, tuple[int, ...]] = {
        "encoder.conv1.weight": (width, 80, 3),
        "encoder.conv1.bias": (width,),
        "encoder.conv2.weight": (width, width, 3),
        "encoder.conv2.bias": (width,),
        "encoder.positional_embedding": (1500, width),
        "encoder.ln_post.weight": (width,),
        "encoder.ln_post.bias": (width,),
        "decoder.token_embedding.weight": (51864, width),
        "decoder.positional_embedding": (448, width),
        "decoder.ln.weight": (width,),
        "decoder.ln.bias": (width,),
    }
    for stack, kinds in (("encoder", ("attn",)), ("decoder", ("attn", "cross_attn"))):
        for layer in range(layers):
            block = f"{stack}.blocks.{layer}"
            for kind in kinds:
                for part in ("query", "key", "value", "out"):
                    shapes[f"{block}.{kind}.{part}.weight"] = (width, width)
                    if part != "key":
                        shapes[f"{block}.{kind}.{part}.bias"] = (width,)
            for norm in (*(f"{kind}_ln" for kind in kinds), "mlp_ln"):
                shapes[f"{block}.{norm}.weight"] = shapes[f"{block}.{norm}.bias"] = (width,)
            shapes |= {f"{block}.mlp.0.weight": (4 * width, width), f"{block}.mlp.0.bias": (4 * width,)}
            shapes |= {f"{block}.mlp.2.weight": (width, 4 * width), f"{block}.mlp.2.bias": (width,)}
    return shapes


def test_every_tensor_of_an_original_checkpoint_gets_a_role():
    original = original_shapes()
    renamed = {whisper_name(name): shape for name, shape in original.items()}
    assert is_openai_whisper(original)
    assert not is_openai_whisper(renamed)
    assert len(renamed) == len(original) == 167
    found = detect(whisper_config(TINY_DIMS), renamed)
    assert found.family == "whisper"
    assert {entry.tensor for entry in found.tensors} == renamed.keys()


@pytest.mark.parametrize(
    "name",
    ["alignment_heads", "encoder.blocks.x.attn.query.weight", "decoder.blocks.0.attn.rel.weight", "x.weight"],
)
def test_other_names_stay(name):
    assert whisper_name(name) == name


@pytest.mark.parametrize("missing", DIMS)
def test_without_a_size_there_is_no_config(missing):
    assert whisper_config({name: size for name, size in TINY_DIMS.items() if name != missing}) is None


@pytest.mark.parametrize(
    ("name", "value"), [("n_mels", True), ("n_mels", -1), ("n_mels", "80"), ("n_text_state", 512)]
)
def test_sizes_that_make_no_sense_make_no_config(name, value):
    assert whisper_config({**TINY_DIMS, name: value}) is None


def test_the_widths_follow_from_the_sizes():
    config = whisper_config({**TINY_DIMS, "n_text_layer": 2})
    assert config is not None
    assert (config["d_model"], config["encoder_ffn_dim"], config["decoder_ffn_dim"]) == (384, 1536, 1536)
    assert (config["encoder_layers"], config["decoder_layers"]) == (4, 2)
