"""Work on a stranger's text, done outside the server's process: tasks, and what they ask for.

A task is pickled, sent to a process (`text_main.py`) and run there. It may ask the server for
translations on its way. A text that takes too much time or memory ends with its process.
"""

import io
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import regex

from mtkit.documents.document import Languages, TranslatedText
from mtkit.documents.report import Report
from mtkit.documents.sentences import SentenceTranslator
from mtkit.documents.translate_file import translate_content
from mtkit.errors import MtkitError
from mtkit.inference.paragraphs import join_sentences, split_sentences
from mtkit.inference.request import Request
from mtkit.inference.translation import FinishTranslations, Translation
from mtkit.recipe.inference import Inference
from mtkit.serving.bodies import parse_body
from mtkit.serving.detection import SAMPLE_CHARACTERS, Detected, Detector
from mtkit.serving.faults import RequestError
from mtkit.text.words import Span, strip_span

if TYPE_CHECKING:
    # Loaded where a model flags.
    from mtkit.checks.flag import Flag

_ONE_SENTENCE = regex.compile(r"[\p{L}\p{M}\p{Nd} ,'’\-]*+[.!?]?+\s*+")
_SPACELESS = regex.compile(r"[\p{Han}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
_WINDOW = 512
"""Sentences that a task asks for at once: more would keep the server's event loop busy."""
Ask = Callable[[Any], Any]
"""Asks the server a question, and returns its answer."""


@dataclass(frozen=True)
class TranslatedTexts:
    """What became of a request's texts.

    Attributes:
        texts: Translations, one for each text.
        alternatives: Others of each text, without equal ones.
        scores: Of each text the mean log-probability of a token, line by line; None for a blank
            line.
        flags: Of each text what looks wrong, line by line; None where the model doesn't flag.
    """

    texts: list[str]
    alternatives: list[list[str]]
    scores: list[list[float | None]]
    flags: "list[list[list[Flag]]] | None" = None


def find_one_sentence(line: str) -> list[Span] | None:
    """Returns the span of a plain line's one sentence, none of a blank line; None of another.

    A line is plain where nothing but its last character could end a sentence, in any language.
    """
    if not _ONE_SENTENCE.fullmatch(line) or _SPACELESS.search(line):
        return None
    start, end = strip_span(line, (0, len(line)))
    return [(start, end)] if start < end else []


def join_texts(
    lines: Sequence[Sequence[str]],
    spans: Sequence[Sequence[Span]],
    found: Sequence[Translation],
    target_language: str,
) -> TranslatedTexts:
    """Returns the translations of texts; line breaks and the space around a line stay.

    Args:
        lines: The lines of each text.
        spans: Where the sentences of each line are, over all texts.
        found: The sentences' translations, over all lines.
        target_language: Code of the language that they are in.
    """
    sentences, rest = iter(found), iter(spans)
    joined = TranslatedTexts([], [], [])
    flags: list[list[list[Flag]]] = []
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
        joined.scores.append([_mean_log_probability(each) for each in mine])
        flags.append([list(each.flags or ()) for each in mine])
    if all(each.flags is None for each in found):
        return joined
    return TranslatedTexts(joined.texts, joined.alternatives, joined.scores, flags)


def _join_lines(lines: Sequence[str], found: Sequence[Translation], rank: int) -> str:
    return "\n".join(
        _restore_spaces(line, each, rank) for line, each in zip(lines, found, strict=True)
    )


def _restore_spaces(line: str, translation: Translation, rank: int) -> str:
    """Returns a candidate, or the last there is, with the space that its line had at the ends."""
    text = translation.candidates[min(rank, len(translation.candidates) - 1)].text
    before = line[: len(line) - len(line.lstrip())]
    return before + text + line[len(line.rstrip()) :] if text else before


def _mean_log_probability(translation: Translation) -> float | None:
    best = translation.candidates[0]
    return best.log_probability / len(best.token_ids) if best.token_ids else None


@dataclass(frozen=True)
class Sentences:
    """A question: the translations of these, a list of `Translation`.

    Attributes:
        texts: Sentences.
        needs_alignments: Whether their words should be aligned.
    """

    texts: list[str]
    needs_alignments: bool = False


@dataclass(frozen=True)
class Sample:
    """A question: the `Route` of a document in an unknown language, some text of which this is."""

    text: str


@dataclass(frozen=True)
class Route:
    """How texts are translated, as far as a task needs it.

    Attributes:
        source: Code of their language.
        target: Code of the language translated into.
        settings: Decoding settings of the first model: they say where sentences end.
        aligns: Whether words may be aligned.
    """

    source: str
    target: str
    settings: Inference
    aligns: bool = False

    def find_sentences(self, text: str) -> list[Span]:
        """Returns where the sentences of a text are."""
        return split_sentences(text, self.settings, self.source)


class Task(Protocol):
    """Something to do for a request."""

    def run(self, ask: Ask) -> Any:
        """Returns the result.

        Raises:
            MtkitError: The text is at fault.
            RequestError: The request is.
        """
        ...


@dataclass(frozen=True)
class ParseBody:
    """Parses a request's body; the result is what `parse_body` returns.

    Attributes:
        content: The body.
        content_type: Its `Content-Type`.
        query: The address's query string.
        kind: The model of the body; None for a form with a file.
        max_texts: Texts in it.
    """

    content: bytes
    content_type: str
    query: str
    kind: Any
    max_texts: int

    def run(self, _: Ask) -> Any:
        """Returns the body."""
        return parse_body(self.content, self.content_type, self.query, self.kind, self.max_texts)


@dataclass(frozen=True)
class DetectLanguage:
    """Detects the language of a text; the result is what `Detector.detect` returns."""

    text: str
    languages: tuple[str, ...]

    def run(self, _: Ask) -> list[Detected]:
        """Returns the languages that it may be in."""
        return _detector().detect(self.text, self.languages)


@cache
def _detector() -> Detector:
    return Detector()


@dataclass(frozen=True)
class TranslateTexts:
    """Translates texts of any number of lines and sentences.

    Attributes:
        texts: The texts.
        route: Their way.
        max_sentences: Of all of them.
    """

    texts: list[str]
    route: Route
    max_sentences: int

    def run(self, ask: Ask) -> TranslatedTexts:
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
            found += ask(Sentences(sentences[first : first + _WINDOW]))
        return join_texts(lines, spans, found, self.route.target)


def too_many_sentences(num_sentences: int, max_sentences: int) -> RequestError:
    """Returns the error of a request with more sentences than are allowed."""
    return RequestError(
        400,
        f"Invalid request: request ({num_sentences} sentences) exceeds text limit "
        f"({max_sentences})",
    )


@dataclass(frozen=True)
class TranslatedDocument:
    """A document's translation, and what became of its texts."""

    content: bytes
    report: Report


@dataclass(frozen=True)
class TranslateDocuments:
    """Translates documents of one format and language; the result is a list of them, translated.

    Attributes:
        contents: The documents.
        form: Their format.
        target: Code of the language translated into.
        route: Their way; None where their language is to be detected.
        max_unpacked_bytes: Of all members of an archive together.
    """

    contents: list[bytes]
    form: str
    target: str
    route: Route | None
    max_unpacked_bytes: int

    def run(self, ask: Ask) -> list[TranslatedDocument]:
        """Returns their translations."""
        for content in self.contents:
            self._check_size(content)
        route = self.route
        if route is None:
            route = ask(Sample(self._read_sample()))
            assert isinstance(route, Route)
        translate = SentenceTranslator(
            _Asking(ask, route), route.target, source_language=route.source, window=_WINDOW
        )
        languages = Languages(route.source, route.target)
        return [
            TranslatedDocument(*translate_content(content, self.form, translate, languages))
            for content in self.contents
        ]

    def _check_size(self, content: bytes) -> None:
        num_bytes = _measure_unpacked(content)
        if num_bytes > self.max_unpacked_bytes:
            raise RequestError(
                413,
                f"the file unpacks to {num_bytes:,} bytes, and {self.max_unpacked_bytes:,} are "
                "allowed",
            )

    def _read_sample(self) -> str:
        """Returns text of the documents, without markup."""
        sample = _Sampling()
        for content in self.contents:
            try:
                translate_content(content, self.form, sample, Languages("", self.target))
            except _SampledError:
                break
        return sample.text


class _SampledError(Exception):
    """Enough of a document has been read."""


class _Sampling:
    """Reads the texts of documents, and translates nothing."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, texts: Sequence[str]) -> list[TranslatedText]:
        self.text += "\n".join(texts)[:SAMPLE_CHARACTERS] + "\n"
        if len(self.text) > SAMPLE_CHARACTERS:
            raise _SampledError
        return [TranslatedText(text, None) for text in texts]


class _Asking:
    """The server as a translator of sentences."""

    def __init__(self, ask: Ask, route: Route) -> None:
        self.settings, self.aligns, self._ask = route.settings, route.aligns, ask

    def search_ahead(
        self, requests: Sequence[Request], *, first_line: int = 1
    ) -> FinishTranslations:
        """Returns what gives each sentence's translation."""
        needs_alignments = any(each.settings is not None for each in requests)
        found = self._ask(Sentences([each.text for each in requests], needs_alignments))
        return lambda: found


def _measure_unpacked(content: bytes) -> int:
    """Returns what a zip archive unpacks to; `zipfile` unpacks no more. 0 of another file."""
    if not content.startswith(b"PK"):
        return 0
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        # It is reported in the words of its format.
        return 0


@dataclass(frozen=True)
class Fault:
    """Why a task has no result.

    Attributes:
        status: HTTP status of the answer.
        message: What is wrong, in words.
        may_be_others: Whether other tasks of the process may be to blame.
    """

    status: int
    message: str
    may_be_others: bool = False

    @classmethod
    def of(cls, error: MtkitError | RequestError) -> "Fault":
        """Returns the fault of a task that raised an error."""
        if isinstance(error, RequestError):
            return cls(error.status, error.message)
        return cls(400, f"Invalid request: {error.message}")
