"""The norm experiment: whether gains are alike because models are related, or because of how gains start.

A published experiment trained two pairs of tiny models and looked at cosines. Here every arm has several
seeds, truly different corpora, known relatives as positive controls, and exact tests next to the cosine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from msgspec import structs

from modelkin.message import Phrase, phrase

from .builder import gains_of, saved
from .checkpoint import Checkpoint, Floats, part_of
from .corpus import CorpusSpec, corpus_text
from .extra import lab_module
from .norms import (
    CYCLE,
    INITS,
    RELATIONS,
    GainInit,
    ModelRun,
    NormsOptions,
    NormsResult,
    PairRelation,
    PairResult,
    measure_pair,
)
from .norms_report import conclude
from .training import Training, new_model, train


def norms_experiment(
    options: NormsOptions | None = None, *, report: Callable[[Phrase], None] = lambda line: None
) -> NormsResult:
    """Train the models of all arms, compare all pairs with a known relation, and say what follows.

    With `NormsOptions.small` it takes seconds. `report` is called with a line after each model and each arm.
    Needs the extra `lab`.
    """
    options = options or NormsOptions()
    trainer = Trainer(options, report=report)
    versions = trainer.versions
    runs: list[ModelRun] = []
    pairs: list[PairResult] = []
    for init in options.inits:
        arm = trainer.arm(init)
        runs += [run for run, _ in arm.values()]
        pairs += _compared(options, init, arm)
        report(phrase("norms.compared", init=init, pairs=len(pairs)))
    order = {relation: place for place, relation in enumerate(RELATIONS)}
    pairs.sort(key=lambda pair: (options.inits.index(pair.init), order[pair.relation]))
    return conclude(
        NormsResult(
            options=options,
            versions=versions,
            chance_losses=trainer.chance_losses(),
            models=tuple(runs),
            pairs=tuple(pairs),
            conclusion=(),
            limits=(),
        )
    )


def _compared(
    options: NormsOptions, init: GainInit, arm: dict[str, tuple[ModelRun, Checkpoint]]
) -> Iterator[PairResult]:
    for first, second, relation in _known_pairs([run for run, _ in arm.values()]):
        yield measure_pair(
            arm[first.name][1],
            arm[second.name][1],
            names=(first.name, second.name),
            init=init,
            relation=relation,
            n_permutations=options.n_permutations,
            seed=options.seed,
        )


def _known_pairs(runs: list[ModelRun]) -> Iterator[tuple[ModelRun, ModelRun, PairRelation]]:
    """Yield candidate, base and relation: all pairs of bases, and each base with its descendants."""
    bases = [run for run in runs if run.relation == "base"]
    for first, second in combinations(bases, 2):
        same = first.corpus == second.corpus
        yield second, first, "unrelated, same data" if same else "unrelated, other data"
    for base in bases:
        for run in runs:
            if run.number == base.number and run.relation == "same start":
                yield run, base, "same start"
            elif run.number == base.number and run.relation == "fine-tuned":
                yield run, base, "fine-tuned"


CORPORA: Final[Mapping[str, CorpusSpec]] = {
    "stories": CorpusSpec(languages=(1, 2), domains=("prose", "dialogue"), seed=11, characters=1),
    "lists": CorpusSpec(languages=(3, 4), domains=("records", "nested"), seed=12, characters=1),
}
"""Different invented languages and styles; lengths come from the options."""
_SHIFT: Final = 100
"""Offset of the second cycle from the first, as published."""
_CURVE: Final = 40
_NEAR_ONE: Final = 0.1
_TUNED: Final = 0.25
"""Learning rate of fine-tuning, as a share of the first one."""

Turn = Literal["base", "same start", "fine-tuned"]
Letters = npt.NDArray[np.int64]


def letters(corpus: str, characters: int, *, held_out: bool = False) -> Letters:
    """Return the text of a corpus as numbers of its letters; held-out text is in the same languages."""
    spec = CORPORA[corpus]
    seed = spec.seed + 1000 * held_out
    text = corpus_text(structs.replace(spec, seed=seed, characters=characters))
    return np.frombuffer(text.encode("ascii"), dtype=np.uint8).astype(np.int64)


def cycle(corpus: str, characters: int) -> Letters:
    """Return all tokens in order, over and over; the second corpus starts elsewhere."""
    first = _SHIFT * list(CORPORA).index(corpus)
    return (first + np.arange(characters, dtype=np.int64)) % CYCLE


def unigram_loss(tokens: Letters) -> float:
    """Return the loss of a reader who knows only how frequent each token is."""
    shares = np.bincount(tokens) / len(tokens)
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum())


def initial_gains(init: GainInit, shapes: Mapping[str, int], *, seed: int) -> dict[str, Floats]:
    """Return the gains with which an arm begins, by name of the norm."""
    rng = np.random.default_rng([23, seed])
    return {name: _drawn(init, size, rng).astype(np.float32) for name, size in shapes.items()}


def _drawn(init: GainInit, size: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    if init == "ones":
        return np.ones(size)
    return rng.normal(1.0, _NEAR_ONE, size) if init == "near-one" else rng.normal(0.0, 1.0, size)


@dataclass(frozen=True, slots=True)
class _Start:
    """A model before training, and the gains with which the very first training of its line began."""

    model: Any
    gains: Mapping[str, Floats]


class Trainer:
    """Trains the models of the experiment one after the other, each from seeds given by its position."""

    def __init__(self, options: NormsOptions, *, report: Callable[[Phrase], None]) -> None:
        self._options = options
        self._report = report
        if options.text == "cyclic":
            self._tokens = {name: cycle(name, options.characters) for name in CORPORA}
            self._new = {name: cycle(name, 6_000) for name in CORPORA}
        else:
            self._tokens = {name: letters(name, options.characters) for name in CORPORA}
            self._new = {name: letters(name, 6_000, held_out=True) for name in CORPORA}

    @cached_property
    def versions(self) -> tuple[tuple[str, str], ...]:
        """Versions of what trains."""
        return tuple((name, str(lab_module(name).__version__)) for name in ("torch", "transformers", "numpy"))

    def chance_losses(self) -> tuple[tuple[str, float], ...]:
        """Return the loss of a reader who knows only the letter frequencies of a corpus."""
        return tuple((name, unigram_loss(tokens)) for name, tokens in self._tokens.items())

    def arm(self, init: GainInit) -> dict[str, tuple[ModelRun, Checkpoint]]:
        """Train all models of one arm: per number a base, another from the same start, and a child."""
        found: dict[str, tuple[ModelRun, Checkpoint]] = {}
        for number in range(self._options.seeds):
            start = self._start(init, number)
            run, base = self._trained(init, number, "base", start)
            found[run.name] = (run, base)
            again = self._start(init, number)
            run, checkpoint = self._trained(init, number, "same start", again)
            found[run.name] = (run, checkpoint)
            # The base continues from where it is; its checkpoint above is a copy.
            run, checkpoint = self._trained(init, number, "fine-tuned", start)
            found[run.name] = (run, checkpoint)
        return found

    def _start(self, init: GainInit, number: int) -> _Start:
        seed = self._seed(init, number)
        model = new_model(_config(self._options), vocab=self._options.vocabulary, seed=seed)
        torch = lab_module("torch")
        norms = {
            name: parameter
            for name, parameter in model.named_parameters()
            if part_of(name) == "norms" and name.endswith(".weight")
        }
        gains = initial_gains(init, {name: len(values) for name, values in norms.items()}, seed=seed)
        with torch.no_grad():
            for name, parameter in norms.items():
                parameter.copy_(torch.from_numpy(gains[name]))
        return _Start(model, gains)

    def _trained(self, init: GainInit, number: int, turn: Turn, start: _Start) -> tuple[ModelRun, Checkpoint]:
        options = self._options
        # Neighbours have different corpora, and a base's descendants see the other one.
        names = list(CORPORA)
        corpus, other = names if (number + (turn != "base")) % 2 == 0 else names[::-1]
        training = Training(
            tokens=self._tokens[corpus].tolist(),
            steps=max(4, options.steps // 2) if turn == "fine-tuned" else options.steps,
            learning_rate=options.learning_rate * (_TUNED if turn == "fine-tuned" else 1.0),
            order_seed=self._seed(init, number) + {"base": 0, "same start": 100, "fine-tuned": 200}[turn],
            window=options.window,
            rows=options.rows,
        )
        began = time.process_time()
        losses = train(start.model, training).losses
        seconds = time.process_time() - began
        checkpoint = replace(saved(start.model, ""), tokenizer=None)
        gains = gains_of(checkpoint)
        moves = [gains[name].astype(np.float64) - first for name, first in start.gains.items()]
        run = ModelRun(
            name=f"{init}-{number}" + ("" if turn == "base" else f"-{turn.replace(' ', '-')}"),
            init=init,
            number=number,
            relation=turn,
            corpus=corpus,
            init_seed=self._seed(init, number),
            order_seed=training.order_seed,
            steps=training.steps,
            learning_rate=training.learning_rate,
            losses=tuple(
                float(part.mean()) for part in np.array_split(np.array(losses), min(_CURVE, len(losses)))
            ),
            held_out=_loss(start.model, self._new[corpus], options.window),
            held_out_other=_loss(start.model, self._new[other], options.window),
            gain_mean=float(np.mean([values.mean() for values in gains.values()])),
            gain_std=float(np.mean([values.std() for values in gains.values()])),
            gain_moved=float(np.sqrt(np.mean(np.square(np.concatenate(moves))))),
            start_kept=_kept(gains, start.gains),
            cpu_seconds=seconds,
        )
        self._report(
            phrase(
                "norms.trained",
                name=run.name,
                first=float(losses[0]),
                last=run.losses[-1],
                corpus=corpus,
                seconds=seconds,
            )
        )
        return run, checkpoint

    def _seed(self, init: GainInit, number: int) -> int:
        """Return a distinct seed for each position, whatever other arms are trained."""
        return 1000 * (1 + self._options.seed) * len(INITS) + 1000 * INITS.index(init) + number


def _kept(gains: Mapping[str, Floats], first: Mapping[str, Floats]) -> float | None:
    found = [
        float(np.corrcoef(gains[name], values)[0, 1])
        for name, values in first.items()
        if values.std() > 0 and gains[name].std() > 0
    ]
    return float(np.mean(found)) if found else None


def _loss(model: Any, tokens: Letters, window: int) -> float:  # noqa: ANN401
    torch = lab_module("torch")
    rows = tokens[: len(tokens) // window * window].reshape(-1, window)
    inputs = torch.from_numpy(rows.copy())
    with torch.no_grad():
        logits = model(input_ids=inputs, use_cache=False).logits[:, :-1].flatten(0, 1)
        return float(torch.nn.functional.cross_entropy(logits, inputs[:, 1:].flatten()))


def _config(options: NormsOptions) -> dict[str, Any]:
    """Return the config of a family as recipes of the zoo write it."""
    heads = max(1, options.width // 32)
    common = {"initializer_range": 0.05, "bos_token_id": 0, "eos_token_id": 0}
    if options.family == "gpt2":
        arguments = {
            "n_embd": options.width,
            "n_inner": options.units,
            "n_layer": options.layers,
            "n_head": heads,
            "n_positions": options.window,
            "resid_pdrop": 0.0,
            "embd_pdrop": 0.0,
            "attn_pdrop": 0.0,
        }
        return {"class": "GPT2LMHeadModel", "config_class": "GPT2Config", "arguments": arguments | common}
    arguments = {
        "hidden_size": options.width,
        "intermediate_size": options.units,
        "num_hidden_layers": options.layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": options.width // heads,
        "max_position_embeddings": options.window,
        "tie_word_embeddings": False,
    }
    return {"class": "LlamaForCausalLM", "config_class": "LlamaConfig", "arguments": arguments | common}
