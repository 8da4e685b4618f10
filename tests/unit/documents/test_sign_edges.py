"""Signs at the ends of tags, by sentences and links made by hand."""

import pytest

from mtkit.documents.atoms import find_atoms, find_punctuation_kinds
from mtkit.documents.crossings import SignEdges
from mtkit.documents.document import LanguageCodes, TranslatedText
from mtkit.documents.translate_file import translate_markup

from .translators import keep_text


def translate(page: str, target: str, links: str) -> str:
    """Translates a page of one sentence, given links between its words: `0-0 1-2`."""
    source: list[str] = []
    translate_markup(
        page,
        "html",
        lambda texts: [source.append(texts[0]), *keep_text(texts)][1:],
        LanguageCodes(),
    )
    words = [_find_words(text) for text in (source[0], target)]
    found = tuple(
        (words[0][int(first)], words[1][int(second)])
        for first, second in (link.split("-") for link in links.split())
    )
    return translate_markup(
        page, "html", lambda _: [TranslatedText(target, found)], LanguageCodes()
    )


def _find_words(text: str) -> list[tuple[int, int]]:
    """Returns where words stand, between spaces, as aligners of words know them."""
    words, start = [], 0
    for word in text.split(" "):
        words.append((start, start + len(word)))
        start += len(word) + 1
    return words


def test_a_full_stop_at_a_tags_end_stays_inside() -> None:
    # Two full stops in the source, one in the translation: their letters alone say which is which.
    assert (
        translate(
            "<p>Mr. Smith saw a <b>British firm.</b></p>",
            "Herr Smith sah eine Firma aus England.",
            "0-0 1-1 2-2 3-3 4-6 5-4",
        )
        == "<p>Herr Smith sah eine <b>Firma aus England.</b></p>"
    )


def test_a_comma_that_stood_behind_a_tag_stays_outside() -> None:
    # "goes" is linked to "geht,", so its comma comes with it.
    assert (
        translate(
            "<p>When <b>he goes</b>, she, too, stays.</p>",
            "Wenn er geht, bleibt sie.",
            "0-0 1-1 2-2 3-4 5-3",
        )
        == "<p>Wenn <b>er geht</b>, bleibt sie.</p>"
    )


@pytest.mark.parametrize(
    ("source", "words", "target", "run", "settled"),
    [
        # An opening quote, and a closing one behind a full stop.
        ('say "go." now', (1, 5), "sag \u201egeh.\u201c jetzt", (2, 3), (1, 5)),
        # Two signs stand beside the element in the source: none is its own.
        ('say "go." now', (2, 3), "sag \u201egeh.\u201c jetzt", (1, 5), (2, 3)),
        # Of another kind: it stays where it is.
        ("so, go", (0, 2), "also. geh", (0, 1), (0, 1)),
        # A sign that the source has nowhere near is the word's own.
        ("see number 5!", (1, 2), "siehe Nr. 5!", (1, 3), (1, 3)),
        # Signs alone.
        ("a ... b", (1, 4), "a ... b", (2, 3), (2, 3)),
        ("(one) two", (0, 3), "(eins) zwei", (1, 2), (0, 3)),
        ("(one) two", (1, 2), "(eins) zwei", (1, 3), (1, 2)),
    ],
)
def test_signs_at_edges_are_as_in_the_source(
    source: str,
    words: tuple[int, int],
    target: str,
    run: tuple[int, int],
    settled: tuple[int, int],
) -> None:
    kinds = [find_punctuation_kinds(text, find_atoms(text)) for text in (source, target)]
    assert SignEdges(*kinds).settle(words, run, lambda _: True) == settled


def test_a_sign_of_another_element_is_not_taken() -> None:
    kinds = [find_punctuation_kinds(text, find_atoms(text)) for text in ("a b.", "a b.")]
    assert SignEdges(*kinds).settle((1, 3), (1, 2), lambda index: index != 2) == (1, 2)
