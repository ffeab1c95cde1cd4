"""Pages: one file each that loads nothing and trusts no name."""

from modelkin.document.html.render import render_html
from modelkin.document.html.stacks import stacks_svg

__all__ = ["render_html", "stacks_svg"]
