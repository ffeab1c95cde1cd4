"""Which part of one model faces which part of the other."""

from modelkin.alignment._tokens import TokenPairs, equal_rows, shared_tokens
from modelkin.tokenizer import Vocabulary, read_vocabulary

__all__ = ["TokenPairs", "Vocabulary", "equal_rows", "read_vocabulary", "shared_tokens"]
