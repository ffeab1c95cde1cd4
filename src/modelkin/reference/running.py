"""Running models: built from the weights that `modelkin` reads, given prompts, with their states recorded.

Nothing from a repository is executed: the class is one of transformers' own, chosen by ``model_type``, and
keys of a config that name code or implementations are dropped. Weights are read as everywhere else, so that
bytes are counted, commits pinned, and any format that can be read can be run.
"""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module, resources
from typing import Any

import numpy as np

from modelkin.architecture import Role, RoleEntry
from modelkin.errors import MissingExtra, ModelkinError
from modelkin.message import Message, say
from modelkin.model import MAX_TOKENIZER_BYTES
from modelkin.tensors import TensorSlice

from .reading import Floats, SideReader

MOST_TOKENS = 64
"""Of a prompt."""
MOST_PLACES = 256
"""Token positions at which MLP units are recorded: features of a match."""
SMALL_MODEL = 4_000_000_000
"""Parameters up to which a model runs in single precision; larger ones in bfloat16, half the memory."""
_LOADING = threading.Lock()
"""transformers sets torch's number format and its own verbosity for the whole process while it loads."""
_DROPPED = (
    "auto_map",
    "quantization_config",
    "torch_dtype",
    "dtype",
    "transformers_version",
    "architectures",
)


def repr_module(name: str) -> Any:  # noqa: ANN401  a module
    """Return a module of the extra ``repr``; raise `MissingExtra` if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtra(
            say("part.running-methods"),
            say("problem.running-needs", name=repr(name)),
            hint=say("hint.install", command="pip install 'modelkin[repr]'"),
        ) from error


@cache
def shipped_prompts() -> tuple[str, ...]:
    """Return the prompts that come with the package: 200 of them, as many as REEF takes."""
    file = resources.files("modelkin.reference").joinpath("data", "prompts.toml")
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    return tuple(form.format(subject) for subject in table["subjects"] for form in table["forms"])


@dataclass(slots=True, kw_only=True)
class Trace:
    """What was seen while a model ran, prompt by prompt."""

    n_prompts: int = 0
    hidden: list[Floats] = field(default_factory=list)
    """By layer, the embedding first: the last token's state, one row per prompt."""
    logits: Floats | None = None
    """After the last token, one row per prompt."""
    units: dict[tuple[str, int], Floats] = field(default_factory=dict)
    """(gate, up or hidden; layer) -> one row per unit, one column per token position."""


