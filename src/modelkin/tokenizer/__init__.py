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
