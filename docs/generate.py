"""Writes the generated parts of the documentation: ``make docs``.

A part is between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``. A test fails if a part is not what this script
would write.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import get_args

import click
from msgspec import Struct
from msgspec.structs import fields
from rich.console import Console

import modelkin
from modelkin import compare, errors, inspect_model, open_model
from modelkin.architecture.loader import families
from modelkin.architecture.spaces import SPACES, Positions, space_under
from modelkin.casework.lab import load_zoo
from modelkin.casework.studies.kinds import KINDS
from modelkin.casework.studies.kinds.forms import AnyForm, AnyTokenizerForm
from modelkin.casework.studies.kinds.forms.form import Form
from modelkin.casework.studies.kinds.forms.tokenizers import TokenizerForm
from modelkin.casework.studies.plots import PLOTS, VIEWED
from modelkin.casework.studies.spec import Drawing, Experiment
from modelkin.cli.app import app
from modelkin.comparison.methods import load_cards
from modelkin.describe.measures import MEASURES
from modelkin.document import comparison_view, inspection_view, render_terminal
from modelkin.tokenizer import known_pairs

DOCS = Path(__file__).parent
POSITIONS: tuple[Positions, ...] = get_args(Positions)


def commands() -> str:
    """Help of every command."""
    return "\n\n".join(_help(("modelkin",), app))


def inspection() -> str:
    """Print what ``modelkin inspect`` does, on a screen of 110 columns."""
    with open_model("demo:base") as model:
        found = inspect_model(model)
    return _block(_drawn(lambda console: console.print(render_terminal(inspection_view(found)))))


def comparison() -> str:
    """Print what ``modelkin compare`` does for two strangers, on a screen of 110 columns."""
    result = compare(candidate="demo:twin-1", base="demo:base")
    text = _drawn(lambda console: console.print(render_terminal(comparison_view(result, detail="brief"))))
    return _block(re.sub(r"in [0-9.]+ s\b", "in 0.1 s", text))


def method_table() -> str:
    """All methods with what they claim and what defeats them."""
    rows = ["| method | component | axis | exact null | claim | defeated by |"]
    rows.append("| --- | --- | --- | --- | --- | --- |")
    for card in load_cards().values():
        rows.append(
            f"| [{card.name}](methods/{card.name}.md) | {card.component} | {card.axis} | "
            f"{'yes' if card.exact else 'no'} | {card.claim} | {card.defeated_by} |"
        )
    return "\n".join(rows)


def measure_table() -> str:
    """All measures with what they are and what they cannot say."""
    rows = ["| measure | symmetric | range | expectation | what it is | what it cannot say |"]
    rows.append("| --- | --- | --- | --- | --- | --- |")
    for item in MEASURES.values():
        low, high = ("-" if end is None else f"{end:g}" for end in (item.low, item.high))
        rows.append(
            f"| `{item.name}` | {'yes' if item.symmetric else 'no'} | {low} to {high} | "
            f"{'exact' if item.expectation else '-'} | {item.meaning} | {item.cannot_say} |"
        )
    return "\n".join(rows)


def tokenizer_background() -> str:
    """Summarise what pairs of published tokenizers show, by how they are related."""
    rows = [
        "| known relation | pairs | of the smaller | Jaccard | correlation of ids | merges of the fewer "
        "| longest run without single bytes |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    pairs = known_pairs()
    for relation in ("separate", "same maker", "common stock", "extended", "same"):
        group = [pair for pair in pairs if pair.relation == relation]
        merges = [pair.merges_of_smaller for pair in group if pair.merges_of_smaller is not None]
        cells = [
            _reach([pair.of_smaller for pair in group]),
            _reach([pair.jaccard for pair in group]),
            _reach([pair.spearman for pair in group]),
            _reach(merges),
            f"{min(pair.run_words for pair in group):,} to {max(pair.run_words for pair in group):,}",
        ]
        rows.append(f"| `{relation}` | {len(group)} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _reach(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}" if values else "-"


def ancestry() -> str:
    """Which model came from which in the test zoo."""
    lines = [
        "| model | family | parent | relation | loss | spread of gains | change of MLP | what was done |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, model in load_zoo(DOCS.parent / "tests" / "zoo").items():
        record = model.record
        parent = model.parent or (f"({model.teacher})" if model.teacher else "")
        change = record.get("change", {}).get("mlp", "")
        loss = f"{record['first_loss']:.2f} → {record['last_loss']:.2f}"
        cells = (
            name,
            model.family,
            parent,
            model.relation,
            loss,
            record["gain_spread"],
            change,
            record["note"],
        )
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join(lines)


def family_table() -> str:
    """All families with what they cover."""
    rows = [
        "| family | what | model types | kind | norms | positions |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for spec in families():
        ordered = sorted(spec.model_types, key=lambda name: (name.lower(), name))
        types = ", ".join(f"`{name}`" for name in ordered)
        rows.append(
            f"| `{spec.family}` | {spec.title} | {types} | {spec.kind} | {spec.norm} | {spec.positions} |"
        )
    return "\n".join(rows)


def space_table() -> str:
    """All spaces with the orders that are free in them."""
    rows = ["| space | its order is shared by | free? | why |", "| --- | --- | --- | --- |"]
    for space in SPACES.values():
        free = "yes" if space.exchangeable else "no"
        bound = [
            positions
            for positions in POSITIONS
            if space.exchangeable
            and not space_under(space.name, positions=positions, encoder_positions=positions).exchangeable
        ]
        free += f", except with {' or '.join(bound)} positions" if bound else ""
        rows.append(f"| `{space.name}` | {space.scope} | {free} | {space.why} |")
    return "\n".join(rows)


def error_table() -> str:
    """All errors with their exit codes."""
    rows = ["| error | exit code | meaning |", "| --- | --- | --- |"]
    for name in errors.__all__:
        kind = getattr(errors, name)
        meaning = (kind.__doc__ or "").strip().splitlines()[0]
        rows.append(f"| <a id='{name}'></a>`{name}` | {kind.exit_code} | {meaning} |")
    return "\n".join(rows)


def code_map() -> str:
    """Every room with the first line of its docstring: the modules at the root, then the packages."""
    package = Path(modelkin.__file__).parent
    rooms = [path for path in package.glob("*.py") if not path.name.startswith("__main")]
    rooms += package.glob("*/__init__.py")
    rooms += [
        path for inner in ("comparison", "casework") for path in (package / inner).glob("*/__init__.py")
    ]
    lines = ["src/modelkin/"]
    for path in sorted(rooms, key=lambda path: (path.name == "__init__.py", path.parent.parts, path.name)):
        inside = path.relative_to(package)
        name = f"{inside.parent.as_posix()}/" if len(inside.parts) > 1 else inside.name
        lines.append(f"  {name:<22} {_summary(path)}")
    return _block("\n".join(lines))


def option_table(classes: Sequence[type[Struct]], base: type[Struct], what: str) -> str:
    """Kinds of experiments, figures or files of a study, with the options that they declare."""
    common = base.__struct_fields__
    rows = [f"| {what} | required | optional | what it is |", "| --- | --- | --- | --- |"]
    for item in classes:
        options = [option for option in fields(item) if option.name not in common]
        needed, other = (
            ", ".join(option.encode_name for option in options if option.required is wanted)
            for wanted in (True, False)
        )
        meaning = (item.__doc__ or "").split("\n")[0]
        rows.append(f"| `{item.__struct_config__.tag}` | {needed} | {other} | {meaning} |")
    return "\n".join(rows)


def figure_table() -> str:
    """Kinds of figures of a study; each view with the options that it takes."""
    plain = [kind for kind in PLOTS if kind not in VIEWED]
    rows = option_table(plain, Drawing, "figure").splitlines()
    rows[0] = rows[0].replace("| figure |", "| figure | view | data |")
    rows[1] += " --- | --- |"
    rows[2:] = [
        row.replace("` |", f"` | | `{kind.READS}` |", 1) for kind, row in zip(plain, rows[2:], strict=True)
    ]
    for kind in reversed(VIEWED):
        always = [option.name for option in fields(kind) if option.required]
        always = [name for name in always if name not in (*Drawing.__struct_fields__, "view")]
        views = []
        for name, (draw, needs, uses, reads) in kind.VIEWS.items():
            needed, other = ", ".join([*always, *needs]), ", ".join(uses)
            meaning = (draw.__doc__ or "").split("\n")[0]
            tag = kind.__struct_config__.tag
            views.append(f"| `{tag}` | `{name}` | `{reads}` | {needed} | {other} | {meaning} |")
        rows[2:2] = views
    return "\n".join(rows)


PARTS: dict[str, tuple[tuple[str, ...], Callable[[], str]]] = {
    "commands": (("cli.md",), commands),
    "inspection": (("tutorial.md",), inspection),
    "comparison": (("../README.md",), comparison),
    "methods": (("verdicts.md",), method_table),
    "measures": (("measures.md",), measure_table),
    "zoo": (("zoo.md",), ancestry),
    "tokenizer background": (("tokenizers.md",), tokenizer_background),
    "families": (("architectures.md",), family_table),
    "spaces": (("architectures.md",), space_table),
    "experiments": (("studies.md",), partial(option_table, KINDS, Experiment, "kind")),
    "forms": (("studies.md",), partial(option_table, get_args(AnyForm), Form, "form")),
    "tokenizer forms": (
        ("studies.md",),
        partial(option_table, get_args(AnyTokenizerForm), TokenizerForm, "form"),
    ),
    "figures": (("studies.md",), figure_table),
    "errors": (("errors.md",), error_table),
    "code map": (("internals.md",), code_map),
}


def regenerated(text: str, name: str, content: str) -> str:
    """Put new content between a part's markers."""
    pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"no markers for {name!r}")
    return pattern.sub(lambda match: f"{match[1]}{content}\n{match[2]}", text)


def _help(path: tuple[str, ...], command: click.Command) -> list[str]:
    context = click.Context(
        command,
        info_name=" ".join(path),
        max_content_width=100,
        terminal_width=100,
        help_option_names=["-h", "--help"],  # as the app sets them; click keeps the first ones it sees
    )
    parts = [f"## `{' '.join(path)}`\n\n{_block(command.get_help(context))}"]
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            parts += _help((*path, name), command.commands[name])
    return parts


def _drawn(draw: Callable[[Console], None]) -> str:
    stream = io.StringIO()
    draw(Console(file=stream, width=110, highlight=False))
    return "\n".join(line.rstrip() for line in stream.getvalue().rstrip().splitlines())


def _summary(path: Path) -> str:
    found = re.match(r'"""(.+?)(?:"""|\n)', path.read_text())
    return found[1] if found else ""


def _block(text: str) -> str:
    return f"```text\n{text}\n```"


def main() -> int:
    """Rewrite every part."""
    for name, (files, make) in PARTS.items():
        for file in files:
            path = DOCS / file
            path.write_text(regenerated(path.read_text(), name, make()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
