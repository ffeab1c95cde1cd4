"""Pages that belong together: they share a style sheet and scripts, and know each other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSite:
    """What a page of a site has beside its blocks."""

    up: str
    """The way from the page to the root of the site: empty, or ``../``."""
    links: tuple[tuple[str, str], ...]
    """Pages that every page leads to, from the root, and what they are called."""
    scripts: tuple[str, ...] = ()
    """Scripts of this page beside the one of all pages."""
    served: bool = False
    """Whether a server of ours sends it: only then may a script ask for more."""

    def policy(self) -> str:
        """Return what the page may load: files of its own folder, and nothing else."""
        # Where pages are opened from a disk, not all browsers call the folder of a page its own.
        own = "'self'" if self.served else "'self' file:"
        asked = " connect-src 'self';" if self.served else ""
        return (
            f"default-src 'none'; style-src {own}; script-src {own};{asked} "
            "base-uri 'none'; form-action 'none'"
        )
