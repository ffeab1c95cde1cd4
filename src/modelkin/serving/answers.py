"""What the server answers in JSON; what it refuses is told in the language that a request asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from modelkin.document import LANGUAGES, load_language, plain
from modelkin.document.codec import dumps
from modelkin.message import Message

LANGUAGE = "modelkin.language"
"""Key of a request's scope: the language of its errors."""
_LONGEST = 300
"""Characters of an error: it may quote what was sent."""


def json_answer(document: object, status: int = 200) -> Any:  # noqa: ANN401  an answer of Starlette
    """Answer with a document, or with one that is written already."""
    from starlette.responses import Response

    text = document if isinstance(document, str) else dumps(plain(document), indent=None)
    return Response(text, status, headers={"Cache-Control": "no-store"}, media_type="application/json")


@final
class Problem:
    """An answer that says what is wrong, with its code: told in the language of the request it answers."""

    def __init__(self, status: int, said: Message, headers: Mapping[str, str] | None = None) -> None:
        self.status, self.said, self.headers = status, said, headers or {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  of ASGI
        """Send it."""
        told = load_language(scope[LANGUAGE]).tell(self.said)[:_LONGEST]
        document = plain({"error": self.said})
        assert isinstance(document, dict)
        made = json_answer(document | {"error": told}, self.status)
        made.headers.update(self.headers)
        await made(scope, receive, send)


def asked_language(header: str, default: str) -> str:
    """Return the language that ``Accept-Language`` prefers among ours.

    Examples
    --------
    >>> asked_language("fr, ko-KR;q=0.9, en;q=0.8", "en"), asked_language("", "ko")
    ('ko', 'ko')
    """
    wanted: dict[str, float] = {}
    for part in header.split(","):
        tag, _, rest = part.partition(";")
        code = tag.strip().partition("-")[0].lower()
        if code in LANGUAGES and code not in wanted:
            wanted[code] = _weight(rest.strip())
    return max(wanted, key=lambda code: wanted[code], default=default)


def _weight(text: str) -> float:
    """Return how much a language is wanted, 0 to 1; what cannot be read counts as nothing."""
    if not text:
        return 1.0
    try:
        return min(1.0, float(text.removeprefix("q=")))
    except ValueError:
        return 0.0
