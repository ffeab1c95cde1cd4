"""How results are told: views turn them into blocks, renderers write blocks. Nothing is computed here.

The names below are imported when they are first used: a message tells itself without `rich`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelkin.document.evidence import tensors_csv
    from modelkin.document.folder import (
        matrix_markdown,
        report_html,
        report_markdown,
        write_folder,
        write_matrix,
    )
    from modelkin.document.html import render_html
    from modelkin.document.language import LANGUAGES, Language, load_language, read_texts
    from modelkin.document.markdown import render_markdown
    from modelkin.document.numbers import bound_text, count_text, effect_text, p_text, size_text
    from modelkin.document.results import comparison_from_json, matrix_from_json, plain, schema, to_json
    from modelkin.document.terminal import render_terminal
    from modelkin.document.views.comparison import comparison_view, verdict_card
    from modelkin.document.views.inspection import inspection_view
    from modelkin.document.views.matrix import matrix_view
    from modelkin.document.views.methods import methods_view
    from modelkin.document.views.reading import plan_view, plans_view, store_view
    from modelkin.document.views.tokenizers import tokenizers_view

_MODULES = {
    "evidence": "tensors_csv",
    "folder": "matrix_markdown report_html report_markdown write_folder write_matrix",
    "html": "render_html",
    "language": "LANGUAGES Language load_language read_texts",
    "markdown": "render_markdown",
    "numbers": "bound_text count_text effect_text p_text size_text",
    "results": "comparison_from_json matrix_from_json plain schema to_json",
    "terminal": "render_terminal",
    "views.comparison": "comparison_view verdict_card",
    "views.inspection": "inspection_view",
    "views.matrix": "matrix_view",
    "views.methods": "methods_view",
    "views.reading": "plan_view plans_view store_view",
    "views.tokenizers": "tokenizers_view",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

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
    "matrix_from_json",
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
    "schema",
    "size_text",
    "store_view",
    "tensors_csv",
    "to_json",
    "tokenizers_view",
    "verdict_card",
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
