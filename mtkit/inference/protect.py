"""Translations that keep what they must (`inference.protect`): checked, and looked for again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from mtkit.errors import MtkitError, shorten
from mtkit.inference.line_translator import LineTranslator
from mtkit.inference.masking import MaskedText, mask
from mtkit.inference.outputs import CUT, cut_warning
from mtkit.inference.required_phrases import spell
from mtkit.inference.translation import (
    FinishTranslations,
    Hypothesis,
    LineWarning,
    Protection,
    Request,
    RequiredPhrase,
    Translation,
)
from mtkit.recipe.inference import Inference
from mtkit.recipe.protection import Protect, ProtectionWay
from mtkit.text.languages import TranslatorLanguages
from mtkit.text.protected import PieceFinder, ProtectedPiece, ProtectedText
from mtkit.text.tokenizer import SubwordTokenizer

_SHOWN = 3
"""Lost pieces that a warning names."""
_SHOWN_CHARACTERS = 40
_MAX_TOKENS = 128
"""Tokens at most that an output is made to contain: a search takes time and memory for each."""


@lru_cache(maxsize=16)
def open_finder(settings: Protect) -> PieceFinder:
    """Returns what finds the pieces that settings protect."""
    return PieceFinder(settings)


@dataclass
class _Line:
    """A line whose pieces are checked.

    Attributes:
        request: What is asked, with its number.
        settings: Search settings without protection.
        protect: What is protected.
        start: Where the text behind the line's tags begins.
        found: The pieces of that text.
        lost: What the best translation so far lost.
    """

    request: Request
    settings: Inference
    protect: Protect
    start: int
    found: ProtectedText
    lost: list[str]

    def find_lost(self, text: str) -> list[str]:
        return open_finder(self.protect).find_lost(self.found, text)

    def widen(self) -> Inference:
        """Returns settings that give as many candidates as a beam of at least `beam_size` has."""
        beam_size = max(self.protect.beam_size, self.settings.beam_size)
        return self.settings.model_copy(update={"beam_size": beam_size, "n_best": beam_size})

    def choose(self, candidates: Sequence[Hypothesis | None]) -> Hypothesis | None:
        """Returns the first candidate that keeps all pieces."""
        whole = (each for each in candidates if each is not None)
        return next((each for each in whole if not self.find_lost(each.text)), None)


@dataclass(frozen=True)
class _Attempt:
    """Another way to translate a line.

    Attributes:
        way: Which.
        request: What is asked.
        masked: What stands for the pieces that symbols have replaced; None where none have.
    """

    way: ProtectionWay
    request: Request
    masked: MaskedText | None = None

    def list_candidates(self, found: Translation) -> list[Hypothesis | None]:
        """Returns what was found, with pieces in place of symbols."""
        if self.masked is None:
            return list(found.candidates)
        return [self.masked.restore(each) for each in found.candidates]


class ProtectingTranslator:
    """Translates lines as another does, and keeps in them what their settings protect.

    A line that loses nothing is translated as without protection. Others are tried again together,
    in one way after the other; the first candidate that keeps all becomes the best.

    Args:
        lines: What translates and scores.
        tokenizer: The model's; its masks are symbols that the model learned to copy.
        can_protect: Whether outputs are translations, not trees or a text that goes on.

    Raises:
        MtkitError: They aren't, and the settings protect something.
    """

    def __init__(
        self, lines: LineTranslator, tokenizer: SubwordTokenizer, *, can_protect: bool = True
    ) -> None:
        self._lines, self._tokenizer = lines, tokenizer
        self.settings = lines.settings
        if self.settings.protect is not None and not can_protect:
            raise MtkitError(
                "inference.protect is for translators, which this model isn't",
                "remove it: --set ~inference.protect",
            )

    @property
    def languages(self) -> TranslatorLanguages:
        """What it reads and writes."""
        return self._lines.languages

    @property
    def aligns(self) -> bool:
        """Whether words can be aligned."""
        return self._lines.aligns

    def score(self, requests: Sequence[Request], *, first_line: int = 1) -> list[Translation]:
        """Returns given translations with their scores."""
        return self._lines.score(requests, first_line=first_line)

    def search_ahead(
        self, requests: Sequence[Request], *, first_line: int = 1
    ) -> FinishTranslations:
        """Returns what makes translations of what the search has found.

        Raises:
            MtkitError: As `LineTranslator.search_ahead`.
        """
        finish = self._lines.search_ahead(requests, first_line=first_line)
        if all(self._choose_protection(request) is None for request in requests):
            return finish
        # What a translation lost is searched for again.
        translations = finish()
        lines: dict[int, _Line] = {}
        for index, request in enumerate(requests):
            line = self._check(request, first_line + index, translations[index])
            if line is not None:
                lines[index] = line
        self._choose_among_found(lines, translations)
        for turn in range(max((len(each.protect.ways) for each in lines.values()), default=0)):
            self._retry(turn, lines, translations)
        for index, line in lines.items():
            translations[index] = _describe(line, translations[index])
        return lambda: translations

    def _choose_protection(self, request: Request) -> Protect | None:
        return (request.settings or self.settings).protect

    def _check(self, request: Request, number: int, found: Translation) -> _Line | None:
        """Returns a line's pieces, and what its translation lost; None where none are protected."""
        settings = request.settings or self.settings
        if settings.protect is None:
            return None
        text = request.text.rstrip("\r\n")
        tags, rest = self._tokenizer.split_tags(text)
        line = _Line(
            replace(request, text=text, line=number if request.line is None else request.line),
            settings.model_copy(update={"protect": None}),
            settings.protect,
            len(tags),
            open_finder(settings.protect).find(rest),
            [],
        )
        line.lost = line.find_lost(found.text)
        return line

    def _choose_among_found(self, lines: dict[int, _Line], translations: list[Translation]) -> None:
        """Takes the first candidate that keeps all, of those that are there already."""
        for index, line in lines.items():
            found = translations[index]
            if not line.lost:
                protection = Protection(_list_pieces(line), "plain")
                translations[index] = replace(found, protection=protection)
            elif (chosen := line.choose(found.candidates[1:])) is not None:
                translations[index] = _take(line, found, chosen, found, "n_best")

    def _retry(self, turn: int, lines: dict[int, _Line], translations: list[Translation]) -> None:
        """Translates lines that still lack pieces in their next way.

        Args:
            turn: Which of their ways it is.
            lines: The lines whose pieces are checked, by index.
            translations: The best so far; what keeps all replaces it.
        """
        attempts: dict[int, _Attempt] = {}
        for index, line in lines.items():
            if line.lost and turn < len(line.protect.ways):
                attempt = self._plan(line, line.protect.ways[turn])
                if attempt is not None:
                    attempts[index] = attempt
        if not attempts:
            return
        again = [attempt.request for attempt in attempts.values()]
        found = self._lines.search_ahead(again)()
        for (index, attempt), translation in zip(attempts.items(), found, strict=True):
            line = lines[index]
            chosen = line.choose(attempt.list_candidates(translation))
            if chosen is not None:
                before = translations[index]
                translations[index] = _take(line, before, chosen, translation, attempt.way)

    def _plan(self, line: _Line, way: ProtectionWay) -> _Attempt | None:
        """Returns how a line is translated in a way; None where that can't be."""
        request = replace(line.request, settings=line.widen())
        match way:
            case "masked":
                masked = self._mask(line)
                if masked is None:
                    return None
                return _Attempt(way, replace(request, text=masked.text), masked)
            case "constrained":
                required = self._require(line)
                return _Attempt(way, replace(request, required=required)) if required else None
            case "n_best":
                return _Attempt(way, request) if line.widen().n_best > 1 else None

    def _mask(self, line: _Line) -> MaskedText | None:
        """Returns a line with symbols in place of pieces; None where there are none for it."""
        text = line.request.text
        symbols = [each for each in self._tokenizer.masks if each not in text]
        # What a translation begins with could hold the pieces already.
        if not symbols or line.request.prefix:
            return None
        pieces = _choose_pieces(line)[: len(symbols)]
        pieces = sorted(pieces, key=lambda piece: piece.span)
        return mask(text, pieces, symbols) if pieces else None

    def _require(self, line: _Line) -> tuple[RequiredPhrase, ...]:
        """Returns what an output must contain so that it keeps what was lost.

        Nothing where it can't be made to: by this engine, by sampling, with this vocabulary.
        """
        if not self._lines.constrains or line.settings.sampling is not None:
            return ()
        required: list[RequiredPhrase] = []
        room = _MAX_TOKENS
        for piece in _choose_pieces(line):
            phrase = spell(self._tokenizer, line.request.text, piece.span)
            if phrase is not None and len(phrase.tokens) <= room:
                required.append(phrase)
                room -= len(phrase.tokens)
            elif piece.text in line.lost:
                return ()
        return tuple(required)


