"""What a person reads."""

import pytest
from rich.console import Console

import modelkin as mk
from modelkin.report import count_text, inspection_view, size_text
from modelkin.report._terminal import _runs
from modelkin.source import MemorySource
from modelkin.testing import llama_files


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (20_480_000, "20.5 MB"), (141 * 10**9, "141 GB")],
)
def test_sizes_are_written_in_powers_of_1000(number, text):
    assert size_text(number) == text


@pytest.mark.parametrize(("number", "text"), [(12, "12"), (34_200, "34.2 K"), (7_240_000_000, "7.24 B")])
def test_parameters_are_written_as_people_say_them(number, text):
    assert count_text(number) == text


def test_layers_are_written_as_runs():
    assert _runs([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"


def drawn(model, **how):
    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(inspection_view(mk.inspect_model(model), **how))
    console.file.close()
    return console.export_text()


def test_roles_are_summed_up_in_the_order_in_which_data_flows():
    with mk.open_model(MemorySource(llama_files())) as model:
        text = drawn(model)
    lines = [line.split()[0] for line in text.splitlines() if line and not line.startswith(" ")]
    assert lines.index("embedding") < lines.index("mlp_up") < lines.index("final_norm")
    assert lines.index("final_norm") < lines.index("output_head")


def test_notes_and_unknown_tensors_are_never_left_out():
    import numpy as np

    from modelkin.testing import llama_tensors, safetensors_bytes

    tensors = {**llama_tensors(), **{f"odd.{number}": np.zeros(2, np.float32) for number in range(20)}}
    files = {**llama_files(), "model.safetensors": safetensors_bytes(tensors)}
    with mk.open_model(MemorySource(files)) as model:
        text = drawn(model)
    assert "unknown tensors: 20" in text
    assert "and 8 more" in text
