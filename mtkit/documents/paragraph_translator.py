"""Translates paragraphs with a translator of sentences, with alignments."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from mtkit.documents.atoms import link_words
from mtkit.documents.document import FinishTexts, Link, TranslatedText
from mtkit.errors import MtkitError, shorten
from mtkit.inference.paragraphs import choose_gaps, find_lowest, place_texts, split_sentences
from mtkit.inference.protect import protect_strings
from mtkit.inference.request import LineError, LineWarning, Request
from mtkit.inference.translation import FinishTranslations, Hypothesis, Translation
from mtkit.recipe.inference import Inference
from mtkit.text.words import Span

_WINDOW = 1_024
_SHOWN_CHARACTERS = 60


class SearchesSentences(Protocol):
    """Translates sentences: a `Translator`, or the models of a server."""

    @property
    def settings(self) -> Inference:
        """Search settings of requests without their own."""
        ...

    @property
    def aligns(self) -> bool:
        """Whether there are alignments, from a word aligner or from a head chosen for them."""
        ...

    def search_ahead(
        self, requests: Sequence[Request], *, first_line: int = 1, warns: bool = True
    ) -> FinishTranslations:
        """Searches, and returns a function that makes the translations."""
        ...


class _SplitText(NamedTuple):
    """A text, its sentences, and whether its words are aligned."""

    text: str
    spans: Sequence[Span]
    needs_links: bool

    def list_sentences(self) -> list[str]:
        return [self.text[start:end] for start, end in self.spans]


class SentenceTranslator:
    """Translates paragraphs with a translator of sentences, and with its alignments if it has any.

    Args:
        translator: Translates sentences.
        target_language: Decides whether there is a space between sentences.
        source_language: Decides where sentences end.
        window: Sentences that are translated together.
    """

    def __init__(
        self,
        translator: SearchesSentences,
        target_language: str = "",
        *,
        source_language: str = "",
        window: int = _WINDOW,
    ) -> None:
        self._translator, self._window = translator, window
        self._target_language = target_language
        self._source_language = source_language
        self._settings = (
            translator.settings.model_copy(update={"alignments": True})
            if translator.aligns
            else None
        )

    def __call__(self, texts: Sequence[str]) -> list[TranslatedText]:
        """Returns each text's translation, in order."""
        finished = (finish() for finish in self.translate(texts, [True] * len(texts)))
        return [translated for some in finished for translated in some]

    def translate(
        self,
        texts: Sequence[str],
        needs_links: Sequence[bool],
        *,
        are_program_strings: bool = False,
    ) -> Iterator[FinishTexts]:
        """Yields functions that each make the translations of some texts, in order.

        Only the search runs here, so that another thread may do the rest meanwhile. Texts without
        `needs_links` come without links.
        """
        settings = self._translator.settings
        if are_program_strings:
            settings = protect_strings(settings)
        spans = [split_sentences(text, settings, self._source_language) for text in texts]
        given = list(map(_SplitText, texts, spans, needs_links))
        # A sentence is translated once; it is aligned if it is in any text that needs it.
        aligned: dict[str, bool] = {}
        # Sentences up to the end of each text.
        counts: list[int] = []
        for each in given:
            for sentence in each.list_sentences():
                aligned[sentence] = each.needs_links or aligned.get(sentence, False)
            counts.append(len(aligned))
        unique = list(aligned)
        found: dict[str, Translation] = {}
        num_done = 0
        for first in range(0, max(len(unique), 1), self._window):
            window = unique[first : first + self._window]
            num_complete = bisect_right(counts, first + len(window))
            requests = [
                Request(
                    sentence,
                    settings=self._settings if aligned[sentence] else None,
                    sentence=0,
                    is_program_string=are_program_strings,
                )
                for sentence in window
            ]
            finish = self._search(requests, first + 1)
            yield partial(self._finish, finish, window, given[num_done:num_complete], found)
            num_done = num_complete

    def _search(self, requests: Sequence[Request], first_line: int) -> FinishTranslations:
        if not requests:
            return lambda: []
        try:
            return self._translator.search_ahead(requests, first_line=first_line, warns=False)
        except LineError as error:
            text = shorten(requests[error.line - first_line].text, _SHOWN_CHARACTERS)
            raise MtkitError(f"{text!r}: {error.fault}", error.hint) from error

    def _finish(
        self,
        finish: FinishTranslations,
        sentences: Sequence[str],
        given: Sequence[_SplitText],
        found: dict[str, Translation],
    ) -> list[TranslatedText]:
        """Returns the translations of texts whose last sentences are among these."""
        answers = finish()
        found.update(zip(sentences, answers, strict=True))
        return [self._join(each, found) for each in given]

    def _join(self, given: _SplitText, found: Mapping[str, Translation]) -> TranslatedText:
        text, spans, needs_links = given
        translations = [found[sentence] for sentence in given.list_sentences()]
        hypotheses = [each.candidates[0] for each in translations]
        gaps = choose_gaps(text, spans, self._target_language)
        joined, starts = place_texts([each.text for each in hypotheses], gaps)
        links: list[Link] = []
        if needs_links:
            for (start, end), hypothesis, target_start in zip(
                spans, hypotheses, starts, strict=True
            ):
                links += _link(text[start:end], hypothesis, start, target_start)
        warnings = [warning for each in translations for warning in each.warnings]
        released = find_lowest([each.released for each in translations])
        if released is False:
            quality = find_lowest([each.quality for each in translations])
            told = "" if quality is None else f": an estimated quality of {quality:.2f}"
            warnings.append(LineWarning("not released", f"not released{told}", 1))
        return TranslatedText(
            joined, tuple(links) if needs_links else None, tuple(warnings), released
        )


def _link(sentence: str, hypothesis: Hypothesis, start: int, target_start: int) -> list[Link]:
    """Returns the links of a sentence's words, relative to the whole texts."""
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
