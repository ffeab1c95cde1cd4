"""What a person reads."""

from rich.console import Console
from tests.support import llama_files

import modelkin as mk
from modelkin.document import inspection_view, render_terminal
from modelkin.source import MemorySource


def drawn(model, **how):
    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(render_terminal(inspection_view(mk.inspect_model(model), **how)))
    console.file.close()
    return console.export_text()


def test_roles_are_summed_up_in_the_order_in_which_data_flows():
    with mk.open_model(MemorySource(llama_files())) as model:
        text = drawn(model)
    lines = [line.split()[0] for line in text.splitlines() if line.split()]
    assert lines.index("embedding") < lines.index("mlp_up") < lines.index("final_norm")
    assert lines.index("final_norm") < lines.index("output_head")


def test_notes_and_unknown_tensors_are_never_left_out():
    import numpy as np
    from tests.support import llama_tensors

    from modelkin.formats.safetensors import safetensors_bytes

    tensors = {**llama_tensors(), **{f"odd.{number}": np.zeros(2, np.float32) for number in range(20)}}
    files = {**llama_files(), "model.safetensors": safetensors_bytes(tensors)}
    with mk.open_model(MemorySource(files)) as model:
        text = drawn(model)
    assert "unknown tensors: 20" in text
    assert "and 8 more" in text
