"""Measure what published tokenizers have in common: ``python -m tests.real.measure_background``.

Writes ``src/modelkin/tokenizer/data/background.json``: counts and shares, no token of anybody. Needs
what `make test-real` installs, and fetches the tokenizers that only it reads.
"""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import combinations

from tests.places import ROOT
from tests.real.fetch import TOKENIZERS, fetch_missing
from tests.real.tokenizers import NPM, PYPI, file_of, first_name, known_relation

from modelkin.tokenizer import Tokenizer, read_tokenizer
from modelkin.tokenizer.ids import compare_ids
from modelkin.tokenizer.overlap import compare_merges, overlap

TARGET = ROOT / "src" / "modelkin" / "tokenizer" / "data" / "background.json"


def measure() -> tuple[dict[str, object], list[dict[str, object]]]:
    """Read all tokenizers, and compare each with those of other makers and with its namesakes."""
    read: dict[str, Tokenizer] = {}
    facts: dict[str, object] = {}
    for name in (*PYPI, *NPM):
        path = file_of(name)
        data = path.read_bytes()
        found = read[name] = read_tokenizer({path.name: data})
        package = PYPI[name][0] if name in PYPI else " ".join(TOKENIZERS[NPM[name]].spec.rsplit("@", 1))
        facts[name] = {
            "package": package,
            "file": path.name,
            "sha256": sha256(data).hexdigest(),
            "form": found.form,
            "kind": found.kind,
            "byte_level": found.byte_level,
            "tokens": found.n_tokens,
            "added": len(found.added),
            "merges": None if found.merges is None else len(found.merges),
        }
    pairs = [
        _pair(left, right, read)
        for left, right in combinations(read, 2)
        if (first_name(left) == left and first_name(right) == right) or first_name(right) == left
    ]
    return facts, pairs


def _pair(left: str, right: str, read: dict[str, Tokenizer]) -> dict[str, object]:
    one, other = read[left], read[right]
    ids = compare_ids(one.tokens, other.tokens)
    merges, _ = compare_merges(one, other)
    shares = overlap(candidate=len(one.tokens), base=len(other.tokens), shared=ids.shared)
    assert shares.of_smaller is not None
    assert shares.jaccard is not None
    assert ids.spearman is not None
    assert ids.longest_run is not None
    return {
        "names": [left, right],
        "relation": known_relation(left, right),
        "shared": ids.shared,
        "of_smaller": round(shares.of_smaller, 4),
        "jaccard": round(shares.jaccard, 4),
        "same_id": round(ids.same_id / ids.shared, 4),
        "spearman": round(ids.spearman, 4),
        "longest_run": ids.longest_run.length,
        "run_words": ids.longest_run.words,
        "merges_of_smaller": round(merges.overlap.of_smaller or 0.0, 4) if merges else None,
        "first_1000_merges_equal": merges.first_1000_equal if merges else None,
    }


def main() -> None:
    """Write the table, one line for each tokenizer and pair."""
    if not fetch_missing(TOKENIZERS.values()):
        raise SystemExit("all published tokenizers are needed")
    facts, pairs = measure()
    named = ",\n".join(f"  {json.dumps(name)}: {json.dumps(fact)}" for name, fact in facts.items())
    listed = ",\n".join(f"  {json.dumps(pair)}" for pair in pairs)
    text = f'{{"tokenizers": {{\n{named}\n}},\n"pairs": [\n{listed}\n]}}\n'
    TARGET.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
