"""What two tokenizers have in common, and what may be concluded from it."""

import hashlib
import json

import numpy as np
import pytest

from modelkin.message import say
from modelkin.tokenizer import (
    CLASSES,
    Tokenizer,
    compare_two,
    known_pairs,
    read_settings,
    shown,
    token_class,
)
from modelkin.tokenizer.ids import IdComparison, Run, compare_ids, rank_correlation
from modelkin.tokenizer.overlap import overlap
from modelkin.tokenizer.relation import LONG_RUN, VocabularyRelation, read_relation

BYTES = [bytes([n]) for n in range(256)]


def made(tokens, *, merges=None, added=None, byte_level=True, start=0):
    table = tokens if isinstance(tokens, dict) else {t: start + n for n, t in enumerate(tokens)}
    return Tokenizer(
        file="tokenizer.json",
        form="tokenizer.json",
        kind="BPE",
        byte_level=byte_level,
        tokens=table,
        n_tokens=len(table),
        merges=merges,
        no_merges=None if merges is not None else say("no-merges-file"),
        added=added or {},
    )


def words(prefix, count):
    return [f" {prefix}{n}".encode() for n in range(count)]


# -- published numbers ---------------------------------------------------------------------------------


def test_the_published_shares_follow_from_the_published_counts():
    tokens = overlap(candidate=196_608, base=151_329, shared=80_339)
    assert tokens.union == 267_598
    assert tokens.jaccard == pytest.approx(0.30022272214291584, abs=1e-12)
    assert tokens.of_smaller == tokens.of_base == pytest.approx(0.5308896510252497, abs=1e-12)
    assert tokens.only_candidate == 116_269
    merges = overlap(candidate=192_256, base=318_088, shared=76_729)
    assert (merges.only_candidate, merges.only_base) == (115_527, 241_359)
    assert merges.of_base == pytest.approx(0.2412, abs=5e-5)


def published_ids():
    return IdComparison(
        shared=80_339,
        same_id=1,
        within_100=150,
        n_shifts=50_000,
        shifts=((4096, 262),),
        longest_run=Run(
            length=256,
            candidate_start=4096,
            base_start=0,
            shift=4096,
            single_bytes=256,
            words=0,
            sample=("!",),
        ),
        first_1000_equal=0,
        first_1000_at_shift=260,
        spearman=0.453,
        first_rows=(),
    )


def test_the_disputed_pair_reads_as_separately_trained():
    tokens = overlap(candidate=196_608, base=151_329, shared=80_339)
    assert read_relation(tokens, published_ids()) is VocabularyRelation.SEPARATE


def test_a_block_of_bytes_at_a_shift_is_told_as_what_it_is():
    common = words("common", 300)
    mine = [*(f"<reserved{n}>".encode() for n in range(4096)), *BYTES, *words("mine", 700), *reversed(common)]
    theirs = [*BYTES, *common, *words("theirs", 444)]
    merges = tuple(f"m {n}" for n in range(1200))
    others = tuple(f"o {n}" for n in range(1200))
    found = compare_two(made(mine, merges=merges), made(theirs, merges=others))
    run = found.ids.longest_run
    assert run is not None
    assert (run.length, run.shift, run.candidate_start, run.single_bytes, run.words) == (
        256,
        4096,
        4096,
        256,
        0,
    )
    assert found.ids.shifts[0] == (4096, 256)
    assert found.relation is VocabularyRelation.SEPARATE
    assert found.merges is not None
    assert found.merges.first_1000_equal == 0
    assert any("alphabet of single bytes" in str(line) for line in found.reading)


# -- relations -----------------------------------------------------------------------------------------


def test_the_same_table_is_the_same():
    found = compare_two(made([*BYTES, *words("a", 50)]), made([*BYTES, *words("a", 50)]))
    assert found.relation is VocabularyRelation.SAME
    assert found.tokens.jaccard == 1.0
    assert found.ids.spearman == pytest.approx(1.0)


@pytest.mark.parametrize("start", [0, 768])
def test_a_table_that_holds_the_other_in_order_is_an_extension(start):
    short = [*BYTES, *words("a", 500)]
    found = compare_two(made([*short, *words("b", 100)], start=start), made(short))
    assert found.relation is VocabularyRelation.EXTENDED
    assert found.ids.shifts[0] == (start, 756)
    assert found.high_ids is not None
    assert found.high_ids.side == "candidate"


def test_a_long_common_list_is_a_common_stock():
    stock = words("stock", LONG_RUN)
    found = compare_two(made([*BYTES, *stock, *words("a", 300)]), made([*words("b", 900), *stock]))
    assert found.relation is VocabularyRelation.COMMON_STOCK


