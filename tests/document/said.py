"""What the code says, found without running it: calls of `say` and `phrase`, their codes, their values.

A code is a text, one of several (``a if b else c``, a table, items of a loop), or comes from whoever calls
the function around it: those calls are followed within the module. What is filled into ``f"side.{name}"`` and
cannot be followed stays a hole: the family of such codes is declared in `tests.document.families`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

HOLE = "{}"
_DEEPEST = 6
"""Of names that stand for names: ours need three."""


@dataclass(frozen=True, slots=True, order=True)
class Said:
    """One thing that a place of the code may say."""

    file: str
    line: int
    code: str
    """With a hole where it is unknown what is filled in."""
    names: tuple[str, ...]


_TAKES_IT = re.compile(r"^from modelkin\.message import [^\n]*\b(say|phrase)\b", re.MULTILINE)


def said_in(path: Path, file: str) -> Iterator[Said]:
    """Find what a module says."""
    text = path.read_text()
    if _TAKES_IT.search(text):
        yield from _Module(ast.parse(text), file).said()


class _Module:
    def __init__(self, tree: ast.Module, file: str) -> None:
        self.tree = tree
        self.file = file
        self.around: dict[ast.AST, ast.AST] = {
            child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)
        }
        self.calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]

    def said(self) -> Iterator[Said]:
        for call in self.calls:
            if (
                _name_of(call.func) in ("say", "phrase")
                and isinstance(call.func, ast.Name)
                and not self._is_local_say(call)
            ):
                for code, names in self._of(call):
                    yield Said(self.file, call.lineno, code, tuple(sorted(names)))

    def _is_local_say(self, call: ast.Call) -> bool:
        """Whether `say` is another one here, such as that of a language."""
        function = self._function(call)
        return function is not None and any(
            isinstance(node, ast.Name) and node.id == "say" and isinstance(node.ctx, ast.Store)
            for node in ast.walk(function)
        )

    def _of(self, call: ast.Call, depth: int = 0) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield the codes and values of a call, or of the calls of the function that it is part of."""
        given = frozenset(item.arg for item in call.keywords if item.arg)
        unnamed = [item.value for item in call.keywords if item.arg is None]
        function = self._function(call)
        if function is not None and depth < _DEEPEST:
            taken = function.args.kwarg
            passed_on = [item for item in unnamed if taken and _name_of(item) == taken.arg]
            if passed_on:
                parameters = {item.arg for item in (*function.args.args, *function.args.kwonlyargs)}
                for outer in self._calls_of(function):
                    own = frozenset(item.arg for item in outer.keywords if item.arg) - parameters
                    for code in self._texts(call.args[0], call, depth, outer):
                        yield code, given | own
                return
        held = frozenset(name for item in unnamed for name in self._keys(item, call))
        for code in self._texts(call.args[0], call, depth, None):
            yield code, given | held

    def _texts(self, node: ast.expr, at: ast.AST, depth: int, outer: ast.Call | None) -> set[str]:
        """Return what an expression may be; a hole stands for what cannot be told."""
        if depth > _DEEPEST:
            return {HOLE}
        match node:
            case ast.Constant(value=str(text)):
                return {text}
            case ast.IfExp(body=one, orelse=other):
                return self._texts(one, at, depth, outer) | self._texts(other, at, depth, outer)
            case ast.JoinedStr(values=parts):
                found = [self._texts(part, at, depth, outer) for part in parts]
                return {"".join(pieces) for pieces in product(*found)}
            case ast.FormattedValue(value=inner):
                return self._texts(inner, at, depth, outer)
            case ast.Subscript(value=ast.Name(id=name)) if (table := self._constant(name)) is not None:
                return self._of_table(table, at, depth) or {HOLE}
            case ast.Name(id=name):
                return self._variable(name, at, depth + 1, outer)
        return {HOLE}

    def _variable(self, name: str, at: ast.AST, depth: int, outer: ast.Call | None) -> set[str]:
        function = self._function(at)
        looped = self._loop(name, at)
        if looped is not None:
            return self._items(looped, name, at, depth)
        if function is None:
            return {HOLE}
        bound = [
            node
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and any(_name_of(target) == name for target in node.targets)
        ]
        if bound:
            # A name that is set again may keep its value: that one is told by the other line.
            kept = [node for node in bound if not (isinstance(at, ast.Assign) and at is node)]
            return set().union(*(self._texts(node.value, node, depth, outer) for node in kept))
        arguments = [*function.args.posonlyargs, *function.args.args]
        everything = [*arguments, *function.args.kwonlyargs]
        if name not in {item.arg for item in everything}:
            return {HOLE}
        callers = [outer] if outer is not None else self._calls_of(function)
        places = [item.arg for item in arguments if item.arg not in ("self", "cls")]
        found: set[str] = set() if callers else {HOLE}
        for call in callers:
            value = next((item.value for item in call.keywords if item.arg == name), None)
            if value is None and name in places and places.index(name) < len(call.args):
                value = call.args[places.index(name)]
            starred = value is None or isinstance(value, ast.Starred)
            found |= {HOLE} if starred or value is None else self._texts(value, call, depth, None)
        return found

    def _loop(self, name: str, at: ast.AST) -> tuple[ast.expr, ast.expr] | None:
        """Return target and items of the loop around a place that sets a name."""
        node: ast.AST | None = at
        while node is not None and not isinstance(node, ast.FunctionDef):
            loops: list[ast.For | ast.comprehension] = []
            if isinstance(node, ast.For):
                loops = [node]
            elif isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp):
                loops = list(node.generators)
            for loop in loops:
                if name in {item.id for item in ast.walk(loop.target) if isinstance(item, ast.Name)}:
                    return loop.target, loop.iter
            node = self.around.get(node)
        return None

    def _items(self, loop: tuple[ast.expr, ast.expr], name: str, at: ast.AST, depth: int) -> set[str]:
        target, items = loop
        place = None
        if isinstance(target, ast.Tuple):
            place = [_name_of(item) for item in target.elts].index(name)
        match items:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=held), attr="items")):
                table = self._table(held, at)
                if isinstance(table, ast.Dict) and place == 0:
                    return self._of_all([key for key in table.keys if key is not None], at, depth)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                if place is None:
                    return self._of_all(elements, at, depth)
                rows = [item for item in elements if isinstance(item, ast.Tuple)]
                if len(rows) == len(elements):
                    return self._of_all([row.elts[place] for row in rows], at, depth)
            case ast.Name(id=held):
                table = self._table(held, at)
                if isinstance(table, ast.Tuple | ast.List) and place is None:
                    return self._of_all(table.elts, at, depth)
        return {HOLE}

    def _of_all(self, nodes: list[ast.expr], at: ast.AST, depth: int) -> set[str]:
        return set().union(*(self._texts(node, at, depth + 1, None) for node in nodes))

    def _of_table(self, table: ast.expr, at: ast.AST, depth: int) -> set[str]:
        return self._of_all(table.values, at, depth) if isinstance(table, ast.Dict) else set()

    def _table(self, name: str, at: ast.AST) -> ast.expr | None:
        """Return the tuple or dict that a name stands for, in the function or in the module."""
        function = self._function(at)
        for node in ast.walk(function) if function is not None else ():
            if isinstance(node, ast.Assign) and _name_of(node.targets[0]) == name:
                return node.value
        return self._constant(name)

    def _constant(self, name: str) -> ast.expr | None:
        for node in self.tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                    return value
                case ast.AnnAssign(target=ast.Name(id=found), value=value) if found == name:
                    return value
        return None

    def _keys(self, node: ast.expr, at: ast.AST) -> set[str]:
        """Return the names in a dict that is given as values."""
        table = self._table(node.id, at) if isinstance(node, ast.Name) else node
        function = self._function(at)
        for item in ast.walk(function) if function is not None and isinstance(node, ast.Name) else ():
            if isinstance(item, ast.AnnAssign) and _name_of(item.target) == _name_of(node):
                table = item.value
        keys = table.keys if isinstance(table, ast.Dict) else []
        return {str(key.value) if isinstance(key, ast.Constant) else HOLE for key in keys} or {HOLE}

    def _function(self, node: ast.AST) -> ast.FunctionDef | None:
        found = self.around.get(node)
        while found is not None and not isinstance(found, ast.FunctionDef):
            found = self.around.get(found)
        return found

    def _calls_of(self, function: ast.FunctionDef) -> list[ast.Call]:
        """Return the calls of a function in its module; those of a class that is made go to __init__."""
        name = function.name
        owner = self.around.get(function)
        if name == "__init__" and isinstance(owner, ast.ClassDef):
            name = owner.name
        return [call for call in self.calls if _name_of(call.func) == name]


def _name_of(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""
