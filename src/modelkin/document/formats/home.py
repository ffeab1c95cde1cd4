"""Where the project is at home: the one place that says so."""

HOME = "https://modelkin.example"
"""A reserved name, which nobody can register: a link of ours never leads to a stranger's page. Whoever
publishes the project writes its address here; `docs/ci.md` names it too, and a test holds both together."""

PAGES = f"{HOME}/docs"
"""Of the documentation: a page is called as its file in ``docs``."""
