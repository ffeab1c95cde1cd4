"""Model references: one text form for every place a model can be."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit, urlunsplit

from modelkin.demo import DEMO_MODELS, demo_path
from modelkin.errors import BadReference, NotFound
from modelkin.message import Message, say
from modelkin.untrusted import path_problem, quoted, visible

from .local import model_folder

RefKind = Literal["hub", "local", "http", "fsspec"]

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.IGNORECASE | re.DOTALL)
_REPO_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_FILE_ENDINGS = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt", ".onnx", ".json")
# Revision names that contain slashes themselves: pull requests and conversions by the Hub.
_REVISION_AND_FILE = re.compile(r"(refs/[^/]+/[^/]+|[^/]+)/(.+)")
_FORMS = say("hint.forms")
_DEMO = "demo:"
_ON_THE_HUB = "hf:"
_ALIKE = 0.7
"""Similarity (by `difflib`) from which one name may be a typo of another."""
_MOST_NAMES = 2_000
"""Most entries of a folder that are searched for the name meant by a misspelt one."""
# Between an adapter and its base. Neither a Hub id nor a branch, tag or commit can contain a colon.
_ON_BASE = "::"
_IN_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_ONE_ADAPTER = say("hint.one-adapter")


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
    """File inside a Hub repository, if the reference names one."""
    base: ModelRef | None = None
    """For an adapter: the model to apply it to, if the reference names one."""

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

        A text that is almost the name of something in an existing folder is taken for a typo, and the Hub is
        not asked; ``hf:org/name`` always means the Hub. ``demo:NAME`` is a model that comes with the package.

        ``ADAPTER::BASE`` is an adapter on a base that the user chose, each written as above.

        Raises
        ------
        BadReference
            The text has no meaning as a reference.
        NotFound
            It can only be a local path, or almost is one, and nothing is there.
        """
        if not isinstance(text, str) or not text.strip() or len(text) > 4096:
            raise BadReference(quoted(str(text)), say("problem.no-reference"), hint=_FORMS)
        if any(ord(character) < 32 or ord(character) == 127 for character in text):
            raise BadReference(quoted(text), say("problem.control-characters"), hint=_FORMS)
        if parts := _adapter_and_base(text):
            return _on_base(*(cls.parse(part) for part in parts))
        if match := _SCHEME.fullmatch(text):
            return _with_scheme(text, match[1].lower(), match[2])
        if text[0] in "./~" or _exists(Path(text)):
            return _local(text, Path(text))
        if text.startswith(_DEMO):
            return _demo(text, text.removeprefix(_DEMO))
        if text.startswith(_ON_THE_HUB):
            return _hub(text, text.removeprefix(_ON_THE_HUB))
        if "@" not in text and (near := _near(Path(text))):
            hint = say("hint.for-the-hub", ref=visible(_ON_THE_HUB + text))
            raise NotFound(quoted(text), say("problem.no-file-near", near=near), hint=hint)
        if text.endswith(_FILE_ENDINGS) and text.partition("@")[0].count("/") < 2 and "@" not in text:
            raise NotFound(
                quoted(text),
                say("problem.no-file"),
                hint=say("hint.hub-file"),
            )
        return _hub(text, text)


def _adapter_and_base(text: str) -> tuple[str, str] | None:
    """Split ``ADAPTER::BASE``. An existing path of that name wins; [::1] is an address."""
    if _ON_BASE not in text or _exists(Path(text)):
        return None
    plain = _IN_BRACKETS.sub(lambda found: "x" * len(found[0]), text)
    place = plain.find(_ON_BASE)
    return None if place < 0 else (text[:place], text[place + len(_ON_BASE) :])


def _on_base(adapter: ModelRef, base: ModelRef) -> ModelRef:
    text = f"{adapter.text}{_ON_BASE}{base.text}"
    if base.base is not None:
        raise BadReference(quoted(text), say("problem.several-adapters"), hint=_ONE_ADAPTER)
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
        raise BadReference(quoted(text), say("problem.url-no-place"), hint=_FORMS)
    try:
        urlsplit(text)
    except ValueError as error:
        raise BadReference(f"{scheme}:// …", say("problem.url-unread", why=str(error)), hint=_FORMS) from None
    return ModelRef(kind="fsspec", text=without_secrets(text), target=text)


