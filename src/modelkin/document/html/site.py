"""Pages that belong together: they share a style sheet and scripts, and link to each other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSite:
    """What a page of a site has besides its blocks."""

    up: str
    """The way from the page to the root of the site: empty, or ``../``."""
    links: tuple[tuple[str, str], ...]
    """Pages that every page links to, from the root, with their titles."""
    scripts: tuple[str, ...] = ()
    """Scripts of this page besides the common one."""
    served: bool = False
    """Whether our server sends it: only then may a script request more."""

    def policy(self) -> str:
        """Return what the page may load: files of its own folder, and nothing else."""
        # When pages are opened from disk, not all browsers treat the folder as the page's own origin.
        own = "'self'" if self.served else "'self' file:"
        asked = " connect-src 'self';" if self.served else ""
        return (
            f"default-src 'none'; style-src {own}; script-src {own};{asked} "
            "base-uri 'none'; form-action 'none'"
        )
