"""What centring does to a cosine, seen in space: two vectors, their angle, and the direction of equal values.

Two vectors and the direction of equal values span three dimensions at most. So vectors of any length are
shown without loss: all lengths and angles in the picture are those of the full vectors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modelkin import figures as fig
from modelkin.errors import UsageError
from modelkin.message import phrase, say

_DIAGONAL = np.ones(3) / math.sqrt(3)
_SIDE = (24.0, -20.0)
_DOWN = (35.26, 45.0)
"""Camera that looks along the direction of equal values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TwoVectors:
    first: npt.NDArray[np.float64]
    second: npt.NDArray[np.float64]
    names: tuple[str, str]
    exact: bool
    """Whether the coordinates are those of the vectors themselves."""


def centring_before(a: fig.Series, b: fig.Series, *, names: tuple[str, str] = ("A", "B")) -> fig.Figure:
    """Draw two vectors as they are, with their angle."""
    return _still(_pair(a, b, names), 0.0, _SIDE)


def centring_after(a: fig.Series, b: fig.Series, *, names: tuple[str, str] = ("A", "B")) -> fig.Figure:
    """Draw two vectors after subtracting their means, with their angle; seen along the mean direction."""
    return _still(_pair(a, b, names), 1.0, _DOWN, near=1.0)


def centring_animation(
    a: fig.Series, b: fig.Series, *, names: tuple[str, str] = ("A", "B"), steps: int = 45, turn: int = 20
) -> fig.Animation:
    """Show how the means are subtracted step by step, then look along the direction of equal values."""
    pair = _pair(a, b, names)
    eased = [(1 - math.cos(math.pi * i / max(1, steps - 1))) / 2 for i in range(steps)]
    frames = [_still(pair, share, _SIDE, moving=True) for share in eased]
    for i in range(1, turn + 1):
        share = (1 - math.cos(math.pi * i / turn)) / 2
        camera = tuple(s + (d - s) * share for s, d in zip(_SIDE, _DOWN, strict=True))
        frames.append(_still(pair, 1.0, (camera[0], camera[1]), near=share, moving=True))
    seconds = [0.05] * len(frames)
    seconds[0], seconds[steps - 1], seconds[-1] = 0.9, 0.6, 1.8
    return fig.Animation(frames=tuple(frames), seconds=tuple(seconds))


def _pair(a: fig.Series, b: fig.Series, names: tuple[str, str]) -> _TwoVectors:
    first, second = fig.array(a), fig.array(b)
    if first.shape != second.shape or first.ndim != 1 or first.size < 3:
        raise UsageError("centring", say("problem.two-vectors-of-3"))
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise UsageError("centring", say("problem.vectors-whole"))
    exact = first.size == 3
    if not exact:
        first, second = _in_three(first, second)
    longest = max(float(np.linalg.norm(first)), float(np.linalg.norm(second)))
    if min(float(np.linalg.norm(first)), float(np.linalg.norm(second))) == 0:
        raise UsageError("centring", say("problem.vectors-not-zero"))
    if not exact:
        first, second = first / longest, second / longest
    return _TwoVectors(first=first, second=second, names=names, exact=exact)


