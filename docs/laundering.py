"""Measures what it costs to hide a copy: the loss of a laundered model against whether it is still found.

``python docs/laundering.py`` with the extra ``lab``, a quarter of an hour on one core. The victim of
arithmetic is `base` of the zoo, that of training the smaller `teacher` of the lookalikes; every row is
compared with it at deep depth. Facts are kept in ``docs/laundering.json`` with the versions of the decision
rule and of own-layers, so that a stopped run resumes, and what other versions decided is measured again;
``--again`` forgets them and measures everything. ``--part`` measures some of it: the arithmetic takes a
minute, the students some minutes, the rest is retraining. The table is written into ``docs/laundering.md``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.casework.lab.functions import logits  # noqa: E402
from tests.casework.lab.lookalikes import (  # noqa: E402
    Lookalike,
    load_lookalikes,
    model_of,
    train_lookalike,
)
from tests.comparison.factored import factored  # noqa: E402
from tests.places import LOOKALIKES, ZOO  # noqa: E402

import modelkin as mk  # noqa: E402
from modelkin.casework.lab import derive, load_recipes, load_zoo  # noqa: E402
from modelkin.casework.lab.builder import Builder, encode, saved  # noqa: E402
from modelkin.casework.lab.checkpoint import Checkpoint, layer_of  # noqa: E402
from modelkin.casework.lab.training import Training, train  # noqa: E402
from modelkin.comparison.methods import load_cards  # noqa: E402
from modelkin.comparison.verdict import load_rule  # noqa: E402
from modelkin.source import MemorySource  # noqa: E402

PAGE, FACTS = ROOT / "docs" / "laundering.md", ROOT / "docs" / "laundering.json"
BEGIN, END = "<!-- begin laundering -->", "<!-- end laundering -->"
ZOO_MODELS = load_zoo(ZOO)
BUILDER = Builder(load_recipes(), ZOO)
VICTIM, RETRAINED = "base", "teacher"
RATE, DECAY = 0.01, 1.0
PARTS = ("arithmetic", "students", "retraining")
TAUGHT = {"student-logits": "predictions alone", "student-all": "hidden states of all layers"}
"""Students that are kept: they were trained for as many steps as their teacher."""
TAUGHT_FOR = (0.25, 0.5, 1.0)
"""Shares of the teacher's steps that students are trained for."""
OTHER_SEED = 50
"""What is added to the seeds of a second student."""
Rows = NDArray[np.float32]


def each_matrix(change: Callable[[Rows], Rows], model: Checkpoint) -> Checkpoint:
    """Change every matrix of the layers."""
    return model.with_tensors(
        {
            name: change(value).astype(np.float32)
            for name, value in model.tensors.items()
            if layer_of(name) is not None and value.ndim == 2
        }
    )


def low_rank(part: float, rows: Rows) -> Rows:
    """Keep part of the rank."""
    left, sizes, right = np.linalg.svd(rows, full_matrices=False)
    rank = max(1, round(part * len(sizes)))
    return np.asarray((left[:, :rank] * sizes[:rank]) @ right[:rank])


def two_bits(rows: Rows) -> Rows:
    """Put each row on four levels."""
    step = np.abs(rows).max(axis=1, keepdims=True) / 1.5
    return np.asarray(np.clip(np.round(rows / step - 0.5) + 0.5, -1.5, 1.5) * step)


def ternary(rows: Rows) -> Rows:
    """Keep only a sign, or zero, of each weight, with one scale per row."""
    size = np.abs(rows).mean(axis=1, keepdims=True)
    kept = np.abs(rows) > 0.7 * size
    scale = (np.abs(rows) * kept).sum(axis=1, keepdims=True) / np.maximum(1, kept.sum(axis=1, keepdims=True))
    return np.asarray(np.sign(rows) * kept * scale)


