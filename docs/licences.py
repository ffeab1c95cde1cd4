"""Writes the licences of all dependencies, from their own metadata, into licences.md: ``python docs/licences.py``.

A test fails if a dependency has a licence incompatible with Apache-2.0, or is not on the page.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

PAGE = Path(__file__).parent / "licences.md"
PROJECT = Path(__file__).parents[1] / "pyproject.toml"
GOES_WITH_APACHE = frozenset(
    {
        *("0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD", "BSD-2-Clause", "BSD-3-Clause"),
        *("BSL-1.0", "CC0-1.0", "CNRI-Python", "HPND", "ISC", "MIT", "MIT-CMU", "MIT-0", "PSF-2.0"),
        *("Python-2.0", "Unlicense", "Zlib"),
        # Source must be provided for changed files; we change none, and distribute none.
        "MPL-2.0",
    }
)
PARTS: dict[str, tuple[str, ...]] = {"licences": ("", "cloud"), "licences-lab": ("lab",)}
"""Part of the page -> our extras whose dependencies it lists; "" is what everybody installs."""
_SPOKEN = {
    "apache 2.0 license": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "bsd": "BSD",
    "bsd license": "BSD",
    "bsd-3-clause": "BSD-3-Clause",
    "isc license (iscl)": "ISC",
    "mit": "MIT",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "mpl-2.0": "MPL-2.0",
    "mpl-2.0 and mit": "MPL-2.0 AND MIT",
    "python software foundation license": "PSF-2.0",
    "psf-2.0": "PSF-2.0",
}


def licence_of(found: Distribution) -> str | None:
    """Return a licence as SPDX writes it; None if the metadata do not state one that is known here."""
    about = found.metadata
    if stated := about.get("License-Expression"):
        return str(stated)
    said = [about.get("License") or ""]
    said += [line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or () if "License ::" in line]
    return next((_SPOKEN[text.strip().lower()] for text in said if text.strip().lower() in _SPOKEN), None)


def is_compatible(licence: str | None) -> bool:
    """Say whether code under a licence may be used by code under Apache-2.0."""
    if licence is None:
        return False
    choices = re.split(r"\s+OR\s+", licence.replace("(", "").replace(")", ""))
    return any(
        all(part.strip() in GOES_WITH_APACHE for part in re.split(r"\s+AND\s+", choice)) for choice in choices
    )


def dependencies(extra: str) -> dict[str, str | None]:
    """Return every package that an extra brings on this system, with its licence.

    Raises
    ------
    PackageNotFoundError
        It is not installed here.
    """
    found: dict[str, str | None] = {}
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    lines = project["optional-dependencies"][extra] if extra else project["dependencies"]
    waiting = [Requirement(line) for line in lines]
    while waiting:
        wanted = waiting.pop()
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        if name in found:
            continue
        package = distribution(wanted.name)
        found[name] = licence_of(package)
        for line in package.requires or ():
            inner = Requirement(line)
            asked = {"", *wanted.extras}
            if inner.marker is None or any(inner.marker.evaluate({"extra": one}) for one in asked):
                waiting.append(inner)
    return dict(sorted(found.items()))


def table(part: str) -> str:
    """Return one part of the page."""
    rows = ["| package | licence | brought by |", "| --- | --- | --- |"]
    found: dict[str, tuple[str | None, list[str]]] = {}
    for extra in PARTS[part]:
        for name, licence in dependencies(extra).items():
            found.setdefault(name, (licence, []))[1].append(f"`modelkin[{extra}]`" if extra else "`modelkin`")
    rows += [f"| {name} | {licence} | {', '.join(by)} |" for name, (licence, by) in sorted(found.items())]
    return "\n".join(rows)


def written(text: str, part: str, content: str) -> str:
    """Put a part between its markers."""
    begin, end = f"<!-- begin {part} -->\n", f"\n<!-- end {part} -->"
    before, found, rest = text.partition(begin)
    if not found:
        raise ValueError(f"no markers for {part!r}")
    return before + begin + content + rest[rest.index(end) :]


def main() -> None:
    """Write what is known on this machine."""
    text = PAGE.read_text(encoding="utf-8")
    for part in PARTS:
        try:
            text = written(text, part, table(part))
        except PackageNotFoundError as error:
            print(f"{part}: left as it was, {error.name} is not installed", file=sys.stderr)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