def _url_problem(url: str) -> Message | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return say("problem.url-unread", why=str(error))
    if "\\" in url:
        return say("problem.url-backslash")
    if not parts.hostname:
        return say("problem.url-no-host")
    return None if parts.path.strip("/") else say("problem.url-no-file")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # no file can have this name
        return False


def _local(text: str, path: Path) -> ModelRef:
    try:
        path = path.expanduser()
    except RuntimeError as error:  # ~somebody, an unknown user
        raise NotFound(quoted(text), say("problem.no-home"), hint=_FORMS) from error
    if not _exists(path):
        near = _near(path)
        if near:
            raise NotFound(quoted(text), say("problem.no-file-near", near=near))
        raise NotFound(quoted(text), say("problem.no-file-or-folder"), hint=_FORMS)
    return ModelRef(kind="local", text=text, target=str(path.resolve()))


def _near(path: Path) -> str | None:
    """Return a path beside a missing one whose name is almost the same.

    In the current folder, which may hold anything, only folders of models count.
    """
    alone = path.parent == Path()
    try:
        names = [
            entry.name
            for entry, _ in zip(path.parent.iterdir(), range(_MOST_NAMES), strict=False)
            if not alone or (entry / "config.json").is_file()
        ]
    except OSError:  # no such folder, or an unreadable one
        return None
    found = get_close_matches(path.name, names, n=1, cutoff=_ALIKE)
    return visible(str(path.parent / found[0])) if found else None


def _demo(text: str, name: str) -> ModelRef:
    if name not in DEMO_MODELS:
        near = get_close_matches(name, DEMO_MODELS, n=1)
        problem = say("problem.no-demo")
        if near:
            problem = say("problem.no-demo-near", near=_DEMO + near[0])
        listed = ", ".join(_DEMO + known for known in DEMO_MODELS)
        raise NotFound(quoted(text), problem, hint=say("hint.there-are", names=listed))
    return ModelRef(kind="local", text=text, target=str(demo_path(name)))


def _hub(text: str, rest: str) -> ModelRef:
    repo_id, revision, path = _taken_apart(rest)
    if (
        not _REPO_ID.fullmatch(repo_id)
        or ".." in repo_id
        or "--" in repo_id
        or len(repo_id) > 96
        or repo_id.endswith((".git", ".", "-"))
    ):
        raise BadReference(quoted(text), say("problem.no-repository", got=quoted(repo_id)), hint=_FORMS)
    if "@" in rest and (not revision or revision != revision.strip() or ".." in revision):
        raise BadReference(quoted(text), say("problem.no-revision-after"), hint=_FORMS)
    if path is not None and (problem := path_problem(path)):
        raise BadReference(
            quoted(text), say("problem.file-path", path=quoted(path), problem=problem), hint=_FORMS
        )
    return ModelRef(kind="hub", text=text, target=repo_id, revision=revision or None, path=path)


def _taken_apart(rest: str) -> tuple[str, str, str | None]:
    """Split ``org/name@revision/folder/file.gguf``; only a suffix of a weight file makes it a path."""
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
    """Rewrite a Hub reference so that it names one commit."""
    scheme, separator, rest = text.rpartition("://")
    repo_id, _, path = _taken_apart(rest)
    return f"{scheme}{separator}{repo_id}@{commit}" + (f"/{path}" if path else "")


def without_secrets(url: str) -> str:
    """Return a URL that is safe to show: signed queries are keys too, and control characters take effect."""
    try:
        parts = urlsplit(url)
    except ValueError:  # not an address: reported where it is used
        return f"{visible(url.partition('://')[0][:20])}:// …"
    host = parts.netloc.rpartition("@")[2]
    return visible(urlunsplit((parts.scheme, host, parts.path, "", "")))
