"""What a person sees on a page, according to a real browser: axe-core's findings, broken words, overflow."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

from tests.document.browser import Page

BROKEN_WORDS = r"""
(() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!parent.offsetParent || parent.closest("svg, script, style, pre, code")) continue;
    for (const match of node.data.matchAll(/(?<![\p{L}\p{N}])[\p{L}\p{N}]{2,20}(?![\p{L}\p{N}])/gu)) {
      const range = document.createRange();
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      const boxes = [...range.getClientRects()].filter(box => box.width > 0);
      const tops = new Set(boxes.map(box => Math.round(box.top)));
      if (tops.size > 1) found.push(match[0]);
    }
  }
  return found;
})()
"""
"""Words of at most twenty letters that are split over two lines, without a hyphen or other break point."""
OPEN_ALL = "document.querySelectorAll('details').forEach(item => { item.open = true; })"


@cache
def axe_script() -> str | None:
    """Return axe-core, which a package of the tests brings; None where it is not installed."""
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        return None
    return (Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8")


def serious_findings(page: Page) -> list[str]:
    """Return what axe-core calls serious or critical, each with where it is."""
    script = axe_script()
    assert script is not None
    page.run(f"{script}; undefined")
    answer: list[dict[str, Any]] = page.run(
        "axe.run({include: [['html']], exclude: [['.drawing > *']]}).then(result => result.violations)"
    )
    return [
        f"{rule['id']}: {node['html'][:120]}: {node['failureSummary']}"
        for rule in answer
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"][:3]
    ]
