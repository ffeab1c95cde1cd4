"""Whole JSON documents of unknown authors, within limits; larger ones need `Scanner`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Final, NoReturn

from modelkin.message import Refusal, say

MAX_DEPTH: Final = 32
"""Deeper than any config or tokenizer in public models, and far from the depth at which Python gives up."""
MAX_CONTAINERS: Final = 4_000_000
"""Each list or object takes about 60 bytes of memory for 2 in the file. Public files have 0.6 million."""
MAX_VALUES: Final = 2_000_000
"""Values in lists and objects, each about 200 bytes of memory for as few as 2 in the file. The largest public
tokenizers have 1.4 million."""
_MAX_DIGITS: Final = 300
"""Longer integers no longer fit a float. Tokenizers write 31 digits for "no limit"."""


class JsonRefused(Refusal):
    """Refused JSON, with the reason."""


def strict_json(
    data: bytes | str,
    *,
    max_containers: int = MAX_CONTAINERS,
    max_values: int = MAX_VALUES,
    as_python_writes: bool = False,
) -> object:
    """Parse a whole document, and refuse what is ambiguous or would take far more memory than it has bytes.

    Whoever fetches it limits its length. `max_containers` limits lists and objects, `max_values` what they
    hold. `as_python_writes` accepts NaN, infinities and, for a repeated key, the last value: what Python
    writes into configs, and what the loaders of these files accept. Raises `JsonRefused`.
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if raw.count(b"[") + raw.count(b"{") > max_containers:
        raise JsonRefused(say("problem.json-containers", most=max_containers))
    if raw.count(b",") > max_values:  # counts those in strings too: public files are far from the limit
        raise JsonRefused(say("problem.json-values", most=max_values))
    try:
        if as_python_writes:
            loaded: object = json.loads(data, parse_int=_short)
        else:
            loaded = json.loads(
                data,
                object_pairs_hook=_unique,
                parse_constant=_no_constant,
                parse_float=_finite,
                parse_int=_short,
            )
    except RecursionError:
        raise JsonRefused(say("problem.json-depth", most=MAX_DEPTH)) from None
    except JsonRefused:
        raise
    except ValueError as error:
        raise JsonRefused(say("problem.json-none", why=str(error)[:80])) from error
    _check_depth(loaded)
    return loaded


def strict_object(
    data: bytes | str, *, max_containers: int = MAX_CONTAINERS, as_python_writes: bool = False
) -> dict[str, object]:
    """Parse a document that must be an object; see `strict_json`."""
    loaded = strict_json(data, max_containers=max_containers, as_python_writes=as_python_writes)
    if not isinstance(loaded, dict):
        raise JsonRefused(say("problem.json-kind", kind=type(loaded).__name__))
    return loaded


def _check_depth(loaded: object) -> None:
    level = [loaded] if isinstance(loaded, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise JsonRefused(say("problem.json-depth", most=MAX_DEPTH))


def _unique(pairs: list[tuple[str, object]]) -> Mapping[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise JsonRefused(say("problem.json-key-twice"))
    return result


def _short(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise JsonRefused(say("problem.json-digits", n=len(digits)))
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _no_constant(digits)


def _no_constant(name: str) -> NoReturn:
    raise JsonRefused(say("problem.json-no-number", name=name[:20]))
