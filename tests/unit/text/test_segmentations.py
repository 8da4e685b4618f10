"""Drawn segmentations: the best one without chance, the probabilities of the papers with it."""

import hashlib
import math
import tracemalloc
from collections import Counter
from itertools import product
from pathlib import Path
from random import Random

import pytest
import sentencepiece

import mtkit.text.segmentations as segmentations_module
from mtkit.data.phrasebook import generate_pairs
from mtkit.errors import MtkitError
from mtkit.text.segmentations import BpeDropout, Resegmenter, UnigramSampling

TARGETS = [target for _, target in generate_pairs("train", 400)]


def train(folder: Path, kind: str, **options) -> Path:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TARGETS),
        model_prefix=str(folder / kind),
        model_type=kind,
        minloglevel=2,
        **{"vocab_size": 200, **options},
    )
    return folder / f"{kind}.model"


@pytest.mark.parametrize(("kind", "alpha"), [("bpe", 1e-12), ("unigram", 200.0)])
@pytest.mark.parametrize("options", [{}, {"byte_fallback": True, "vocab_size": 450}])
def test_without_chance_it_is_what_sentencepiece_finds(
    tmp_path: Path, kind: str, alpha: float, options: dict
) -> None:
    """SentencePiece's own best segmentation is the outside view."""
    path = train(tmp_path, kind, user_defined_symbols=["<ph>"], **options)
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    resegmenter = Resegmenter(path.read_bytes(), alpha)
    for line in [*TARGETS, "der <ph> Mann", "東京 und Köln", "", "  "]:
        best = model.encode(line)
        assert resegmenter.draw(best, Random(1)) == best


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("alpha", [0.1, 0.9])
def test_text_and_what_is_no_text_stay(tmp_path: Path, kind: str, alpha: float) -> None:
    path = train(tmp_path, kind, user_defined_symbols=["<ph>"])
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    resegmenter, random = Resegmenter(path.read_bytes(), alpha), Random(1)
    symbol, unknown = model.piece_to_id("<ph>"), model.unk_id()
    for line in [*TARGETS, "der <ph> Mann", "東京 und Köln"]:
        best = model.encode(line)
        drawn = resegmenter.draw(best, random)
        assert model.decode(drawn) == model.decode(best)
        assert drawn.count(symbol) == best.count(symbol)
        assert drawn.count(unknown) == best.count(unknown)


def test_without_spaces_between_words_a_sentence_is_one(tmp_path: Path) -> None:
    path = train(tmp_path, "bpe", split_by_whitespace=False, vocab_size=300)
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    assert any("▁" in model.id_to_piece(number)[1:] for number in range(300))
    resegmenter = Resegmenter(path.read_bytes(), 1e-12)
    for line in TARGETS[:50]:
        best = model.encode(line)
        assert resegmenter.draw(best, Random(1)) == best


def draw_often(segmenter, word: str, count: int = 40_000) -> dict[str, float]:
    random = Random(1)
    drawn = Counter(" ".join(segmenter.draw(word, random)) for _ in range(count))
    return {pieces: number / count for pieces, number in drawn.items()}


def check_frequencies(found: dict[str, float], expected: dict[str, float]) -> None:
    assert found.keys() == expected.keys()
    for pieces, probability in expected.items():
        deviation = math.sqrt(probability * (1 - probability) / 40_000)
        assert abs(found[pieces] - probability) < 5 * deviation


def test_bpe_dropout_by_hand() -> None:
    """arXiv 1910.13267, algorithm 1, worked out for a word of three letters and p = 0.3.

    Merges: "ab" before "bc" before "abc" (of "ab" and "c", or of "a" and "bc"). From a b c: "ab" is
    kept with 0.7; else "bc" with 0.3 * 0.7; else, 0.09, nothing is merged. From ab c and from a bc,
    "abc" is kept with 0.7.
    """
    segmenter = BpeDropout({"ab": 0.0, "bc": -1.0, "abc": -2.0}, 0.3)
    expected = {
        "a b c": 0.09,
        "ab c": 0.7 * 0.3,
        "a bc": 0.21 * 0.3,
        "abc": 0.7 * 0.7 + 0.21 * 0.7,
    }
    check_frequencies(draw_often(segmenter, "abc"), expected)


