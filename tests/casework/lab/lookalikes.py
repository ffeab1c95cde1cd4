"""Models that look related and are not, or not in the way they look: masks, initial values, students, tables.

What they share comes from a recipe, not from descent. `modelkin.comparison` has to tell that apart from
common weights, and is measured on these models. Masks and initial values are plain arrays; training needs the
extra ``lab``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta
from msgspec.structs import asdict
from numpy.typing import NDArray

from modelkin.casework.lab import load_recipes
from modelkin.casework.lab.builder import Builder, encode, saved, vocabulary
from modelkin.casework.lab.checkpoint import Checkpoint, Floats, Part, layer_of, part_of
from modelkin.casework.lab.extra import lab_module
from modelkin.casework.lab.training import States, Training, new_model, train
from modelkin.structs import Fields, read, read_toml

_FILE = Path(__file__).with_suffix(".toml")
_TOKENIZER = "a"
_RATE = 4e-3
_CORPORA = ("alpha", "beta", "gamma")
_BLOCK = 8
"""Side of a block of a block mask."""
_KEPT = 1 / 6
"""Share of the weights that a random mask keeps."""

Mask = Literal["random", "2:4", "block", "butterfly"]
Beginning = Literal["hadamard", "cosine", "zero"]
Whole = Annotated[int, Meta(ge=0, le=10**9)]


class Lookalike(Fields):
    """One such model."""

    name: str
    init_seed: Whole
    corpus: str
    order_seed: Whole
    steps: Whole
    note: str
    mask: Mask | None = None
    beginning: Beginning | None = None
    """What all MLPs start from; for ``zero``, what layers write with."""
    teacher: str | None = None
    states: States | None = None
    """Hidden states of the teacher that are learned in addition to its predictions."""
    tables: Literal["own", "start", "frozen"] = "own"
    """Whether training starts from the teacher's embedding, or keeps it frozen."""
    learns: Literal["teacher", "text"] = "teacher"
    keep: tuple[Part, ...] = ()
    """Parts that are taken over from the teacher, in addition to its tables."""
    keep_layers: tuple[Whole, ...] | None = None
    """The layers whose parts are taken over; None for all."""
    frozen: bool = False
    """Whether those parts are never trained; only if they are taken over in all layers."""
    wide: bool = False


class Kind(Fields):
    """A kind of which several models are trained: students of hidden states, and partial copies."""

    how: str
    """What was done, in words."""
    student: bool = False
    """Whether it learned hidden states; the others took something over and learned the text."""
    states: States | None = None
    tables: Literal["own", "start", "frozen"] = "own"
    keep: tuple[Part, ...] = ()
    keep_layers: tuple[Whole, ...] | None = None
    frozen: bool = False


class _File(Fields):
    format: Annotated[int, Meta(ge=1, le=1)]
    config: dict[str, Any]
    wide: dict[str, Any]
    defaults: dict[str, Any]
    models: dict[str, dict[str, Any]]
    kinds: dict[str, Kind]


@cache
def _file() -> _File:
    return read_toml(_FILE.name, _FILE.read_text(encoding="utf-8"), _File)


@cache
def load_lookalikes() -> Mapping[str, Lookalike]:
    """Return the table of models, teachers before their students."""
    file = _file()
    return {
        name: read(f"{_FILE} [models.{name}]", {**file.defaults, **table, "name": name}, Lookalike)
        for name, table in file.models.items()
    }


@cache
def load_kinds() -> Mapping[str, Kind]:
    """Return the kinds of which several models are trained, students first."""
    return _file().kinds


def teacher_of_kinds(*, wide: bool) -> Lookalike:
    """Return the recipe of the model that students and partial copies of one width come from."""
    given = {**_file().defaults, "name": f"teacher-{_width(wide)}", "note": "", "wide": wide}
    return read(str(_FILE), {**given, "init_seed": 100}, Lookalike)


def model_of_kind(name: str, seed: int, *, wide: bool) -> Lookalike:
    """Return the recipe of one model of a kind: seed, order and text are its own."""
    kind, teacher = load_kinds()[name], teacher_of_kinds(wide=wide)
    number = list(load_kinds()).index(name)
    return Lookalike(
        name=f"{name}-{_width(wide)}-{seed}",
        init_seed=1000 + 10 * number + seed,
        corpus=_CORPORA[seed % len(_CORPORA)],
        order_seed=1000 + 10 * number + seed,
        steps=teacher.steps,
        note=kind.how,
        teacher=teacher.name,
        states=kind.states,
        tables=kind.tables,
        learns="teacher" if kind.student else "text",
        keep=kind.keep,
        keep_layers=kind.keep_layers,
        frozen=kind.frozen,
        wide=wide,
    )


