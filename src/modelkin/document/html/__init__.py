"""Pages: one file each that loads nothing and trusts no name, or a site of pages that share their style."""

from modelkin.document.html.head import page_policy, site_assets
from modelkin.document.html.render import render_html
from modelkin.document.html.site import PageSite
from modelkin.document.html.stacks import stacks_svg
