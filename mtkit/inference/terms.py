"""Finds a glossary's terms, searches again if a translation lacks some, and reports them.

A part of a line is first translated as usual. Only if the result lacks a term, or has a forbidden
one, the search runs again, for outputs that contain the tokens of the terms
(search/constraints.py). So lines without terms stay the same bit for bit, and so do lines whose
terms are already right, including inflected forms.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Literal

from mtkit.console import warn
from mtkit.errors import MtkitError
from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.line import Line, TextModel, list_parts
from mtkit.inference.request import LineError
from mtkit.inference.translation import TermUse, Translation
from mtkit.recipe.inference import GlossarySection as GlossarySettings
from mtkit.recipe.inference import Inference
from mtkit.text.glossary import FoundTerm, Glossary, Term, fold, read_glossary
from mtkit.text.term_forms import FoundUse, annotate, find_uses, knows_terms
from mtkit.text.token_ids import EOS, UNK
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.words import Span, blank_out

_MAX_TOKENS = 64
"""Maximum tokens that an output of a part must contain: each costs the search time and memory.
Terms beyond it are left to the model, and reported."""
_MAX_NOTES = 5

Way = Literal["annotation", "constraints", "both"]
"""Values of `inference.glossary.way`, with `auto` resolved."""
_MAX_CACHED_GLOSSARIES = 8
"""Cached glossaries of requests: a request's lines may come in several batches."""


@dataclass(frozen=True)
class TextTerms:
    """The terms of a text, with their positions.

    Attributes:
        wanted: Terms that have a translation.
        forbidden: Translations that must not be used, with the span of their source.
    """

    wanted: tuple[tuple[Span, Term], ...]
    forbidden: tuple[tuple[Span, Term], ...]

    @classmethod
    def of(cls, found: Sequence[FoundTerm]) -> "TextTerms":
        """Returns the terms that were found in a text."""
        placed = [(each.span, term) for each in found for term in each.terms]
        return cls(
            tuple(each for each in placed if not each[1].is_forbidden),
            tuple(each for each in placed if each[1].is_forbidden),
        )

    def annotate(self, text: str) -> str:
        """Returns the text with translations after its terms."""
        return annotate(text, [(span, term.target) for span, term in self.wanted])

    def find_uses(self, text: str) -> tuple[list[FoundUse], list[FoundUse]]:
        """Returns a translation's uses of wanted and of forbidden terms."""
        wanted = [(term.target, term.is_case_sensitive) for _, term in self.wanted]
        found = find_uses(text, wanted)
        forbidden = [(term.target, term.is_case_sensitive) for _, term in self.forbidden]
        if not forbidden:
            return found, []
        distinct = list(dict.fromkeys(forbidden))
        # A forbidden word may be part of a wanted term elsewhere, but a wanted term isn't an
        # inflected form of a forbidden one.
        used = [use.span for use in found if use.span is not None and use.form == "used"]
        rest = blank_out(text, sorted(used), " ")
        uses = {
            each: in_all if in_all.form == "used" else _check_case(text, each, in_rest)
            for each, in_all, in_rest in zip(
                distinct,
                find_uses(text, distinct, shares=True),
                find_uses(rest, distinct, shares=True),
                strict=True,
            )
        }
        return found, [uses[each] for each in forbidden]

    def describe(self, text: str, translation: str) -> list[TermUse]:
        """Returns how a translation uses the terms of a text, in order."""
        wanted, forbidden = self.find_uses(translation)
        told = [
            *_describe(text, self.wanted, wanted, translation),
            *_describe(text, self.forbidden, forbidden, translation),
        ]
        return sorted(told, key=lambda each: each.span)


def _check_case(text: str, term: tuple[str, bool], use: FoundUse) -> FoundUse:
    """Returns a use of a forbidden term; another case isn't one if case matters."""
    target, is_case_sensitive = term
    is_same = use.span is not None and fold(text[slice(*use.span)]) == fold(target)
    return FoundUse("missed") if is_case_sensitive and is_same else use


