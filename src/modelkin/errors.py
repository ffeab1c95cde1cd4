"""Every error modelkin raises on purpose, in one tree.

::

    ModelkinError                 exit 70 unless a family below says otherwise
    ├── UsageError                exit 2: the request is invalid
    │   ├── BadReference          a model reference that cannot be read
    │   ├── BadSelection          rows, names or samples that the tensor does not have
    │   └── BudgetExceeded        the plan needs more bytes than allowed; nothing was sent
    ├── SourceError               exit 3: an input could not be obtained
    │   ├── NotFound              no such model, revision or file
    │   ├── AccessDenied          private, gated, or a token that is not accepted
    │   ├── Offline               offline mode, and the bytes are not stored here
    │   ├── NetworkError          no connection, a dropped connection, a server error, after all retries
    │   ├── SourceTimeout         the server stalls or is too slow
    │   ├── RateLimited           the server asked us to wait longer than we may
    │   ├── RangesIgnored         the server sends whole files where a range was asked for
    │   ├── WrongBytes            the server sent other bytes than were asked for
    │   ├── ChangedWhileReading   the file is not the same file as at the first read
    │   └── MissingExtra          an optional dependency is needed for this source
    ├── OutputError               exit 74: a result could not be written: a full disk, a closed stream
    └── FormatError               exit 4: an input was read, but is malformed or hostile
        ├── HeaderError           a tensor file's header breaks the rules of its format
        ├── IndexFileError        a shard index breaks its rules
        ├── UnsupportedFormat     weights in a format that modelkin does not read
        ├── ConfigError           a config file that is not what it claims to be
        ├── TokenizerError        a tokenizer's file breaks the rules of its format
        ├── ListingError          a server's answer about a repository is invalid
        ├── SpecError             a bundled architecture file is invalid
        └── StudyError            a study file breaks its rules

A message says where, what was expected and what came; `hint` is one sentence to act on. Not being able to
tell is not an error: an unknown architecture or a skipped method is a value and reaches the report.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelkin.message import Message

__all__ = [
    "AccessDenied",
    "BadReference",
    "BadSelection",
    "BudgetExceeded",
    "ChangedWhileReading",
    "ConfigError",
    "FormatError",
    "HeaderError",
    "IndexFileError",
    "ListingError",
    "MissingExtra",
    "ModelkinError",
    "NetworkError",
    "NotFound",
    "Offline",
    "OutputError",
    "RangesIgnored",
    "RateLimited",
    "SourceError",
    "SourceTimeout",
    "SpecError",
    "StudyError",
    "TokenizerError",
    "UnsupportedFormat",
    "UsageError",
    "WrongBytes",
]


class ModelkinError(Exception):
    """Base of the tree.

    `where` is what the sentence is about: a file, a model reference; a message if it is no mere name.
    `problem` is what was expected and what came: a message, so that a report that goes on without what failed
    tells it in its own language. `hint` is one sentence the reader can act on.
    """

    exit_code = 70

    def __init__(self, where: str | Message, problem: Message, *, hint: Message | None = None) -> None:
        super().__init__(where, problem)
        self.place = where
        self.said = problem
        self.advice = hint

    @property
    def where(self) -> str:
        """What the sentence is about, in English."""
        return str(self.place)

    @property
    def problem(self) -> str:
        """What was expected and what came, in English."""
        return str(self.said)

    @property
    def hint(self) -> str | None:
        """One sentence the reader can act on, in English."""
        return None if self.advice is None else str(self.advice)

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}" if self.where else self.problem

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are pickled by their args, which lack the hint: rebuild from the parts.
        return (_rebuild, (type(self), self.place, self.said, self.advice))


def _rebuild(
    kind: type[ModelkinError], where: str | Message, problem: Message, hint: Message | None
) -> ModelkinError:
    return kind(where, problem, hint=hint)


class UsageError(ModelkinError):
    """The request is invalid."""

    exit_code = 2


class BadReference(UsageError):
    """A model reference that cannot be read."""


class BadSelection(UsageError):
    """Rows, names or samples that the tensor does not have."""


class BudgetExceeded(UsageError):
    """The plan needs more bytes than allowed; nothing was sent."""


class SourceError(ModelkinError):
    """An input could not be obtained."""

    exit_code = 3


class NotFound(SourceError):
    """No such model, revision or file."""


class AccessDenied(SourceError):
    """Private, gated, or a token that is not accepted."""


class Offline(SourceError):
    """Offline mode, and the bytes are not stored here."""


class NetworkError(SourceError):
    """No connection, a dropped connection or a server error, after all retries."""


class SourceTimeout(SourceError):
    """The server stalls or is too slow."""


class RateLimited(SourceError):
    """The server asked us to wait longer than we may."""


class RangesIgnored(SourceError):
    """The server sends whole files where a range was asked for."""


class WrongBytes(SourceError):
    """The server sent other bytes than were asked for."""


class ChangedWhileReading(SourceError):
    """The file is not the same file as at the first read."""


class MissingExtra(SourceError):
    """An optional dependency is needed for this source."""


class OutputError(ModelkinError):
    """A result could not be written: a full disk, a closed or full stream."""

    exit_code = 74


_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def not_written(where: str, what: str | Message, error: OSError) -> OutputError | UsageError:
    """Return the error for a file that cannot be written; a full disk is not a usage error.

    `what` is a name or a message, and empty if `where` says it.
    """
    from modelkin.message import said_by, say

    kind = OutputError if error.errno in _NO_ROOM else UsageError
    why = said_by(error)
    if not what:
        return kind(where, say("problem.not-written", why=why))
    return kind(where, say("problem.part-not-written", what=what, why=why))


class FormatError(ModelkinError):
    """An input was read, but is malformed or hostile."""

    exit_code = 4


class HeaderError(FormatError):
    """A tensor file's header breaks the rules of its format."""


class IndexFileError(FormatError):
    """A shard index breaks its rules."""


class UnsupportedFormat(FormatError):
    """Weights in a format that modelkin does not read."""


class ConfigError(FormatError):
    """A config file that is not what it claims to be."""


class TokenizerError(FormatError):
    """A tokenizer's file breaks the rules of its format."""


class ListingError(FormatError):
    """A server's answer about a repository is invalid."""


class SpecError(FormatError):
    """A bundled architecture file is invalid."""


class StudyError(FormatError):
    """A study file breaks its rules."""
