"""The project's home page: the one place that states it."""

HOME = "https://modelkin.example"
"""A reserved name, which nobody can register, so that our links never lead to someone else's page. Whoever
publishes the project writes its address here; `docs/ci.md` names it too, and a test keeps both in step."""

PAGES = f"{HOME}/docs"
"""Root of the documentation: a page is named like its file in ``docs``."""
