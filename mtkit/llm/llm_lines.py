"""Lines to translations by a large language model: split, request, check, retry, join."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

from mtkit.api_requests import run_in_threads
from mtkit.checks.flag import Flag
from mtkit.errors import MtkitError, shorten
from mtkit.evaluation.flags import FlagFinder, ScoredLine
from mtkit.inference.flag_lines import find_by
from mtkit.inference.line_pipeline import copy_line, is_copied
from mtkit.inference.paragraphs import join_sentences, split_sentences
from mtkit.inference.protect import open_finder, protect_strings
from mtkit.inference.request import BAD_ANSWER, LineError, LineWarning, Request
from mtkit.inference.terms import GlossaryTerms
from mtkit.inference.translation import (
    BLANK,
    FinishTranslations,
    Hypothesis,
    KeptPiece,
    Protection,
    Translation,
)
from mtkit.llm.answers import BadAnswerError, clean_line, find_fault, read_answer
from mtkit.llm.cache import AnswerCache
from mtkit.llm.client import CHARACTERS_PER_TOKEN, Asked, ChatClient, Usage
from mtkit.llm.prompts import Prompter
from mtkit.llm.settings import LlmSettings
from mtkit.recipe.flags import Flags
from mtkit.recipe.inference import Inference
from mtkit.text.glossary import Glossary, Term
from mtkit.text.languages import TranslatorLanguages
from mtkit.text.protected import ProtectedText
from mtkit.text.words import Span

_MAX_CACHED_GLOSSARIES = 8
"""Cached glossaries of requests."""
_KINDS_SHOWN = 3


@dataclass
class _Sentence:
    """A sentence to translate, and its translation once it is there.

    Attributes:
        candidate: The best answer so far, which only lacks terms or protected pieces.
        fault: What is wrong with the last answer.
    """

    text: str
    line: int
    languages: tuple[str, str]
    settings: Inference
    terms: GlossaryTerms | None
    protected: ProtectedText | None
    candidate: str | None = None
    fault: str = ""
    is_done: bool = False

    @cached_property
    def keep(self) -> list[str]:
        """Pieces that the translation must keep, each once."""
        pieces = () if self.protected is None else self.protected.pieces
        return list(dict.fromkeys(piece.text for piece in pieces))

    def list_terms(self) -> tuple[list[Term], list[Term]]:
        """Returns the terms to use and to avoid."""
        found = None if self.terms is None else self.terms.find(self.text)
        if found is None:
            return [], []
        return [term for _, term in found.wanted], [term for _, term in found.forbidden]

    def find_lost(self, translation: str) -> list[str]:
        """Returns the protected pieces that a translation lacks."""
        if self.protected is None or self.settings.protect is None:
            return []
        return open_finder(self.settings.protect).find_lost(self.protected, translation)

    def find_missed(self, translation: str) -> list[str]:
        """Returns the terms that a translation lacks, or has though it shouldn't."""
        found = None if self.terms is None else self.terms.find(self.text)
        if found is None:
            return []
        wanted, forbidden = found.find_uses(translation)
        missed = [
            f'"{term.source}" isn\'t "{term.target}"'
            for use, (_, term) in zip(wanted, found.wanted, strict=True)
            if use.form == "missed"
        ]
        return missed + [
            f'"{term.target}" isn\'t allowed'
            for use, (_, term) in zip(forbidden, found.forbidden, strict=True)
            if use.form != "missed"
        ]


@dataclass
class _Line:
    """A line being translated; `found` is set at once if it needs no request."""

    request: Request
    text: str
    number: int
    settings: Inference
    languages: tuple[str, str]
    terms: GlossaryTerms | None
    spans: list[Span] = field(default_factory=list)
    sentences: list[_Sentence] = field(default_factory=list)
    found: Translation | None = None


