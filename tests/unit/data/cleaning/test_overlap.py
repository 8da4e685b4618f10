"""Development and test sentences inside the training text."""

import pickle
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sentencepiece import SentencePieceNormalizer

from mtkit.checks.text import build_table, read_code_points
from mtkit.data.cleaning.clean import Cleaner
from mtkit.data.cleaning.overlap import HeldOut, hash_folded, make_folding

HELD_OUT = [
    ("The quick brown fox jumps.", "Der schnelle braune Fuchs springt."),
    ("Yes.", "Ja."),
    ("No.", "Nein."),
    ("???", "!!!"),
    ("Stra\u00adße in 2010, ΐ ŉ", "دوازده ۱۲"),
]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("the QUICK brown fox, jumps", "anything", True),
        ("anything", "„Der schnelle braune Fuchs“ - springt", True),
        ("The quick brown fox jumped.", "Der schnelle Fuchs.", False),
        # Shorter than 20 letters: both sides must match the same pair.
        ("YES", "ja!", True),
        ("Yes.", "Doch.", False),
        ("Yes.", "Nein.", False),
        ("Yes. No.", "Ja. Nein.", False),
        ("???", "!!!", False),
        ("...", "...", False),
        ("STRASSE in 2010: ΐ ŉ", "دوازده (۱۲)", True),
    ],
)
def test_overlap(
    make_cleaner: Callable[..., Cleaner], source: str, target: str, *, expected: bool
) -> None:
    cleaner = make_cleaner("overlap", held_out=HELD_OUT)
    assert bool(len(cleaner.clean([source], [target]).dropped["overlap"])) is expected


def test_from_how_many_letters_one_side_is_enough(make_cleaner: Callable[..., Cleaner]) -> None:
    for min_letters, expected in ((3, 1), (4, 0)):
        cleaner = make_cleaner("overlap", held_out=HELD_OUT, min_letters=min_letters)
        assert len(cleaner.clean(["yes"], ["x"]).dropped["overlap"]) == expected


def full_width(line: str) -> str:
    return "".join(chr(ord(each) + 0xFEE0) if "!" <= each <= "~" else each for each in line)


ACCENTS = [("L'été à l´île, n° 12", "Žluťoučký kůň ½ m²"), ("한국어 문장", "プログラム")]


@pytest.mark.parametrize("disguise", ["NFD", "NFKD", "NFC", "full width", "half width"])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("number", range(len(ACCENTS)))
def test_what_the_tokenizer_makes_the_same_is_the_same(
    make_cleaner: Callable[..., Cleaner], disguise: str, side: int, number: int
) -> None:
    """SentencePiece's own tokens are the outside view."""
    pair = list(ACCENTS[number])
    match disguise:
        case "full width":
            pair[side] = full_width(pair[side])
        case "half width":
            pair[side] = pair[side].replace("プログラム", "ﾌﾟﾛｸﾞﾗﾑ")
        case form:
            pair[side] = unicodedata.normalize(form, pair[side])
    normalize = SentencePieceNormalizer(rule_name="nmt_nfkc").normalize
    assert normalize(pair) == normalize(list(ACCENTS[number]))
    for train, held_out in ((pair, ACCENTS[number]), (ACCENTS[number], pair)):
        cleaner = make_cleaner("overlap", held_out=[held_out])
        assert len(cleaner.clean(*([line] for line in train)).dropped["overlap"]) == 1


def test_text_that_the_tokenizer_leaves_as_it_is_stays_apart() -> None:
    held_out = HeldOut.of([("１２ Äpfel", "x")], ("identity", "nmt_nfkc"))
    for line in ("12 Äpfel", unicodedata.normalize("NFD", "１２ Äpfel")):
        assert make_folding("identity").fold([line])[0] not in held_out.sides[0]
        assert make_folding("nmt_nfkc").fold([line])[0] not in held_out.sides[0]


def test_a_model_with_a_rule_of_its_own(tmp_path: Path) -> None:
    """Of SentencePiece's file format: code points, a tab, what they become."""
    rule = tmp_path / "rule.tsv"
    rule.write_text("71 75\t6B 77\n", encoding="ascii")  # "qu" becomes "kw"
    normalizer = SentencePieceNormalizer(rule_tsv=str(rule))
    folding = make_folding(normalizer.serialized_model_proto())
    assert folding.fold(["Die Qual, Quelle, quer"]) == ["diequalquellekwer"]
    hashes = folding.hash(read_code_points(["quer", "kwer", "Quer"], build_table((), ())))
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # Seven letters of Han, of which each counts for three.
        ("今天天气非常", 0),
        ("今天天气非常好", 1),
        # Ten kana, of which each counts for two.
        ("ありがとうござい", 0),
        ("ありがとうございます", 1),
        ("안녕하세요여러", 0),
        ("안녕하세요여러분반갑습", 1),
        # Thai has vowels and consonants, as many as English.
        ("สวัสดีครับ", 0),
        ("abc def ghi", 0),
    ],
)
def test_the_shortest_length_depends_on_the_script(
    make_cleaner: Callable[..., Cleaner], line: str, expected: int
) -> None:
    cleaner = make_cleaner("overlap", held_out=[("Held out.", line)])
    assert len(cleaner.clean(["Something else."], [f"{line}。"]).dropped["overlap"]) == expected


def test_nothing_is_held_out(make_cleaner: Callable[..., Cleaner]) -> None:
    assert len(make_cleaner("overlap").clean(["a"], ["b"]).indices) == 1
    empty = make_cleaner("overlap", held_out=[("", "")])
    assert len(empty.clean(["?"], ["!"]).indices) == 1


def test_what_is_held_out_goes_to_another_process() -> None:
    before = HeldOut.of(HELD_OUT)
    after = pickle.loads(pickle.dumps(before))
    assert after.sides == before.sides
    assert np.array_equal(after.hashes[1], before.hashes[1])


@example(lines=["a\U000e0100", "\U000e0100"])
@example(lines=["a´\u0301", "´a", "\u0301", "a\u200d\u0301", "가\u11a8", "ｶﾞ", "ำ", "\ud800\u0308"])
@pytest.mark.parametrize("rule", ["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"])
@given(lines=st.lists(st.text(st.characters() | st.sampled_from("ßŉΐﬃİaeou ´\u0301\u0308\u0323①"))))
def test_a_line_hashes_as_what_it_folds_to(rule: str, lines: list[str]) -> None:
    lines = [*lines, "x"]
    folding = make_folding(rule)
    hashes = folding.hash(read_code_points(lines, build_table((), ())))
    assert hashes.tolist() == hash_folded(folding.fold(lines)).tolist()


def test_a_long_line_hashes_as_what_it_folds_to() -> None:
    line = "Maß für Maß, " * 5_000
    folding = make_folding("nmt_nfkc")
    hashes = folding.hash(read_code_points([line], build_table((), ())))
    assert hashes.tolist() == hash_folded(folding.fold([line])).tolist()
    assert folding.fold([line]) == ["massfürmass" * 5_000]