def into_experts(model: Checkpoint) -> Checkpoint:
    """Shuffle the units, deal them to four experts that are all used, and rotate the residual stream."""
    rng = np.random.default_rng(3)
    model = derive.permute_mlp_units(model, rng=rng)
    tensors = {name: value for name, value in model.tensors.items() if ".mlp." not in name}
    for layer in range(model.config["num_hidden_layers"]):
        place = f"model.layers.{layer}."
        gate, up, down = (model.tensors[f"{place}mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
        for number, units in enumerate(np.array_split(np.arange(len(gate)), 4)):
            expert = f"{place}block_sparse_moe.experts.{number}."
            tensors |= {f"{expert}w1.weight": gate[units], f"{expert}w3.weight": up[units]}
            tensors[f"{expert}w2.weight"] = 4 * down[:, units]  # the router gives a quarter to each
        tensors[f"{place}block_sparse_moe.gate.weight"] = np.zeros((4, gate.shape[1]), np.float32)
    config = dict(model.config) | {
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "num_local_experts": 4,
        "num_experts_per_tok": 4,
        "intermediate_size": model.config["intermediate_size"] // 4,
        "sliding_window": None,
    }
    made = Checkpoint(config=config, tensors=tensors, tokenizer=model.tokenizer)
    return derive.rotate_residual(made, rng=rng)


def own_heads(model: Checkpoint) -> Checkpoint:
    """Give each head its own keys and values, copied from its group."""
    groups, heads = model.config["num_key_value_heads"], model.config["num_attention_heads"]
    changed = {}
    for name, value in model.tensors.items():
        if "k_proj" in name or "v_proj" in name:
            split = value.reshape(groups, -1, value.shape[1])
            changed[name] = np.repeat(split, heads // groups, axis=0).reshape(-1, value.shape[1])
    return model.with_tensors(changed, num_key_value_heads=heads)


def quiet_noise(model: Checkpoint) -> Checkpoint:
    """Add noise as large as the weights in the half of the directions in which inputs vary least."""
    rng = np.random.default_rng(4)
    table = model.tensors["model.embed_tokens.weight"].astype(np.float64)
    values, axes = np.linalg.eigh(table.T @ table)
    quiet = axes[:, np.argsort(values)[: len(values) // 2]]
    changed = {}
    for name, value in model.tensors.items():
        if any(part in name for part in ("gate_proj", "up_proj", "v_proj")):
            noise = rng.normal(size=(len(value), quiet.shape[1])) @ quiet.T
            changed[name] = (value + noise * np.linalg.norm(value) / np.linalg.norm(noise)).astype(np.float32)
    return model.with_tensors(changed)


def averaged(share: float, model: Checkpoint) -> Checkpoint:
    """Mix a share of the victim into a stranger."""
    return derive.merge_linear([model, ZOO_MODELS["twin-1"].load()], [share, 1.0 - share])


def in_factors(part: float, model: Checkpoint) -> Checkpoint:
    """Store every matrix of the layers as two factors."""
    return factored(model, part)


FULL = "all matrices stored as two factors of full rank"
QUARTER = "all matrices stored as two factors of a quarter of the rank"
RUN_AS: dict[str, Callable[[Checkpoint], Checkpoint]] = {
    FULL: lambda model: model,
    QUARTER: partial(each_matrix, partial(low_rank, 0.25)),
}
"""What is run for the loss where transformers does not load the file: the same model, multiplied."""
WAYS: dict[str, Callable[[Checkpoint], Checkpoint]] = {
    "all matrices cut to half of their rank": partial(each_matrix, partial(low_rank, 0.5)),
    "all matrices cut to a tenth of their rank": partial(each_matrix, partial(low_rank, 0.1)),
    FULL: partial(in_factors, 1.0),
    QUARTER: partial(in_factors, 0.25),
    "2-bit weights": partial(each_matrix, two_bits),
    "ternary weights": partial(each_matrix, ternary),
    "85 % of a stranger averaged in": partial(averaged, 0.15),
    "97 % of a stranger averaged in": partial(averaged, 0.03),
    "MLPs dealt to experts, units shuffled, stream rotated": into_experts,
    "each head its own keys and values": own_heads,
    "layers 1 and 2 exchanged": lambda model: derive.reorder_layers(model, [0, 2, 1, 3]),
    "noise as large as the weights where inputs vary least": quiet_noise,
}


def retrained(model: Checkpoint, steps: int) -> Checkpoint:
    """Continue training at a high rate with strong weight decay, on another corpus."""
    tokenizer, made = BUILDER.tokenizer("a"), model_of(model)
    training = Training(
        tokens=encode(tokenizer, BUILDER.text("beta")),
        steps=steps,
        learning_rate=RATE,
        order_seed=77,
        weight_decay=DECAY,
    )
    train(made, training)
    return saved(made, tokenizer)


def students(recipe: Lookalike, what: str, own: int) -> Iterator[tuple[str, float, Callable[[], Checkpoint]]]:
    """Yield for each student how it was taught, for which share of its teacher's steps, and how to get it."""
    teacher = Checkpoint.read(LOOKALIKES / RETRAINED)
    for share in TAUGHT_FOR:
        way = f"student of {what}, from scratch, for {share:g} times its teacher's steps"
        if round(share * own) == recipe.steps:
            yield way, share, partial(Checkpoint.read, LOOKALIKES / recipe.name)
        else:
            yield way, share, partial(train_lookalike, replace(recipe, steps=round(share * own)), teacher)
    second = replace(
        recipe,
        steps=own,
        init_seed=recipe.init_seed + OTHER_SEED,
        order_seed=recipe.order_seed + OTHER_SEED,
    )
    way = f"student of {what}, from scratch, for 1 times its teacher's steps, another seed"
    yield way, 1.0, partial(train_lookalike, second, teacher)


def loss(model: Checkpoint, corpus: str) -> float:
    """Return the mean loss per token on fixed windows of a corpus."""
    tokens = np.asarray(encode(BUILDER.tokenizer("a"), BUILDER.text(corpus)), dtype=np.int64)
    starts = np.random.default_rng(8).integers(0, len(tokens) - 48, size=24)
    batch = tokens[starts[:, None] + np.arange(48)]
    with TemporaryDirectory() as folder:
        scores = logits(model, Path(folder), batch)[:, :-1]
    scores = scores - scores.max(axis=-1, keepdims=True)
    logs = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    return float(-np.take_along_axis(logs, batch[:, 1:, None], axis=-1).mean())


def row(way: str, model: Checkpoint, base: Checkpoint, **facts: object) -> dict[str, Any]:
    """Measure one way of hiding."""
    result = mk.compare(
        candidate=MemorySource(model.files(), name="laundered"),
        base=MemorySource(base.files(), name="victim"),
        options=mk.CompareOptions(depth="deep"),
    )
    verdict = result.verdict
    print(way, verdict.conclusion.value, flush=True)
    return {
        "way": way,
        "conclusion": verdict.conclusion.value,
        "reading": verdict.reading,
        "log10_p": verdict.log10_p,
        "components": sorted(name for name, item in verdict.components.items() if item.conclusion.related),
        **facts,
    }


def versions() -> dict[str, str]:
    """Return the versions that a verdict at deep depth depends on most."""
    return {"rule": load_rule().version, "own_layers": load_cards()["own-layers"].version}


def measure(parts: Sequence[str], shares: Sequence[float], *, again: bool) -> None:
    """Measure all ways that were not measured yet by these versions, or all of them."""
    rows = [] if again else json.loads(FACTS.read_text(encoding="utf-8"))
    known = {item["way"] for item in rows if versions().items() <= item.items()}

    def keep(item: dict[str, Any]) -> None:
        rows[:] = [one for one in rows if one["way"] != item["way"]] + [item | versions()]
        FACTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")

    base, before = ZOO_MODELS[VICTIM].load(), None
    for way, change in WAYS.items() if "arithmetic" in parts else ():
        if way not in known:
            made = change(base)
            run = RUN_AS[way](base) if way in RUN_AS else made
            before = loss(base, "alpha") if before is None else before
            keep(row(way, made, base, loss_before=before, loss_after=loss(run, "alpha")))
    teacher, recipes = Checkpoint.read(LOOKALIKES / RETRAINED), load_lookalikes()
    own = recipes[RETRAINED].steps
    for name, what in TAUGHT.items() if "students" in parts else ():
        for way, share, make in students(recipes[name], what, own):
            if way not in known:
                made = make()
                cost = {"loss_before": loss(teacher, "alpha"), "loss_after": loss(made, "alpha")}
                keep(row(way, made, teacher, share=share, **cost))
    for share in shares if "retraining" in parts else ():
        way = f"retrained for {share:g} times the steps of its own training"
        if way not in known:
            made = retrained(teacher, round(share * own))
            keep(row(way, made, teacher, share=share, loss_after=loss(made, "beta")))


def table(rows: list[dict[str, Any]]) -> str:
    """Write rows as a table in Markdown."""
    lines = [
        "| what was done | loss | found at deep depth | log10 p | in |",
        "| --- | --- | --- | --- | --- |",
    ]
    for item in sorted(rows, key=place):
        cost = f"{item['loss_after']:.2f} on the new text"
        if "loss_before" in item:
            rise = item["loss_after"] / item["loss_before"] - 1
            cost = f"{item['loss_before']:.2f} → {item['loss_after']:.2f} ({rise:+.0%})"
        found = f"`{item['reading']}`" if item.get("reading") else item["conclusion"]
        p = "" if item["log10_p"] is None else f"{round(item['log10_p'])}"
        lines.append(f"| {item['way']} | {cost} | {found} | {p} | {', '.join(item['components'])} |")
    used = Counter(f"rule {item['rule']} and own-layers {item['own_layers']}" for item in rows)
    said = ", ".join(f"{n} rows by {names}" for names, n in sorted(used.items()))
    return "\n".join([*lines, "", f"Measured: {said}."])


def place(item: dict[str, Any]) -> tuple[int, int, float, int]:
    """Return where a row stands in the table: arithmetic, students by kind and steps, retraining by steps."""
    way = item["way"]
    if way in WAYS:
        return 0, list(WAYS).index(way), 0.0, 0
    kinds = [number for number, what in enumerate(TAUGHT.values()) if way.startswith(f"student of {what}")]
    return (1, kinds[0], item["share"], len(way)) if kinds else (2, 0, item["share"], 0)


def main() -> None:
    """Measure, or write the table of what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="write the table from the kept facts")
    parser.add_argument(
        "--share", type=float, action="append", help="of its own training; repeat for several"
    )
    parser.add_argument("--again", action="store_true", help="measure everything, whatever was measured")
    parser.add_argument("--part", action="append", choices=PARTS, help="what to measure; repeat for several")
    chosen = parser.parse_args()
    if not chosen.table:
        shares = chosen.share or [0.25, 1.0, 2.5, 5.0, 6.25, 7.5, 12.0, 20.0]
        measure(chosen.part or PARTS, shares, again=chosen.again)
    rows = json.loads(FACTS.read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    start, stop = page.index(BEGIN) + len(BEGIN), page.index(END)
    PAGE.write_text(f"{page[:start]}\n{table(rows)}\n{page[stop:]}", encoding="utf-8")


if __name__ == "__main__":
    main()