def test_sharing_all_words_in_another_order_is_no_relation():
    rng = np.random.default_rng(0)
    mine = words("a", 400)
    theirs = [mine[i] for i in rng.permutation(400)]
    found = compare_two(made(mine), made([*theirs, *words("b", 400)]))
    assert found.tokens.of_smaller == 1.0
    assert found.relation is VocabularyRelation.SEPARATE
    assert "100% of the smaller vocabulary" in str(found.reading[1])


def test_tokenizers_without_a_common_token_are_compared_too():
    found = compare_two(made(words("a", 5)), made(words("b", 5)))
    assert found.relation is VocabularyRelation.SEPARATE
    assert found.ids.shifts == ()
    assert found.ids.longest_run is None
    assert found.ids.spearman is None


def test_no_reading_accuses_anybody():
    for relation in (made(words("a", 5)), made(words("b", 5))):
        assert "No verdict on weights follows." in str(compare_two(relation, made(words("a", 5))).reading[-1])


# -- parts ---------------------------------------------------------------------------------------------


def test_ids_are_compared_over_shared_tokens_only():
    found = compare_ids({b"a": 0, b"b": 5, b"c": 6, b"x": 9}, {b"a": 0, b"b": 1, b"c": 2, b"y": 9})
    assert (found.shared, found.same_id, found.within_100) == (3, 1, 3)
    assert found.shifts == ((4, 2), (0, 1))
    assert found.longest_run is not None
    assert (found.longest_run.length, found.longest_run.shift) == (2, 4)
    assert found.first_1000_at_shift == 2
    assert [row.equal for row in found.first_rows[:3]] == [True, False, False]
    assert found.first_rows[1].candidate is None
    assert found.first_rows[1].base == "b"


def test_the_answer_does_not_depend_on_the_order_of_reading():
    one = {token: n for n, token in enumerate(words("w", 200))}
    other = {token: (7 * n) % 200 for n, token in enumerate(words("w", 200))}
    turned = dict(reversed(one.items())), dict(sorted(other.items()))
    assert compare_ids(one, other) == compare_ids(*turned)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([1, 2, 3], [10, 20, 30], 1.0),
        ([1, 2, 3], [3, 2, 1], -1.0),
        ([1, 1, 2, 3], [1, 2, 3, 4], 0.9486832980505138),
        ([1, 2], [1, 2], None),
        ([1, 1, 1], [1, 2, 3], None),
    ],
)
def test_spearman_is_the_correlation_of_ranks(left, right, expected):
    found = rank_correlation(np.array(left), np.array(right))
    assert found == (None if expected is None else pytest.approx(expected))


def test_the_digest_of_merges_is_that_of_published_analyses():
    merges = [f"a{n} b" for n in range(1500)]
    found = compare_two(made([b"a"], merges=tuple(merges)), made([b"a"])).candidate
    assert found.merges_sha256 == hashlib.sha256("\n".join(merges).encode()).hexdigest()
    assert found.merges_sha256_first_1000 == hashlib.sha256("\n".join(merges[:1000]).encode()).hexdigest()


def test_merges_are_compared_as_sets_and_by_place():
    one, other = made([b"a"], merges=("a b", "c d", "e f")), made([b"a"], merges=("a b", "e f", "g h", "i j"))
    found = compare_two(one, other).merges
    assert found is not None
    assert (found.overlap.shared, found.first_1000_equal, found.equal_until) == (2, 1, 1)
    assert found.overlap.of_smaller == pytest.approx(2 / 3)


def test_merges_of_different_spellings_meet_by_what_they_mean():
    one = made([b"a"], merges=("Ġ the", "Ã ©"))
    other = made([b"a"], merges=("▁ the", "x y"), byte_level=False)
    found = compare_two(one, other).merges
    assert found is not None
    assert found.overlap.shared == 1


def test_missing_merges_are_a_reason_and_no_zero():
    found = compare_two(made([b"a"]), made([b"a"], merges=("a b",)))
    assert found.merges is None
    assert found.no_merges == say("text.of_side", side=say("side.candidate"), text=say("no-merges-file"))
    assert str(found.no_merges) == "candidate: there is no merges.txt"
    assert found.background.merges_of_smaller.at_least is None


def test_more_merges_than_tokens_are_named():
    split = made([b"a", b"b"], merges=("a b", "b a", "a a"))
    found = compare_two(split, made([b"a", b"b"], merges=("a b",)))
    assert (found.candidate.every_split, found.base.every_split) == (True, False)
    assert any("every way to split a token" in str(line) for line in found.reading)


def test_added_tokens_are_compared():
    found = compare_two(
        made([b"a"], added={"<s>": 1, "<x>": 2}), made([b"a"], added={"<s>": 1, "<y>": 2})
    ).added
    assert (found.overlap.shared, found.same_id) == (1, 1)
    assert (found.only_candidate, found.only_base) == (("<x>",), ("<y>",))


