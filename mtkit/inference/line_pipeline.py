"""Lines to translations: split, encode, terms, search and rerank, protect, align, join, flag.

Each step takes a batch of `Line` and fills in its results; lines skip steps that they don't need.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import regex

from mtkit.errors import MtkitError
from mtkit.inference.align import UNALIGNED, LineAligner
from mtkit.inference.encode import LineEncoder, find_given_limit, mark_request
from mtkit.inference.engines.engine import EncodedSource, Engine, make_batches
from mtkit.inference.learned_aligner import warn_too_long
from mtkit.inference.line import Line, Reranker, TextModel
from mtkit.inference.paragraphs import join_line, join_parts, split_line
from mtkit.inference.request import LineError, Request
from mtkit.inference.search.penalties import end_output
from mtkit.inference.search_parts import (
    PartSearch,
    check_finite,
    cut_warning,
    detokenize,
    names_no_folder,
    rerank,
)
from mtkit.inference.terms import TermStep
from mtkit.inference.translation import (
    BLANK,
    FinishTranslations,
    Hypothesis,
    Translation,
    WordAlignment,
)
from mtkit.recipe.inference import Inference, Rerank
from mtkit.text.languages import NO_MARKS
from mtkit.text.words import blank_out, find_words

if TYPE_CHECKING:
    from mtkit.inference.flag_lines import LineFlagger
    from mtkit.inference.parse import SentenceParser
    from mtkit.inference.protect import ProtectStep
    from mtkit.inference.quality import LineQuality

_WORD = regex.compile(
    r"[[\p{L}\p{M}\p{N}\p{Cn}]--[\p{Me}\p{Variation_Selector}\p{Extended_Pictographic}]]",
    regex.V1,
)
"""A word character of any script, even an unassigned one. Emoji contain enclosing marks and
variation selectors, and the newest ones aren't assigned in older Unicode tables."""
_SYMBOL = regex.compile(r"[\0\p{P}\p{S}\p{Co}\p{Extended_Pictographic}]")
"""Any other visible character, and NUL: tokenizers drop the rest."""
_ENGINE_KEYS = ("engine", "precision", "processes", "batch_tokens", "fusion", "glossary", "quality")
"""Settings that a request can't change."""


class LineScorer:
    """Scores given translations; `parser` is None for text, not trees."""

    def __init__(
        self,
        engine: Engine,
        model: TextModel,
        settings: Inference,
        parser: "SentenceParser | None",
    ) -> None:
        self._engine, self._model, self._settings = engine, model, settings
        self._parser = parser

    def score(self, lines: Sequence[Line]) -> None:
        """Sets each line's only part, with the prefix, the given translation, as candidate.

        Raises:
            LineError: A text is too long, a score is NaN or infinite, or a parser's target isn't a
                tree.
        """
        texts = [line.request.prefix.rstrip("\r\n") for line in lines]
        given = self._encode(lines, texts)
        lengths = [len(source.tokens) + len(target) for source, target in given]
        for batch in make_batches(lengths, self._settings.batch_tokens):
            found = self._engine.score(
                [given[which][0].tokens for which in batch],
                [(*given[which][0].begin, *given[which][1]) for which in batch],
            )
            for which, log_probabilities in zip(batch, found, strict=True):
                (source, target), line = given[which], lines[which]
                num_before = len(source.begin)
                cumulative = list(itertools.accumulate(log_probabilities[num_before:]))
                hypothesis = end_output(
                    target, cumulative, self._settings.length_penalty, num_before=num_before
                )
                check_finite([hypothesis], self._settings, line.number)
                candidate = detokenize(self._model.tokenizer, hypothesis)
                source.candidates = [replace(candidate, text=texts[which])]
                line.parts = [source]

    def _encode(
        self, lines: Sequence[Line], texts: Sequence[str]
    ) -> list[tuple[EncodedSource, list[int]]]:
        """Returns lines and their given translations in tokens."""
        sentences = [line.text for line in lines]
        if self._parser is not None:
            sentences = list(map(self._parser.spell, sentences))
            texts = [
                self._parser.write_symbols(text, line.number)
                for text, line in zip(texts, lines, strict=True)
            ]
        tokenizer, max_tokens = self._model.tokenizer, find_given_limit(self._engine)
        given = []
        sources, targets = tokenizer.encode_source(sentences), tokenizer.encode_target(texts)
        for line, tokens, target in zip(lines, sources, targets, strict=True):
            marks = NO_MARKS if self._model.continues else mark_request(self._model, line)
            marked = [*marks.before, *tokens, *marks.behind]
            given.append((EncodedSource(marked, begin=marks.begin), target))
        for line, (source, target) in zip(lines, given, strict=True):
            lengths = len(source.tokens), len(source.begin) + len(target)
            # A language model reads both as one text.
            num_tokens = sum(lengths) if self._model.continues else max(lengths)
            if num_tokens > max_tokens:
                raise LineError(
                    line.number,
                    f"{num_tokens:,} tokens, but at most {max_tokens:,} can be scored",
                    "put one sentence on each line",
                )
        return given


