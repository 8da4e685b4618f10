"""A translator of lines as one of paragraphs: sentence by sentence, with their alignments."""

from collections.abc import Sequence
from typing import Protocol

from mtkit.documents.atoms import link_words
from mtkit.documents.document import Link, TranslatedText
from mtkit.inference.paragraphs import find_protected
from mtkit.inference.segment import choose_gaps, place_texts
from mtkit.inference.translation import Hypothesis, Request, Translation
from mtkit.recipe.inference import Inference
from mtkit.text.sentences import find_sentences
from mtkit.text.words import Span

_WINDOW = 1_024
"""Sentences that are translated together."""


class SearchesSentences(Protocol):
    """Translates sentences: a `Translator`, or the models of a server."""

    @property
    def settings(self) -> Inference:
        """Search settings of requests that have none of their own."""
        ...

    @property
    def aligns(self) -> bool:
        """Whether alignments are read from a head that was chosen for them."""
        ...

    def search(self, requests: Sequence[Request], *, first_line: int = 1) -> Sequence[Translation]:
        """Returns each sentence's translation."""
        ...


class SentenceTranslator:
    """Translates paragraphs with a translator of sentences.

    Args:
        translator: It; its alignments are asked for where it has any.
        target_language: Its code; it says whether a space stands between sentences.
        source_language: Its code; it says where sentences end.
    """

    def __init__(
        self,
        translator: SearchesSentences,
        target_language: str = "",
        *,
        source_language: str = "",
    ) -> None:
        self._translator = translator
        self._target_language = target_language
        chosen = translator.settings.paragraphs
        self._source_language = (chosen.language if chosen else "") or source_language
        self._settings = (
            translator.settings.model_copy(update={"alignments": True})
            if translator.aligns
            else None
        )

    def __call__(self, texts: Sequence[str]) -> list[TranslatedText]:
        """Returns each text's translation, in order.

        Raises:
            MtkitError: As `Translator.search`.
        """
        return self.translate(texts, [True] * len(texts))

    def translate(self, texts: Sequence[str], needs_links: Sequence[bool]) -> list[TranslatedText]:
        """Returns each text's translation, in order.

        Args:
            texts: The texts.
            needs_links: Of each whether its words are aligned; others come without links.

        Raises:
            MtkitError: As `Translator.search`.
        """
        protect = self._translator.settings.protect
        spans = [
            find_sentences(text, self._source_language, find_protected(text, protect))
            for text in texts
        ]
        # A sentence is translated once; it is aligned if it is in any text that needs it.
        aligned: dict[str, bool] = {}
        for text, of_text, needs in zip(texts, spans, needs_links, strict=True):
            for start, end in of_text:
                sentence = text[start:end]
                aligned[sentence] = needs or aligned.get(sentence, False)
        unique = list(aligned)
        found: dict[str, Hypothesis] = {}
        for first in range(0, len(unique), _WINDOW):
            window = unique[first : first + _WINDOW]
            requests = [
                Request(
                    sentence, settings=self._settings if aligned[sentence] else None, sentence=0
                )
                for sentence in window
            ]
            answers = self._translator.search(requests, first_line=first + 1)
            found.update(zip(window, (each.candidates[0] for each in answers), strict=True))
        return [
            self._join(text, of_text, found, needs_links=needs)
            for text, of_text, needs in zip(texts, spans, needs_links, strict=True)
        ]

    def _join(
        self,
        text: str,
        spans: Sequence[Span],
        found: dict[str, Hypothesis],
        *,
        needs_links: bool,
    ) -> TranslatedText:
        hypotheses = [found[text[start:end]] for start, end in spans]
        gaps = choose_gaps(text, spans, self._target_language)
        joined, starts = place_texts([each.text for each in hypotheses], gaps)
        links: list[Link] = []
        if needs_links:
            for (start, end), hypothesis, target_start in zip(
                spans, hypotheses, starts, strict=True
            ):
                links += _link(text[start:end], hypothesis, start, target_start)
        return TranslatedText(joined, tuple(links) if needs_links else None)


def _link(sentence: str, hypothesis: Hypothesis, start: int, target_start: int) -> list[Link]:
    """Returns the links of a sentence's words, given where it and its translation begin."""
    alignment = hypothesis.alignment
    if alignment is None or not alignment.pairs:
        return [
            (_shift(source, start), _shift(target, target_start))
            for source, target in link_words(sentence, hypothesis.text)
        ]
    sources = [_shift(span, start) for span in alignment.source_words]
    targets = [_shift(span, target_start) for span in alignment.target_words]
    return [(sources[source], targets[target]) for source, target in alignment.pairs]


def _shift(span: Span, by: int) -> Span:
    return span[0] + by, span[1] + by
