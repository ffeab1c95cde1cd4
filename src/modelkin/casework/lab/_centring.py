"""Two vectors with and without their means: the numbers behind the centring animation, and its files."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from modelkin.casework.catalogue.centring import centring_after, centring_animation, centring_before
from modelkin.describe.matrix import MatrixOptions, find_item, parse_layer_list, parse_role
from modelkin.document import ENGLISH, Language, to_json
from modelkin.document.codec import schemas
from modelkin.errors import BadSelection, FormatError, NotFound, UsageError
from modelkin.figures import animate, draw
from modelkin.message import Message, phrase, say
from modelkin.model import Model
from modelkin.stats import cosine_decomposition
from modelkin.untrusted import strict_json

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VectorPair:
    """Two vectors of one length, at least 3, with names."""

    a: Vector
    b: Vector
    names: tuple[str, str] = ("A", "B")

    def __post_init__(self) -> None:
        if self.a.ndim != 1 or self.a.shape != self.b.shape or self.a.size < 3:
            shapes = f"{self.a.shape} and {self.b.shape}"
            raise UsageError("centring", say("problem.two-vectors-shapes", shapes=shapes))
        for name, vector in zip(self.names, (self.a, self.b), strict=True):
            if not np.isfinite(vector).all():
                raise UsageError("centring", say("problem.not-finite", name=name))
            if not vector.any():
                raise UsageError("centring", say("problem.no-direction", name=name))


EXAMPLE: Final = VectorPair(a=np.array([0.95, 0.70, 0.72]), b=np.array([0.70, 1.05, 0.72]))
"""All positive, so the angle is small; without the means they point away from each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Centring:
    """What centring does to the angle of two vectors."""

    names: tuple[str, str]
    n: int
    cosine: float
    angle: float
    """In degrees."""
    rho_a: float
    rho_b: float
    expected: float
    """The product of both rho: exactly the mean of the cosine over all orders of one vector."""
    expected_angle: float
    pearson: float | None
    """The cosine of the centred vectors; None if one of them has no variation."""
    centred_angle: float | None
    chance: float
    """Standard deviation of the correlation over all orders of one vector."""
    reason: Message | None
    """Why there is no correlation."""
    conclusion: tuple[Message, ...]


schemas[Centring] = "modelkin.centring/1"


def centring(pair: VectorPair) -> Centring:
    """Compute cosine and angle before and after subtracting both means."""
    parts = cosine_decomposition(candidate=pair.a, base=pair.b)
    chance = 1 / math.sqrt(pair.a.size - 1)
    apart = {"cosine": parts.cosine, "angle": _degrees(parts.cosine)}
    shuffled = {"expected": parts.mean_direction_part, "expected_angle": _degrees(parts.mean_direction_part)}
    if parts.pearson is None:
        angle, rest = None, say("centring.no-angle", reason=parts.reason)
    else:
        angle = _degrees(parts.pearson)
        rest = say("centring.without-means", angle=angle, pearson=parts.pearson, chance=chance)
    return Centring(
        names=pair.names,
        n=pair.a.size,
        **apart,
        rho_a=parts.rho_candidate,
        rho_b=parts.rho_base,
        **shuffled,
        pearson=parts.pearson,
        centred_angle=angle,
        chance=chance,
        reason=parts.reason,
        conclusion=(say("centring.as-stored", **apart, **shuffled), rest),
    )


