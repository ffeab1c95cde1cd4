"""Pages: one file each that loads nothing and trusts no name."""

from modelkin.document.html.render import render_html

__all__ = ["render_html"]