def choose_way(settings: GlossarySettings, tokenizer: SubwordTokenizer) -> Way:
    """Returns how terms get into translations; the model may not support annotation."""
    knows = knows_terms(tokenizer.source_vocabulary)
    if settings.way in ("annotation", "both") and not knows:
        raise MtkitError(
            f'inference.glossary.way = "{settings.way}", but the model was trained without '
            "data.augment.terms",
            'remove it, or use "constraints"',
        )
    if settings.way == "auto":
        return "annotation" if knows else "constraints"
    return settings.way


class GlossaryTerms:
    """Finds the terms of a glossary, and decides what outputs must contain; shared by threads.

    The tokenizer is None for a model whose outputs can't be constrained.
    """

    def __init__(self, glossary: Glossary, tokenizer: SubwordTokenizer | None, way: Way) -> None:
        self._glossary, self._tokenizer, self.way = glossary, tokenizer, way
        self._counts: Counter[tuple[bool, str]] = Counter()
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: Path, tokenizer: SubwordTokenizer | None, way: Way) -> "GlossaryTerms":
        """Returns the terms of a file, and warns of duplicates."""
        read = read_glossary(path)
        for note in read.notes[:_MAX_NOTES]:
            warn(note)
        if len(read.notes) > _MAX_NOTES:
            num_more = len(read.notes) - _MAX_NOTES
            warn(f"{path}: {num_more:,} more terms with several targets")
        return cls(Glossary(read.terms), tokenizer, way)

    @property
    def annotates(self) -> bool:
        """Whether the model reads terms after their sources."""
        return self.way != "constraints"

    @property
    def constrains(self) -> bool:
        """Whether lines that lack terms are searched again."""
        return self.way != "annotation"

    def locate(self, text: str) -> list[Span]:
        """Returns the spans of a text's terms."""
        return [each.span for each in self._glossary.find(text)]

    def find(self, text: str) -> TextTerms | None:
        """Returns the terms of a text; None if it has none."""
        found = self._glossary.find(text)
        return TextTerms.of(found) if found else None

    def require(self, line: Line, part: EncodedSource) -> EncodedSource | None:
        """Returns a part with what its outputs must contain; None if its candidates already do.

        If the best candidate has another form of a term, that form is required.
        """
        terms = self.find(line.text[slice(*part.span)])
        if terms is None:
            return None
        uses = [terms.find_uses(each.text) for each in part.candidates]
        if all(
            all(use.form != "missed" for use in wanted)
            and all(use.form == "missed" for use in forbidden)
            for wanted, forbidden in uses
        ):
            return None
        best, (wanted, forbidden) = part.candidates[0].text, uses[0]
        required: list[tuple[int, ...]] = []
        room = _MAX_TOKENS
        for use, (_, term) in zip(wanted, terms.wanted, strict=True):
            text = term.target
            # A form that is itself forbidden can't be required.
            if use.span is not None and not any(map(use.overlaps, forbidden)):
                text = best[slice(*use.span)]
            for phrase in self._encode([text]):
                if len(phrase) <= room:
                    required.append(phrase)
                    room -= len(phrase)
        spellings: dict[str, None] = {}
        for use, (_, term) in zip(forbidden, terms.forbidden, strict=True):
            target = term.target
            spellings[target] = None
            if not term.is_case_sensitive:
                spellings |= dict.fromkeys((target.lower(), target[0].upper() + target[1:]))
            if use.span is not None:
                spellings[best[slice(*use.span)]] = None
        return replace(
            part.annotated or part,
            required=(*part.required, *required),
            forbidden=tuple(self._encode(list(spellings))),
            candidates=[],
        )

    def report(self, text: str, translation: Translation) -> Translation:
        """Returns a translation with the uses of the line's terms, and counts them."""
        terms = self.find(text)
        uses = [] if terms is None else terms.describe(text, translation.text)
        with self._lock:
            self._counts.update((use.is_forbidden, use.use) for use in uses)
        return replace(translation, terms=tuple(uses))

    def summarize(self) -> str:
        """Returns the uses of all terms so far in words."""
        if not self._counts.total():
            return "terms: no term of the glossary is in the text"
        return "; ".join(
            filter(
                None,
                (
                    self._summarize("terms", is_forbidden=False),
                    self._summarize("forbidden terms", is_forbidden=True),
                ),
            )
        )

    def _summarize(self, what: str, *, is_forbidden: bool) -> str:
        kinds = (
            ("avoided", "used", "inflected") if is_forbidden else ("used", "inflected", "missed")
        )
        counts = {kind: self._counts[is_forbidden, kind] for kind in kinds}
        if not any(counts.values()):
            return ""
        return f"{what}: " + ", ".join(f"{count:,} {kind}" for kind, count in counts.items())

    def _encode(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Returns the tokens of texts without `</s>`; skips empty texts and unknown tokens."""
        assert self._tokenizer is not None
        found = [tuple(each[:-1]) for each in self._tokenizer.encode_target(texts)]
        return [tokens for tokens in found if tokens and UNK not in tokens]


def replace_text(source: EncodedSource, num_tokens: int, tokens: Sequence[int]) -> EncodedSource:
    """Returns a source with other tokens for its text; `</s>` counts in both."""
    # Marks of languages may come before the text and after `</s>`.
    known = list(source.tokens)
    num_behind = known[::-1].index(EOS)
    end = len(known) - num_behind
    known[end - num_tokens : end] = tokens
    return replace(source, tokens=known)


def _describe(
    text: str, placed: Sequence[tuple[Span, Term]], uses: Sequence[FoundUse], translation: str
) -> list[TermUse]:
    told = []
    for (span, term), use in zip(placed, uses, strict=True):
        kind: Literal["used", "inflected", "missed", "avoided"] = use.form
        if term.is_forbidden and kind == "missed":
            kind = "avoided"
        told.append(
            TermUse(
                span=span,
                source=text[slice(*span)],
                target=term.target,
                use=kind,
                found=None if use.span is None else translation[slice(*use.span)],
                is_forbidden=term.is_forbidden,
            )
        )
    return told


class TermStep:
    """Opens lines' terms, or the `default` ones, and annotates lines; threads may share it."""

    def __init__(self, settings: Inference, model: TextModel) -> None:
        self._tokenizer, self._translates = model.tokenizer, model.translates
        self._settings = settings.glossary or GlossarySettings()
        self.default: GlossaryTerms | None = None
        if self._settings.way != "auto":
            # Errors are reported early, before any terms.
            choose_way(self._settings, self._tokenizer)
        if self._settings.path is not None:
            self.default = GlossaryTerms.open(self._settings.path, self._tokenizer, self._way)
        self.open = lru_cache(maxsize=_MAX_CACHED_GLOSSARIES)(self._open)

    @cached_property
    def _way(self) -> Way:
        # Needs the vocabulary, which most programs never read.
        return choose_way(self._settings, self._tokenizer)

    def _open(self, terms: tuple[Term, ...]) -> GlossaryTerms:
        return GlossaryTerms(Glossary(terms), self._tokenizer, self._way)

    def check(self, line: Line) -> None:
        """Checks that the model and the search support a line's own glossary."""
        if not self._translates:
            raise MtkitError("glossary: only translators take one", "leave it out")
        if line.terms is None or not line.terms.constrains:
            return
        if line.settings.sampling is not None:
            raise LineError(line.number, "glossary: terms need beam search, not inference.sampling")

    def annotate(self, lines: Sequence[Line], limit: Callable[[Line], int]) -> None:
        """Sets each part's annotated tokens if the model reads them and they fit `limit`."""
        annotated = []
        for line, part in list_parts(lines):
            if line.terms is not None and line.terms.annotates:
                text = line.text[slice(*part.span)]
                found = line.terms.find(text)
                if found is not None:
                    annotated.append((line, part, [text, found.annotate(text)]))
        texts = list(chain.from_iterable(pair for *_, pair in annotated))
        tokens = self._tokenizer.encode_source(texts)
        for (line, part, _), plain, read in zip(annotated, tokens[::2], tokens[1::2], strict=True):
            if read != plain:
                other = replace_text(part, len(plain), read)
                part.annotated = other if len(other.tokens) <= limit(line) else None

    def summarize(self) -> str:
        """Returns the uses of the translator's own terms in words; empty without any."""
        return "" if self.default is None else self.default.summarize()
