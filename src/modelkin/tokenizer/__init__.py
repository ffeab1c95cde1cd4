"""What a model's tokenizer is, from its files, and what two of them have in common."""

from modelkin.tokenizer._classes import CLASSES, shown, token_class
from modelkin.tokenizer._compare import (
    MAX_SETTINGS_BYTES,
    TOKENIZERS_SCHEMA,
    TokenizerComparison,
    TokenizerFacts,
    compare_two,
    read_settings,
)
from modelkin.tokenizer._rows import TokenPairs, equal_rows, read_vocabulary, shared_tokens
from modelkin.tokenizer._summary import TOKENIZER_FILES, TokenizerSummary, summarise_tokenizer
from modelkin.tokenizer._value import Tokenizer
from modelkin.tokenizer.background import Spread, known_pairs
from modelkin.tokenizer.overlap import Overlap
from modelkin.tokenizer.reading import MAX_BYTES, read_tokenizer, tokenizer_files

__all__ = [
    "CLASSES",
    "MAX_BYTES",
    "MAX_SETTINGS_BYTES",
    "TOKENIZERS_SCHEMA",
    "TOKENIZER_FILES",
    "Overlap",
    "Spread",
    "TokenPairs",
    "Tokenizer",
    "TokenizerComparison",
    "TokenizerFacts",
    "TokenizerSummary",
    "compare_two",
    "equal_rows",
    "known_pairs",
    "read_settings",
    "read_tokenizer",
    "read_vocabulary",
    "shared_tokens",
    "shown",
    "summarise_tokenizer",
    "token_class",
    "tokenizer_files",
]
