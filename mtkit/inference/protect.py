"""Checks that translations keep what they must (`inference.protect`), and searches again if not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from mtkit.errors import shorten
from mtkit.inference.line import Line
from mtkit.inference.request import LineWarning, RequiredPhrase
from mtkit.inference.search_parts import CUT, cut_warning
from mtkit.inference.symbol_masks import MaskedText, mask, spell
from mtkit.inference.translation import Hypothesis, KeptPiece, Protection, Translation
from mtkit.recipe.inference import Inference
from mtkit.recipe.protection import Protect, ProtectionWay
from mtkit.text.protected import PieceFinder, ProtectedPiece, ProtectedText
from mtkit.text.tokenizer import SubwordTokenizer

_SHOWN = 3
"""Lost pieces that a warning names."""
_SHOWN_CHARACTERS = 40
_MAX_TOKENS = 128
"""Maximum tokens that an output must contain: each costs the search time and memory."""


@lru_cache(maxsize=16)
def open_finder(settings: Protect) -> PieceFinder:
    """Returns the finder of protected pieces for the settings."""
    return PieceFinder(settings)


def protect_strings(settings: Inference) -> Inference:
    """Returns settings for program strings: with `protect`, unless they override it."""
    if settings.protect is not None or not settings.protect_strings:
        return settings
    return settings.model_copy(update={"protect": Protect()})


@dataclass
class _Checked:
    """A line whose pieces are checked; `lost` are missing from the best translation so far."""

    line: Line
    settings: Inference
    protect: Protect
    start: int
    found: ProtectedText
    lost: list[str]

    def find_lost(self, text: str) -> list[str]:
        return open_finder(self.protect).find_lost(self.found, text)

    def widen(self) -> Inference:
        """Returns settings with at least `beam_size` candidates."""
        beam_size = max(self.protect.beam_size, self.settings.beam_size)
        return self.settings.model_copy(update={"beam_size": beam_size, "n_best": beam_size})

    def choose(self, candidates: Sequence[Hypothesis | None]) -> Hypothesis | None:
        """Returns the first candidate that keeps all pieces."""
        whole = (each for each in candidates if each is not None)
        return next((each for each in whole if not self.find_lost(each.text)), None)


class ProtectStep:
    """Keeps what lines' settings protect in their translations.

    A translation without losses stays. All other lines are translated again together, with one
    method after the other; the first candidate that keeps everything becomes the best.
    """

    def __init__(
        self,
        tokenizer: SubwordTokenizer,
        translate: Callable[[Sequence[Line]], None],
    ) -> None:
        self._tokenizer, self._translate = tokenizer, translate

    def keep(self, lines: Sequence[Line]) -> None:
        """Replaces translations that lost protected pieces, if a better one is found."""
        checked = [
            self._check(line, line.settings.protect)
            for line in lines
            if line.settings.protect is not None
        ]
        for each in checked:
            _choose_among_found(each)
        for turn in range(max((len(each.protect.ways) for each in checked), default=0)):
            self._retry(turn, checked)
        for each in checked:
            _describe(each)

    def _check(self, line: Line, protect: Protect) -> _Checked:
        """Returns a line's pieces, with those that its translation lost."""
        tags, rest = self._tokenizer.split_tags(line.text)
        settings = line.settings.model_copy(update={"protect": None})
        found = open_finder(protect).find(rest)
        checked = _Checked(line, settings, protect, len(tags), found, [])
        assert line.translation is not None
        checked.lost = checked.find_lost(line.translation.text)
        return checked

    def _retry(self, turn: int, checked: Sequence[_Checked]) -> None:
        """Translates lines that still lack pieces with the `turn`-th of their methods."""
        attempts = [
            (each, *attempt)
            for each in checked
            if each.lost
            and turn < len(each.protect.ways)
            and (attempt := self._plan(each, each.protect.ways[turn])) is not None
        ]
        if attempts:
            self._translate([line for _, line, _ in attempts])
        for each, line, masked in attempts:
            found = line.translation
            assert found is not None
            chosen = each.choose(
                found.candidates if masked is None else list(map(masked.restore, found.candidates))
            )
            if chosen is not None:
                _take(each, chosen, found, each.protect.ways[turn])

    def _plan(self, checked: _Checked, way: ProtectionWay) -> tuple[Line, MaskedText | None] | None:
        """Returns the line to translate by one method, with any masking; None if impossible."""
        settings, before = checked.widen(), checked.line
        line = Line(before.request, before.text, before.number, settings, before.terms)
        match way:
            case "masked":
                masked = self._mask(checked)
                if masked is None:
                    return None
                line.text = masked.text
                line.request = replace(before.request, text=masked.text)
                return line, masked
            case "constrained":
                required = self._require(checked)
                line.request = replace(before.request, required=required)
                return (line, None) if required else None
            case "n_best":
                return (line, None) if settings.n_best > 1 else None

    def _mask(self, checked: _Checked) -> MaskedText | None:
        """Returns a line with symbols instead of pieces; None if there are none."""
        text = checked.line.text
        symbols = [each for each in self._tokenizer.masks if each not in text]
        # The prefix could already contain the pieces.
        if not symbols or checked.line.request.prefix:
            return None
        pieces = _choose_pieces(checked)[: len(symbols)]
        pieces = sorted(pieces, key=lambda piece: piece.span)
        return mask(text, pieces, symbols) if pieces else None

    def _require(self, checked: _Checked) -> tuple[RequiredPhrase, ...]:
        """Returns what an output must contain to keep the lost pieces; empty if impossible."""
        if checked.settings.sampling is not None:
            return ()
        required: list[RequiredPhrase] = []
        room = _MAX_TOKENS
        for piece in _choose_pieces(checked):
            phrase = spell(self._tokenizer, checked.line.text, piece.span)
            if phrase is not None and len(phrase.tokens) <= room:
                required.append(phrase)
                room -= len(phrase.tokens)
            elif piece.text in checked.lost:
                return ()
        return tuple(required)


