"""Which part of one model faces which part of the other."""

from modelkin.alignment._vocabulary import (
    TokenPairs,
    Vocabulary,
    equal_rows,
    read_vocabulary,
    shared_tokens,
)

__all__ = ["TokenPairs", "Vocabulary", "equal_rows", "read_vocabulary", "shared_tokens"]
