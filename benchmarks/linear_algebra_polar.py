"""Ways to the nearest matrix with orthonormal columns (the polar factor), in numpy unless they say otherwise.

Cases are made from known factors, so that what a way returns is judged by the truth and not by another way.
A job names a stored case, a way and a number format, and runs in a process with a fixed number of threads.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers_job import answer_job

Matrix = NDArray[Any]
"""Of float32 or float64; ways keep the format they are given."""

CASES = ("related", "strangers", "six orders", "rank 3/4", "rectangular")
MOST_STEPS = 60


def store_case(name: str, d: int, folder: Path, *, seed: int = 0) -> Path:
    """Write a d x d (or d x 3d/4) matrix with known polar factor, and return where it is."""
    path = folder / f"{name.replace(' ', '-').replace('/', '-')}-{d}.npz"
    if path.exists():
        return path
    rng = np.random.default_rng([seed, d, CASES.index(name)])
    k = 3 * d // 4 if name == "rectangular" else d
    left, right = _orthonormal(rng, d, k), _orthonormal(rng, k, k)
    values = _spectrum(name, k, rng)
    np.savez(path, matrix=(left * values) @ right.T, left=left, right=right, values=values)
    return path


def _spectrum(name: str, k: int, rng: np.random.Generator) -> Matrix:
    match name:
        case "related":
            # A cross-covariance of embeddings: a power law, one dominant direction, a tail of rank k.
            return np.concatenate([[10.0], np.linspace(1.0, k, k - 1) ** -0.7])
        case "six orders":
            return np.logspace(0, -6, k)
        case "rank 3/4":
            return np.where(np.arange(k) < 3 * k // 4, np.linspace(1.0, k, k) ** -0.7, 0.0)
        case _:
            # Between strangers nothing lines up: the quarter circle of a random square matrix, down to 1 / k.
            return np.sort(np.abs(np.sin(np.pi / 2 * (np.arange(k) + rng.uniform(0.2, 1, k)) / k)))[::-1]


def _orthonormal(rng: np.random.Generator, rows: int, columns: int) -> Matrix:
    q, _ = np.linalg.qr(rng.standard_normal((rows, columns)))
    return np.asarray(q)


def by_svd(m: Matrix) -> Matrix:
    """Singular vectors by divide and conquer (gesdd), what `numpy.linalg.svd` does."""
    u, _, vt = np.linalg.svd(m, full_matrices=False)
    return np.asarray(u @ vt)


def by_gesvd(m: Matrix) -> Matrix:
    """Singular vectors by QR iteration; needs scipy."""
    linalg = import_module("scipy.linalg")
    u, _, vt = linalg.svd(m, full_matrices=False, check_finite=False, lapack_driver="gesvd")
    return np.asarray(u @ vt)


def by_eigh(m: Matrix) -> Matrix:
    """Eigenvectors of ``m.T @ m``: singular values below sqrt(eps) of the largest are lost in the square."""
    squares, v = np.linalg.eigh(m.T @ m)
    floor = np.finfo(m.dtype).eps * squares[-1]
    return np.asarray((m @ (v / np.sqrt(np.maximum(squares, floor)))) @ v.T)


def by_eigh_step(m: Matrix) -> Matrix:
    """Eigenvectors as before, then one cubic step, which squares the error of orthogonality."""
    x = by_eigh(m)
    return np.asarray(1.5 * x - 0.5 * (x @ (x.T @ x)))


def by_newton(m: Matrix) -> Matrix:
    """Scaled Newton steps ``(s X + inv(X).T / s) / 2`` (Higham); of a rectangle, its triangular factor."""
    if m.shape[0] != m.shape[1]:
        q, r = np.linalg.qr(m)
        return np.asarray(q @ by_newton(r))
    close = math.sqrt(float(np.finfo(m.dtype).eps))
    x, change = m, math.inf
    for _ in range(MOST_STEPS):
        inverse = np.linalg.inv(x)
        scale = 1.0
        if change > 1e-2:
            sizes = [np.abs(y).sum(axis=axis).max() for y in (inverse, x) for axis in (0, 1)]
            scale = float((sizes[0] * sizes[1] / (sizes[2] * sizes[3])) ** 0.25)
        following = (m.dtype.type(scale / 2) * x) + (m.dtype.type(0.5 / scale) * inverse.T)
        change = float(np.linalg.norm(following - x) / np.linalg.norm(following))
        x = following
        if change < close:  # the next step would change by the square of this
            return np.asarray(x)
    raise ArithmeticError(f"no convergence in {MOST_STEPS} steps")


def by_schulz(m: Matrix) -> Matrix:
    """Cubic Newton-Schulz steps: products only, each raises small singular values by at most 1.5."""
    return _products(m, lambda x, g: 1.5 * x - 0.5 * (x @ g))


def by_schulz5(m: Matrix) -> Matrix:
    """Quintic Newton-Schulz steps: three products, factor 1.875."""
    return _products(m, lambda x, g: (15 * x - x @ (10 * g - 3 * (g @ g))) / 8)


def by_scaled_schulz(m: Matrix) -> Matrix:
    """Cubic steps scaled to a guessed smallest singular value (Chen and Chow): factor up to 2.6."""
    low = [1e-3]

    def step(x: Matrix, g: Matrix) -> Matrix:
        guess = low[0]
        scale = math.sqrt(3.0 / (1.0 + guess + guess * guess)) if guess < 0.99 else 1.0
        low[0] = min(1.0, 0.5 * scale * guess * (3.0 - scale * scale * guess * guess))
        return np.asarray((1.5 * scale) * x - (0.5 * scale**3) * (x @ g))

    return _products(m, step)


def _products(m: Matrix, step: Callable[[Matrix, Matrix], Matrix]) -> Matrix:
    x: Matrix = m / m.dtype.type(_largest(m))
    enough = 4 * math.sqrt(float(np.finfo(m.dtype).eps))
    for _ in range(MOST_STEPS):
        gram = x.T @ x
        error = _off_identity(gram)
        x = step(x, gram)
        if error < enough:
            return x
    return x  # as far as it got: the error shows


def _largest(m: Matrix) -> float:
    """Return an upper bound of the largest singular value that is close to it."""
    v = np.ones(m.shape[1], m.dtype)
    for _ in range(30):
        v = m.T @ (m @ v)
        v /= np.linalg.norm(v)
    return 1.05 * float(np.linalg.norm(m @ v))


def by_halley(m: Matrix) -> Matrix:
    """Weighted Halley steps (Nakatsukasa, Bai and Gygi): QR while ill-conditioned, then inverses."""
    x = m / m.dtype.type(_largest(m))
    low, eye = float(np.finfo(m.dtype).eps), np.eye(m.shape[1], dtype=m.dtype)
    close = float(np.finfo(m.dtype).eps) ** (1 / 3)
    for _ in range(MOST_STEPS):
        d = (4 * (1 - low**2) / low**4) ** (1 / 3)
        a = math.sqrt(1 + d) + 0.5 * math.sqrt(8 - 4 * d + 8 * (2 - low**2) / (low**2 * math.sqrt(1 + d)))
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        if c > 100:
            q, _ = np.linalg.qr(np.concatenate([math.sqrt(c) * x, eye]).astype(m.dtype))
            other = ((a - b / c) / math.sqrt(c)) * (q[: len(x)] @ q[len(x) :].T)
        else:
            other = (a - b / c) * (x @ np.linalg.inv(eye + c * (x.T @ x)))
        following = np.asarray((b / c) * x + other, dtype=m.dtype)
        change = float(np.linalg.norm(following - x) / np.linalg.norm(x))
        x = following
        low = min(1 - 1e-9, low * (a + b * low**2) / (1 + c * low**2))
        if change < close and low > 0.9:  # the first steps move the small singular values only
            return x
    raise ArithmeticError(f"no convergence in {MOST_STEPS} steps")


WAYS: Mapping[str, Callable[[Matrix], Matrix]] = {
    "SVD (gesdd)": by_svd,
    "SVD (gesvd, scipy)": by_gesvd,
    "eigh of the square": by_eigh,
    "eigh, then a cubic step": by_eigh_step,
    "scaled Newton": by_newton,
    "weighted Halley": by_halley,
    "Newton-Schulz, cubic": by_schulz,
    "Newton-Schulz, quintic": by_schulz5,
    "Newton-Schulz, scaled cubic": by_scaled_schulz,
}


def _off_identity(gram: Matrix) -> float:
    """Return the root mean square, over columns, of what differs from the identity."""
    return float(np.linalg.norm(gram - np.eye(len(gram), dtype=gram.dtype)) / math.sqrt(len(gram)))


def work(job: Mapping[str, Any]) -> dict[str, Any]:
    """Solve one stored case some times; judge the last answer in float64."""
    stored = np.load(job["case"])
    matrix = stored["matrix"].astype(job["dtype"])
    way = WAYS[job["way"]]
    way(np.eye(4, dtype=matrix.dtype))  # imports what it needs before the clock starts
    cpu = []
    for _ in range(job["repeats"]):
        began = time.process_time()
        try:
            found = way(matrix)
        except (np.linalg.LinAlgError, ArithmeticError, FloatingPointError) as error:
            return {"failed": str(error)}
        cpu.append(time.process_time() - began)
    if not np.isfinite(found).all():
        return {"failed": "not finite"}
    left, right, values = stored["left"], stored["right"], stored["values"]
    kept = values > 0
    exact = found.astype(np.float64)
    inside = exact @ right[:, kept] - left[:, kept]
    reached = float(np.sum((left * values) * (exact @ right)))
    return {
        "cpu": min(cpu),
        "orthogonality": _off_identity(exact.T @ exact),
        "distance": float(np.linalg.norm(inside) / math.sqrt(kept.sum())),
        "shortfall": 1.0 - reached / float(values.sum()),
    }


if __name__ == "__main__":
    np.seterr(all="ignore")
    answer_job(work)
