"""``precision``: how gains grow with depth, and how much of their pattern the number format destroys."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import field

from modelkin.casework.studies.bench import Bench, NotDone, said, shown
from modelkin.casework.studies.reading import NORM, Aliases, Roles, SavedVectors
from modelkin.casework.studies.saved import Saved, load_vectors
from modelkin.casework.studies.spec import Experiment
from modelkin.describe.precision import FORMATS, norm_error, pattern_loss
from modelkin.message import say


class Precision(Experiment, tag="precision"):
    """Growth of gains with depth, and how much of their pattern rounding destroys, stored in several ways."""

    vectors: SavedVectors = field(name="from")
    models: Aliases = Aliases()
    """All of the study, if none is named."""
    roles: Roles = NORM

    def run(self, bench: Bench) -> None:
        """Compute lengths, spreads and losses of every layer, and the error of norms in low precision."""
        saved = load_vectors(bench, self.vectors)
        rows: list[dict[str, Any]] = []
        summary: list[dict[str, Any]] = []
        for alias in self.models or bench.study.models:
            for role in self.roles:
                if (alias, role) not in saved:
                    if alias not in bench.missing:
                        bench.leave(
                            say("study.role-of", role=role, model=alias), say("study.no-such-vectors")
                        )
                    continue
                norm = bench.models[alias].architecture.norm if alias in bench.models else None
                found = _layers(saved[alias, role], norm, bench.seed)
                rows += [{"model": alias, "role": role, "norm_kind": norm, **row} for row in found]
                summary.append({"model": bench.name(alias), "role": role, **_summed(found)})
        if not rows:
            raise NotDone(say("study.no-such-vectors"))
        bench.folder.rows(bench.data(".csv"), rows)
        losses = [row["loss_bf16"] for row in rows if row["loss_bf16"] is not None]
        bench.document(
            {"columns": list(rows[0]), "rows": [list(row.values()) for row in rows]},
            tables=[shown("precision", summary)],
            said=[said("precision", worst=max(losses, default=None), median=_median(losses))],
        )


def _layers(found: Saved, norm: str | None, seed: int) -> list[dict[str, Any]]:
    rows = []
    for layer, stored, dtype in zip(found.layers, found.values, found.dtypes, strict=True):
        # Some families store the difference from one; the gain is what acts.
        gain = stored + 1.0 if norm == "rms-one-plus" else stored
        row: dict[str, Any] = {
            "layer": layer,
            "dtype": dtype,
            "n": gain.size,
            "norm": float(np.linalg.norm(gain)),
            "mean": float(gain.mean()),
            "std": float(gain.std()),
            "rho": float(gain.mean() / np.sqrt((gain**2).mean())) if gain.any() else None,
            "distinct": len(np.unique(stored)),
        }
        for name in FORMATS:
            key = name.lower()
            row[f"loss_{key}"] = pattern_loss(gain, name)
            row[f"loss_{key}_minus_one"] = pattern_loss(gain, name, centre=1.0)
            row[f"loss_{key}_minus_mean"] = pattern_loss(gain, name, centre=float(gain.mean()))
            for promoted in (False, True):
                where = "promoted" if promoted else "low"
                row[f"error_{key}_{where}"] = norm_error(
                    gain, name, promoted=promoted, centred=norm == "layer", seed=seed
                )
        rows.append(row)
    return rows


def _summed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "layers": len(rows),
        "norm_first": rows[0]["norm"],
        "norm_last": rows[-1]["norm"],
        "norm_largest": max(row["norm"] for row in rows),
        "distinct": _median([row["distinct"] for row in rows]),
        "loss_bf16": _median([row["loss_bf16"] for row in rows]),
        "loss_bf16_worst": max(
            (row["loss_bf16"] for row in rows if row["loss_bf16"] is not None), default=None
        ),
        "loss_bf16_minus_one": _median([row["loss_bf16_minus_one"] for row in rows]),
        "loss_bf16_minus_mean": _median([row["loss_bf16_minus_mean"] for row in rows]),
        "loss_fp16": _median([row["loss_fp16"] for row in rows]),
        "error_bf16_low": _median([row["error_bf16_low"] for row in rows]),
        "error_bf16_promoted": _median([row["error_bf16_promoted"] for row in rows]),
    }


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None