def mask_of(kind: Mask, shape: tuple[int, int], *, seed: int) -> NDArray[np.bool_]:
    """Return which weights of a matrix exist, as sparse training decides before the first step."""
    rng = np.random.default_rng([5, seed])
    rows, columns = shape
    match kind:
        case "random":
            return np.asarray(rng.random(shape) < _KEPT)
        case "2:4":
            return np.asarray((np.argsort(rng.random((rows, columns // 4, 4)), axis=2) < 2).reshape(shape))
        case "block":
            blocks = rng.random((-(-rows // _BLOCK), -(-columns // _BLOCK))) < 0.5
            return np.asarray(np.kron(blocks, np.ones((_BLOCK, _BLOCK)))[:rows, :columns] > 0)
        case "butterfly":
            distance = np.bitwise_xor.outer(np.arange(rows), np.arange(columns))
            return np.asarray((distance & (distance - 1)) == 0)


def beginning_of(
    kind: Literal["hadamard", "cosine"], shape: tuple[int, int], *, scale: float = 0.05
) -> Floats:
    """Return a matrix that all such models start from: orthogonal rows, without random numbers.

    Rows of the cosine basis are shuffled by a multiplication; those of the Hadamard matrix are not.
    """
    rows, columns = shape
    if kind == "hadamard":
        both = np.bitwise_and.outer(np.arange(rows), np.arange(columns))
        parity = np.array([bin(number).count("1") % 2 for number in range(int(both.max()) + 1)])
        return np.asarray(scale * (1 - 2 * parity[both]), dtype=np.float32)
    longest = max(shape)
    waves = (37 * np.arange(rows) + 11) % longest
    angles = np.pi * np.outer(waves, np.arange(columns) + 0.5) / longest
    return np.asarray(np.sqrt(2.0) * scale * np.cos(angles), dtype=np.float32)


def build_lookalikes(out: Path, *, only: Iterable[str] = ()) -> None:
    """Train models into a folder, with the teachers they need; models that are there already stay."""
    book = load_lookalikes()
    wanted = {*only} or {*book}
    wanted |= {teacher for name in wanted if (teacher := book[name].teacher) is not None}
    for name, recipe in book.items():
        if name in wanted:
            build(recipe, out)


def build(recipe: Lookalike, out: Path) -> None:
    """Train one model into a folder that holds its teacher; a model that is there already stays."""
    if (out / recipe.name / "recipe.json").exists():
        return
    teacher = None if recipe.teacher is None else Checkpoint.read(out / recipe.teacher)
    folder = train_lookalike(recipe, teacher).write(out / recipe.name)
    record = json.dumps(asdict(recipe), indent=1) + "\n"
    (folder / "recipe.json").write_text(record, encoding="utf-8")


def train_lookalike(recipe: Lookalike, teacher: Checkpoint | None = None) -> Checkpoint:
    """Train one model; students need a teacher."""
    torch, builder = lab_module("torch"), Builder(load_recipes(), Path())
    tokenizer = builder.tokenizer(_TOKENIZER)
    model = new_model(_config(wide=recipe.wide), vocab=len(vocabulary(tokenizer)), seed=recipe.init_seed)
    masks: dict[str, NDArray[np.bool_]] = {}
    with torch.no_grad():
        for number, (name, parameter) in enumerate(model.named_parameters()):
            shape = tuple(parameter.shape)
            if recipe.beginning == "zero":
                if "down_proj" in name or "o_proj" in name:
                    parameter.zero_()
            elif recipe.beginning is not None and part_of(name) == "mlp":
                parameter.copy_(torch.from_numpy(beginning_of(recipe.beginning, shape)))
            if recipe.mask is not None and part_of(name) in ("mlp", "attention"):
                masks[name] = mask_of(recipe.mask, shape, seed=number)
            if teacher is not None and _taken_over(recipe, name):
                parameter.copy_(torch.from_numpy(teacher.tensors[name]))
    frozen: tuple[Part, ...] = ("embeddings",) if recipe.tables == "frozen" else ()
    if recipe.frozen:
        frozen += recipe.keep
    training = Training(
        tokens=encode(tokenizer, builder.text(recipe.corpus)),
        steps=recipe.steps,
        learning_rate=_RATE,
        order_seed=recipe.order_seed,
        freeze=frozen,
        freeze_steps=recipe.steps if frozen else 0,
        masks=masks,
        states=recipe.states,
    )
    learnt = model_of(teacher) if teacher is not None and recipe.learns == "teacher" else None
    train(model, training, teacher=learnt)
    return saved(model, tokenizer)


def model_of(kept: Checkpoint) -> Any:
    """Return a stored model as one that can be run and trained."""
    torch, wide = lab_module("torch"), kept.config["hidden_size"] != _file().config["hidden_size"]
    model = new_model(_config(wide=wide), vocab=kept.config["vocab_size"], seed=0)
    values = {name: torch.from_numpy(value) for name, value in kept.tensors.items()}
    model.load_state_dict(values, strict=False)  # the output matrix is the embedding, and not kept twice
    return model.eval()


def _taken_over(recipe: Lookalike, name: str) -> bool:
    """Say whether a tensor starts as the teacher's."""
    part, layer = part_of(name), layer_of(name)
    if part == "embeddings":
        return recipe.tables != "own"
    layers = recipe.keep_layers
    return part in recipe.keep and (layers is None or layer in layers)


def _width(wide: bool) -> int:
    return int(_config(wide=wide)["arguments"]["hidden_size"])


def _config(*, wide: bool = False) -> dict[str, Any]:
    arguments = _file().config | (_file().wide if wide else {})
    names = {key: arguments.pop(key) for key in ("class", "config_class")}
    return {**names, "arguments": arguments}
