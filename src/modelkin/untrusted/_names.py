"""Which names and paths are safe to use: those of tensors, of files in a listing, of shards in an index."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from modelkin.message import Message, say

MAX_NAME_LENGTH = 1024
"""The longest names in public models are near 150 characters."""

# Control, format (which includes the marks that reverse the direction of text), lone surrogate, line and
# paragraph separator: none is visible, and each can make two names look alike or garble a terminal.
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

_MAX_FOLDERS: Final = 8
"""Repositories of models have one or two levels."""
# Names on common file systems end at 255 bytes.
_MAX_PART_BYTES: Final = 255
# A question or number sign ends the path of an address, the others are wildcards or forbidden in file names.
_FORBIDDEN: Final = frozenset('?#*<>|"')
_PERCENT_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")


def name_problem(name: str) -> Message | None:
    """Say what is wrong with a name: empty, too long, or with characters nobody can see."""
    if not name:
        return say("problem.name-empty")
    if len(name) > MAX_NAME_LENGTH:
        return say("problem.name-long", n=len(name), most=MAX_NAME_LENGTH)
    if name.isascii() and name.isprintable():
        return None
    for character in name:
        if unicodedata.category(character) in _INVISIBLE:
            return say("problem.name-invisible", character=ord(character))
    return None


def path_problem(path: str) -> Message | None:
    """Say why a path must not be used inside a model, or None when it is fine.

    Paths become addresses and files, so they must stay below their folder on every system: a backslash is a
    separator on Windows, a colon makes drives, schemes and streams, a tilde stands for a home folder.
    """
    if problem := name_problem(path):
        return problem
    if path[0] == "/":
        return say("problem.path-absolute")
    if path[0] == "~":
        return say("problem.path-home")
    if forbidden := [character for character in "\\:" if character in path]:
        return say("problem.path-forbidden", character=repr(forbidden[0]))
    if wrong := [part for part in path.split("/") if part in ("", ".", "..")]:
        return say("problem.path-part", part=repr(wrong[0])) if wrong[0] else say("problem.path-part-empty")
    return None


def is_no_path(path: str) -> bool:
    """Say whether no file below a folder can have this name, so that a listing with it is not to be trusted.

    Other names with a `path_problem` do occur: screenshots with a colon, letters joined by an invisible mark.
    """
    return path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/"))


def plain_path_problem(path: str, *, endings: tuple[str, ...]) -> Message | None:
    """Say why a path that one file gives for another must not be followed, or None when it is fine.

    Stricter than `path_problem`: a listing may hold any file, but nobody needs such names for shards.
    """
    if problem := path_problem(path):
        return problem
    if forbidden := sorted(_FORBIDDEN.intersection(path)):
        return say("problem.path-forbidden", character=repr(forbidden[0]))
    if _PERCENT_ESCAPE.search(path):
        return say("problem.path-percent")
    if not path.endswith(endings):
        return say("problem.path-ending", endings=" or ".join(endings))
    parts = path.split("/")
    if len(parts) > _MAX_FOLDERS:
        return say("problem.path-folders", n=len(parts) - 1)
    if any(part.startswith("~") for part in parts):
        return say("problem.path-part-home")
    if any(part != part.strip(" ") or part.endswith(".") for part in parts):
        return say("problem.path-part-space")
    if any(len(part.encode("utf-8")) > _MAX_PART_BYTES for part in parts):
        return say("problem.path-part-long", most=_MAX_PART_BYTES)
    return None
