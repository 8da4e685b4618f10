from pathlib import Path

import pytest

from mtkit.data.augmentation.augment import Augmenter, list_augment_symbols
from mtkit.errors import MtkitError
from mtkit.recipe.augment import Augment, Terms

_SOURCES = ["The cats sleep.", "A dog and a cat.", "Nothing at all.", "The <term0> cat."]
_TARGETS = ["Die Katzen schlafen.", "Ein Tier und eine Katze.", "Gar nichts.", "Die Katze."]


def augmenter(folder: Path, **settings: object) -> Augmenter:
    path = folder / "dictionary.tsv"
    path.write_text("cat\tKatze\ncats\tKatze\ndog\tHund\n", encoding="utf-8")
    terms = Terms(dictionary=path, **{"rate": 1.0, **settings})
    return Augmenter(Augment(terms=terms), seed=1)


def test_words_that_the_target_has_in_some_form_are_annotated(tmp_path):
    found = augmenter(tmp_path).augment(_SOURCES, _TARGETS)
    # The dog is no Hund there; and a text that has a symbol itself is left alone.
    assert found.sources == [
        "The<term0> cats<term1> Katze<term2> sleep.",
        "A dog and a<term0> cat<term1> Katze<term2>.",
    ]
    assert found.targets == _TARGETS[:2]
    assert found.kinds == ["terms", "terms"]


def test_a_pair_becomes_the_same_wherever_it_stands(tmp_path):
    sources = [f"cat {number} and dog" for number in range(200)]
    targets = [f"Katze {number} und Hund" for number in range(200)]
    some = augmenter(tmp_path, rate=0.3)
    found = some.augment(sources, targets)
    # 200 pairs at 0.3: 60, with a standard deviation of 6.5.
    assert 35 < len(found.sources) < 85
    parts = [
        some.augment(sources[first : first + 7], targets[first : first + 7])
        for first in range(0, 200, 7)
    ]
    assert [each for part in parts for each in part.sources] == found.sources
    assert any(source.count("<term0>") == 2 for source in found.sources)
    one = augmenter(tmp_path, rate=0.3, max_terms=1).augment(sources, targets)
    assert all(source.count("<term0>") == 1 for source in one.sources)


def test_source_words_of_some_terms_are_left_out(tmp_path):
    sources = [f"cat {number} sleeps" for number in range(300)]
    targets = [f"Katze {number} schläft" for number in range(300)]
    some = augmenter(tmp_path, masked=0.5).augment(sources, targets)
    assert some.targets == targets
    masked = [
        source == f"<term0><term1> Katze<term2> {number} sleeps"
        for number, source in enumerate(some.sources)
    ]
    # 300 terms at 0.5: 150, with a standard deviation of 8.7.
    assert 115 < sum(masked) < 185
    unmasked = augmenter(tmp_path).augment(sources, targets).sources
    assert all(
        found == plain
        for found, plain, is_masked in zip(some.sources, unmasked, masked, strict=True)
        if not is_masked
    )


def test_stems_are_invented_of_terms_from_alignments_alone(tmp_path):
    with pytest.raises(ValueError, match=r"invented = 0\.5 needs terms from alignments"):
        Terms(dictionary=tmp_path / "dictionary.tsv", invented=0.5)


def test_the_vocabulary_has_the_symbols(tmp_path):
    terms = Terms(dictionary=tmp_path / "none")
    assert list_augment_symbols(Augment(terms=terms)) == ["<term0>", "<term1>", "<term2>"]
    assert list_augment_symbols(None) == []
    with pytest.raises(MtkitError, match="no such glossary"):
        Augmenter(Augment(terms=terms), seed=1)