def _choose_pieces(line: _Line) -> list[ProtectedPiece]:
    """Returns the pieces to insist on, where they stand in the line: lost ones first, then others.

    Other numbers aren't among them: the words around them depend on how many there are, and the
    translation may write them in another form.
    """
    lost = [piece for piece in line.found.pieces if piece.text in line.lost]
    others = [
        piece
        for piece in line.found.pieces
        if piece.text not in line.lost and piece.kind != "number"
    ]
    return [
        replace(each, span=(each.span[0] + line.start, each.span[1] + line.start))
        for each in (*lost, *others)
    ]


def _take(
    line: _Line,
    before: Translation,
    chosen: Hypothesis,
    found: Translation,
    way: ProtectionWay,
) -> Translation:
    """Returns a translation with another best candidate, which keeps all pieces of its line."""
    assert line.request.line is not None
    line.lost = []
    others = [each for each in before.candidates if each.text != chosen.text]
    warnings = [each for each in found.warnings if each.kind != CUT]
    warnings += [cut_warning(line.request.line)] if chosen.reached_limit else []
    return Translation(
        (chosen, *others)[: line.settings.n_best],
        was_split=found.was_split,
        warnings=tuple(warnings),
        protection=Protection(_list_pieces(line), way),
    )


def _list_pieces(line: _Line) -> tuple[tuple[str, str], ...]:
    return tuple((piece.kind, piece.text) for piece in line.found.pieces)


def _describe(line: _Line, translation: Translation) -> Translation:
    """Returns a translation with what it lost, and warnings."""
    number = line.request.line
    assert number is not None
    warnings = list(translation.warnings)
    for pattern in line.found.slow_patterns:
        warnings.append(
            LineWarning(
                "a pattern took too long",
                f"input line {number}: {shorten(pattern, _SHOWN_CHARACTERS)} of "
                "inference.protect.patterns took too long: what it matches isn't protected",
                number,
            )
        )
    protection = translation.protection
    if line.lost:
        protection = Protection(_list_pieces(line), None, tuple(line.lost))
        shown = ", ".join(shorten(each, _SHOWN_CHARACTERS) for each in line.lost[:_SHOWN])
        more = f" and {len(line.lost) - _SHOWN} more" if len(line.lost) > _SHOWN else ""
        warnings.append(
            LineWarning(
                "protected text was lost",
                f"input line {number}: the translation hasn't {shown}{more} as often as the line, "
                "and no other was found (inference.protect)",
                number,
            )
        )
    return replace(translation, warnings=tuple(warnings), protection=protection)
