"""Which models a Hub lists: page by page, each with its current commit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from modelkin.errors import ListingError, NetworkError, Offline
from modelkin.message import say
from modelkin.options import MIB, FetchOptions
from modelkin.untrusted import JsonRefused, quoted, strict_json

from ._offline import is_offline
from .address import Home, WebOrigin
from .http_client import RangeClient
from .hub import hub_headers, hub_secrets, is_commit
from .interface import ByteBudget
from .ref import without_secrets

_MAX_PAGE = 32 * MIB
"""A page lists up to a thousand models of some kilobytes each."""
_REPO_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?")
_NEXT = re.compile(r'<([^<>]+)>\s*;\s*rel="next"')


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedModel:
    """A model that a Hub lists."""

    repo_id: str
    commit: str | None
    """The head of its main branch, if the Hub says so."""


def listed_models(
    options: FetchOptions, *, author: str | None = None, page: int = 500
) -> Iterator[ListedModel]:
    """Yield the models of a Hub, newest first, or those of one author. Pages are requested when needed.

    If the server asks us to wait, we do, within the limits of the options.
    """
    from huggingface_hub import constants

    address = without_secrets((options.endpoint or constants.ENDPOINT).rstrip("/"))
    if is_offline(options):
        raise Offline(address, say("problem.models-offline"))
    home = Home(address, hub_secrets(options.token, address))
    client = RangeClient(options, ByteBudget(None), home=home)
    url: str | None = f"{address}/api/models?limit={page}&full=true&sort=lastModified&direction=-1"
    if author is not None:
        url = f"{url}&author={quote(author, safe='')}"
    try:
        while url is not None:
            reply = client.get_document(url, headers=hub_headers(), limit=_MAX_PAGE)
            if reply.status != 200:
                raise NetworkError(address, say("problem.models-answered", status=reply.status))
            yield from _parsed(reply.body, address)
            url = _next_page(reply.headers.get("Link", ""), address, home)
    finally:
        client.close()


def _parsed(body: bytes, where: str) -> Iterator[ListedModel]:
    try:
        document = strict_json(body)
    except JsonRefused as error:
        raise ListingError(where, say("problem.models-unread", why=error.reason)) from error
    if not isinstance(document, list):
        raise ListingError(where, say("problem.models-no-list"))
    for entry in document:
        name = entry.get("id") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(name, str) or not _REPO_ID.fullmatch(name):
            raise ListingError(where, say("problem.model-no-name", name=quoted(str(name)[:80])))
        commit = entry.get("sha")
        yield ListedModel(
            repo_id=name, commit=commit if isinstance(commit, str) and is_commit(commit) else None
        )


def _next_page(link: str, address: str, home: Home) -> str | None:
    """Return the address of the next page: followed only inside the Hub itself."""
    match = _NEXT.search(link)
    if match is None:
        return None
    url = match[1]
    try:
        inside = WebOrigin.of(url) == home.origin and url.startswith(f"{address}/")
    except ValueError:
        inside = False
    if not inside:
        raise ListingError(address, say("problem.next-page", url=quoted(url[:120])))
    return url
