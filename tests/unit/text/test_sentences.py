"""Sentences of real kinds of text; expected boundaries are set by hand, `|` in the text."""

import gzip
import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.text.languages import find_main_language
from mtkit.text.sentences import find_sentences


def split(text: str, language: str = "en", keep=()) -> list[str]:
    return [text[start:end] for start, end in find_sentences(text, language, keep)]


@pytest.mark.parametrize(
    ("language", "marked"),
    [
        ("en", "Dr. Smith met Mrs. Jones at 5 p.m. on Monday. | They spoke."),
        ("en", "It costs $3.14, i.e. more than 2.5 euros. | See https://a.org/b.html?c=d.e now!"),
        ("en", "Write to jo.doe@example.com. | She answers, e.g. on Fridays."),
        ("en", "“Where are you?” asked the boy. | Nobody knew. | “Here!”"),
        ("en", "Is that so?! | Yes. | J. R. R. Tolkien wrote it in the U.S. Army."),
        ("en", "1. Wash the rice. | 2. Boil it."),
        ("en", "one sentence without a mark"),
        ("en", "He works at example.Org and likes it."),
        ("de", "Am 3. Mai kam Dr. Huber z. B. nach Wien. | Er blieb ca. zwei Tage."),
        ("de", "„Kommst du?“, fragte sie. | Er nickte."),
        ("fr", "M. Dupont arrive à 8 h. | Mme Petit, elle, attend."),
        ("fr", "« Où va-t-il ? » demande-t-elle. | Personne ne répond."),
        ("es", "¿Qué hora es? | ¡Es tarde! | El Sr. García ya se fue."),
        ("ja", "雨が降った。|「行こう。」と彼は言った。|2017年のことだ。"),
        ("zh", "他来了吗？|没有。|2017年他走了！|“真的。”"),
        ("hi", "यह एक किताब है। | वह अच्छी है।"),
        ("ar", "هل وصل؟ | نعم، وصل اليوم."),
        ("ru", "Он живёт в г. Москве. | Она тоже."),
        ("", "He left. | She stayed."),
        ("tlh", "He left. | She stayed."),
    ],
)
def test_sentences_end_where_a_reader_says(language, marked):
    parts = marked.split("|")
    assert split("".join(parts), language) == [part.strip() for part in parts]


@pytest.mark.parametrize(
    ("code", "language"),
    [("de", "de"), ("deu", "de"), ("deu_Latn", "de"), ("pt-BR", "pt"), ("zho_Hant", "zh")],
)
def test_a_language_has_its_rules_by_whatever_code_it_is_named(code, language):
    assert find_main_language(code) == language
    text = "Das gilt bzw. Gesetz ist Gesetz."
    assert split(text, code) == split(text, language)


def test_no_sentence_ends_inside_what_is_kept():
    text = "Ask Alf. Beta. Go on. Stay."
    assert split(text) == ["Ask Alf.", "Beta.", "Go on.", "Stay."]
    # Stretches that overlap count as one, and one that ends with a sentence keeps its end.
    assert split(text, keep=[(4, 14), (10, 17)]) == ["Ask Alf. Beta. Go on.", "Stay."]
    assert split(text, keep=[(4, 8), (9, 14)]) == ["Ask Alf.", "Beta.", "Go on.", "Stay."]


def test_what_has_no_letter_belongs_to_the_sentence_beside_it():
    assert split("7! So many. 100%! 5!") == ["7! So many. 100%! 5!"]
    assert split("... . !") == ["... . !"]
    assert split(" \n\t ") == []


_ANY = st.text(max_size=300) | st.text(
    alphabet=".!?。！？…\"'“”（）「」 \n\r\t\0aAzÉ9あ\ud800", max_size=300
)


@given(_ANY, st.sampled_from(["en", "de", "fr", "ja", "zh", "", "xx"]))
def test_sentences_and_the_space_between_them_are_the_text(text, language):
    rebuilt, position = "", 0
    for start, end in find_sentences(text, language):
        assert start < end
        assert text[start:end] == text[start:end].strip()
        assert not text[position:start].strip()
        rebuilt += text[position:start] + text[start:end]
        position = end
    assert not text[position:].strip()
    assert rebuilt + text[position:] == text


@given(_ANY, st.data())
def test_no_boundary_is_inside_any_kept_stretch(text, data):
    position = st.integers(0, len(text))
    keep = [tuple(sorted(each)) for each in data.draw(st.lists(st.tuples(position, position)))]
    spans = find_sentences(text, "en", keep)
    for (_, end), (start, _) in itertools.pairwise(spans):
        assert not any(first < start and end < last for first, last in keep)


def test_a_text_longer_than_what_is_looked_at_at_once_is_split_as_its_parts_are():
    sentences = [
        f"Mr. Bee No. {number} flew {'far ' * (number % 40)}home." for number in range(300)
    ]
    assert split(" ".join(sentences)) == sentences
    # No end of a sentence for longer than that, and then one.
    assert split("far " * 2_000 + "away. He flew.") == ["far " * 2_000 + "away.", "He flew."]
    assert split("x" * 5_000 + ". He flew.") == ["x" * 5_000 + ".", "He flew."]


@pytest.mark.parametrize("kind", ["“", "「。", "'", " ", ".", "\0"])
def test_a_long_text_takes_no_time_that_grows_with_its_square(kind):
    # The library takes ten minutes for a megabyte of `「。`, if it sees all of it at once.
    text = kind * (50_000 // len(kind))
    found = split(text)
    assert "".join("".join(found).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("file", "language", "gap", "f1"),
    [
        ("mixed_en_de/test.en.gz", "en", " ", 0.98),
        ("mixed_en_de/test.de.gz", "de", " ", 0.98),
        ("newstest_en_fr/newstest2014.fr.gz", "fr", " ", 0.98),
        ("flores200/devtest.zh.gz", "zh", "", 0.88),
        ("flores200/devtest.ja.gz", "ja", "", 0.88),
    ],
)
@pytest.mark.skipif("MTKIT_TEST_DATA" not in os.environ, reason="MTKIT_TEST_DATA isn't set")
def test_boundaries_of_real_text(file, language, gap, f1):
    # Lines of newstest are sentences; of FLORES-200 one in seven holds two, which count as faults.
    path = Path(os.environ["MTKIT_TEST_DATA"]) / file
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")[:400]
    lines = [line.strip() for line in lines if line.strip().endswith((".", "!", "?", "。"))]
    right = num_found = num_true = 0
    for first in range(0, len(lines) - 4, 5):
        group = lines[first : first + 5]
        text = gap.join(group)
        ends = {len(gap.join(group[:number])) for number in range(1, 5)}
        found = {end for _, end in find_sentences(text, language)} - {len(text)}
        right += len(found & ends)
        num_found += len(found)
        num_true += len(ends)
    assert 2 * right / (num_found + num_true) > f1
