"""Tables of measures in the forms that published analyses use, so that files can be compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from modelkin.casework.studies._bench import Bench
from modelkin.casework.studies._node import Node
from modelkin.casework.studies._spec import Scope
from modelkin.describe.matrix import parse_layer_list
from modelkin.describe.measures import Table

from ._form import Form
from ._layer_forms import decay, statistics
from ._reading import read_layers, read_measures, read_roles
from ._row_forms import layerwise, sampled
from ._square_forms import confusion, within

_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.{}-]{0,80}(?:/[A-Za-z0-9_{][A-Za-z0-9_.{}-]{0,80}){0,4}")

FORMS: Mapping[str, Callable[[Bench, Form, Table], None]] = {
    "layerwise": layerwise,
    "sampled": sampled,
    "confusion": confusion,
    "within": within,
    "decay": decay,
    "statistics": statistics,
}


def read_form(node: Node, scope: Scope) -> Form:
    """Read a form."""
    parts = node.fields(
        required=("form", "file"),
        optional=("models", "layers", "layers_of", "roles", "routers", "distance", "names"),
    )
    own = parts["layers_of"].fields(optional=tuple(scope.models)) if "layers_of" in parts else {}
    return Form(
        form=parts["form"].choice(tuple(FORMS)),
        file=parts["file"].text(form=_PATTERN, what="a path"),
        names=read_measures(parts["names"]) if "names" in parts else (),
        models=scope.aliases(parts.get("models")),
        layers=parse_layer_list(read_layers(parts["layers"])) if "layers" in parts else (),
        layers_of={alias: item.whole(low=0, high=9_999) for alias, item in own.items()},
        roles=read_roles(parts["roles"]) if "roles" in parts else (),
        routers=scope.experiment(parts["routers"]) if "routers" in parts else None,
        distance=parts["distance"].whole(low=1, high=999) if "distance" in parts else 5,
    )
