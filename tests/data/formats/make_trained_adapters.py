"""Train small adapters with PEFT on models of the zoo: two on one base with other data, one on its twin.

The twin's adapter has the data and the seed of one of the others, so that their matrices A begin alike.
Needs torch, transformers and peft; run as ``python tests/data/formats/make_trained_adapters.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
import transformers
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

from modelkin.casework.lab import load_recipes
from modelkin.casework.lab.builder import Builder, encode

HERE = Path(__file__).parent / "trained_adapters"
ZOO = Path(__file__).parent.parent.parent / "zoo"
CASES = {
    "base-gamma": ("base", "gamma", 4),
    "base-beta": ("base", "beta", 6),
    "twin-gamma": ("twin-1", "gamma", 4),
}


def make(name: str, builder: Builder, tokenizer: str) -> None:
    base, corpus, rank = CASES[name]
    torch.manual_seed(len(name) * 1000 + rank)  # the same for base-gamma and twin-gamma
    model = transformers.AutoModelForCausalLM.from_pretrained(ZOO / base, dtype=torch.float32)
    settings = LoraConfig(
        task_type="CAUSAL_LM", r=rank, lora_alpha=2 * rank, target_modules=["gate_proj", "up_proj"]
    )
    adapted = get_peft_model(model, settings)
    tokens = np.asarray(encode(tokenizer, builder.text(corpus)), dtype=np.int64)
    trained = [parameter for parameter in adapted.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, weight_decay=0.01)
    rng = np.random.default_rng(len(name))
    for _ in range(200):
        starts = rng.integers(0, len(tokens) - 48, size=12)
        batch = torch.from_numpy(tokens[starts[:, None] + np.arange(48)])
        loss = adapted(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(name, round(float(loss.detach()), 3))
    adapted.peft_config["default"].base_model_name_or_path = f"./{base}"
    adapted.save_pretrained(HERE / name)
    (HERE / name / "README.md").unlink()
    file = HERE / name / "adapter_model.safetensors"
    save_file({key: value.to(torch.bfloat16) for key, value in load_file(file).items()}, file)
    config = HERE / name / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    book = load_recipes()
    maker = Builder(book, ZOO)
    for case in CASES:
        make(case, maker, maker.tokenizer(book.recipes["base"].tokenizer))
