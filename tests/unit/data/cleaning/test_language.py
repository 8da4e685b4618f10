"""Which language lines are in."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mtkit.checks.language import find_majority_language
from mtkit.data.cleaning.clean import Cleaner, scripts_of
from mtkit.errors import MtkitError

ENGLISH = "The committee will meet again next week."
GERMAN = "Der Ausschuss tritt nächste Woche wieder zusammen."
FRENCH = "La commission se réunira de nouveau la semaine prochaine."


@pytest.mark.parametrize(
    ("language", "scripts"),
    [
        # CLDR's likely subtags, release 44 and later.
        ("en", {"Latn"}),
        ("EN", {"Latn"}),
        ("de-AT-1901", {"Latn"}),
        ("zh", {"Hani"}),
        ("zh_TW", {"Hani"}),
        ("ja", {"Hani", "Hira", "Kana"}),
        ("ko", {"Hang", "Hani"}),
        ("sr", {"Cyrl"}),
        ("sr-ME", {"Latn"}),
        ("sr-Latn", {"Latn"}),
        ("sr_Latn_RS", {"Latn"}),
        ("uz-Arab", {"Arab"}),
        ("he", {"Hebr"}),
        ("iw", {"Hebr"}),
        ("eng", {"Latn"}),
        ("tlh", set()),
        ("zh-yue", {"Hani"}),
    ],
)
def test_scripts_of_languages(language: str, scripts: set[str]) -> None:
    assert set(scripts_of(language)) == scripts


def test_a_side_in_another_language(make_cleaner: Callable[..., Cleaner]) -> None:
    cleaner = make_cleaner("language")
    pairs = [
        (ENGLISH, GERMAN),
        (GERMAN, ENGLISH),
        (ENGLISH, FRENCH),
        (ENGLISH, ENGLISH),
        ("Bonjour.", "Bonsoir."),  # too short to be judged
    ]
    cleaned = cleaner.clean(*zip(*pairs, strict=True))
    assert cleaned.dropped["language"].tolist() == [1, 2, 3]


def test_it_is_off_by_default(make_cleaner: Callable[..., Cleaner]) -> None:
    assert "language" not in make_cleaner().clean(["a"], ["b"]).dropped


def test_candidates(make_cleaner: Callable[..., Cleaner]) -> None:
    # Of English and German alone, French has to be one.
    cleaner = make_cleaner("language", candidates=("en",), min_confidence=0.0)
    (both,) = (cleaner.clean([ENGLISH, FRENCH], [FRENCH, GERMAN]).dropped["language"],)
    assert len(both) == 1


@pytest.mark.parametrize("target", ["nb", "sr-Latn", "iw", "fil", "deu"])
def test_other_names_of_languages(make_cleaner: Callable[..., Cleaner], target: str) -> None:
    make_cleaner("language", target=target)


def test_a_candidate_that_the_model_does_not_know(make_cleaner: Callable[..., Cleaner]) -> None:
    with pytest.raises(MtkitError, match=r'language\.candidates = "xx"'):
        make_cleaner("language", candidates=("xx",))


def test_a_language_that_the_model_does_not_know_looks_like_its_development_set(
    make_cleaner: Callable[..., Cleaner],
) -> None:
    folder = os.environ.get("MTKIT_TEST_DATA")
    if folder is None:
        pytest.skip("MTKIT_TEST_DATA is not set: no folder of real parallel text")
    content = gzip.decompress(Path(folder, "mozilla_de_hsb/all.tsv.gz").read_bytes()).decode()
    pairs = [line.split("\t") for line in content.split("\n")[:-1]]
    german, sorbian = map(list, zip(*pairs[:3_000], strict=True))
    cleaner = make_cleaner(
        "language", source="de", target="hsb", dev=(german[:1_000], sorbian[:1_000])
    )
    as_given = cleaner.clean(german[1_000:], sorbian[1_000:])
    copied = cleaner.clean(german[1_000:], german[1_000:])
    is_long = [len(line) >= 15 for line in german[1_000:]]
    assert len(as_given.dropped["language"]) < 0.02 * sum(is_long)
    assert len(copied.dropped["language"]) > 0.8 * sum(is_long)


def test_without_a_development_set_an_unknown_language_is_not_judged(
    make_cleaner: Callable[..., Cleaner],
) -> None:
    cleaned = make_cleaner("language", target="tlh").clean([ENGLISH, GERMAN], [FRENCH, FRENCH])
    assert cleaned.dropped["language"].tolist() == [1]


@pytest.mark.parametrize("label", ["en", "de", "zh"])
def test_the_main_language_of_some_lines(
    corpus: Callable[..., tuple[list[str], list[str]]], label: str
) -> None:
    lines, _ = corpus("flores200/devtest", label, "fr")
    assert find_majority_language(lines[:200])[0] == label
    assert find_majority_language(lines[:3]) == ("", 0.0)