def test_settings_are_compared_and_long_ones_shortened():
    one = {
        "tokenizer_class": "A",
        "bos_token": {"content": "<s>", "lstrip": False},
        "chat_template": "x" * 500,
    }
    other = {"tokenizer_class": "A", "eos_token": "</s>", "added_tokens_decoder": {}}
    found = {
        item.name: item for item in compare_two(made([b"a"]), made([b"a"]), settings=(one, other)).settings
    }
    assert found["tokenizer_class"].equal
    assert (found["bos_token"].candidate, found["bos_token"].base) == ('"<s>"', None)
    assert "(502 characters, sha256 " in str(found["chat_template"].candidate)
    assert "added_tokens_decoder" not in found


def test_settings_are_read_as_python_writes_them():
    one = read_settings(b'{"model_max_length": Infinity, "padding": NaN, "class": "Old", "class": "New"}')
    other = read_settings(b'{"model_max_length": 8, "padding": NaN, "class": "New"}')
    found = compare_two(made([b"a"]), made([b"a"]), settings=(one, other)).settings
    assert [(item.name, item.candidate, item.base, item.equal) for item in found] == [
        ("class", '"New"', '"New"', True),
        ("model_max_length", "Infinity", "8", False),
        ("padding", "NaN", "NaN", True),
    ]
    assert read_settings(b"[]") is None


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (" the", "ASCII letters"),
        ("don't", "ASCII letters"),
        ("é", "Latin"),
        ("ﬁ", "Latin"),
        ("мир", "Cyrillic"),
        ("안녕", "Hangul"),
        (" 中文", "Han"),
        ("です", "Kana"),
        ("食べ", "Kana"),
        ("ـم", "Arabic"),
        ("हिन", "Devanagari"),
        ("ไทย", "Thai"),
        ("აბ", "other letters"),
        ("aж", "mixed letters"),
        ("123", "digits"),
        ("٣", "digits"),
        ("…", "punctuation"),
        ("+=", "punctuation"),
        ("  \n", "whitespace"),
        ("\u3000", "whitespace"),
        (b"\xec\x95", "bytes"),
        (b"\x00", "bytes"),
        (b"", "bytes"),
    ],
)
def test_writing_is_judged_on_decoded_text(token, expected):
    assert token_class(token if isinstance(token, bytes) else token.encode()) == expected
    assert expected in CLASSES


def test_korean_is_found_in_byte_level_tokens():
    korean = ["안녕", " 세계", "한국"]
    found = compare_two(made([*BYTES, *(text.encode() for text in korean)]), made(BYTES))
    counts = {item.name: item for item in found.classes}
    assert counts["Hangul"].only_candidate == 3
    assert counts["bytes"].shared > 128
    assert sum(item.candidate for item in found.classes) == 259


def test_high_ids_may_begin_anywhere():
    mine = made({b" a": 0, "안".encode(): 150_000, b" b": 150_001})
    found = compare_two(mine, made([b" a"]), high_from=150_000).high_ids
    assert found is not None
    assert (found.tokens, dict(found.classes)) == (2, {"ASCII letters": 1, "Hangul": 1})


def test_tokens_are_shown_without_what_could_garble_a_screen():
    assert shown(b"\x1b[2J") == "\\x1b[2J"
    assert shown("\u202e".encode()) == "\\u202e"
    assert len(shown(b"x" * 1000)) == 40


# -- background ----------------------------------------------------------------------------------------


def test_the_background_says_that_much_overlap_is_ordinary():
    found = compare_two(made([*BYTES, *words("a", 50)]), made([*BYTES, *words("b", 50)])).background
    assert found.of_smaller.n_pairs > 150
    assert found.n_tokenizers >= 18
    assert found.of_smaller.low < 0.4
    assert found.of_smaller.high > 0.95
    assert found.run_words.high < LONG_RUN / 5


def test_strangers_and_relatives_of_the_table_are_apart_in_order_only():
    pairs = known_pairs()
    separate = [pair for pair in pairs if pair.relation == "separate"]
    related = [pair for pair in pairs if pair.relation in ("same", "extended", "common stock")]
    assert max(pair.run_words for pair in separate) < LONG_RUN < min(pair.run_words for pair in related)
    assert max(pair.of_smaller for pair in separate) > min(pair.of_smaller for pair in related)


def test_a_comparison_is_plain_json():
    from modelkin.document import to_json

    document = json.loads(to_json(compare_two(made(BYTES), made(BYTES))))
    assert document["schema"] == "modelkin.tokenizers/1"
    assert document["relation"] == "same"
