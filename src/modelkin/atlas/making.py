"""From a registry to its atlas: relatives first, then cards, then claims on weights, then trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from modelkin._version import __version__
from modelkin.comparison import Comparison, compare
from modelkin.errors import FormatError, ModelkinError
from modelkin.fingerprint.recipe import RECIPE
from modelkin.message import Message, say, told
from modelkin.options import CompareOptions, Depth, FetchOptions
from modelkin.progress import Progress, Silent
from modelkin.registry import Registry, open_cluster
from modelkin.registry.scanning import LOG10_FOUND, LOG10_SIZE
from modelkin.registry.segments import RegistryRow

from .claims import KnownKin, judged_claims, licence_steps, unnamed_origins
from .declarations import AboutModel, Declaration, pinned, read_declaration
from .groups import connected
from .relatives import AllKin, Kin, all_kin
from .result import Atlas, AtlasClaim, AtlasEdge, AtlasFamily, AtlasModel, AtlasPair
from .trees import family_edges, merges_of

MOST_RELATIVES = 8
"""Most relatives of a model that are listed with numbers; all are counted. A family of a thousand has half a
million pairs, which nobody reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtlasOptions:
    """How much is read for an atlas besides the registry itself."""

    cards: bool = True
    """Whether cards and dates are read, a few requests per model."""
    claims_depth: Depth | None = "deep"
    """How much of the weights is read for a declared parent that the fingerprints do not show. A claim can be
    contradicted only from deep on; None reads nothing."""
    grow: int = 12
    """Members up to which the tree of a family is grown on weights, 20 MB of each; 0 grows none."""
    reports: int = 20
    """Edges that are compared on weights at standard depth, for the report on the pair."""
    cluster: str | None = None
    """Where all pairs are tested: ``tcp://host:8786`` or ``local`` for Dask; here, if not given."""
    fetch: FetchOptions = field(default_factory=FetchOptions)

    def __post_init__(self) -> None:
        if self.grow < 0 or self.reports < 0:
            raise ValueError("grow, reports: expected at least 0")


def make_atlas(
    registry: Registry,
    options: AtlasOptions | None = None,
    *,
    about: Mapping[str, AboutModel] | None = None,
    progress: Progress | None = None,
) -> Atlas:
    """Draw the families of a registry, and check what cards say against the weights.

    Parameters
    ----------
    about
        Names that cards use for models, and dates, if the models do not state them.
    """
    return _Making(registry, options or AtlasOptions(), about or {}, progress or Silent()).made()


