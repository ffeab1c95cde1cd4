"""How well the names of a checkpoint fit each family, wherever a wrapper may have put them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from ._fixed import is_fixed_table
from ._roles import Part, Role
from .loader import families
from .notation import fits, split_name
from .spec import ArchitectureSpec, TensorSpec
from .wrappers import Placement, WeightPiece, placements, quantization_suffixes, wrappers


@dataclass(frozen=True, slots=True, kw_only=True)
class NameGroup:
    """All tensors whose names differ in numbers only."""

    template: str
    """The common name with ``#`` for numbers."""
    members: tuple[tuple[str, tuple[int, ...]], ...]
    """Names and their numbers."""
    stored: tuple[str, Part] | None
    """For a name that ends like a piece of a quantised weight: the weight's template and which piece."""
    table: bool
    """Whether it is a computed table in any family."""
    component: str | None
    """Which component other than the language model it belongs to by its prefix, or None."""

    @property
    def counts(self) -> bool:
        """Whether a family has to know it."""
        return not self.table and self.component is None


def group_names(names: Iterable[str]) -> tuple[NameGroup, ...]:
    """Group names by template."""
    found: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
    for name in names:
        template, numbers = split_name(name)
        found.setdefault(template, []).append((name, numbers))
    known = wrappers()
    return tuple(
        NameGroup(
            template=template,
            members=tuple(members),
            stored=_stored(template, quantization_suffixes()),
            table=is_fixed_table(template),
            component=known.component(template),
        )
        for template, members in found.items()
    )


def _stored(template: str, suffixes: Mapping[str, WeightPiece]) -> tuple[str, Part] | None:
    if template.endswith(".weight"):
        return None
    for ending, piece in suffixes.items():
        if template.endswith(ending):
            return template.removesuffix(ending) + piece.weight, piece.part
    return None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Matcher:
    """The names of one family at one placement."""

    spec: ArchitectureSpec
    placement: Placement
    """The family, and where its names are in the checkpoint."""
    by_template: dict[str, list[TensorSpec]]
    """Full template to the tensors it may be; several only if they differ in plain numbers."""

    def match(self, group: NameGroup, numbers: tuple[int, ...]) -> tuple[TensorSpec, Part] | None:
        """Return what a member of a group is in this family, and which part; None if it has no meaning."""
        for tensor in self.by_template.get(group.template, ()):
            if fits(tensor.slots, numbers):
                return tensor, tensor.part
        if group.stored is not None:
            weight, part = group.stored
            for tensor in self.by_template.get(weight, ()):
                if fits(tensor.slots, numbers):
                    return tensor, part
        return None


def _matcher(spec: ArchitectureSpec, placement: Placement) -> Matcher:
    by_template: dict[str, list[TensorSpec]] = {}
    for tensor in spec.tensors:
        body = placement.body if tensor.in_body else ""
        by_template.setdefault(placement.outer + body + tensor.template, []).append(tensor)
    return Matcher(spec=spec, placement=placement, by_template=by_template)


@cache
def _matchers() -> tuple[Matcher, ...]:
    return tuple(_matcher(spec, placement) for spec in families() for placement in placements(spec))


@cache
def _users() -> dict[str, tuple[Matcher, ...]]:
    """Return which matchers know a template at all, so that an unknown name costs one lookup."""
    users: dict[str, list[Matcher]] = {}
    for matcher in _matchers():
        for template in matcher.by_template:
            users.setdefault(template, []).append(matcher)
    return {template: tuple(matchers) for template, matchers in users.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyFit:
    """How well a family explains the names."""

    matcher: Matcher
    """Family and placement."""
    coverage: float
    """The share of templates it explains, of those that a family has to know."""
    n_required: int
    """Number of patterns that a complete model has; an encoder-decoder may lack one half."""
    missing: tuple[str, ...]
    """Patterns of tensors that a complete model has and this one lacks."""
    roles: frozenset[Role]
    """The roles that were found."""

    @property
    def spec(self) -> ArchitectureSpec:
        """The family."""
        return self.matcher.spec

    @property
    def is_model(self) -> bool:
        """Whether this is more than a few tensors with common names: attention, and most of a model."""
        attends = any(role.component == "attention" for role in self.roles)
        return attends and 2 * len(self.missing) <= self.n_required


def rank(fit: FamilyFit) -> tuple[float, int, int]:
    """Sort key of fits: explains more, lacks less, is the more common family."""
    return (fit.coverage, -len(fit.missing), fit.spec.precedence)


def all_fits(groups: tuple[NameGroup, ...]) -> dict[str, FamilyFit]:
    """Return for each family its fit at the placement where it explains most.

    Coverage counts templates, not tensors: the thousands of experts of one layout say no more than one of
    them, and would drown out an unknown kind of attention.
    """
    n_counting = sum(group.counts for group in groups)
    explained = dict.fromkeys(_matchers(), 0.0)
    extra = dict.fromkeys(_matchers(), 0)
    seen: dict[Matcher, set[TensorSpec]] = {matcher: set() for matcher in _matchers()}
    for group in groups:
        templates = [group.template, group.stored[0]] if group.stored else [group.template]
        for matcher in {user for template in templates for user in _users().get(template, ())}:
            share = _share(matcher, group, seen[matcher])
            explained[matcher] += share
            extra[matcher] += not group.counts and share > 0
    best: dict[str, FamilyFit] = {}
    for matcher in _matchers():
        if seen[matcher]:
            coverage = explained[matcher] / max(n_counting + extra[matcher], 1)
            fit = _fit(matcher, frozenset(seen[matcher]), coverage)
        else:
            fit = _unseen(matcher)
        rival = best.get(matcher.spec.family)
        if rival is None or rank(fit) > rank(rival):
            best[matcher.spec.family] = fit
    return best


@cache
def _unseen(matcher: Matcher) -> FamilyFit:
    """Return the fit of a family of which there is nothing, as of nearly all."""
    return _fit(matcher, frozenset(), 0.0)


def _fit(matcher: Matcher, seen: frozenset[TensorSpec], coverage: float) -> FamilyFit:
    required = _required(matcher.spec, seen)
    return FamilyFit(
        matcher=matcher,
        coverage=coverage,
        n_required=len(required),
        missing=tuple(tensor.pattern for tensor in required if tensor not in seen),
        roles=frozenset(role for tensor in seen for role in _roles(tensor)),
    )


def _required(spec: ArchitectureSpec, seen: frozenset[TensorSpec]) -> list[TensorSpec]:
    """Return what a complete model has, without a stack that is missing entirely."""
    stacks = {tensor.stack for tensor in seen if "layer" in tensor.slots}
    return [
        tensor
        for tensor in spec.tensors
        if not tensor.optional and (not stacks or tensor.stack in stacks or tensor.stack == "shared")
    ]


def _roles(tensor: TensorSpec) -> tuple[Role, ...]:
    return (tensor.role,) if tensor.fusion is None else tuple(part.role for part in tensor.fusion.parts)


def _share(matcher: Matcher, group: NameGroup, seen: set[TensorSpec]) -> float:
    """Return the share of a group's members that the family knows, and add their patterns to `seen`."""
    known = 0
    for _, numbers in group.members:
        match = matcher.match(group, numbers)
        if match is None:
            continue
        seen.add(match[0])
        known += 1
        if match[0].fits_all:
            return 1.0
    return known / len(group.members)
