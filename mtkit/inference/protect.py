"""Translations that keep what they must (`inference.protect`): checked, and looked for again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from mtkit.errors import MtkitError, shorten
from mtkit.inference.line_translator import LineTranslator
from mtkit.inference.masking import MaskedText, mask
from mtkit.inference.outputs import CUT, cut_warning
from mtkit.inference.translation import (
    Hypothesis,
    LineWarning,
    Protection,
    Request,
    Translation,
)
from mtkit.recipe.inference import Inference
from mtkit.recipe.protection import Protect
from mtkit.text.languages import TranslatorLanguages
from mtkit.text.protected import PieceFinder, ProtectedPiece, ProtectedText
from mtkit.text.tokenizer import SubwordTokenizer

_SHOWN = 3
"""Lost pieces that a warning names."""
_SHOWN_CHARACTERS = 40


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

    def choose(self, candidates: Sequence[Hypothesis | None]) -> Hypothesis | None:
        """Returns the first candidate that keeps all pieces."""
        whole = (each for each in candidates if each is not None)
        return next((each for each in whole if not self.find_lost(each.text)), None)


class ProtectingTranslator:
    """Translates lines as another does, and keeps in them what their settings protect.

    A line that loses nothing is translated as without protection. Others are tried again together:
    masked where the model has symbols for it, then with a wider beam; the first candidate that
    keeps all becomes the best.

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

    def translate(self, requests: Sequence[Request], *, first_line: int = 1) -> list[Translation]:
        """Returns each line's translation.

        Raises:
            MtkitError: As `LineTranslator.translate`.
        """
        translations = self._lines.translate(requests, first_line=first_line)
        lines: dict[int, _Line] = {}
        for index, request in enumerate(requests):
            line = self._check(request, first_line + index, translations[index])
            if line is not None:
                lines[index] = line
        self._choose_among_found(lines, translations)
        if any(line.lost for line in lines.values()):
            self._retry_masked(lines, translations)
            self._retry_wider(lines, translations)
        for index, line in lines.items():
            translations[index] = _describe(line, translations[index])
        return translations

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

    def _retry_masked(self, lines: dict[int, _Line], translations: list[Translation]) -> None:
        """Translates lines that lost pieces with symbols in their place."""
        masked: dict[int, MaskedText] = {}
        for index, line in lines.items():
            symbols = [each for each in self._tokenizer.masks if each not in line.request.text]
            # What a translation begins with could hold the pieces already.
            if line.lost and symbols and not line.request.prefix:
                pieces = _choose_pieces(line, len(symbols))
                if pieces:
                    masked[index] = mask(line.request.text, pieces, symbols)
        if not masked:
            return
        found = self._lines.translate(
            [
                replace(
                    lines[index].request,
                    text=each.text,
                    settings=_widen(lines[index].settings, lines[index].protect.beam_size),
                )
                for index, each in masked.items()
            ]
        )
        for (index, each), translation in zip(masked.items(), found, strict=True):
            line = lines[index]
            restored = [each.restore(candidate) for candidate in translation.candidates]
            chosen = line.choose(restored)
            if chosen is not None:
                translations[index] = _take(
                    line, translations[index], chosen, translation, "masked"
                )

    def _retry_wider(self, lines: dict[int, _Line], translations: list[Translation]) -> None:
        """Translates lines that still lost pieces with more candidates."""
        left = {
            index: line
            for index, line in lines.items()
            if line.lost and max(line.protect.beam_size, line.settings.beam_size) > 1
        }
        if not left:
            return
        found = self._lines.translate(
            [
                replace(line.request, settings=_widen(line.settings, line.protect.beam_size))
                for line in left.values()
            ]
        )
        for (index, line), translation in zip(left.items(), found, strict=True):
            chosen = line.choose(translation.candidates)
            if chosen is not None:
                translations[index] = _take(
                    line, translations[index], chosen, translation, "n_best"
                )


def _choose_pieces(line: _Line, num_symbols: int) -> list[ProtectedPiece]:
    """Returns the pieces to mask, in the line's order: lost ones first, then others.

    Other numbers stay: the words around them depend on how many there are.
    """
    lost = [piece for piece in line.found.pieces if piece.text in line.lost]
    others = [
        piece
        for piece in line.found.pieces
        if piece.text not in line.lost and piece.kind != "number"
    ]
    chosen = sorted((lost + others)[:num_symbols], key=lambda piece: piece.span)
    return [
        replace(each, span=(each.span[0] + line.start, each.span[1] + line.start))
        for each in chosen
    ]


def _widen(settings: Inference, beam_size: int) -> Inference:
    """Returns settings that give as many candidates as a beam of at least this size has."""
    beam_size = max(beam_size, settings.beam_size)
    return settings.model_copy(update={"beam_size": beam_size, "n_best": beam_size})


def _take(
    line: _Line,
    before: Translation,
    chosen: Hypothesis,
    found: Translation,
    way: Literal["masked", "n_best"],
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