def is_copied(text: str) -> bool:
    """Checks that a text has symbols or punctuation, and no letter, mark or digit."""
    return _WORD.search(text) is None and _SYMBOL.search(text) is not None


def copy_line(text: str, *, num_before: int = 0, alignments: bool = False) -> Translation:
    """Returns a text as its own translation, without tokens, with a log-probability of 0.

    `num_before` counts the characters of tags before it in the line. With `alignments`, each word
    is linked to itself.
    """
    alignment = None
    if alignments:
        words = find_words(text, ())
        alignment = WordAlignment(
            tuple((start + num_before, end + num_before) for start, end in words),
            tuple(words),
            tuple((index, index) for index in range(len(words))),
        )
    return Translation(
        (Hypothesis((), 0.0, 0.0, is_finished=True, text=text, alignment=alignment),)
    )


def _open_parser(model: TextModel, engine: Engine) -> "SentenceParser | None":
    """Returns a parser's adapter; None for another model."""
    if model.linearization is None:
        return None
    # Imported here: most models are translators.
    from mtkit.inference.parse import SentenceParser  # noqa: PLC0415

    return SentenceParser.of(model, engine)


class LinePipeline:
    """Translates and scores lines with an engine; prints nothing; threads may share it.

    Args:
        engine: The engine, with its model.
        model: The model's other properties.
        settings: Search settings of requests without their own.
        terms: Chooses the terms of lines; by default those of the settings.
        rerank: Orders the candidates of each part before parts are joined; by default as
            `inference.rerank` says.
        can_rerank: Whether the folders that a request's settings name are open.

    Attributes:
        aligns: Whether a head was chosen, or an aligner learned, for alignments.
        batches_at_once: The engine's.
        quality: Estimates the quality of translations; None unless it is set.
    """

    def __init__(
        self,
        engine: Engine,
        model: TextModel,
        settings: Inference,
        *,
        terms: TermStep | None = None,
        rerank: Reranker = rerank,
        can_rerank: Callable[[Rerank], bool] = names_no_folder,
    ) -> None:
        self._engine, self._model, self.settings = engine, model, settings
        self.quality: LineQuality | None = None
        self._can_rerank = can_rerank
        self.languages, self.batches_at_once = model.languages, engine.batches_at_once
        self._parser = _open_parser(model, engine)
        self._terms = TermStep(settings, model) if terms is None else terms
        self._encoder = LineEncoder(model, engine)
        self._search = PartSearch(engine, model, rerank)
        self._aligner = LineAligner(engine, model)
        self._scorer = LineScorer(engine, model, settings, self._parser)
        self.aligns = model.has_alignments and self._aligner.can_align
        self._check([settings])

    @cached_property
    def _flagger(self) -> "LineFlagger":
        # Imported here: its checks of text load slowly, and most programs never need them.
        from mtkit.inference.flag_lines import LineFlagger  # noqa: PLC0415

        return LineFlagger(self._model)

    @cached_property
    def _protect(self) -> "ProtectStep":
        # Imported here for the same reason.
        from mtkit.inference.protect import ProtectStep  # noqa: PLC0415

        return ProtectStep(self._model.tokenizer, self._translate)

    def with_settings(self, settings: Inference) -> "LinePipeline":
        """Returns a pipeline with other settings and the same engine."""
        return LinePipeline(self._engine, self._model, settings)

    def split_tags(self, text: str) -> tuple[str, str]:
        """Returns a line's leading tags, and the rest of it."""
        return self._model.tokenizer.split_tags(text.rstrip("\r\n"))

    @property
    def summary(self) -> str:
        """What happened to the terms of `inference.glossary` so far; empty without any."""
        return self._terms.summarize()

    def search_ahead(
        self, requests: Sequence[Request], *, first_line: int = 1
    ) -> FinishTranslations:
        """Searches lines, grouped by settings; returns a function that makes the translations."""
        lines = self._take(requests, first_line)
        for line in lines:
            if line.settings.paragraphs is not None and line.request.sentence is None:
                split_line(line, self._model)
        sentences = [each for line in lines for each in line.sentences or [line]]
        self._find(sentences)
        if any(each.settings.protect is not None for each in sentences):
            # Pieces that a translation lost are searched for again.
            self._finish(sentences)
            self._protect.keep(sentences)
            for each in sentences:
                if each.translation is not None and each.translation.flags is None:
                    each.translation = self._flag(each, each.settings)
        return partial(self._join, lines)

    def score(self, requests: Sequence[Request], *, first_line: int = 1) -> list[Translation]:
        """Returns given translations, the requests' prefixes, as `Translator.score` does."""
        lines = self._take(requests, first_line)
        given = [line for line in lines if line.text.strip() or line.request.prefix.strip()]
        self._scorer.score(given)
        if self.settings.alignments:
            self._aligner.align_given(given, self.settings.batch_tokens)
        blank = replace(BLANK, candidates=UNALIGNED) if self.settings.alignments else BLANK
        for line in lines:
            line.translation = blank
            for part in line.parts:
                (candidate,) = part.candidates
                warnings = warn_too_long(candidate.alignment, line.number)
                line.translation = Translation((candidate,), warnings=tuple(warnings))
            line.translation = self._flag(line, self.settings)
        if self.quality is not None:
            self.quality.estimate(lines)
        return [line.translation for line in lines if line.translation is not None]

    def _take(self, requests: Sequence[Request], first_line: int) -> list[Line]:
        """Returns new lines with checked settings."""
        # Requests share settings, which are slow to copy.
        distinct = {(id(each.settings), each.is_program_string): each for each in requests}
        chosen = {key: self._choose_settings(each) for key, each in distinct.items()}
        self._check(list(chosen.values()))
        return [
            Line(
                request,
                request.text.rstrip("\r\n"),
                first_line + index if request.line is None else request.line,
                chosen[id(request.settings), request.is_program_string],
                self._terms.open(request.glossary) if request.glossary else self._terms.default,
            )
            for index, request in enumerate(requests)
        ]

    def _choose_settings(self, request: Request) -> Inference:
        settings = request.settings or self.settings
        if settings is not self.settings:
            kept = {key: getattr(self.settings, key) for key in _ENGINE_KEYS}
            settings = settings.model_copy(update=kept)
        if not (request.is_program_string and self._model.translates):
            return settings
        from mtkit.inference.protect import protect_strings  # noqa: PLC0415

        return protect_strings(settings)

    @property
    def translates(self) -> bool:
        """Whether outputs are translations, not trees or continued text."""
        return self._model.translates

    def _check(self, settings: Sequence[Inference]) -> None:
        """Checks that the model supports the requested extras."""
        for each in settings if not self._model.translates else ():
            for key in ("paragraphs", "protect", "quality"):
                if getattr(each, key) is not None:
                    raise MtkitError(
                        f"inference.{key} is for translators, which this model isn't",
                        f"remove it: --set ~inference.{key}",
                    )
        if self._parser is not None and any(each.rerank is not None for each in settings):
            raise MtkitError(
                "inference.rerank compares texts, and this model writes trees",
                "remove it: --set ~inference.rerank",
            )
        if any(each.rerank is not None and not self._can_rerank(each.rerank) for each in settings):
            raise MtkitError(
                "inference.rerank: a request names a folder that the translator hasn't opened",
                "open the translator with these settings",
            )
        if any(each.alignments for each in settings):
            self._aligner.check()
        for flags in {each.flags for each in settings if each.flags is not None}:
            self._flagger.check(flags)

    def _translate(self, lines: Sequence[Line]) -> None:
        self._find(lines)
        self._finish(lines)

    def _find(self, lines: Sequence[Line]) -> None:
        """Searches each line's parts."""
        if self._parser is not None:
            for line in lines:
                line.text = self._parser.spell(line.text)
        self._encoder.encode(lines)
        for line in lines:
            if line.request.glossary:
                self._terms.check(line)
        for line in lines:
            if self._is_copied(line):
                line.parts, line.warnings = [], []
        if with_terms := [line for line in lines if line.terms is not None]:
            self._terms.annotate(with_terms, self._encoder.limit)
        self._search.search(lines)
        if aligned := [line for line in lines if line.settings.alignments]:
            self._aligner.read_attention(aligned, self.settings.batch_tokens)

    def _is_copied(self, line: Line) -> bool:
        """Checks whether a line's translation is a copy of the line."""
        if not self._model.translates or line.request.prefix or line.request.required:
            return False
        _, rest = self._model.tokenizer.split_tags(line.text)
        return self._keeps_all(line, rest) and not (
            line.terms is not None and line.terms.locate(rest)
        )

    def _keeps_all(self, line: Line, text: str) -> bool:
        """Checks that a text has no words but those of protected pieces, numbers apart."""
        if is_copied(text) or line.settings.protect is None:
            return is_copied(text)
        from mtkit.inference.protect import open_finder  # noqa: PLC0415

        pieces = open_finder(line.settings.protect).find(text).pieces
        spans = [each.span for each in pieces if each.kind != "number"]
        return bool(spans) and _WORD.search(blank_out(text, spans, " ")) is None

    def _finish(self, lines: Sequence[Line]) -> None:
        """Makes each line's translation from its parts'."""
        if aligned := [line for line in lines if line.settings.alignments]:
            self._aligner.link_words(aligned)
        for line in lines:
            line.translation = self._join_parts(line)
            line.translation = self._flag(line, line.settings)

    def _join(self, lines: Sequence[Line]) -> list[Translation]:
        """Returns the translations of lines whose sentences have been searched."""
        sentences = [each for line in lines for each in line.sentences or [line]]
        self._finish([each for each in sentences if each.translation is None])
        if self.quality is not None:
            self.quality.estimate(sentences)
        found = []
        for line in lines:
            translation = join_line(line, self._model) if line.sentences else line.translation
            assert translation is not None
            if line.terms is not None:
                translation = line.terms.report(line.request.text, translation)
            found.append(translation)
        return found

    def _join_parts(self, line: Line) -> Translation:
        if not line.parts:
            return self._translate_without_search(line)
        candidates = tuple(line.parts[0].candidates)
        if len(line.parts) > 1:
            ranked = [part.candidates for part in line.parts]
            candidates = join_parts(ranked, self._model.choose_target_language(line.request))
        if self._parser is not None:
            candidates = self._parser.make_trees(line.text, candidates, line.parts[0])
        warnings = list(line.warnings)
        warnings += [cut_warning(line.number)] if candidates[0].reached_limit else []
        if line.settings.alignments:
            warnings += warn_too_long(candidates[0].alignment, line.number)
        return Translation(candidates, was_split=len(line.parts) > 1, warnings=tuple(warnings))

    def _translate_without_search(self, line: Line) -> Translation:
        """Translates a line that has no tokens, is copied, or is too long for a parser."""
        tags, rest = self._model.tokenizer.split_tags(line.text)
        if self._model.translates and self._keeps_all(line, rest):
            return copy_line(rest, num_before=len(tags), alignments=line.settings.alignments)
        if line.settings.alignments:
            return replace(BLANK, candidates=UNALIGNED)
        if self._parser is None or not line.text.strip():
            return BLANK
        candidates = self._parser.make_trees(line.text, BLANK.candidates)
        return Translation(candidates, warnings=tuple(line.warnings))

    def _flag(self, line: Line, settings: Inference) -> Translation:
        """Returns a line's translation, with its flags if they are requested."""
        assert line.translation is not None
        if settings.flags is None:
            return line.translation
        return self._flagger.flag(line.request, line.translation, settings.flags)
