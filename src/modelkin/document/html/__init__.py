"""Pages: one file each that loads nothing and trusts no name."""

from modelkin.document.html._page import report_html
from modelkin.document.html.render import render_html

__all__ = ["render_html", "report_html"]