class LlmLines:
    """Translates lines with a large language model; threads may share it.

    Args:
        settings: What the file says.
        inference: Decoding settings; `paragraphs`, `protect`, `protect_strings`, `flags` and
            `glossary` have an effect.
        languages: Languages of the requests.
        origin: The file's name, for errors.

    Attributes:
        llm: What the file says.
    """

    aligns = False
    batches_at_once = 1

    def __init__(
        self,
        settings: LlmSettings,
        inference: Inference,
        languages: TranslatorLanguages,
        origin: str,
    ) -> None:
        self.llm, self.settings, self.languages = settings, inference, languages
        self._prompter = Prompter(settings, origin)
        # A fault in the template is found before any work.
        self._prompter.write(["."], languages.default)
        folder, size = settings.cache.folder, settings.cache.max_mib << 20
        cache = None if folder is None or not size else AnswerCache(Path(folder), size)
        self._client = ChatClient(settings, cache)
        self._rejecting = FlagFinder(Flags(names=settings.reject))
        path = None if inference.glossary is None else inference.glossary.path
        self._terms = None if path is None else GlossaryTerms.open(path, None, "annotation")
        self._open_terms = lru_cache(maxsize=_MAX_CACHED_GLOSSARIES)(_open_terms)

    @property
    def summary(self) -> str:
        """Uses of terms, and usage of the API."""
        of_terms = "" if self._terms is None else self._terms.summarize()
        return "\n".join(filter(None, (of_terms, self._client.usage.describe(self.llm))))

    def search_ahead(
        self, requests: Sequence[Request], *, first_line: int = 1
    ) -> FinishTranslations:
        """Asks for all lines; returns a function that makes the translations."""
        lines = self._take(requests, first_line)
        self._answer_all(self._batch(lines))
        return lambda: [self._join(line) for line in lines]

    def score(self, requests: Sequence[Request], *, first_line: int = 1) -> list[Translation]:
        """Raises an error: the API returns no scores of given translations."""
        raise LineError(
            first_line, "a large language model's API doesn't score translations", "use a model"
        )

    def estimate(self, requests: Sequence[Request], usage: Usage) -> None:
        """Adds the estimated usage of lines, with tokens from characters. Sends nothing."""
        for batch, before in self._batch(self._take(requests, 1)):
            asked = self._write(batch, before)
            usage.requests += 1
            if self._client.is_known(asked):
                usage.cached += 1
                continue
            read = sum(len(each["content"]) for each in asked["messages"])
            usage.input_tokens += read // CHARACTERS_PER_TOKEN
            usage.output_tokens += sum(len(each.text) for each in batch) // CHARACTERS_PER_TOKEN

    def _take(self, requests: Sequence[Request], first_line: int) -> list[_Line]:
        lines = []
        for index, request in enumerate(requests):
            number = first_line + index if request.line is None else request.line
            if request.prefix:
                raise LineError(number, "a large language model takes no prefix", "leave it out")
            settings = request.settings or self.settings
            if request.is_program_string:
                settings = protect_strings(settings)
            try:
                languages = self.languages.resolve(request.source_language, request.target_language)
            except MtkitError as error:
                raise LineError(number, error.message, error.hint) from error
            terms = self._open_terms(request.glossary) if request.glossary else self._terms
            text = request.text.rstrip("\r\n")
            line = _Line(request, text, number, settings, languages, terms)
            self._split(line)
            lines.append(line)
        return lines

    def _split(self, line: _Line) -> None:
        """Sets a line's sentences, or its translation where there is nothing to ask."""
        if not line.text.strip():
            line.found = BLANK
        elif is_copied(line.text) and not (line.terms and line.terms.locate(line.text)):
            line.found = copy_line(line.text)
        else:
            line.spans = [(0, len(line.text))]
            if line.settings.paragraphs is not None and line.request.sentence is None:
                terms = [] if line.terms is None else line.terms.locate(line.text)
                line.spans = split_sentences(line.text, line.settings, line.languages[0], terms)
            protect = line.settings.protect
            for start, end in line.spans:
                text = line.text[start:end]
                protected = None if protect is None else open_finder(protect).find(text)
                given = line.languages, line.settings, line.terms, protected
                line.sentences.append(_Sentence(text, line.number, *given))

    def _batch(self, lines: Sequence[_Line]) -> list[tuple[list[_Sentence], list[str]]]:
        """Returns sentences of one pair of languages by request, with the texts before them."""
        batches: list[tuple[list[_Sentence], list[str]]] = []
        before: list[str] = []
        for sentence in (each for line in lines for each in line.sentences):
            if (
                not batches
                or len(batches[-1][0]) == self.llm.lines_per_request
                or batches[-1][0][0].languages != sentence.languages
            ):
                batches.append(([], before[max(0, len(before) - self.llm.lines_before) :]))
            batches[-1][0].append(sentence)
            before.append(sentence.text)
        return batches

    def _write(self, batch: Sequence[_Sentence], before: Sequence[str], fault: str = "") -> Asked:
        terms = [each.list_terms() for each in batch]
        return self._prompter.write(
            [each.text for each in batch],
            batch[0].languages,
            wanted=list(dict.fromkeys(term for wanted, _ in terms for term in wanted)),
            forbidden=list(dict.fromkeys(term for _, avoid in terms for term in avoid)),
            keep=list(dict.fromkeys(piece for each in batch for piece in each.keep)),
            before=before,
            fault=fault,
        )

    def _answer_all(self, batches: Sequence[tuple[list[_Sentence], list[str]]]) -> None:
        """Translates batches in parallel."""
        run_in_threads(
            lambda batch, stop: self._answer(*batch, stop), batches, self.llm.concurrent_requests
        )

    def _answer(
        self, batch: Sequence[_Sentence], before: Sequence[str], stop: threading.Event
    ) -> None:
        """Requests sentences together; after a bad answer in halves, down to single ones."""
        if len(batch) == 1:
            for attempt in range(1 + self.llm.retries):
                self._ask(batch, before, attempt, stop)
                if batch[0].is_done:
                    return
            return
        if self._ask(batch, before, 0, stop):
            for index, sentence in enumerate(batch):
                if not sentence.is_done:
                    self._answer([sentence], self._shift(batch, before, index), stop)
            return
        middle = len(batch) // 2
        self._answer(batch[:middle], before, stop)
        self._answer(batch[middle:], self._shift(batch, before, middle), stop)

    def _shift(
        self, batch: Sequence[_Sentence], before: Sequence[str], index: int
    ) -> Sequence[str]:
        texts = [*before, *(each.text for each in batch[:index])]
        return texts[max(0, len(texts) - self.llm.lines_before) :]

    def _ask(
        self, batch: Sequence[_Sentence], before: Sequence[str], attempt: int, stop: threading.Event
    ) -> bool:
        """Asks once, and checks each line of the answer; returns whether it has all lines."""
        # New sentences have no fault; those of a rejected answer share it.
        asked = self._write(batch, before, batch[0].fault)
        try:
            content, finish_reason = self._client.ask(asked, attempt, stop)
            found = read_answer(content, finish_reason, len(batch))
        except BadAnswerError as error:
            for sentence in batch:
                sentence.fault = str(error)
            return False
        for sentence, line in zip(batch, found, strict=True):
            self._check(sentence, clean_line(sentence.text, line))
        return True

    def _check(self, sentence: _Sentence, line: str) -> None:
        """Takes a line as a sentence's translation, or notes what is wrong with it."""
        sentence.fault = find_fault(sentence.text, line)
        if not sentence.fault:
            flags = self._rejecting.find(ScoredLine(sentence.text, line, *sentence.languages))
            sentence.fault = ", ".join(f"{flag.name}: {flag.text}" for flag in flags)
        if sentence.fault:
            return
        lost = [f"{each} is missing" for each in sentence.find_lost(line)]
        wrong = lost + sentence.find_missed(line)
        if sentence.candidate is None or not wrong:
            sentence.candidate = line
        sentence.fault = "; ".join(wrong[:_KINDS_SHOWN])
        sentence.is_done = not wrong

    def _join(self, line: _Line) -> Translation:
        found = line.found
        if found is None:
            parts = [self._describe(each) for each in line.sentences]
            found = join_sentences(line.text, line.spans, parts, line.languages[1])
        if line.settings.flags is not None:
            scored = ScoredLine(line.text, found.text, *line.languages)
            flags = find_by(line.settings.flags).find(scored)
            found = replace(found, flags=(*flags, *(found.flags or ())))
        return found if line.terms is None else line.terms.report(line.text, found)

    def _describe(self, sentence: _Sentence) -> Translation:
        """Returns a sentence's translation, with a warning and a flag where there is none."""
        text, protection, warnings, flags = sentence.candidate, None, [], None
        if text is None:
            self._client.count_bad()
            text = sentence.text if self.llm.on_failure == "copy" else ""
            fault = f"no usable answer of {self.llm.model}: {shorten(sentence.fault, 200)}"
            warnings.append(LineWarning(BAD_ANSWER, fault, sentence.line))
            flags = (Flag(BAD_ANSWER, 1 + self.llm.retries, 0, fault),)
        if sentence.protected is not None:
            pieces = sentence.protected.pieces
            lost = sentence.find_lost(text)
            kept = tuple(KeptPiece(piece.kind, piece.text) for piece in pieces)
            protection = Protection(kept, None if lost else "plain", tuple(lost))
            if lost and not warnings:
                shown = ", ".join(lost[:_KINDS_SHOWN])
                fault = f"the translation doesn't contain {shown} (inference.protect)"
                warnings.append(LineWarning("protected text was lost", fault, sentence.line))
        hypothesis = Hypothesis((), 0.0, 0.0, is_finished=True, text=text)
        return Translation(
            (hypothesis,), warnings=tuple(warnings), flags=flags, protection=protection
        )


def _open_terms(terms: tuple[Term, ...]) -> GlossaryTerms:
    return GlossaryTerms(Glossary(terms), None, "annotation")
