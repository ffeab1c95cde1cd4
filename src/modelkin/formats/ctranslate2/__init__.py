"""CTranslate2: what faster-whisper and translation services load."""

from ._format import FORMAT
