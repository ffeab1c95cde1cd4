"""Which names and paths are safe to use: those of tensors, of files in a listing, of shards in an index."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

MAX_NAME_LENGTH = 1024
"""The longest names in public models are near 150 characters."""

# Control, format (which includes the marks that reverse the direction of text), lone surrogate, line and
# paragraph separator: none is visible, and each can make two names look alike or garble a terminal.
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

_MAX_FOLDERS: Final = 8
# Names on common file systems end at 255 bytes.
_MAX_PART_BYTES: Final = 255
# A question or number sign ends the path of an address, the others are wildcards or forbidden in file names.
_FORBIDDEN: Final = frozenset('?#*<>|"')
_PERCENT_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")


def name_problem(name: str) -> str | None:
    """Say what is wrong with a name: empty, too long, or with characters nobody can see."""
    if not name:
        return "is empty"
    if len(name) > MAX_NAME_LENGTH:
        return f"has {len(name)} characters, more than {MAX_NAME_LENGTH}"
    if name.isascii() and name.isprintable():
        return None
    for character in name:
        if unicodedata.category(character) in _INVISIBLE:
            return f"holds the invisible character U+{ord(character):04X}"
    return None


def path_problem(path: str) -> str | None:
    """Say why a path must not be used inside a model, or None when it is fine.

    Paths become addresses and files, so they must stay below their folder on every system: a backslash is a
    separator on Windows, a colon makes drives, schemes and streams, a tilde stands for a home folder.
    """
    if problem := name_problem(path):
        return problem
    if path[0] == "/":
        return "is absolute"
    if path[0] == "~":
        return "begins with '~', which stands for a home folder"
    if forbidden := [character for character in "\\:" if character in path]:
        return f"holds the forbidden character {forbidden[0]!r}"
    if wrong := [part for part in path.split("/") if part in ("", ".", "..")]:
        return f"has the part {wrong[0]!r}, so it is not a plain path"
    return None


def is_no_path(path: str) -> bool:
    """Say whether a name can be that of no file below a folder, so that who lists it is not to be trusted.

    Other names with a `path_problem` do occur: screenshots with a colon, letters that are joined to one sign.
    """
    return path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/"))


def plain_path_problem(path: str, *, endings: tuple[str, ...]) -> str | None:
    """Say why a path that one file gives for another must not be followed, or None when it is fine.

    Stricter than `path_problem`: a listing may hold any file, but nobody has to name shards so.
    """
    if problem := path_problem(path):
        return problem
    if forbidden := sorted(_FORBIDDEN.intersection(path)):
        return f"holds the forbidden character {forbidden[0]!r}"
    if _PERCENT_ESCAPE.search(path):
        return "holds a percent escape, which addresses would turn into another path"
    if not path.endswith(endings):
        return f"does not end in {' or '.join(endings)}"
    parts = path.split("/")
    if len(parts) > _MAX_FOLDERS:
        return f"goes through {len(parts) - 1} folders"
    if any(part.startswith("~") for part in parts):
        return "has a part that begins with '~', which stands for a home folder"
    if any(part != part.strip(" ") or part.endswith(".") for part in parts):
        return "has a part that begins or ends with a space, or ends with a dot"
    if any(len(part.encode("utf-8")) > _MAX_PART_BYTES for part in parts):
        return f"has a part of more than {_MAX_PART_BYTES} bytes"
    return None
