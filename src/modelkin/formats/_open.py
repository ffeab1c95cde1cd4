"""From the files of a model to its weights: which format it is, and the one place that calls its reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from modelkin.errors import NotFound, UnsupportedFormat
from modelkin.source import ByteRange, Fetcher, FileInfo
from modelkin.untrusted import quoted

from ._interface import Request, Weights
from ._known import KNOWN, UNREAD, KnownFormat, by_head, fitting

_HEAD_BYTES = 64
_READABLE = f"Readable are {', '.join(known.title for known in KNOWN)}."


def read_weights(
    fetcher: Fetcher,
    *,
    head_bytes: int,
    name: str | None = None,
    read_config: Callable[[], Mapping[str, object] | None] = lambda: None,
    ignored: str | None = None,
) -> Weights:
    """Find the files with weights and read their headers.

    Parameters
    ----------
    fetcher
        Reads the model's files.
    head_bytes
        First read of each remote file; a longer header costs one more.
    name
        The weight file or shard index to open. By default it is looked for.
    read_config
        Reads ``config.json``, which says how some weights are quantised; called only where it is needed.
    ignored
        Beginning of the names in which weights are not looked for.

    Raises
    ------
    NotFound
        There are no weights in a format that can be read.
    FormatError
        A file breaks the rules of its format.
    """
    known, entry = (_format_of(fetcher, name), name) if name else _looked_for(fetcher, ignored)
    request = Request(fetcher=fetcher, entry=entry, head_bytes=head_bytes, read_config=read_config)
    return known.load().read(request)


def describes_itself(name: str | None) -> bool:
    """Say whether a weight file holds its own config, so that one lying beside it does not count."""
    possible = fitting(name)
    return bool(possible) and all(known.self_describing for known in possible)


def may_describe_itself(name: str) -> bool:
    """Say whether a weight file may hold its own config: several formats share an ending."""
    return any(known.self_describing or known.may_describe for known in fitting(name))


def chosen_file(files: Mapping[str, FileInfo]) -> str | None:
    """Return the weight file of a listing that is read when none is named; None when there is none."""
    found = _chosen(files)
    return None if found is None else found[1]


def _chosen(files: Mapping[str, FileInfo]) -> tuple[KnownFormat, str] | None:
    for known in KNOWN:
        if any(name.endswith(known.endings) for name in files) and (entry := known.load().choose(files)):
            return known, entry
    return None


def _looked_for(fetcher: Fetcher, ignored: str | None) -> tuple[KnownFormat, str]:
    files = fetcher.source.files()
    if ignored:
        files = {name: info for name, info in files.items() if not name.startswith(ignored)}
    if (found := _chosen(files)) is not None:
        known, entry = found
        # Formats share endings: whoever chose the file, its first bytes say what it is.
        return _recognised(fetcher, entry) or known, entry
    where = fetcher.source.location.ref
    unread = sorted(name for name in files if name.endswith(tuple(UNREAD)))
    if unread:
        kinds = sorted({kind for ending, kind in UNREAD.items() if any(n.endswith(ending) for n in unread)})
        raise NotFound(
            where,
            f"no weights in a format that can be read; there are {', '.join(kinds)}: {quoted(unread[0])}",
            hint=f"{_READABLE} Many models offer one of these on another branch.",
        )
    raise NotFound(where, "no weights there", hint="Give the folder or file that holds the weights.")


def _format_of(fetcher: Fetcher, name: str) -> KnownFormat:
    possible = fitting(name)
    if not possible:
        raise UnsupportedFormat(name, "not a weight file of a format that can be read", hint=_READABLE)
    return _recognised(fetcher, name) or possible[0]


def _recognised(fetcher: Fetcher, name: str) -> KnownFormat | None:
    """Return the format that the first bytes tell, where the ending leaves it open."""
    return by_head(name, _head(fetcher, name)) if len(fitting(name)) > 1 else None


def _head(fetcher: Fetcher, name: str) -> bytes:
    info: FileInfo | None = fetcher.source.find(name)
    if info is None:
        raise NotFound(f"{fetcher.source.location.ref}/{name}", "no such file in this model")
    wanted = ByteRange(0, min(_HEAD_BYTES, info.size))
    return bytes(fetcher.fetch({name: [wanted]}, task="reading headers").view(name, wanted))