def _choose_pieces(checked: _Checked) -> list[ProtectedPiece]:
    """Returns the pieces to require, lost ones first, with their spans in the line."""
    # Numbers that weren't lost are excluded: the words around them depend on their value, and the
    # translation may write them in another form.
    lost = [piece for piece in checked.found.pieces if piece.text in checked.lost]
    others = [
        piece
        for piece in checked.found.pieces
        if piece.text not in checked.lost and piece.kind != "number"
    ]
    return [
        replace(each, span=(each.span[0] + checked.start, each.span[1] + checked.start))
        for each in (*lost, *others)
    ]


def _choose_among_found(checked: _Checked) -> None:
    """Takes the first existing candidate that keeps everything."""
    found = checked.line.translation
    assert found is not None
    if not checked.lost:
        protection = Protection(_list_pieces(checked), "plain")
        checked.line.translation = replace(found, protection=protection)
    elif (chosen := checked.choose(found.candidates[1:])) is not None:
        _take(checked, chosen, found, "n_best")


def _take(checked: _Checked, chosen: Hypothesis, found: Translation, way: ProtectionWay) -> None:
    """Makes a candidate that keeps all pieces the best one of its line."""
    line = checked.line
    assert line.translation is not None
    checked.lost = []
    others = [each for each in line.translation.candidates if each.text != chosen.text]
    warnings = [each for each in found.warnings if each.kind != CUT]
    warnings += [cut_warning(line.number)] if chosen.reached_limit else []
    line.translation = Translation(
        (chosen, *others)[: checked.settings.n_best],
        was_split=found.was_split,
        warnings=tuple(warnings),
        protection=Protection(_list_pieces(checked), way),
    )


def _list_pieces(checked: _Checked) -> tuple[KeptPiece, ...]:
    return tuple(KeptPiece(piece.kind, piece.text) for piece in checked.found.pieces)


def _describe(checked: _Checked) -> None:
    """Adds lost pieces and warnings to a line's translation."""
    line = checked.line
    assert line.translation is not None
    warnings = list(line.translation.warnings)
    for pattern in checked.found.slow_patterns:
        warnings.append(
            LineWarning(
                "a pattern took too long",
                f"{shorten(pattern, _SHOWN_CHARACTERS)} of "
                "inference.protect.patterns took too long: what it matches isn't protected",
                line.number,
            )
        )
    protection = line.translation.protection
    if checked.lost:
        protection = Protection(_list_pieces(checked), None, tuple(checked.lost))
        shown = ", ".join(shorten(each, _SHOWN_CHARACTERS) for each in checked.lost[:_SHOWN])
        num_more = len(checked.lost) - _SHOWN
        more = f" and {num_more} more" if num_more > 0 else ""
        warnings.append(
            LineWarning(
                "protected text was lost",
                f"the translation doesn't contain {shown}{more} as often as "
                "the line, and no other translation was found (inference.protect)",
                line.number,
            )
        )
    line.translation = replace(line.translation, warnings=tuple(warnings), protection=protection)
