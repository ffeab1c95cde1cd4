"""Registries with cards: demo models whose declarations are written for the test, and drawn fingerprints."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tests.registry.made import drawn

from modelkin.atlas import AboutModel, Atlas, AtlasClaim, AtlasEdge, AtlasPair, LicenceStep, UnnamedOrigin
from modelkin.atlas.declarations import Declaration
from modelkin.atlas.result import AtlasFamily, AtlasModel
from modelkin.fingerprint import Fingerprint
from modelkin.message import say
from modelkin.registry import Registry, create_registry, sync, targets_of_list

Card = tuple[Sequence[str], str, str]
"""Declared parents, licence, date."""


def carded(folder: Path, zoo: Path, cards: Mapping[str, Card]) -> dict[str, AboutModel]:
    """Copy models and give each a card; return what the keeper of a registry would know about them."""
    about = {}
    for name, (parents, licence, date) in cards.items():
        shutil.copytree(zoo / name, folder / name)
        listed = "".join(f"- {parent}\n" for parent in parents)
        base = f"base_model:\n{listed}" if parents else ""
        (folder / name / "README.md").write_text(f"---\nlicense: {licence}\n{base}---\n# {name}\n")
        about[str(folder / name)] = AboutModel(name=f"org/{name}", date=date or None)
    return about


def registered(place: Path, refs: Sequence[str]) -> Registry:
    """Return a registry of models."""
    registry, _ = sync(create_registry(str(place)), targets_of_list("\n".join(refs)))
    return registry


def drawn_family(name: str, size: int, *, seed: int, share: float = 0.9) -> list[Fingerprint]:
    """Return the fingerprints of a base and its children."""
    base = drawn(f"{name}/base", seed)
    return [
        base,
        *(drawn(f"{name}/child-{at}", seed + at, parent=base, share=share) for at in range(1, size)),
    ]


def drawn_atlas(n_models: int, *, family: int = 100, names: Sequence[str] = ()) -> Atlas:
    """Return a made-up atlas: one star per family, as large as a page must handle."""
    refs = [*names, *(f"org-{at // family}/model-{at}" for at in range(len(names), n_models))]
    groups = [refs[start : start + family] for start in range(0, len(refs), family)]
    edges = [
        AtlasEdge(
            first=ref,
            second=group[0] if at % 3 else group[at // 3],
            kind="declared" if at % 2 else "nearest",
            parent=group[0] if at % 2 and at % 3 else None,
            reason=say("atlas-shared"),
        )
        for group in groups
        for at, ref in enumerate(group)
        if at
    ]
    models = {
        ref: AtlasModel(
            ref=ref,
            revision="0" * 40,
            added="2026-01-01T00:00:00+00:00",
            architecture="llama",
            layers=32,
            hidden_size=4_096,
            vocab_size=32_000,
            parameters=7_000_000_000,
            declared=Declaration(name=ref, parents=(group[0],), licence="mit", date="2024-01-01"),
            family=number,
            n_relatives=len(group) - 1,
            reason=None,
        )
        for number, group in enumerate(groups)
        for ref in group
    }
    pairs = tuple(
        AtlasPair(
            first=edge.first, second=edge.second, found=True, log10_p=-30.0, likeness=0.5, token_gram=None
        )
        for edge in edges
    )
    first, second = refs[0], refs[1]
    return Atlas(
        registry="/somewhere/registry",
        recipe="1",
        made="2026-01-01T00:00:00+00:00",
        modelkin="0.1.0",
        log10_size=8.0,
        threshold=-6.0,
        claims_depth="deep",
        n_pairs=n_models * (n_models - 1) // 2,
        n_tested=len(pairs),
        n_found=len(pairs),
        models=models,
        families=tuple(
            AtlasFamily(name=group[0], members=tuple(group), n_pairs=len(group), grown=False)
            for group in groups
        ),
        pairs=pairs,
        edges=tuple(edges),
        merges=(),
        claims=(
            AtlasClaim(
                child=second, named=first, parent=first, status="contradicted", reason=say("check-unrelated")
            ),
            AtlasClaim(
                child=first, named="x/y", parent=None, status="untestable", reason=say("atlas-not-here")
            ),
        ),
        unnamed=(
            UnnamedOrigin(
                child=second,
                date="2024-01-02",
                earlier=(first,),
                earlier_dates=("2024-01-01",),
                reason=say("atlas-unnamed", n=1),
            ),
        ),
        licences=(
            LicenceStep(
                child=second,
                parent=first,
                child_licence="mit",
                parent_licence="llama3",
                missing=("named",),
                reason=say("check-licence-wider", words=(say("licence.named"),)),
            ),
        ),
        n_undated=0,
        limitations=(say("atlas-limit-origin"),),
    )


def without_reports(atlas: Atlas) -> Atlas:
    """Return an atlas as its record has it: comparisons are separate files."""
    return replace(atlas, pairs=tuple(replace(pair, comparison=None) for pair in atlas.pairs))