class Runner:
    """One loaded model."""

    def __init__(self, reader: SideReader) -> None:
        self._reader = reader
        self._torch = repr_module("torch")
        self._module: Any = None
        self._encode: Callable[[str], list[int]] | None = None

    def load(self) -> Message | None:
        """Build the model and its tokenizer, or say why that is not possible."""
        model, torch = self._reader.model, self._torch
        transformers, tokenizers = repr_module("transformers"), repr_module("tokenizers")
        held = model.read_file("tokenizer.json", limit=MAX_TOKENIZER_BYTES)
        if held is None:
            return say("tokenizer-missing")
        config = {
            key: value
            for key, value in (model.config or {}).items()
            if key not in _DROPPED and not key.startswith("_") and not key.endswith("_implementation")
        }
        kind = str(config.pop("model_type", ""))
        if kind not in transformers.CONFIG_MAPPING:
            return say("reference-cannot-run", model=model.location.ref, kind=kind or "?")
        made = transformers.AutoConfig.for_model(kind, **config, attn_implementation="eager")
        if type(made) not in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
            return say("reference-cannot-run", model=model.location.ref, kind=kind)
        dtype = torch.float32 if model.index.n_parameters <= SMALL_MODEL else torch.bfloat16
        state = {}
        for name in model.index:
            values = np.array(self._reader.read([TensorSlice.whole(name)])[0], dtype=np.float32)
            state[name] = torch.from_numpy(values).to(dtype)
        with _LOADING, _quiet(transformers):
            self._module, report = transformers.MODEL_FOR_CAUSAL_LM_MAPPING[type(made)].from_pretrained(
                None, config=made, state_dict=state, dtype=dtype, output_loading_info=True
            )
        if report["missing_keys"] or report["mismatched_keys"]:
            return say("reference-weights-missing", model=model.location.ref, n=len(report["missing_keys"]))
        self._module.eval()
        encoder = tokenizers.Tokenizer.from_str(held.decode("utf-8"))
        size = self._module.get_input_embeddings().weight.shape[0]
        self._encode = lambda text: [number for number in encoder.encode(text).ids if number < size]
        return None

    def encoded(self, prompt: str) -> list[int]:
        """Return the tokens of a prompt that the model has rows for."""
        assert self._encode is not None
        return self._encode(prompt)[:MOST_TOKENS]

    def trace(self, prompts: Sequence[str], watched: Sequence[str] = ()) -> Trace | Message:
        """Run prompts one by one and keep what is requested."""
        torch, found = self._torch, Trace()
        states: list[list[Floats]] = []
        logits: list[Floats] = []
        seen: dict[tuple[str, int], list[Floats]] = {}
        with torch.no_grad(), ExitStack() as stack:
            for what in watched:
                problem = self._watch(what, seen, stack)
                if problem is not None:
                    return problem
            for prompt in prompts:
                numbers = self.encoded(prompt)
                if not numbers:
                    return say("reference-no-tokens")
                made = self._module(
                    input_ids=torch.tensor([numbers]), output_hidden_states=True, use_cache=False
                )
                states.append([state[0, -1].float().numpy() for state in made.hidden_states])
                logits.append(made.logits[0, -1].float().numpy())
        found.n_prompts = len(prompts)
        found.hidden = [np.stack(rows) for rows in zip(*states, strict=True)]
        found.logits = np.stack(logits)
        found.units = {key: np.concatenate(rows)[:MOST_PLACES].T for key, rows in seen.items()}
        return found

    def _watch(
        self, what: str, seen: dict[tuple[str, int], list[Floats]], stack: ExitStack
    ) -> Message | None:
        """Record the units of every MLP: before their product (gate, up), or what they write (hidden)."""
        architecture = self._reader.model.architecture
        role = {"gate": Role.MLP_GATE, "up": Role.MLP_UP, "hidden": Role.MLP_DOWN}[what]
        for place, layer in enumerate(architecture.layers):
            entry = architecture.find(role, layer=layer)
            module = None if entry is None else self._submodule(entry.tensor)
            if entry is None or module is None:
                return say("reference-no-units", model=self._reader.model.location.ref, role=role.value)
            rows = seen.setdefault((what, place), [])
            if what == "hidden":
                handle = module.register_forward_pre_hook(_keep_input(rows))
            else:
                handle = module.register_forward_hook(_keep_output(rows, entry))
            stack.callback(handle.remove)
        return None

    def _submodule(self, tensor: str) -> Any:  # noqa: ANN401  a module of torch
        name = tensor.removesuffix(".weight")
        modules = dict(self._module.named_modules())
        return modules.get(name) or modules.get(f"{self._module.base_model_prefix}.{name}")


def _keep_input(rows: list[Floats]) -> Callable[..., None]:
    def hook(_module: object, given: tuple[Any, ...]) -> None:
        if sum(map(len, rows)) < MOST_PLACES:
            rows.append(given[0].reshape(-1, given[0].shape[-1]).float().numpy())

    return hook


def _keep_output(rows: list[Floats], entry: RoleEntry) -> Callable[..., None]:
    def hook(_module: object, _given: object, made: Any) -> None:  # noqa: ANN401  a tensor of torch
        if sum(map(len, rows)) < MOST_PLACES:
            values = made.reshape(-1, made.shape[-1]).float().numpy()
            if entry.segment is not None:
                places = np.concatenate([np.arange(start, stop) for start, stop in entry.segment.ranges()])
                values = values[:, places]
            rows.append(values)

    return hook


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:  # noqa: ANN401  a module
    """Keep transformers' progress bars and remarks off the screen."""
    logging = transformers.utils.logging
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()


def traced(reader: SideReader, prompts: Sequence[str], watched: Sequence[str] = ()) -> Trace | Message:
    """Load a model, run prompts, and release it; report it if transformers fails on the model."""
    runner = Runner(reader)
    try:
        problem = runner.load()
        return problem if problem is not None else runner.trace(prompts, watched)
    except ModelkinError:
        raise
    except Exception as error:
        # A hostile config can make other people's code raise anything.
        return say("reference-run-failed", model=reader.model.location.ref, error=type(error).__name__)
