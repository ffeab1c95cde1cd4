"""How results are told: on the terminal, as JSON, as a report folder. Nothing is computed here."""

from modelkin.document._comparison_view import comparison_view, verdict_panel
from modelkin.document._folder import write_folder
from modelkin.document._inspection_view import inspection_view
from modelkin.document._json import plain, schema, to_json
from modelkin.document._markdown import report_markdown
from modelkin.document._matrix_json import matrix_document, matrix_from_json, matrix_json
from modelkin.document._matrix_markdown import matrix_markdown, write_matrix
from modelkin.document._matrix_view import matrix_view
from modelkin.document._methods_view import methods_view
from modelkin.document._numbers import bound_text, count_text, effect_text, p_text, size_text
from modelkin.document._read_json import comparison_from_json
from modelkin.document._reading_view import plan_view, plans_view, store_view
from modelkin.document._tables import tensors_csv
from modelkin.document._tokenizers_view import tokenizers_view
from modelkin.document.html import report_html
from modelkin.document.languages import LANGUAGES, load_language, read_texts

__all__ = [
    "LANGUAGES",
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
    "report_html",
    "report_markdown",
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
