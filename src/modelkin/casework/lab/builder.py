"""From recipes to a folder of models: corpora, tokenizers, training, and the record of what it did."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from msgspec.structs import asdict

from . import derive
from .checkpoint import Checkpoint, Floats, part_of, read_safetensors
from .corpus import corpus_text
from .extra import lab_module
from .recipes import Recipe, RecipeBook
from .training import Trained, Training, new_model, take_over, train
from .zoo import write_manifest


class Builder:
    """Builds single models of a book of recipes into a folder; parents are read from there."""

    def __init__(self, book: RecipeBook, out: Path) -> None:
        self._book = book
        self._out = out
        self._texts: dict[str, str] = {}
        self._tokenizers: dict[str, str] = {}

    def text(self, name: str) -> str:
        """Return a corpus."""
        if name not in self._texts:
            self._texts[name] = corpus_text(self._book.corpora[name])
        return self._texts[name]

    def tokenizer(self, name: str) -> str:
        """Return the content of ``tokenizer.json``."""
        if name not in self._tokenizers:
            spec = self._book.tokenizers[name]
            text = self.text(spec.corpus)
            self._tokenizers[name] = (
                train_tokenizer(text, vocab=spec.vocab)
                if spec.extends is None
                else extend_tokenizer(self.tokenizer(spec.extends), text, vocab=spec.vocab)
            )
        return self._tokenizers[name]

    def train(self, recipe: Recipe, *, steps: int | None = None) -> tuple[Any, Trained]:
        """Return a trained model and its losses; nothing is written.

        Parent and teacher must be in the folder. A test trains fewer `steps` than the recipe says.
        """
        tokenizer = self.tokenizer(recipe.tokenizer)
        config = self._book.configs[recipe.config]
        model = new_model(config, vocab=len(vocabulary(tokenizer)), seed=recipe.init_seed)
        if recipe.keep and recipe.parent is not None:
            parent = self._book.recipes[recipe.parent]
            rows = shared_rows(self.tokenizer(parent.tokenizer), tokenizer)
            take_over(model, self._start(recipe).state_dict(), recipe=recipe, rows=rows)
        training = Training(
            tokens=encode(tokenizer, self.text(recipe.corpus)),
            steps=recipe.steps if steps is None else steps,
            learning_rate=recipe.learning_rate,
            order_seed=recipe.order_seed,
            freeze=recipe.freeze,
            freeze_steps=recipe.freeze_steps,
            rank=recipe.rank,
            init_seed=recipe.init_seed,
        )
        teacher = None if recipe.teacher is None else self._kept(recipe.teacher)
        return model, train(model, training, teacher=teacher)

    def build(self, recipe: Recipe) -> dict[str, Any]:
        """Train a model, write its folder, and return the record that goes with it."""
        model, trained = self.train(recipe)
        checkpoint = saved(model, self.tokenizer(recipe.tokenizer))
        folder = checkpoint.write(self._out / recipe.name)
        # The record is about the numbers in the file, after rounding.
        kept = Checkpoint.read(folder)
        record = {
            **asdict(recipe),
            "family": kept.family,
            "first_loss": round(trained.first_loss, 4),
            "last_loss": round(trained.last_loss, 4),
            "gain_spread": round(gain_spread(kept), 4),
        }
        if recipe.parent is not None:
            before = started(recipe, Checkpoint.read(self._out / recipe.parent))
            record["change"] = {part: round(value, 4) for part, value in changes(kept, before).items()}
        (folder / "recipe.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        return record

    def _start(self, recipe: Recipe) -> Any:  # noqa: ANN401
        """Return what a child starts from: its parent, or what the parent is turned into first."""
        parent = self._book.recipes[str(recipe.parent)]
        if recipe.start is None:
            return self._kept(parent.name)
        with TemporaryDirectory() as folder:
            started(recipe, Checkpoint.read(self._out / parent.name)).write(Path(folder), "F32")
            return self._loaded(Path(folder), recipe)

    def _kept(self, name: str) -> Any:  # noqa: ANN401
        """Return a model of the folder as float32: a child starts from its rounded file."""
        return self._loaded(self._out / name, self._book.recipes[name])

    def _loaded(self, folder: Path, recipe: Recipe) -> Any:  # noqa: ANN401
        torch, transformers = lab_module("torch"), _quiet_transformers()
        kind = getattr(transformers, self._book.configs[recipe.config]["class"])
        return kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def started(recipe: Recipe, parent: Checkpoint) -> Checkpoint:
    """Return what the recipe turns the parent into before any training."""
    if recipe.start is None:
        return parent
    arguments = {key: value for key, value in recipe.start.items() if key not in ("function", "seed")}
    if "seed" in recipe.start:
        arguments["rng"] = np.random.default_rng(recipe.start["seed"])
    made: Checkpoint = getattr(derive, recipe.start["function"])(parent, **arguments)
    return made


def saved(model: Any, tokenizer: str) -> Checkpoint:  # noqa: ANN401
    """Return a model under the names that transformers gives to the tensors of a file."""
    _quiet_transformers()
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        tensors = read_safetensors(Path(folder) / "model.safetensors")
    config.pop("transformers_version", None)
    return Checkpoint(config=config, tensors=tensors, tokenizer=tokenizer)


def _quiet_transformers() -> Any:  # noqa: ANN401
    """Return transformers without its progress bars, of which there would be two for every model."""
    transformers = lab_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    return transformers


def gain_spread(checkpoint: Checkpoint) -> float:
    """Return the standard deviation of the gains of a norm, averaged over all norms; initially it is zero."""
    return float(np.mean([gains.std() for gains in gains_of(checkpoint).values()]))


def gains_of(checkpoint: Checkpoint) -> dict[str, Floats]:
    """Return the gains of all norms by name; biases of norms are not gains."""
    return {
        name: array
        for name, array in checkpoint.tensors.items()
        if part_of(name) == "norms" and name.endswith(".weight")
    }


def changes(child: Checkpoint, parent: Checkpoint) -> dict[str, float]:
    """Return how far each part is from the parent's, relative to its size; different shapes do not count."""
    squares: dict[str, list[float]] = {}
    for name, array in child.tensors.items():
        before = parent.tensors.get(name)
        if before is not None and before.shape == array.shape:
            sums = squares.setdefault(part_of(name), [0.0, 0.0])
            sums[0] += float(np.square(array - before).sum())
            sums[1] += float(np.square(before).sum())
    return {part: (moved / size) ** 0.5 for part, (moved, size) in sorted(squares.items())}


