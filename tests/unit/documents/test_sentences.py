"""Sentences of texts, with a translator that needs no model."""

from collections.abc import Sequence

from mtkit.documents.document import Languages
from mtkit.documents.sentences import SentenceTranslator
from mtkit.documents.translate_file import translate_markup
from mtkit.inference.translation import Hypothesis, Request, Translation, WordAlignment
from mtkit.recipe.inference import Inference


class Reverser:
    """Writes words in capitals, the last first, and notes which sentences are to be aligned."""

    settings = Inference()
    aligns = True

    def __init__(self) -> None:
        self.aligned: dict[str, bool] = {}

    def search(self, requests: Sequence[Request], *, first_line: int = 1) -> list[Translation]:
        answers = []
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
        return answers


def test_only_sentences_beside_tags_are_aligned() -> None:
    translator = Reverser()
    page = "<p>a b c</p><p>d <b>e</b> f g</p><p>h i</p><p>h <br>i</p>"
    found = translate_markup(page, "html", SentenceTranslator(translator, "de"), Languages())
    # "h i" stands once with a tag inside: no link crosses either end.
    assert translator.aligned == {"a b c": False, "d e f g": True, "h i": True}
    assert found.startswith("<p>C B A</p><p>G F <b>E</b> D</p><p>I H</p><p>")


def test_texts_that_need_no_links_have_none() -> None:
    sentences = SentenceTranslator(Reverser(), "de")
    bare, linked = sentences.translate(["a b", "c d"], [False, True])
    assert (bare.text, bare.links) == ("B A", None)
    assert linked.links == (((0, 1), (2, 3)), ((2, 3), (0, 1)))
