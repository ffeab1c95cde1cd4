"""Whether a model is a mixture of others: read the same places of all, fit, and say what it is or is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from modelkin._version import __version__
from modelkin.comparison.record import model_summary
from modelkin.errors import UsageError
from modelkin.lineage.geometry import (
    Floats,
    grams,
    mixture,
    residual,
    rounded_mixture,
    rounding_steps,
    rounding_variance,
    star_residual,
    weight_errors,
)
from modelkin.lineage.layer_map import layer_maps
from modelkin.lineage.levels import level_errors, piece_of_lines
from modelkin.lineage.merge_judgement import APART, judged_merge
from modelkin.lineage.merge_measures import CellFit, SparseFits, shares, sparse_fits
from modelkin.lineage.merge_result import MergeCell, MergeResult
from modelkin.lineage.patterns import Arc, nearest_arc
from modelkin.lineage.samples import BLOCKS, Faced, Site, comparable, extent_of, facing, read_sites, sites_of
from modelkin.message import Message, say
from modelkin.model import Model, ModelLike, open_models, read_headers
from modelkin.options import CompareOptions
from modelkin.progress import Progress, Silent
from modelkin.source import ReadRecord

_ROUNDING = 4.0
"""A remainder counts as rounding up to this multiple of what rounding is expected to leave."""
_NOTHING = 1e-30
"""In place of a sum of squares that is zero."""
_SURELY = 0.9
"""Share of the squared errors that levels leave which is accounted for: largest numbers of groups have none.
A common ancestor on levels must not look like a mixture because too much was taken away."""


def explain_merge(
    candidate: ModelLike,
    parents: Sequence[ModelLike],
    *,
    base: ModelLike | None = None,
    options: CompareOptions | None = None,
    progress: Progress | None = None,
) -> MergeResult:
    """Ask whether the candidate is a merge of the parents, and with which weights.

    Parameters
    ----------
    candidate, parents
        Model references, sources or opened models. Parts are compared in place: a candidate whose units were
        reordered is left undetermined, and one that was rotated is not a mixture of anything.
    base
        What the parents come from, if known: TIES, DARE, DELLA, breadcrumbs, SCE and Model Stock can only be
        recognised with it.
    options
        Depth and seed; samples stay within the bytes of the depth.
    progress
        Told about long reads.

    Returns
    -------
    MergeResult
        Weights by layer and module, the method, the nearest recipe; "not a merge of these" is an answer too.

    Examples
    --------
    >>> from modelkin.demo import demo_zoo
    >>> with demo_zoo() as zoo:
    ...     found = explain_merge(str(zoo / "finetune-light"), [str(zoo / "base"), str(zoo / "twin-1")])
    >>> found.conclusion, found.best_single == found.parents[0].ref
    ('single-parent', True)
    """
    options, told = options or CompareOptions(), progress or Silent()
    others = [*parents, *([base] if base is not None else [])]
    if len(others) < 2:
        raise UsageError("parents", say("problem.two-to-mix", n=len(others)))
    with open_models((candidate, *others), options.fetch, progress=progress) as opened:
        read_headers(opened)
        told.note(say("step-layer-maps"))
        return _MergeRun(opened, with_base=base is not None, options=options).result(told)


@dataclass(slots=True)
class _MergeRun:
    """All models on their way to an answer."""

    models: Sequence[Model]
    with_base: bool
    options: CompareOptions
    fits: list[CellFit] = field(default_factory=list)
    unfitted: list[MergeCell] = field(default_factory=list)

    def result(self, told: Progress) -> MergeResult:
        candidate, *others = self.models
        maps = layer_maps(candidate, others, self.options.seed)
        extent = extent_of(self.models, self.options.depth, self.options.seed)
        told.note(say("step-mixtures"))
        for faced, values in read_sites(self.models, list(self._faced(maps)), extent):
            self._fit(faced, values)
        result = partial(
            MergeResult,
            candidate=model_summary(candidate),
            parents=tuple(model_summary(model) for model in (others[:-1] if self.with_base else others)),
            base=model_summary(others[-1]) if self.with_base else None,
            cells=tuple(sorted([fit.cell for fit in self.fits] + self.unfitted, key=_order)),
            depth=self.options.depth,
            seed=self.options.seed,
            read=ReadRecord.of([model.totals() for model in self.models]),
            modelkin=__version__,
        )
        found = judged_merge(
            result,
            self.fits,
            self.unfitted,
            others=others,
            with_base=self.with_base,
            candidate=candidate,
            maps=maps,
            seed=self.options.seed,
        )
        # Whether something is in another order is only looked for where nothing else explains it.
        return replace(found, read=ReadRecord.of([model.totals() for model in self.models]))

    @property
    def _dense(self) -> bool:
        return not any(model.architecture.sizes.get("experts") for model in self.models[1:])

    def _faced(self, maps: Sequence[dict[int, int]]) -> Iterator[Faced]:
        candidate, *others = self.models
        mine, theirs = sites_of(candidate), [sites_of(model) for model in others]
        for cell, info in sorted(
            mine.items(), key=lambda item: (item[0].layer, item[0].module, item[0].expert)
        ):
            layers = tuple(of.get(cell.layer, cell.layer) for of in maps)
            found = [facing(cell, there, layer) for there, layer in zip(theirs, layers, strict=True)]
            infos = [item for item in found if item is not None]
            reason: Message | None = None
            if len(infos) < len(found):
                reason = say("merge-no-counterpart")
            elif not comparable([info, *infos]) or (
                len({item.shape for item in (info, *infos)}) > 1 and cell.group not in ("embedding", "head")
            ):
                reason = say("merge-other-shape")
            if reason is None:
                yield Faced(site=cell, infos=(info, *infos), layers=layers)
            else:
                self.unfitted.append(_unfitted(cell, info.name, layers, reason))

    def _fit(self, faced: Faced, values: list[Floats]) -> None:
        mine, others = values[0], values[1:]
        parts = grams(mine, others)
        scale = parts.spread
        name = faced.infos[0].name
        if scale <= 0:
            same = self._stored_alike(mine, others[0], faced.infos[0].dtype)
            reason = say("merge-parents-equal" if same else APART)
            self.unfitted.append(_unfitted(faced.site, name, faced.layers, reason))
            return
        total = parts.total
        weights = mixture(total)
        left = residual(total, weights)
        errors = weight_errors(parts, weights)
        floor = rounding_variance(mine, faced.infos[0].dtype)
        single = float(np.diagonal(total).min())
        to_rounding = None if floor is None else left <= _ROUNDING * floor
        rounded = rounded_mixture(weights, others, faced.infos[0].dtype) if to_rounding else None
        coarse = None if to_rounding else self._on_levels(faced, mine, weights @ np.stack(others))
        added = 0.0
        if coarse is not None:
            # Rounding is the candidate's own: it adds the same to all products, and opposes nobody.
            to_rounding, added = True, min(_SURELY * coarse, left)
            total, left = total - added, left - added
        star = star_residual(total)
        moved = None if rounded is None else mixture(rounded[0]) - mixture(rounded[1])
        cell = MergeCell(
            tensor=name,
            module=faced.site.module,
            group=faced.site.group,
            layer=None if faced.site.layer < 0 else faced.site.layer,
            expert=None if faced.site.expert < 0 else faced.site.expert,
            facing=_facing_layers(faced),
            weights=shares(weights, errors, moved),
            nearest=int(np.argmin(np.diagonal(total))),
            left=(left + added) / scale,
            left_single=single / scale,
            opposition=None if star <= (floor or 0.0) else 1.0 - left / star,
            to_rounding=to_rounding,
            n=parts.n,
        )
        self.fits.append(
            CellFit(
                cell=cell,
                gram=total / scale,
                left=left / scale,
                star=star / scale,
                floor=None if floor is None else floor / scale,
                arc=self._arc(mine, others, scale, added),
                sparse=self._sparse(mine, others, scale, faced.infos[0].dtype),
                is_matrix=len(faced.infos[0].shape) > 1,
                rounded=None if rounded is None else (rounded[0] / scale, rounded[1] / scale),
                size=(left + added) / max(float(mine @ mine), _NOTHING),
                dense=faced.site.expert >= 0 and self._dense,
            )
        )

    @staticmethod
    def _stored_alike(mine: Floats, other: Floats, dtype: str) -> bool:
        """Say whether numbers are equal up to rounding, or not known to differ by more."""
        floor = rounding_variance(mine, dtype)
        return floor is None or float(np.square(mine - other).sum()) <= _ROUNDING * floor

    def _on_levels(self, faced: Faced, mine: Floats, made: Floats) -> float | None:
        """Return what rounding to levels leaves, if that explains what a mixture leaves."""
        info = faced.infos[0]
        if len(info.shape) < 2:
            return None
        # Codes are made into numbers of single precision.
        known = (rounding_steps(mine, dtype) for dtype in (info.dtype, "F32"))
        steps = next(found for found in known if found is not None)
        return level_errors(mine, made, piece_of_lines(info.shape, mine.size, BLOCKS), steps)

    def _arc(
        self, mine: Floats, others: list[Floats], scale: float, added: float
    ) -> tuple[Arc, float] | None:
        """Fit the arc between the first two, in addition to the line between them, apart from rounding."""
        if len(others) != 2 + self.with_base:
            return None
        arc = nearest_arc(mine, others[0], others[1])
        if arc is None:
            return None
        line = grams(mine, others[:2]).total
        return (
            Arc(t=arc.t, left=max(0.0, arc.left - added) / scale, cosine=arc.cosine),
            max(0.0, residual(line, mixture(line)) - added) / scale,
        )

    def _sparse(self, mine: Floats, others: list[Floats], scale: float, dtype: str) -> SparseFits | None:
        if not self.with_base:
            return None
        return sparse_fits(mine, others[:-1], others[-1], scale, rounding_steps(mine, dtype))


def _facing_layers(faced: Faced) -> tuple[int | None, ...]:
    return tuple(None if faced.site.layer < 0 else layer for layer in faced.layers)


def _unfitted(cell: Site, tensor: str, layers: Sequence[int], reason: Message) -> MergeCell:
    return MergeCell(
        tensor=tensor,
        module=cell.module,
        group=cell.group,
        layer=None if cell.layer < 0 else cell.layer,
        expert=None if cell.expert < 0 else cell.expert,
        facing=tuple(None if cell.layer < 0 else layer for layer in layers),
        weights=(),
        nearest=None,
        left=None,
        left_single=None,
        opposition=None,
        to_rounding=None,
        n=0,
        reason=reason,
    )


def _order(cell: MergeCell) -> tuple[int, str, int]:
    return (
        -1 if cell.layer is None else cell.layer,
        cell.module,
        -1 if cell.expert is None else cell.expert,
    )