def build_zoo(
    book: RecipeBook,
    out: Path,
    *,
    only: Iterable[str] = (),
    report: Callable[[dict[str, Any]], None] = lambda record: None,
) -> None:
    """Build models into a folder and list them in its manifest. Models that are there already stay.

    With `only`, those models and their ancestors are built. `report` is called with the record of each.
    """
    out.mkdir(parents=True, exist_ok=True)
    builder = Builder(book, out)
    for recipe in book.lineage(only or book.recipes):
        if not (out / recipe.name / "recipe.json").exists():
            report(builder.build(recipe))
    write_manifest(out, list(book.recipes))


def copy_embedded(book: RecipeBook, zoo: Path, out: Path) -> None:
    """Copy the models that come with the package from a built zoo, with their own manifest."""
    names = [name for name, recipe in book.recipes.items() if recipe.embedded]
    for name in names:
        shutil.copytree(zoo / name, out / name, dirs_exist_ok=True)
    write_manifest(out, names)


START, END = "<s>", "</s>"


def train_tokenizer(text: str, *, vocab: int) -> str:
    """Return the content of ``tokenizer.json`` for a byte-level BPE of `vocab` tokens."""
    tokenizers = lab_module("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=[START, END],
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    # By lines, as a single string would be one job for the trainer's word counter.
    tokenizer.train_from_iterator(text.splitlines(keepends=True), trainer=trainer)
    return _compact(tokenizer)


def extend_tokenizer(tokenizer_json: str, text: str, *, vocab: int) -> str:
    """Return the tokenizer with the most frequent whole words of `text` added, up to `vocab` tokens."""
    tokenizer = _load(tokenizer_json)
    known = tokenizer.get_vocab()
    counts = Counter(re.findall(r"[a-z]{4,}", text))
    words = [word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    new = [word for word in words if word not in known and f"Ġ{word}" not in known]
    tokenizer.add_tokens(new[: vocab - len(known)])
    return _compact(tokenizer)


def encode(tokenizer_json: str, text: str) -> list[int]:
    """Return the token numbers of a text; each passage ends with the end token."""
    tokenizer = _load(tokenizer_json)
    end = tokenizer.token_to_id(END)
    tokens: list[int] = []
    for passage in tokenizer.encode_batch(text.split("\n\n")):
        tokens.extend(passage.ids)
        tokens.append(end)
    return tokens


def vocabulary(tokenizer_json: str) -> dict[str, int]:
    """Return token strings and their numbers, including added tokens."""
    return dict(_load(tokenizer_json).get_vocab(with_added_tokens=True))


def shared_rows(old_json: str, new_json: str) -> list[tuple[int, int]]:
    """Return the (old, new) numbers of tokens that both tokenizers have."""
    old, new = vocabulary(old_json), vocabulary(new_json)
    return sorted((old[token], number) for token, number in new.items() if token in old)


def _load(tokenizer_json: str) -> Any:  # noqa: ANN401
    return lab_module("tokenizers").Tokenizer.from_str(tokenizer_json)


def _compact(tokenizer: Any) -> str:  # noqa: ANN401
    """Return the JSON without white space, which is most of the usual file."""
    return json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
