"""How results are told: views turn them into blocks, renderers write blocks. Nothing is computed here.

The names below are imported when they are first used: a message tells itself without `rich`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelkin.document._comparison_view import comparison_view, verdict_panel
    from modelkin.document._folder import write_folder
    from modelkin.document._inspection_view import inspection_view
    from modelkin.document._json import plain, schema, to_json
    from modelkin.document._markdown import report_markdown
    from modelkin.document._matrix_json import matrix_document, matrix_from_json, matrix_json
    from modelkin.document._matrix_markdown import matrix_markdown, write_matrix
    from modelkin.document._matrix_view import matrix_view
    from modelkin.document._methods_view import methods_view
    from modelkin.document._read_json import comparison_from_json
    from modelkin.document._reading_view import plan_view, plans_view, store_view
    from modelkin.document._tables import tensors_csv
    from modelkin.document._tokenizers_view import tokenizers_view
    from modelkin.document.html import render_html, report_html
    from modelkin.document.language import LANGUAGES, Language, load_language, read_texts
    from modelkin.document.markdown import render_markdown
    from modelkin.document.numbers import bound_text, count_text, effect_text, p_text, runs_text, size_text
    from modelkin.document.terminal import render_terminal

_HOME = {
    "LANGUAGES": "language",
    "Language": "language",
    "bound_text": "numbers",
    "comparison_from_json": "_read_json",
    "comparison_view": "_comparison_view",
    "count_text": "numbers",
    "effect_text": "numbers",
    "inspection_view": "_inspection_view",
    "load_language": "language",
    "matrix_document": "_matrix_json",
    "matrix_from_json": "_matrix_json",
    "matrix_json": "_matrix_json",
    "matrix_markdown": "_matrix_markdown",
    "matrix_view": "_matrix_view",
    "methods_view": "_methods_view",
    "p_text": "numbers",
    "plain": "_json",
    "plan_view": "_reading_view",
    "plans_view": "_reading_view",
    "read_texts": "language",
    "render_html": "html",
    "render_markdown": "markdown",
    "render_terminal": "terminal",
    "report_html": "html",
    "report_markdown": "_markdown",
    "runs_text": "numbers",
    "schema": "_json",
    "size_text": "numbers",
    "store_view": "_reading_view",
    "tensors_csv": "_tables",
    "to_json": "_json",
    "tokenizers_view": "_tokenizers_view",
    "verdict_panel": "_comparison_view",
    "write_folder": "_folder",
    "write_matrix": "_matrix_markdown",
}

__all__ = [
    "LANGUAGES",
    "Language",
    "bound_text",
    "comparison_from_json",
    "comparison_view",
    "count_text",
    "effect_text",
    "inspection_view",
    "load_language",
    "matrix_document",
    "matrix_from_json",
    "matrix_json",
    "matrix_markdown",
    "matrix_view",
    "methods_view",
    "p_text",
    "plain",
    "plan_view",
    "plans_view",
    "read_texts",
    "render_html",
    "render_markdown",
    "render_terminal",
    "report_html",
    "report_markdown",
    "runs_text",
    "schema",
    "size_text",
    "store_view",
    "tensors_csv",
    "to_json",
    "tokenizers_view",
    "verdict_panel",
    "write_folder",
    "write_matrix",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'modelkin.document' has no attribute {name!r}")
    value: object = getattr(import_module(f"modelkin.document.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
