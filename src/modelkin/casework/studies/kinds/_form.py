"""A further file of a table of measures, in a form that published analyses use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from modelkin.describe.measures import Table, find_measure

CATEGORIES = {"attention_norm": "norm_pre", "mlp_norm": "norm_post"}
"""What published tables call roles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A further file of a table."""

    form: str
    file: str
    """May hold ``{measure}``, ``{layer}``, ``{layers}`` and ``{model}`` where several files are written."""
    names: tuple[str, ...]
    """Measures as file names call them; several may mean one measure."""
    models: tuple[str, ...]
    layers: tuple[int, ...]
    layers_of: Mapping[str, int]
    roles: tuple[str, ...]
    routers: str | None
    """Experiment of kind ``routers`` whose matched cosines are put beside."""
    distance: int


def form_roles(form: Form, table: Table) -> tuple[str, ...]:
    """Return the roles that the file is about."""
    return tuple(role for role in table.distinct("role") if not form.roles or role in form.roles)


def form_measures(form: Form, table: Table) -> Iterator[tuple[str, str]]:
    """Yield measures: what a file calls them, and what they are."""
    for name in form.names or table.distinct("measure"):
        measure = find_measure(name).name
        if measure in table.distinct("measure"):
            yield name.replace("-", "_"), measure
