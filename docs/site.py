"""What the site needs besides the pages in this folder: README, CONTRIBUTING, CHANGELOG, and files they link to.

MkDocs calls the functions below (``hooks`` in ``mkdocs.yml``). Pages stay as they are in the repository, where
their links lead to files; in the site the same links lead to pages, or to copies of those files.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""File of the repository -> page of the site."""
_LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```[^\n]*$)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:  # noqa: ANN401  MkDocs' own type
    """Add the pages of the root, and what any page links to outside this folder."""
    for source, name in PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text(encoding="utf-8")))
    for page in files.documentation_pages():
        place = _source(page.src_uri)
        for _, target, _ in _LINK.findall(page.content_string):
            path = _repository_path(place, target)
            if path is not None and (ROOT / path).is_file() and not path.startswith("docs/") and path not in PAGES:
                name = f"files/{path}"
                if files.get_file_from_path(name) is None:
                    files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:  # noqa: ANN401
    """Turn links to files of the repository into links of the site; code stays as it is."""
    parts = _FENCE.split(markdown)
    return "".join(part if number % 2 else _relinked(part, page.file.src_uri) for number, part in enumerate(parts))


def _relinked(text: str, uri: str) -> str:
    def lead(found: re.Match[str]) -> str:
        path = _repository_path(_source(uri), found[2])
        if path is None:
            return found[0]
        name = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else f"files/{path}")
        return f"{found[1]}{posixpath.relpath(name, posixpath.dirname(uri) or '.')}{found[3] or ''})"

    return _LINK.sub(lead, text)


def _source(uri: str) -> str:
    """Return where in the repository a page of the site comes from."""
    return next((source for source, name in PAGES.items() if name == uri), f"docs/{uri}")


def _repository_path(place: str, target: str) -> str | None:
    """Return the file that a link of a page leads to; None for one that leaves the repository."""
    if "://" in target or target.startswith("mailto:"):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
