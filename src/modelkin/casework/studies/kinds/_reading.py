"""How options that many kinds share are read: roles, layers, measures."""

from __future__ import annotations

from modelkin.casework.studies._node import Node
from modelkin.describe.matrix import parse_layer_list, parse_role
from modelkin.describe.measures import MEASURES, find_measure
from modelkin.errors import UsageError


def read_roles(node: Node) -> tuple[str, ...]:
    """Read names of roles, as `modelkin matrix` knows them."""
    found = []
    for item in node.items(most=40, least=1):
        text = item.text(longest=60)
        try:
            found.append(parse_role(text).label)
        except UsageError as error:
            item.fail("the name of a role", hint=error.hint)
    return tuple(found)


def read_layers(node: Node) -> str:
    """Read a list of layers; one number may stand alone."""
    text = str(node.value) if type(node.value) is int else node.text(longest=200)
    try:
        parse_layer_list(text)
    except UsageError as error:
        node.fail("layers such as 0-10,20,30-35", hint=error.hint)
    return text


def read_measures(node: Node) -> tuple[str, ...]:
    """Read measures, as they are written."""
    return tuple(read_measure(item) for item in node.items(most=2 * len(MEASURES), least=1))


def read_measure(node: Node) -> str:
    """Read the name of a measure or an alias of it."""
    text = node.text(longest=60)
    try:
        find_measure(text)
    except UsageError as error:
        node.fail(f"a measure, one of {', '.join(MEASURES)}", hint=error.hint)
    return text
