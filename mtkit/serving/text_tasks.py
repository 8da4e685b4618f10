"""Tasks on untrusted texts, run outside the server's process, and their questions.

A task is pickled, sent to a process (`text_main.py`) and run there. It may ask the server for
translations meanwhile. A text that exceeds time or memory only ends that process.
"""

import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import regex

from mtkit.documents.archives import ZIP_FAULTS
from mtkit.documents.document import FinishTexts, LanguageCodes, TranslatedText
from mtkit.documents.document_report import DocumentReport
from mtkit.documents.paragraph_translator import SentenceTranslator
from mtkit.documents.translate_file import translate_content
from mtkit.errors import MtkitError
from mtkit.inference.paragraphs import join_sentences, split_sentences
from mtkit.inference.request import Request
from mtkit.inference.translation import FinishTranslations, Translation
from mtkit.recipe.inference import Inference
from mtkit.serving.bodies import parse_body
from mtkit.serving.detection import SAMPLE_CHARACTERS, Detected, detect_language
from mtkit.serving.request_errors import RequestError
from mtkit.text.words import Span, strip_span

_ONE_SENTENCE = regex.compile(r"[\p{L}\p{M}\p{Nd} ,'’\-]*+[.!?]?+[^\S\n]*+")
_SPACELESS = regex.compile(r"[\p{Han}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
_WINDOW = 512
"""Maximum sentences per question: more would block the server's event loop."""
AskServer = Callable[[Any], Any]
"""Asks the server a question, and returns its answer."""


@dataclass(frozen=True)
class TranslatedTexts:
    """The translations of a request's texts.

    Attributes:
        alternatives: Different ones per text.
        lines: The translation of each line, without the line's outer space, per text.
    """

    texts: list[str]
    alternatives: list[list[str]]
    lines: list[list[Translation]]


def find_one_sentence(line: str) -> list[Span] | None:
    """Returns the span of a plain line's only sentence; None for other lines.

    A blank line has no span. In a plain line, only the last character could end a sentence, in any
    language.
    """
    if not _ONE_SENTENCE.fullmatch(line) or _SPACELESS.search(line):
        return None
    start, end = strip_span(line, (0, len(line)))
    return [(start, end)] if start < end else []


def join_translated_texts(
    lines: Sequence[Sequence[str]],
    spans: Sequence[Sequence[Span]],
    found: Sequence[Translation],
    target_language: str,
) -> TranslatedTexts:
    """Returns the translations of texts; line breaks and space around lines stay.

    `lines` are grouped by text; `spans` and `found` run over all texts.
    """
    sentences, rest = iter(found), iter(spans)
    joined = TranslatedTexts([], [], [])
    for of_text in lines:
        mine = []
        for line in of_text:
            of_line = next(rest)
            mine.append(
                join_sentences(line, of_line, [next(sentences) for _ in of_line], target_language)
            )
        best = _join_lines(of_text, mine, 0)
        others = dict.fromkeys(
            _join_lines(of_text, mine, rank)
            for rank in range(1, max(len(each.candidates) for each in mine))
        )
        joined.texts.append(best)
        joined.alternatives.append([other for other in others if other and other != best])
        joined.lines.append(mine)
    return joined


def _join_lines(lines: Sequence[str], found: Sequence[Translation], rank: int) -> str:
    return "\n".join(
        _restore_spaces(line, each, rank) for line, each in zip(lines, found, strict=True)
    )


def _restore_spaces(line: str, translation: Translation, rank: int) -> str:
    """Returns a line's candidate, or the last one, with the line's outer space."""
    text = translation.candidates[min(rank, len(translation.candidates) - 1)].text
    before = line[: len(line) - len(line.lstrip())]
    return before + text + line[len(line.rstrip()) :] if text else before


@dataclass(frozen=True)
class Sentences:
    """A question for a list of `Translation`, perhaps with alignments.

    Attributes:
        first_line: Number of the first sentence, for sampling.
    """

    texts: list[str]
    first_line: int = 1
    needs_alignments: bool = False
    are_program_strings: bool = False


@dataclass(frozen=True)
class DetectionQuestion:
    """A question for the `Route` of a document in an unknown language, with some of its text."""

    text: str


@dataclass(frozen=True)
class Route:
    """A task's view of the path of its texts.

    Attributes:
        settings: Decoding settings of the first model, which define where sentences end.
        aligns: Whether words may be aligned.
    """

    source: str
    target: str
    settings: Inference
    aligns: bool = False

    def find_sentences(self, text: str) -> list[Span]:
        """Returns the spans of a text's sentences."""
        return split_sentences(text, self.settings, self.source)


class Task(Protocol):
    """Work for a request."""

    def run(self, ask: AskServer) -> Any:
        """Returns the result.

        Raises:
            MtkitError: The text is invalid.
            RequestError: The request is invalid.
        """
        ...


@dataclass(frozen=True)
class ParseBody:
    """Parses a request's body, as `parse_body` does."""

    content: bytes
    content_type: str
    query: str
    kind: Any
    max_texts: int

    def run(self, _: AskServer) -> Any:
        """Returns the body."""
        return parse_body(self.content, self.content_type, self.query, self.kind, self.max_texts)


@dataclass(frozen=True)
class DetectLanguage:
    """Detects the language of a text, as `detect_language` does."""

    text: str
    languages: tuple[str, ...]

    def run(self, _: AskServer) -> list[Detected]:
        """Returns the possible languages."""
        return detect_language(self.text, self.languages)


@dataclass(frozen=True)
class TranslateTexts:
    """Translates texts with any number of lines, and at most `max_sentences` in all."""

    texts: list[str]
    route: Route
    max_sentences: int

    def run(self, ask: AskServer) -> TranslatedTexts:
        """Returns their translations."""
        lines = [text.split("\n") for text in self.texts]
        flat = [line for of_text in lines for line in of_text]
        spans = list(map(self.route.find_sentences, flat))
        num_sentences = sum(map(len, spans))
        if num_sentences > self.max_sentences:
            raise too_many_sentences(num_sentences, self.max_sentences)
        sentences = [
            line[start:end]
            for line, of_line in zip(flat, spans, strict=True)
            for start, end in of_line
        ]
        found: list[Translation] = []
        for first in range(0, len(sentences), _WINDOW):
            found += ask(Sentences(sentences[first : first + _WINDOW], first + 1))
        return join_translated_texts(lines, spans, found, self.route.target)


def too_many_sentences(num_sentences: int, max_sentences: int) -> RequestError:
    """Returns the error of a request with too many sentences."""
    return RequestError(
        400,
        f"Invalid request: request ({num_sentences} sentences) exceeds text limit "
        f"({max_sentences})",
    )


@dataclass(frozen=True)
class TranslatedDocument:
    """A document's translation, and a report on its texts."""

    content: bytes
    report: DocumentReport


@dataclass(frozen=True)
class TranslateDocuments:
    """Translates documents of one format and language; `route` is None until it is detected."""

    contents: list[bytes]
    form: str
    target: str
    route: Route | None
    max_unpacked_bytes: int
    max_characters: int | None
    max_sentences: int

    def run(self, ask: AskServer) -> list[TranslatedDocument]:
        """Returns their translations."""
        for content in self.contents:
            self._check_size(content)
        route = self.route
        if route is None:
            route = ask(DetectionQuestion(self._read_sample()))
            assert isinstance(route, Route)
        translate = _LimitedTranslator(
            _QuestionTranslator(ask, route, self.max_sentences),
            route.target,
            source_language=route.source,
            window=_WINDOW,
        )
        translate.max_characters = self.max_characters
        languages = LanguageCodes(route.source, route.target)
        return [
            TranslatedDocument(*translate_content(content, self.form, translate, languages))
            for content in self.contents
        ]

    def _check_size(self, content: bytes) -> None:
        num_bytes = _measure_unpacked(content)
        if num_bytes > self.max_unpacked_bytes:
            raise RequestError(
                413,
                f"the file unpacks to {num_bytes:,} bytes, more than {self.max_unpacked_bytes:,}",
            )

    def _read_sample(self) -> str:
        """Returns some text of the documents, without markup."""
        sample = _Sampling()
        for content in self.contents:
            try:
                translate_content(content, self.form, sample, LanguageCodes("", self.target))
            except _SampledError:
                break
        return sample.text


class _LimitedTranslator(SentenceTranslator):
    """Rejects documents with too much text before it is split into sentences."""

    max_characters: int | None = None
    _num_characters = 0

    def translate(
        self,
        texts: Sequence[str],
        needs_links: Sequence[bool],
        *,
        are_program_strings: bool = False,
    ) -> Iterator[FinishTexts]:
        self._num_characters += sum(map(len, texts))
        if self.max_characters is not None and self._num_characters > self.max_characters:
            raise RequestError(
                400, f"Invalid request: the file exceeds text limit ({self.max_characters})"
            )
        return super().translate(texts, needs_links, are_program_strings=are_program_strings)


class _SampledError(Exception):
    """Enough of a document has been read."""


class _Sampling:
    """Reads the texts of documents without translating."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, texts: Sequence[str]) -> list[TranslatedText]:
        self.text += "\n".join(texts)[:SAMPLE_CHARACTERS] + "\n"
        if len(self.text) > SAMPLE_CHARACTERS:
            raise _SampledError
        return [TranslatedText(text, None) for text in texts]


class _QuestionTranslator:
    """The server as a translator of sentences."""

    def __init__(self, ask: AskServer, route: Route, max_sentences: int) -> None:
        self.settings, self.aligns, self._ask = route.settings, route.aligns, ask
        self._num_sentences, self._max_sentences = 0, max_sentences

    def search_ahead(
        self, requests: Sequence[Request], *, first_line: int = 1, warns: bool = True
    ) -> FinishTranslations:
        self._num_sentences += len(requests)
        if self._num_sentences > self._max_sentences:
            raise too_many_sentences(self._num_sentences, self._max_sentences)
        question = Sentences(
            [each.text for each in requests],
            first_line,
            needs_alignments=any(each.settings is not None for each in requests),
            are_program_strings=any(each.is_program_string for each in requests),
        )
        found = self._ask(question)
        return lambda: found


def _measure_unpacked(content: bytes) -> int:
    """Returns the unpacked size of a zip archive; 0 for other files."""
    # `zipfile` never unpacks more than the sizes in the directory.
    if not content.startswith(b"PK"):
        return 0
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return sum(member.file_size for member in archive.infolist())
    except ZIP_FAULTS:
        # Its format's reader reports the error.
        return 0


@dataclass(frozen=True)
class Fault:
    """Why a task failed.

    Attributes:
        status: HTTP status of the answer.
        may_be_others: Other tasks of the process may be the cause.
    """

    status: int
    message: str
    may_be_others: bool = False

    @classmethod
    def of(cls, error: MtkitError | RequestError) -> "Fault":
        """Returns the fault for a task's error."""
        if isinstance(error, RequestError):
            return cls(error.status, error.message)
        return cls(400, f"Invalid request: {error.message}")
