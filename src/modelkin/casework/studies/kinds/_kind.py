"""What a kind of experiment is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from modelkin.casework.studies._bench import Bench
from modelkin.casework.studies._spec import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of experiment: it reads models or earlier data, and writes data."""

    name: str
    meaning: str
    fields: Fields
    run: Callable[[Bench, Any], None]
