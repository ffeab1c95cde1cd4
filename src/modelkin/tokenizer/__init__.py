"""What a model's tokenizer is, from its files. Comparing two of them is not done here."""

from modelkin.tokenizer._summary import TOKENIZER_FILES, TokenizerSummary, summarise_tokenizer

__all__ = ["TOKENIZER_FILES", "TokenizerSummary", "summarise_tokenizer"]
