"""What a model's tokenizer is, from its files, and what two of them have in common."""

from modelkin.tokenizer._background import Background, KnownPair, Spread, known_pairs
from modelkin.tokenizer._beginning import Vocabulary, read_vocabulary
from modelkin.tokenizer._classes import CLASSES, token_class
from modelkin.tokenizer._compare import SCHEMA, TokenizerComparison, TokenizerFacts, compare_two
from modelkin.tokenizer._merges import merges_digest
from modelkin.tokenizer._overlap import Overlap, overlap
from modelkin.tokenizer._read import MAX_BYTES, read_tokenizer, tokenizer_files
from modelkin.tokenizer._reading import Relation
from modelkin.tokenizer._rows import TokenPairs, equal_rows, shared_tokens
from modelkin.tokenizer._settings import MAX_SETTINGS_BYTES, Setting, read_settings
from modelkin.tokenizer._shown import shown
from modelkin.tokenizer._summary import TOKENIZER_FILES, TokenizerSummary, summarise_tokenizer
from modelkin.tokenizer._value import Tokenizer

__all__ = [
    "CLASSES",
    "MAX_BYTES",
    "MAX_SETTINGS_BYTES",
    "SCHEMA",
    "TOKENIZER_FILES",
    "Background",
    "KnownPair",
    "Overlap",
    "Relation",
    "Setting",
    "Spread",
    "TokenPairs",
    "Tokenizer",
    "TokenizerComparison",
    "TokenizerFacts",
    "TokenizerSummary",
    "Vocabulary",
    "compare_two",
    "equal_rows",
    "known_pairs",
    "merges_digest",
    "overlap",
    "read_settings",
    "read_tokenizer",
    "read_vocabulary",
    "shared_tokens",
    "shown",
    "summarise_tokenizer",
    "token_class",
    "tokenizer_files",
]