def test_unigram_sampling_by_hand() -> None:
    """arXiv 1804.10959, equation 7 over all segmentations: P(x)^alpha, normalised."""
    probabilities = {"a": 0.1, "b": 0.2, "c": 0.1, "ab": 0.3, "bc": 0.2, "abc": 0.1}
    alpha = 0.5
    weights = {
        pieces: math.prod(probabilities[piece] for piece in pieces.split()) ** alpha
        for pieces in ("a b c", "ab c", "a bc", "abc")
    }
    total = sum(weights.values())
    segmenter = UnigramSampling({p: math.log(v) for p, v in probabilities.items()}, alpha)
    expected = {pieces: weight / total for pieces, weight in weights.items()}
    check_frequencies(draw_often(segmenter, "abc"), expected)


def test_a_letter_that_no_short_piece_has() -> None:
    # "b" is in no piece of its own: some ways lead nowhere.
    segmenter = UnigramSampling({"a": -1.0, "ab": -3.0, "bc": -3.0, "c": -1.0}, 1.0)
    assert draw_often(segmenter, "abc", 200).keys() == {"a bc", "ab c"}


@pytest.mark.parametrize("kind", ["char", "word"])
def test_other_kinds_of_models_have_no_other_segmentations(tmp_path: Path, kind: str) -> None:
    path = train(tmp_path, kind, vocab_size=40 if kind == "char" else 60, hard_vocab_limit=False)
    with pytest.raises(MtkitError, match="neither BPE nor unigram"):
        Resegmenter(path.read_bytes(), 0.1)


LETTERS = "东南西北上下左右春夏秋冬"
"""Of a script without spaces: a sentence is one word."""
SCORES = {
    **dict.fromkeys(LETTERS, -20.0),
    **{"".join(pair): -1.0 - place for place, pair in enumerate(product(LETTERS, repeat=2))},
    **{"".join(three): -200.0 for three in product(LETTERS[:4], repeat=3)},
}


def make_sentences(count: int) -> list[str]:
    random = Random(7)
    return ["".join(random.choices(LETTERS, k=random.randint(1, 40))) for _ in range(count)]


def draw_epochs(segmenter, sentences: list[str], epochs: int) -> str:
    """Returns a digest of all draws."""
    drawn = hashlib.sha256()
    random = Random()
    for epoch, (number, sentence) in product(range(epochs), enumerate(sentences)):
        random.seed(1_000_000 * epoch + number)
        drawn.update(" ".join(segmenter.draw(sentence, random)).encode())
    return drawn.hexdigest()


@pytest.mark.parametrize("max_bytes", [0, 10_000, 1 << 30])
@pytest.mark.parametrize(
    ("kind", "expected"), [(BpeDropout, "43ba2b5fb132"), (UnigramSampling, "2b5e1a4bfb6f")]
)
def test_draws_are_those_of_the_first_version_whatever_is_remembered(
    monkeypatch: pytest.MonkeyPatch, kind: type, expected: str, max_bytes: int
) -> None:
    """Digests of what the version drew that remembered every state that a word can be in."""
    monkeypatch.setattr(segmentations_module, "_MAX_BYTES", max_bytes, raising=False)
    digest = draw_epochs(kind(SCORES, 0.2), make_sentences(300), 3)
    assert digest.startswith(expected)


@pytest.mark.parametrize("kind", [BpeDropout, UnigramSampling])
def test_memory_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    monkeypatch.setattr(segmentations_module, "_MAX_BYTES", 1_000_000, raising=False)
    segmenter = kind(SCORES, 0.2)
    sentences = make_sentences(5_000)
    tracemalloc.start()
    try:
        draw_epochs(segmenter, sentences, 1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Beside it stand some small tuples that the interpreter keeps for its next ones.
    assert 300_000 < peak < 2_000_000
