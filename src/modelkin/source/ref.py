"""Model references: one text form for every place a model can be."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit, urlunsplit

from modelkin.errors import BadReference, NotFound
from modelkin.untrusted import path_problem, quoted

from .local import model_folder

RefKind = Literal["hub", "local", "http", "fsspec"]

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.IGNORECASE | re.DOTALL)
_REPO_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_FILE_ENDINGS = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt", ".onnx", ".json")
# Names of revisions that hold slashes themselves: pull requests and conversions by the Hub.
_REVISION_AND_FILE = re.compile(r"(refs/[^/]+/[^/]+|[^/]+)/(.+)")
_FORMS = (
    "Write org/name[@revision][/file], ./folder, a file, https://host/model.safetensors, s3://bucket/prefix, "
    "or ADAPTER::BASE."
)
# Between an adapter and its base. Neither a Hub id nor a branch, tag or commit can hold a colon.
_ON_BASE = "::"
_IN_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_ONE_ADAPTER = "Merge the first adapter into its base, and name the merged model as base."


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """A parsed reference: which kind of place, and where in it."""

    kind: RefKind
    text: str
    """As the user wrote it, without credentials: safe to print and to store."""
    target: str
    """Repository id, absolute path or URL. A URL may carry credentials, so it is not shown."""
    revision: str | None = None
    path: str | None = None
    """File inside a Hub repository, where the reference names one."""
    base: ModelRef | None = None
    """Of an adapter: the model that it is to be applied to, where the reference says so."""

    @property
    def entry(self) -> str | None:
        """File that the reference itself names, or None when it names a folder or a repository."""
        if self.kind == "local":
            path = Path(self.target)
            return path.relative_to(model_folder(path)).as_posix() if path.is_file() else None
        if self.kind == "hub":
            return self.path
        name = urlsplit(self.target).path.rpartition("/")[2]
        name = unquote(name) if self.kind == "http" else name
        return name if self.kind == "http" or name.endswith(_FILE_ENDINGS) else None

    def __repr__(self) -> str:
        return f"ModelRef({self.text!r}, kind={self.kind!r})"

    def __str__(self) -> str:
        return self.text

    @classmethod
    def parse(cls, text: str) -> ModelRef:
        """Read a reference.

        An existing local path wins over a Hub id of the same spelling only when it starts with ``.``,
        ``/`` or ``~`` or names an existing file or folder; `kind` says which one was taken.

        ``ADAPTER::BASE`` is an adapter on a base that the user chose, each written as above.

        Raises
        ------
        BadReference
            The text has no meaning as a reference.
        NotFound
            It can only be a local path, and there is nothing there.
        """
        if not isinstance(text, str) or not text.strip() or len(text) > 4096:
            raise BadReference(quoted(str(text)), "expected a model reference", hint=_FORMS)
        if any(ord(character) < 32 or ord(character) == 127 for character in text):
            raise BadReference(quoted(text), "a model reference has no control characters", hint=_FORMS)
        if parts := _adapter_and_base(text):
            return _on_base(*(cls.parse(part) for part in parts))
        if match := _SCHEME.fullmatch(text):
            return _with_scheme(text, match[1].lower(), match[2])
        if text[0] in "./~" or _exists(Path(text)):
            return _local(text, Path(text))
        if text.endswith(_FILE_ENDINGS) and text.partition("@")[0].count("/") < 2 and "@" not in text:
            raise NotFound(
                quoted(text), "no such file", hint="A file of a Hub repository is written org/name/file."
            )
        return _hub(text, text)


def _adapter_and_base(text: str) -> tuple[str, str] | None:
    """Split ``ADAPTER::BASE``. A path with such a name wins, and brackets hold an address such as [::1]."""
    if _ON_BASE not in text or _exists(Path(text)):
        return None
    plain = _IN_BRACKETS.sub(lambda found: "x" * len(found[0]), text)
    place = plain.find(_ON_BASE)
    return None if place < 0 else (text[:place], text[place + len(_ON_BASE) :])


def _on_base(adapter: ModelRef, base: ModelRef) -> ModelRef:
    text = f"{adapter.text}{_ON_BASE}{base.text}"
    if base.base is not None:
        raise BadReference(
            quoted(text), "expected one adapter and its base, got several adapters", hint=_ONE_ADAPTER
        )
    return replace(adapter, text=text, base=base)


def _with_scheme(text: str, scheme: str, rest: str) -> ModelRef:
    if scheme == "hf":
        return _hub(text, rest)
    if scheme in ("http", "https"):
        if problem := _url_problem(text):
            raise BadReference(f"{scheme}:// …", problem, hint=_FORMS)
        return ModelRef(kind="http", text=without_secrets(text), target=text)
    if scheme == "file":
        return _local(text, Path(rest))
    if not rest:
        raise BadReference(quoted(text), "the URL names no place", hint=_FORMS)
    return ModelRef(kind="fsspec", text=without_secrets(text), target=text)


def _url_problem(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return f"the URL cannot be read: {error}"
    if not parts.hostname:
        return "the URL names no host"
    return None if parts.path.strip("/") else "the URL names no file"


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that no file can have
        return False


def _local(text: str, path: Path) -> ModelRef:
    try:
        path = path.expanduser()
    except RuntimeError as error:  # ~somebody, who is not known here
        raise NotFound(quoted(text), "no such home folder", hint=_FORMS) from error
    if not _exists(path):
        raise NotFound(quoted(text), "no such file or folder", hint=_FORMS)
    return ModelRef(kind="local", text=text, target=str(path.resolve()))


def _hub(text: str, rest: str) -> ModelRef:
    repo_id, revision, path = _taken_apart(rest)
    if (
        not _REPO_ID.fullmatch(repo_id)
        or ".." in repo_id
        or "--" in repo_id
        or len(repo_id) > 96
        or repo_id.endswith((".git", ".", "-"))
    ):
        raise BadReference(
            quoted(text), f"expected a Hub repository such as org/name, got {quoted(repo_id)}", hint=_FORMS
        )
    if "@" in rest and (not revision or revision != revision.strip() or ".." in revision):
        raise BadReference(quoted(text), "expected a branch, tag or commit after '@'", hint=_FORMS)
    if path is not None and (problem := path_problem(path)):
        raise BadReference(quoted(text), f"the file {quoted(path)} {problem}", hint=_FORMS)
    return ModelRef(kind="hub", text=text, target=repo_id, revision=revision or None, path=path)


def _taken_apart(rest: str) -> tuple[str, str, str | None]:
    """Split ``org/name@revision/folder/file.gguf``; a path is only what ends like a file of weights."""
    repo_id, _, revision = rest.partition("@")
    if not rest.endswith(_FILE_ENDINGS):
        return repo_id, revision, None
    if "@" in rest:
        found = _REVISION_AND_FILE.fullmatch(revision)
        return (repo_id, found[1], found[2]) if found else (repo_id, revision, None)
    organisation, _, below = rest.partition("/")
    name, _, path = below.partition("/")
    return (f"{organisation}/{name}", "", path) if path else (rest, "", None)


def pinned(text: str, commit: str) -> str:
    """Write a Hub reference anew so that it names one commit."""
    scheme, separator, rest = text.rpartition("://")
    repo_id, _, path = _taken_apart(rest)
    return f"{scheme}{separator}{repo_id}@{commit}" + (f"/{path}" if path else "")


def without_secrets(url: str) -> str:
    """Return a URL without user name, password, query and fragment: signed queries are keys too."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
