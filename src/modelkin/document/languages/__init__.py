"""The languages of reports: texts as data, and sentences of the record told in them."""

from modelkin.document.languages._language import ENGLISH, LANGUAGES, Language, load_language, read_texts
from modelkin.document.languages._sentences import (
    known_sentence,
    limitation_text,
    sentence_text,
    summary_text,
)

__all__ = [
    "ENGLISH",
    "LANGUAGES",
    "Language",
    "known_sentence",
    "limitation_text",
    "load_language",
    "read_texts",
    "sentence_text",
    "summary_text",
]
