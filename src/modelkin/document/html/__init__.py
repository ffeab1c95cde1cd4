"""``report.html``: the whole record of a comparison as one page that loads nothing and trusts no name."""

from modelkin.document.html._page import report_html

__all__ = ["report_html"]
