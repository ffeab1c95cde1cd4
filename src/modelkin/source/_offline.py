"""Offline mode: when it is on, and how it says no."""

from __future__ import annotations

from modelkin.errors import Offline
from modelkin.message import Message, say
from modelkin.options import FetchOptions


def is_offline(options: FetchOptions) -> bool:
    """Say whether nothing may be sent: as the options say, else as ``HF_HUB_OFFLINE`` does."""
    if options.offline is not None:
        return options.offline
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def not_stored(where: str, problem: Message | None = None) -> Offline:
    """Return the error for something that would have to be requested."""
    return Offline(
        where,
        problem or say("problem.offline"),
        hint=say("hint.online"),
    )
