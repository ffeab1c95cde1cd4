"""Model references: one text form for every place a model can be."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit, urlunsplit

from modelkin.errors import BadReference, NotFound

from ._local import model_folder
from ._names import shown

RefKind = Literal["hub", "local", "http", "fsspec"]

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.IGNORECASE | re.DOTALL)
_REPO_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_FILE_ENDINGS = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".onnx", ".json")
_FORMS = "Write org/name[@revision], ./folder, a file, https://host/model.safetensors or s3://bucket/prefix."


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """A parsed reference: which kind of place, and where in it."""

    kind: RefKind
    text: str
    """As the user wrote it, without credentials: safe to print and to store."""
    target: str
    """Repository id, absolute path or URL. A URL may carry credentials, so it is not shown."""
    revision: str | None = None

    @property
    def entry(self) -> str | None:
        """File that the reference itself names, or None when it names a folder or a repository."""
        if self.kind == "local":
            path = Path(self.target)
            return path.relative_to(model_folder(path)).as_posix() if path.is_file() else None
        if self.kind == "hub":
            return None
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

        Raises
        ------
        BadReference
            The text has no meaning as a reference.
        NotFound
            It can only be a local path, and there is nothing there.
        """
        if not isinstance(text, str) or not text.strip() or len(text) > 4096:
            raise BadReference(shown(str(text)), "expected a model reference", hint=_FORMS)
        if any(ord(character) < 32 or ord(character) == 127 for character in text):
            raise BadReference(shown(text), "a model reference has no control characters", hint=_FORMS)
        if match := _SCHEME.fullmatch(text):
            return _with_scheme(text, match[1].lower(), match[2])
        if text[0] in "./~" or _exists(Path(text)):
            return _local(text, Path(text))
        if text.endswith(_FILE_ENDINGS):
            raise NotFound(
                shown(text), "no such file", hint="A Hub repository is written org/name, without a file."
            )
        return _hub(text, text)


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
        raise BadReference(shown(text), "the URL names no place", hint=_FORMS)
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
        raise NotFound(shown(text), "no such home folder", hint=_FORMS) from error
    if not _exists(path):
        raise NotFound(shown(text), "no such file or folder", hint=_FORMS)
    return ModelRef(kind="local", text=text, target=str(path.resolve()))


def _hub(text: str, rest: str) -> ModelRef:
    repo_id, _, revision = rest.partition("@")
    if (
        not _REPO_ID.fullmatch(repo_id)
        or ".." in repo_id
        or "--" in repo_id
        or len(repo_id) > 96
        or repo_id.endswith((".git", ".", "-"))
    ):
        raise BadReference(
            shown(text), f"expected a Hub repository such as org/name, got {shown(repo_id)}", hint=_FORMS
        )
    if "@" in rest and (not revision or revision != revision.strip() or ".." in revision):
        raise BadReference(shown(text), "expected a branch, tag or commit after '@'", hint=_FORMS)
    return ModelRef(kind="hub", text=text, target=repo_id, revision=revision or None)


def without_secrets(url: str) -> str:
    """Return a URL without user name, password, query and fragment: signed queries are keys too."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
