"""Sentences of texts, with a translator that needs no model."""

from collections.abc import Sequence
from threading import Event, Thread

import pytest

from mtkit.documents.document import LanguageCodes
from mtkit.documents.paragraph_translator import SentenceTranslator
from mtkit.documents.translate_file import translate_markup
from mtkit.errors import MtkitError
from mtkit.inference.request import Request
from mtkit.inference.translation import FinishTranslations, Hypothesis, Translation, WordAlignment
from mtkit.recipe.inference import Inference


class Reverser:
    """Writes words in capitals, the last first, and notes which sentences are to be aligned."""

    settings = Inference()
    aligns = True

    def __init__(self) -> None:
        self.aligned: dict[str, bool] = {}

    def search_ahead(
        self, requests: Sequence[Request], *, first_line: int = 1, warns: bool = True
    ) -> FinishTranslations:
        answers: list[Translation] = []
        for request in requests:
            settings = request.settings or self.settings
            assert request.text not in self.aligned, "a sentence is translated once"
            self.aligned[request.text] = settings.alignments
            words = request.text.split()
            places = [(2 * index, 2 * index + 1) for index in range(len(words))]
            links = tuple((index, len(words) - 1 - index) for index in range(len(words)))
            alignment = WordAlignment(tuple(places), tuple(places), links)
            text = " ".join(words[::-1]).upper()
            hypothesis = Hypothesis((3,), 0.0, 0.0, is_finished=True, text=text)
            if settings.alignments:
                hypothesis = Hypothesis(
                    (3,), 0.0, 0.0, is_finished=True, text=text, alignment=alignment
                )
            answers.append(Translation((hypothesis,)))
        return lambda: answers


def test_only_sentences_beside_tags_are_aligned() -> None:
    translator = Reverser()
    page = "<p>a b c</p><p>d <b>e</b> f g</p><p>h i</p><p>h <br>i</p>"
    found = translate_markup(page, "html", SentenceTranslator(translator, "de"), LanguageCodes())
    # "h i" stands once with a tag inside: no link crosses either end.
    assert translator.aligned == {"a b c": False, "d e f g": True, "h i": True}
    assert found.startswith("<p>C B A</p><p>G F <b>E</b> D</p><p>I H</p><p>")


def test_texts_that_need_no_links_have_none() -> None:
    sentences = SentenceTranslator(Reverser(), "de")
    [finish] = sentences.translate(["a b", "c d"], [False, True])
    bare, linked = finish()
    assert (bare.text, bare.links) == ("B A", None)
    assert linked.links == (((0, 1), (2, 3)), ((2, 3), (0, 1)))


class Watched(Reverser):
    """Searches for a window only once the one before has been written, or after a while."""

    def __init__(self, fault_at: int = 0) -> None:
        super().__init__()
        self.written = Event()
        self.first_lines: list[int] = []
        self._fault_at = fault_at

    def search_ahead(
        self, requests: Sequence[Request], *, first_line: int = 1, warns: bool = True
    ) -> FinishTranslations:
        if self.first_lines:
            assert self.written.wait(timeout=60), "nothing is written while this searches"
            self.written.clear()
        self.first_lines.append(first_line)
        number = len(self.first_lines)
        finish = super().search_ahead(requests, first_line=first_line)

        def finish_watched() -> list[Translation]:
            self.written.set()
            if number == self._fault_at:
                raise MtkitError("broken", "mend it")
            return finish()

        return finish_watched


def list_words(count: int) -> list[str]:
    return [f"a{number} b" for number in range(count)]


def test_a_document_is_written_while_its_next_sentences_are_searched() -> None:
    words = list_words(2_500)
    # A text over the end of the first window, repeated ones, and texts within tags of others.
    words[1_000] = " ".join(f"C{number}." for number in range(60))
    words[2_000:2_100] = words[:100]
    page = "".join(
        f"<p>{text}<img alt='d{number} e'></p>" if number % 100 == 0 else f"<p>{text}</p>"
        for number, text in enumerate(words)
    )
    wanted = "".join(
        f"<p>{turn(text)} <img alt='E D{number}'></p>"
        if number % 100 == 0
        else f"<p>{turn(text)}</p>"
        for number, text in enumerate(words)
    )
    translator = Watched()
    found = translate_markup(page, "html", SentenceTranslator(translator, "de"), LanguageCodes())
    assert found.replace(" <img", "<img") == wanted.replace(" <img", "<img")
    assert translator.first_lines == [1, 1_025, 2_049]


def turn(text: str) -> str:
    """Returns what `Reverser` makes of a text of short sentences."""
    return text.upper() if "." in text else " ".join(text.upper().split()[::-1])


@pytest.mark.parametrize("window", [1, 2, 3])
def test_a_fault_of_any_window_is_the_documents(window: int) -> None:
    page = "".join(f"<p>{text}</p>" for text in list_words(2_500))
    sentences = SentenceTranslator(Watched(window), "de")
    with pytest.raises(MtkitError, match="broken"):
        translate_markup(page, "html", sentences, LanguageCodes())


def test_a_document_is_written_without_a_thread_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refuse)
    sentences = SentenceTranslator(Reverser(), "de")
    assert translate_markup("<p>a <b>b</b></p>", "html", sentences, LanguageCodes()) == (
        "<p><b>B</b> A</p>"
    )


def test_a_document_without_text_is_as_it_was() -> None:
    for page in ("", "<p></p>", "<p> <img></p>", "<!-- a -->"):
        sentences = SentenceTranslator(Reverser(), "de")
        assert translate_markup(page, "html", sentences, LanguageCodes()) == page
