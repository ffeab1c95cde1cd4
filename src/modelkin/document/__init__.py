"""How results are presented: views turn them into blocks, renderers write blocks. Nothing is computed here.

The names below are imported when they are first used: a message can be told without `rich`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelkin.document.atlas_site import AtlasSite, SitePart, write_atlas
    from modelkin.document.folder import (
        check_folder,
        document_files,
        report_html,
        scan_html,
        try_folder,
        write_folder,
        write_scan,
    )
    from modelkin.document.formats import comparison_as, sarif_json
    from modelkin.document.html import page_policy, render_html
    from modelkin.document.language import ENGLISH, LANGUAGES, Language, load_language, read_texts
    from modelkin.document.markdown import render_markdown
    from modelkin.document.notebook import notebook_html, plot, three_lines, to_arrow, to_pandas
    from modelkin.document.numbers import bound_text, effect_text, size_text
    from modelkin.document.printing import print_html
    from modelkin.document.result_folders import write_result
    from modelkin.document.results import (
        fingerprint_from_document,
        fingerprint_from_json,
        from_json,
        plain,
        plain_object,
        to_json,
    )
    from modelkin.document.terminal import render_terminal
    from modelkin.document.views.atlas import atlas_view
    from modelkin.document.views.claims import claims_view
    from modelkin.document.views.comparison import comparison_view, verdict_card
    from modelkin.document.views.configs import configs_view
    from modelkin.document.views.diff import diff_view
    from modelkin.document.views.embeddings import embeddings_view
    from modelkin.document.views.inspection import inspection_view
    from modelkin.document.views.matrix import matrix_view
    from modelkin.document.views.merge import merge_view
    from modelkin.document.views.methods import methods_view, reference_cards_view
    from modelkin.document.views.reading import plan_view, plans_view, price_view, store_view
    from modelkin.document.views.registry import (
        check_view,
        fingerprint_view,
        pairs_view,
        registry_view,
        sync_view,
    )
    from modelkin.document.views.repositories import repositories_view
    from modelkin.document.views.scan import scan_view
    from modelkin.document.views.tokenizers import tokenizers_view
    from modelkin.document.views.tree import tree_view

_MODULES = {
    "atlas_site": "AtlasSite SitePart write_atlas",
    "folder": "check_folder document_files report_html scan_html try_folder write_folder write_scan",
    "formats": "comparison_as sarif_json",
    "html": "page_policy render_html",
    "language": "ENGLISH LANGUAGES Language load_language read_texts",
    "markdown": "render_markdown",
    "notebook": "notebook_html plot three_lines to_arrow to_pandas",
    "numbers": "bound_text effect_text size_text",
    "printing": "print_html",
    "result_folders": "write_result",
    "results": "fingerprint_from_document fingerprint_from_json from_json plain plain_object to_json",
    "terminal": "render_terminal",
    "views.atlas": "atlas_view",
    "views.claims": "claims_view",
    "views.comparison": "comparison_view verdict_card",
    "views.configs": "configs_view",
    "views.diff": "diff_view",
    "views.embeddings": "embeddings_view",
    "views.inspection": "inspection_view",
    "views.matrix": "matrix_view",
    "views.merge": "merge_view",
    "views.methods": "methods_view reference_cards_view",
    "views.reading": "plan_view plans_view price_view store_view",
    "views.registry": "check_view fingerprint_view pairs_view registry_view sync_view",
    "views.repositories": "repositories_view",
    "views.scan": "scan_view",
    "views.tokenizers": "tokenizers_view",
    "views.tree": "tree_view",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'modelkin.document' has no attribute {name!r}")
    value: object = getattr(import_module(f"modelkin.document.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOME)