def read_vectors(path: Path) -> VectorPair:
    """Read two vectors from ``.npy`` (2 x n or n x 2), ``.json`` (two lists), or text (two columns or rows).

    Nothing is unpickled. In text, commas or white space separate the values, and a first line may hold names.
    """
    readers: dict[str, Callable[[Path], tuple[npt.NDArray[np.float64], tuple[str, str]]]] = {
        ".npy": _read_npy,
        ".json": _read_json,
    }
    try:
        table, names = readers.get(path.suffix.lower(), _read_text)(path)
    except FileNotFoundError:
        raise NotFound(str(path), say("problem.no-file")) from None
    except (OSError, EOFError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise FormatError(str(path), say("problem.two-vectors-numbers", why=str(error))) from error
    if table.ndim != 2 or 2 not in table.shape:
        raise FormatError(str(path), say("problem.two-vectors-shape", shape=str(table.shape)))
    a, b = table if table.shape[0] == 2 else table.T
    return VectorPair(a=a, b=b, names=names)


def write_centring(
    pair: VectorPair, out: Path, *, frames: int = 65, language: Language = ENGLISH
) -> Centring:
    """Write the two stills, the animation and the numbers into a folder; return the numbers.

    About two thirds of the `frames` subtract the means, the others rotate the view. There are at least 4.
    """
    if frames < 4:
        raise UsageError("frames", say("problem.frames-least", got=frames))
    numbers = centring(pair)
    draw(centring_before(pair.a, pair.b, names=pair.names), out, "centring_before", language=language)
    draw(centring_after(pair.a, pair.b, names=pair.names), out, "centring_after", language=language)
    turn = max(1, frames // 3)
    moving = centring_animation(pair.a, pair.b, names=pair.names, steps=frames - turn, turn=turn)
    animate(moving, out, "centring_animation", language=language)
    (out / "centring.json").write_text(to_json(numbers) + "\n", encoding="utf-8")
    return numbers


def _degrees(cosine: float) -> float:
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine))))


def _read_npy(path: Path) -> tuple[npt.NDArray[np.float64], tuple[str, str]]:
    found = np.load(path, allow_pickle=False)
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "fiu":
        raise ValueError("an array of other things than real numbers")
    return found.astype(np.float64), ("A", "B")


def _read_json(path: Path) -> tuple[npt.NDArray[np.float64], tuple[str, str]]:
    document = strict_json(path.read_bytes())
    names = ("A", "B")
    if isinstance(document, dict):
        first, second = document
        names, document = (str(first), str(second)), [document[first], document[second]]
    return np.asarray(document, dtype=np.float64), names


def _read_text(path: Path) -> tuple[npt.NDArray[np.float64], tuple[str, str]]:
    lines = [line.replace(",", " ").split() for line in path.read_text(encoding="utf-8").splitlines()]
    lines = [line for line in lines if line]
    names = ("A", "B")
    if lines and len(lines[0]) == 2 and not any(_is_number(word) for word in lines[0]):
        names, lines = (lines[0][0], lines[0][1]), lines[1:]
    if len({len(line) for line in lines}) != 1:
        raise ValueError("the lines have different numbers of values")
    return np.array([[float(word) for word in line] for line in lines]), names


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def model_vectors(models: tuple[Model, ...], *, role: str, layers: str) -> VectorPair:
    """Read two vectors of one role: from two layers of one model, or from one layer of each of two models.

    Roles are those of `modelkin.matrix`; large tensors are sampled at the same places. `layers` is ``N,M``;
    for two models ``N`` stands for ``N,N``.
    """
    if len(models) not in (1, 2):
        raise UsageError("centring", say("problem.one-or-two", n=len(models)))
    numbers = parse_layer_list(layers)
    if len(models) == 2 and len(numbers) == 1:
        numbers = (numbers[0], numbers[0])
    if len(numbers) != 2:
        what = say("part.two-layers-such" if len(models) == 1 else "part.one-layer-each")
        raise BadSelection("layers", say("problem.layers-such", what=what, got=repr(layers[:60])))
    both = (models[0], models[-1])
    choice = parse_role(role)
    options = MatrixOptions(roles=(role,))
    found = []
    for model, layer in zip(both, numbers, strict=True):
        item = find_item(model, choice, layer, options)
        if isinstance(item, Message):
            raise BadSelection(say("part.model-layer", model=model.location.ref, layer=layer), item)
        vector = item.vector(model.read(list(item.slices)))
        found.append((np.asarray(vector, dtype=np.float64).ravel(), item.signature))
    if found[0][1] != found[1][1]:
        raise BadSelection(
            role, say("problem.shapes-differ", first=str(found[0][1][0]), second=str(found[1][1][0]))
        )
    names: list[str] = [phrase("catalogue.layer-number", layer=layer) for layer in numbers]
    if len(models) == 2:
        names = [
            phrase("catalogue.layer-of-model", model=model.location.ref, layer=layer)
            for model, layer in zip(models, numbers, strict=True)
        ]
    return VectorPair(a=found[0][0], b=found[1][0], names=(names[0], names[1]))
