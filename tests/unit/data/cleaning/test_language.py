"""Which language lines are in."""

import sys
from collections.abc import Callable

import pytest

from mtkit.checks.language import open_identifier
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
        ("zh-yue", set()),
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


def test_a_language_that_the_model_does_not_know(make_cleaner: Callable[..., Cleaner]) -> None:
    with pytest.raises(MtkitError, match=r'data\.target_language = "tlh": the language') as caught:
        make_cleaner("language", target="tlh")
    assert "--set data.cleaning.language.enabled=false" in caught.value.hint
    with pytest.raises(MtkitError, match=r'language\.candidates = "xx"'):
        make_cleaner("language", candidates=("xx",))


def test_without_the_package(
    make_cleaner: Callable[..., Cleaner], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_identifier.cache_clear()
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    with pytest.raises(MtkitError, match="needs the package py3langid") as caught:
        make_cleaner("language")
    assert 'pip install "mtkit[language-id]"' in caught.value.hint