def _in_three(
    first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Map the space of both vectors and the mean direction to three dimensions, preserving angles."""
    n = first.size
    basis, _ = np.linalg.qr(np.stack([np.ones(n), first, second], axis=1))
    basis[:, 0] = 1 / math.sqrt(n)
    around = np.stack(
        [_DIAGONAL, np.array([1.0, -1.0, 0.0]) / math.sqrt(2), np.array([1.0, 1.0, -2.0]) / math.sqrt(6)]
    )
    turned = [(basis.T @ vector) @ around for vector in (first, second)]
    return turned[0], turned[1]


def _still(
    pair: _TwoVectors, share: float, camera: tuple[float, float], *, near: float = 0.0, moving: bool = False
) -> fig.Figure:
    """Draw one state: `share` of the means subtracted, seen from afar (0) or near (1).

    Frames that follow each other (`moving`) all have the same axes and marks.
    """
    vectors = [v - share * (v @ _DIAGONAL) * _DIAGONAL for v in (pair.first, pair.second)]
    lengths = [float(np.linalg.norm(vector)) for vector in vectors]
    far = 1.1 * float(np.abs([pair.first, pair.second]).max())
    close = 1.15 * max(float(np.abs(vector).max()) for vector in vectors)
    reach = far * (close / far) ** near if close > 0 else far
    styles = (fig.Style(tone="blue"), fig.Style(tone="orange", dash="solid"))
    marks: list[fig.Arrow3D | fig.Plane3D | fig.TextMark] = [
        fig.Arrow3D(
            name=phrase("catalogue.equal-values"),
            tip=_point(_DIAGONAL * reach * math.sqrt(3) * 0.95),
            style=fig.EXPECTATION,
            role="expectation",
        ),
        *(
            fig.Arrow3D(name=name, tip=_point(vector), style=style)
            for name, vector, style in zip(pair.names, vectors, styles, strict=True)
        ),
    ]
    if share > 0 or moving:
        corners = [(1, -1, 0), (1, 0, -1), (0, 1, -1), (-1, 1, 0), (-1, 0, 1), (0, -1, 1)]
        size = reach * 0.9
        marks.append(
            fig.Plane3D(
                name=phrase("catalogue.mean-zero"),
                corners=tuple((x * size, y * size, z * size) for x, y, z in corners),
                opacity=0.18 * share,
                style=fig.Style(tone="cyan"),
            )
        )
    if min(lengths) > 1e-9:  # a vector of no length has no direction
        cosine = float(vectors[0] @ vectors[1]) / (lengths[0] * lengths[1])
        marks.append(_sector(vectors, lengths))
        angle = math.degrees(math.acos(max(-1.0, min(1.0, cosine))))
        word = "cosine" if share == 0 else "centred" if share == 1 else "on-the-way"
        told = phrase("catalogue.angle", what=phrase(f"catalogue.{word}"), cosine=cosine, degrees=angle)
    else:
        told = phrase("catalogue.no-angle")
    marks.append(fig.TextMark(text=told))
    axis = fig.Axis(low=0.0 if share == 0 and not moving and _all_positive(pair) else -reach, high=reach)
    state = "stored" if share == 0 else "without-means" if share == 1 else "share-of-means"
    names = {"a": pair.names[0], "b": pair.names[1]}
    return fig.Figure(
        title=phrase(f"catalogue.vectors-{state}", share=share, **names),
        panels=(fig.Panel(title="", marks=tuple(marks), x=axis, y=axis, z=axis, camera=camera, height=4.4),),
        size=5.4,
        note="" if pair.exact else phrase("catalogue.turned"),
    )


def _all_positive(pair: _TwoVectors) -> bool:
    return bool((pair.first >= 0).all() and (pair.second >= 0).all())


def _sector(vectors: list[npt.NDArray[np.float64]], lengths: list[float]) -> fig.Plane3D:
    """Fill the angle between both vectors, along the great circle from one to the other."""
    one, other = (vector / length for vector, length in zip(vectors, lengths, strict=True))
    radius = 0.35 * min(lengths)
    angle = math.acos(max(-1.0, min(1.0, float(one @ other))))
    steps = np.linspace(0, 1, 25)
    if math.sin(angle) < 1e-9:  # parallel: there is no arc to draw
        arc = [one for _ in steps]
    else:
        arc = [
            (math.sin((1 - t) * angle) * one + math.sin(t * angle) * other) / math.sin(angle) for t in steps
        ]
    corners = ((0.0, 0.0, 0.0), *(_point(radius * np.asarray(step)) for step in arc))
    return fig.Plane3D(
        name=phrase("catalogue.the-angle"), corners=corners, opacity=0.45, style=fig.Style(tone="gold")
    )


def _point(vector: npt.NDArray[np.float64]) -> fig.Point:
    x, y, z = (float(value) for value in vector)
    return x, y, z
