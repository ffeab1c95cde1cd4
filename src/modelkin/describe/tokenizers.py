"""Tokenizers of two models, compared: which files are read, and what a comparison records about them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from modelkin.errors import NotFound, TokenizerError
from modelkin.formats import KNOWN
from modelkin.message import Message, say, told
from modelkin.model import Model, open_model
from modelkin.source import LocalSource, Source
from modelkin.tokenizer import (
    MAX_BYTES,
    MAX_SETTINGS_BYTES,
    Tokenizer,
    TokenizerComparison,
    compare_two,
    read_settings,
    read_tokenizer,
    tokenizer_files,
)

if TYPE_CHECKING:
    from modelkin.options import FetchOptions
    from modelkin.progress import Progress

Cell = int | float | str | bool | Message | None
TokenizerLike = str | Path | Source | Model | Tokenizer
_WEIGHTS = tuple(ending for known in KNOWN for ending in known.endings)


def compare_tokenizers(
    candidate: TokenizerLike,
    base: TokenizerLike,
    options: FetchOptions | None = None,
    *,
    high_from: int | None = None,
    progress: Progress | None = None,
) -> TokenizerComparison:
    """Compare two tokenizers. The whole vocabularies are read, no weights.

    Parameters
    ----------
    candidate, base
        Model references, opened models, sources, tokenizers that were read, or paths of single files.
    options
        How to fetch.
    high_from
        Id from which the tokens of the larger vocabulary are counted by class; None means where the smaller
        one ends.
    progress
        Told about long reads.

    Raises
    ------
    NotFound
        A model has no tokenizer file that is known.
    TokenizerError
        A file is malformed, hostile or too large.

    Examples
    --------
    >>> from modelkin.demo import demo_zoo
    >>> with demo_zoo() as zoo:
    ...     found = compare_tokenizers(zoo / "twin-1", zoo / "base")
    >>> found.relation.value, found.tokens.jaccard
    ('same', 1.0)
    """
    with ExitStack() as stack:
        sides = [_side(item, options, progress, stack) for item in (candidate, base)]
    return compare_two(
        sides[0][1],
        sides[1][1],
        names=(sides[0][0], sides[1][0]),
        settings=(sides[0][2], sides[1][2]),
        high_from=high_from,
    )


def load_tokenizer(model: Model, *, limit: int = MAX_BYTES) -> Tokenizer:
    """Read the tokenizer of a model.

    Raises `NotFound` if it has none that is known, or only one longer than `limit`, and `TokenizerError` if
    it is malformed or hostile.
    """
    names = tokenizer_files(model.file_names())
    if not names:
        raise NotFound(
            model.location.ref,
            say("problem.no-tokenizer"),
            hint=say("hint.tokenizers"),
        )
    contents: dict[str, bytes] = {}
    for name in names:
        data = model.read_file(name, limit=limit)
        if data is None:
            raise NotFound(name, say("problem.not-read-bytes", n=model.file_size(name), limit=limit))
        contents[name] = data
    return read_tokenizer(contents)


def tokenizer_record(candidate: Model, base: Model, *, limit: int) -> dict[str, Cell]:
    """Return what a comparison of models records: a few numbers, or why there are none."""
    read = []
    for model in (candidate, base):
        names = tokenizer_files(model.file_names())
        if not names:
            return not_compared(say("tokenizers-none", model=model.location.ref))
        for name in names:
            if (size := model.file_size(name) or 0) > limit:
                return not_compared(say("tokenizers-too-long", file=name, n=size, limit=limit))
        try:
            read.append(load_tokenizer(model, limit=limit))
        except (NotFound, TokenizerError) as error:
            return not_compared(told(error))
    found = compare_two(read[0], read[1])
    run, level = found.ids.longest_run, found.background.of_smaller
    return {
        "compared": "yes",
        "relation": found.relation.value,
        "candidate_kind": found.candidate.kind,
        "base_kind": found.base.kind,
        "candidate_tokens": found.candidate.tokens,
        "base_tokens": found.base.tokens,
        "candidate_added": found.candidate.added,
        "base_added": found.base.added,
        "texts_shared": found.tokens.shared,
        "jaccard": found.tokens.jaccard,
        "share_of_smaller": found.tokens.of_smaller,
        "share_of_smaller_in_strangers": say("tokenizers-range", low=level.low, high=level.high),
        "same_id": found.ids.same_id,
        "longest_run": run.length if run is not None else 0,
        "id_spearman": found.ids.spearman,
        "merges_share_of_smaller": found.merges.overlap.of_smaller if found.merges is not None else None,
        "first_1000_merges_equal": found.merges.first_1000_equal if found.merges is not None else None,
        "reading": say("sentences", said=found.reading),
    }


def not_compared(why: Message) -> dict[str, Cell]:
    """Return what a comparison of models records about tokenizers that were not compared."""
    return {"compared": say("tokenizers-not-compared", why=why)}


_Side = tuple[str, Tokenizer, Mapping[str, object] | None]


def _side(
    given: TokenizerLike, options: FetchOptions | None, progress: Progress | None, stack: ExitStack
) -> _Side:
    if isinstance(given, Tokenizer):
        return given.file, given, None
    if isinstance(given, str | Path) and Path(given).is_file() and not str(given).endswith(_WEIGHTS):
        return _single_file(Path(given), options, stack)
    if isinstance(given, Model):
        model = given
    else:
        reference = str(given) if isinstance(given, Path) else given
        model = stack.enter_context(open_model(reference, options, progress=progress))
    return model.location.ref, load_tokenizer(model), _settings(model)


def _single_file(path: Path, options: FetchOptions | None, stack: ExitStack) -> _Side:
    model = stack.enter_context(open_model(LocalSource(path, ref=str(path), alone=True), options))
    data = model.fetcher.read_file(path.name, limit=MAX_BYTES)
    if data is None:
        raise TokenizerError(path.name, say("problem.readable-bytes", most=MAX_BYTES))
    return str(path), read_tokenizer({path.name: data}), None


def _settings(model: Model) -> Mapping[str, object] | None:
    data = model.read_file("tokenizer_config.json", limit=MAX_SETTINGS_BYTES)
    return None if data is None else read_settings(data)