@dataclass(slots=True)
class _Making:
    registry: Registry
    options: AtlasOptions
    about: Mapping[str, AboutModel]
    told: Progress
    rows: dict[str, RegistryRow] = field(default_factory=dict)
    revised: frozenset[str] = frozenset()
    compared: dict[frozenset[str], tuple[Depth, Comparison | Message]] = field(default_factory=dict)

    def made(self) -> Atlas:
        damaged: dict[str, FormatError] = {}
        every = range(self.registry.n_rows)
        # Later rows are newer revisions of the same model.
        rows = list(
            self.registry.each_row(every, damaged=lambda at, error: damaged.update({at.segment: error}))
        )
        self.rows = {row.ref: row for row in rows}
        self.revised = frozenset(ref for ref, count in Counter(row.ref for row in rows).items() if count > 1)
        found = self._kin()
        kin = self._known(found)
        declared = self._declared()
        depth = self.options.claims_depth
        claims = tuple(judged_claims(declared, kin, self._on_weights if depth else None, depth))
        unnamed, n_undated = unnamed_origins(declared, kin)
        families, edges = self._families(kin, claims)
        self._report(edges)
        n_rows = sum(row.reason_code is None for row in self.rows.values())
        return Atlas(
            registry=self.registry.place.name,
            recipe=RECIPE,
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            modelkin=__version__,
            log10_size=LOG10_SIZE,
            threshold=LOG10_FOUND,
            claims_depth=depth,
            n_pairs=n_rows * (n_rows - 1) // 2,
            n_tested=found.n_tested,
            n_found=sum(item.found for item in found.kin),
            models=self._models(kin, declared),
            families=families,
            pairs=tuple(self._pairs(kin, edges)),
            edges=edges,
            merges=tuple(merges_of(edges)),
            claims=claims,
            unnamed=unnamed,
            licences=tuple(licence_steps(claims, declared)),
            n_undated=n_undated,
            limitations=(
                say("atlas-limit-origin"),
                say("atlas-limit-dates"),
                say("atlas-limit-edges"),
                say("atlas-limit-licences"),
            ),
            notes=tuple(
                say("scan-damaged", problem=say("error.said", where=name, problem=error.said))
                for name, error in damaged.items()
            ),
        )

    # -- relatives -------------------------------------------------------------------------------------

    def _kin(self) -> AllKin:
        made = [row.fingerprint() for row in self.rows.values() if row.reason_code is None]
        if self.options.cluster is None:
            return all_kin(made, self.told)
        with open_cluster(self.options.cluster) as client:
            return all_kin(made, self.told, client=client)

    def _known(self, found: AllKin) -> KnownKin:
        refs = [ref for ref, row in self.rows.items() if row.reason_code is None]
        groups = connected(len(refs), [(item.first, item.second) for item in found.kin if item.found])
        groups = sorted((group for group in groups if len(group) > 1), key=len, reverse=True)
        return KnownKin(
            pairs={frozenset((refs[item.first], refs[item.second])): item for item in found.kin},
            family={refs[at]: number for number, group in enumerate(groups) for at in group},
            revised=self.revised,
        )

    def _families(
        self, kin: KnownKin, claims: Sequence[AtlasClaim]
    ) -> tuple[tuple[AtlasFamily, ...], tuple[AtlasEdge, ...]]:
        members: dict[int, list[str]] = {}
        for ref, number in kin.family.items():
            members.setdefault(number, []).append(ref)
        n_relatives = _counted(kin)
        n_pairs = Counter(kin.family[next(iter(pair))] for pair, item in kin.pairs.items() if item.found)
        said: dict[int, list[AtlasClaim]] = {}
        for claim in claims:
            if claim.parent is not None and kin.connected(claim.child, claim.parent):
                said.setdefault(kin.family[claim.child], []).append(claim)
        places = {ref: pinned(row) for ref, row in self.rows.items()}
        inside = _inside(kin)
        families: list[AtlasFamily] = []
        edges: list[AtlasEdge] = []
        for number in sorted(members):
            refs = members[number]
            tree = family_edges(
                refs,
                KnownKin(pairs=inside[number], family=kin.family),
                said.get(number, ()),
                places=places,
                most_grown=self.options.grow,
                fetch=self.options.fetch,
                progress=self.told,
            )
            edges += tree.edges
            families.append(
                AtlasFamily(
                    name=max(refs, key=lambda ref: n_relatives[ref]),
                    members=tuple(refs),
                    n_pairs=n_pairs[number],
                    grown=tree.grown,
                    notes=tree.notes,
                )
            )
        return tuple(families), tuple(edges)

    # -- models ----------------------------------------------------------------------------------------

    def _declared(self) -> dict[str, Declaration]:
        found = {}
        for number, (ref, row) in enumerate(self.rows.items()):
            known = self.about.get(ref, AboutModel())
            if self.options.cards:
                self.told.count(number, len(self.rows), say("atlas-cards"))
                found[ref] = read_declaration(row, self.about, self.options.fetch)
            else:
                found[ref] = Declaration(name=known.name, date=known.date, reason=say("atlas-no-cards"))
        return found

    def _models(self, kin: KnownKin, declared: Mapping[str, Declaration]) -> dict[str, AtlasModel]:
        counted = _counted(kin)
        found = {}
        for ref, row in self.rows.items():
            model = row.model
            found[ref] = AtlasModel(
                ref=ref,
                revision=row.revision,
                added=row.added,
                architecture=None if model is None else model.family,
                layers=None if model is None else model.layers,
                hidden_size=None if model is None else model.hidden_size,
                vocab_size=None if model is None else model.vocab_size,
                parameters=None if model is None else model.parameters,
                declared=declared[ref],
                family=kin.family.get(ref),
                n_relatives=counted[ref],
                reason=None if row.reason is None else say("problem.registry-without", problem=row.reason),
            )
        return found

    # -- weights ---------------------------------------------------------------------------------------

    def _on_weights(self, child: str, parent: str) -> Comparison | Message:
        assert self.options.claims_depth is not None
        return self._compared(child, parent, self.options.claims_depth)

    def _compared(self, candidate: str, base: str, depth: Depth) -> Comparison | Message:
        key = frozenset((candidate, base))
        if key not in self.compared:
            self.told.note(say("step-pair", first=candidate, second=base))
            places = pinned(self.rows[candidate]), pinned(self.rows[base])
            options = CompareOptions(depth=depth, fetch=self.options.fetch)
            try:
                found: Comparison | Message = compare(
                    candidate=places[0], base=places[1], options=options, progress=self.told
                )
            except ModelkinError as error:
                found = told(error)
            self.compared[key] = depth, found
        return self.compared[key][1]

    def _report(self, edges: Sequence[AtlasEdge]) -> None:
        """Compare the weights of the first edges, so that their pairs have a report."""
        for edge in edges[: self.options.reports]:
            child = edge.second if edge.parent == edge.first else edge.first
            self._compared(child, edge.second if child == edge.first else edge.first, "standard")

    def _pairs(self, kin: KnownKin, edges: Sequence[AtlasEdge]) -> list[AtlasPair]:
        wanted = {frozenset((edge.first, edge.second)) for edge in edges} | self.compared.keys()
        near: dict[str, list[tuple[float, frozenset[str]]]] = {}
        for pair, item in kin.pairs.items():
            for ref in pair:
                near.setdefault(ref, []).append((-item.likeness if item.found else 1.0, pair))
        for listed in near.values():
            wanted |= {pair for _, pair in sorted(listed, key=_order)[:MOST_RELATIVES]}
        return [self._pair(pair, kin.pairs.get(pair)) for pair in sorted(wanted, key=sorted)]

    def _pair(self, pair: frozenset[str], kin: Kin | None) -> AtlasPair:
        first, second = sorted(pair)
        plain = AtlasPair(
            first=first,
            second=second,
            found=kin is not None and kin.found,
            log10_p=None if kin is None else kin.log10_p,
            likeness=None if kin is None else kin.likeness,
            token_gram=None if kin is None else kin.token_gram,
        )
        if pair not in self.compared:
            return plain
        depth, found = self.compared[pair]
        if isinstance(found, Message):
            return replace(plain, depth=depth, reason=found)
        return replace(
            plain,
            depth=depth,
            conclusion=found.verdict.conclusion.value,
            effect=found.verdict.effect,
            relation=found.relation.kind,
            weights_log10_p=found.verdict.log10_p,
            comparison=found,
        )


def _order(item: tuple[float, frozenset[str]]) -> tuple[float, list[str]]:
    return item[0], sorted(item[1])


def _counted(kin: KnownKin) -> Counter[str]:
    return Counter(ref for pair, item in kin.pairs.items() if item.found for ref in pair)


def _inside(kin: KnownKin) -> dict[int, dict[frozenset[str], Kin]]:
    """Return accepted pairs by family."""
    found: dict[int, dict[frozenset[str], Kin]] = {number: {} for number in set(kin.family.values())}
    for pair, item in kin.pairs.items():
        if item.found:
            found[kin.family[next(iter(pair))]][pair] = item
    return found
