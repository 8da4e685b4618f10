"""Pieces of a text that its translation must keep, and the check for lost ones."""

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import regex

from mtkit.recipe.protection import Protect
from mtkit.text.command_lines import find_options, find_paths, find_versions
from mtkit.text.matching_numbers import find_numbers, have_matching_numbers, locate_numbers
from mtkit.text.placeholders import find_placeholders
from mtkit.text.words import Span, blank_out

_URL = r"""(?:[a-z][a-z0-9+.-]{1,15}://|www\.)(?=\w|\[|/\w)[^\s<>"'`“”„«»，。、）（(){}|\[\]\\^]+"""
_EMAIL = r"[a-z0-9._+-]{1,64}@[a-z0-9-]+(?:\.[a-z0-9-]+)+"
_ADDRESS = re.compile(f"{_URL}|{_EMAIL}")
"""For case-folded text. It is bounded, or a long run of letters would be read from each of its
letters; 64 is the maximum length of a mailbox name (RFC 5321, section 4.5.3.1.1)."""
_ANY_CASE = re.compile(f"({_URL})|{_EMAIL}", re.IGNORECASE)
_SCHEME = re.compile(r"^(?:[a-z0-9+.-]*://)?(?:www\.)?")
PieceKind = Literal["pattern", "url", "email", "placeholder", "path", "version", "option", "number"]
_SECONDS = 0.25
"""Time limit for all patterns on a line: untrusted text or patterns could otherwise take
forever."""
_MAX_PIECES = 1_000
"""Maximum protected pieces of a line: the search time grows with their number times the line's
length."""
_LETTERS_OF_COUNTRY, _LETTERS_OF_KIND = 2, 3
_GAP = "\n"
"""Replaces pieces that are already found. A line contains no newline, and no piece spans one."""


def find_addresses(folded: str) -> list[str]:
    """Returns the addresses of a case-folded text, without scheme and `www.`."""
    # Much faster than the pattern, and most texts have none.
    if not ("://" in folded or "@" in folded or "www." in folded):
        return []
    return [_SCHEME.sub("", address).rstrip(".,;:!?/*") for address in _ADDRESS.findall(folded)]


def find_site(address: str) -> tuple[str, str]:
    """Returns the host of a web address, and the domain that its site's hosts share."""
    if "@" in address:
        return address, address
    host = re.split(r"[/?#:]", address, maxsplit=1)[0]
    labels = host.split(".")
    # A country's domain may have others for kinds of sites: co.uk, com.br.
    is_country = len(labels[-1]) == _LETTERS_OF_COUNTRY
    has_kinds = is_country and len("".join(labels[-2:-1])) <= _LETTERS_OF_KIND
    return host, ".".join(labels[-3 if has_kinds else -2 :])


def remove_addresses(folded: str) -> str:
    """Returns a case-folded text with each address replaced by a space."""
    return _ADDRESS.sub(" ", folded)


def locate_addresses(text: str) -> Iterator[tuple[Span, bool]]:
    """Yields the span of each address in a text, and whether it is a URL.

    Punctuation after it, which ends a sentence, isn't included.
    """
    if not ("://" in text or "@" in text or "www." in text.lower()):
        return
    for found in _ANY_CASE.finditer(text):
        end = found.start() + len(found.group().rstrip(".,;:!?*"))
        yield (found.start(), end), found.group(1) is not None


@dataclass(frozen=True)
class ProtectedPiece:
    """A piece of a text that must be kept."""

    kind: PieceKind
    text: str
    span: Span


@dataclass(frozen=True)
class ProtectedText:
    """A text with its pieces, in order and without overlaps.

    Attributes:
        slow_patterns: Patterns that were abandoned because they took too long.
    """

    text: str
    pieces: tuple[ProtectedPiece, ...]
    slow_patterns: tuple[str, ...] = ()


@dataclass
class _Unclaimed:
    """A text without the pieces found so far."""

    text: str
    pieces: list[ProtectedPiece] = field(default_factory=list)

    def claim(self, kind: PieceKind, spans: Iterable[Span]) -> None:
        """Takes pieces out of the text."""
        found = list(spans)
        self.pieces += [ProtectedPiece(kind, self.text[slice(*span)], span) for span in found]
        self.text = blank_out(self.text, found, _GAP)


class PieceFinder:
    """Finds pieces to protect; if two overlap, patterns take precedence, then addresses."""

    def __init__(self, settings: Protect) -> None:
        self._settings = settings
        self._patterns = [regex.compile(pattern) for pattern in settings.patterns]

    def find(self, text: str) -> ProtectedText:
        """Returns a text's pieces; none spans a newline."""
        settings = self._settings
        unclaimed = _Unclaimed(text)
        slow = self._claim_patterns(unclaimed) if self._patterns else []
        if settings.urls or settings.emails:
            found = list(locate_addresses(unclaimed.text))
            if settings.urls:
                unclaimed.claim("url", (span for span, is_url in found if is_url))
            if settings.emails:
                unclaimed.claim("email", (span for span, is_url in found if not is_url))
        if settings.placeholders:
            unclaimed.claim("placeholder", find_placeholders(unclaimed.text))
        if settings.paths:
            unclaimed.claim("path", find_paths(unclaimed.text))
        if settings.versions:
            unclaimed.claim("version", find_versions(unclaimed.text))
        if settings.options:
            unclaimed.claim("option", find_options(unclaimed.text))
        if settings.numbers:
            line, least = unclaimed.text, settings.min_number
            spans = locate_numbers(line)
            unclaimed.claim(
                "number", (span for span in spans if find_numbers(line[slice(*span)], least))
            )
        pieces = sorted(unclaimed.pieces, key=lambda piece: piece.span)
        return ProtectedText(text, tuple(pieces[:_MAX_PIECES]), tuple(slow))

    def find_lost(self, source: ProtectedText, output: str) -> list[str]:
        """Returns pieces, each once, that an output lacks, and placeholders that only it has."""
        if not source.pieces and not self._settings.placeholders:
            return []
        texts = {
            kind: Counter(piece.text for piece in source.pieces if piece.kind == kind)
            for kind in get_args(PieceKind)
        }
        rest, lost = _compare(texts["pattern"] + texts["url"] + texts["email"], source.text, output)
        if self._settings.placeholders:
            found = Counter(rest[1][start:end] for start, end in find_placeholders(rest[1]))
            lost += [
                text
                for text in found | texts["placeholder"]
                if found[text] != texts["placeholder"][text]
                # A translation may write "one dollar" as $1.
                and (text in texts["placeholder"] or not text[1:].isdigit() or text[0] != "$")
            ]
            spans = find_placeholders(rest[0]), find_placeholders(rest[1])
            rest = blank_out(rest[0], spans[0], _GAP), blank_out(rest[1], spans[1], _GAP)
        rest, others = _compare(texts["path"] + texts["version"] + texts["option"], *rest)
        lost += others
        if texts["number"]:
            lost += self._find_lost_numbers(texts["number"], *rest)
        return lost

    def _find_lost_numbers(self, pieces: Counter[str], source: str, output: str) -> Iterator[str]:
        least = self._settings.min_number
        missing = find_numbers(source, least) - find_numbers(output, least)
        if missing and not have_matching_numbers(source, output, share=1.0, min_value=least):
            yield from (text for text in pieces if find_numbers(text, least) & missing)

    def _claim_patterns(self, unclaimed: _Unclaimed) -> list[str]:
        """Takes out the patterns' matches; returns patterns that took too long."""
        slow = []
        # The package counts the process's CPU time, too.
        ends_at = time.process_time() + _SECONDS
        for pattern in self._patterns:
            try:
                spans = [
                    found.span()
                    for found in pattern.finditer(
                        unclaimed.text, timeout=max(1e-3, ends_at - time.process_time())
                    )
                ]
            except TimeoutError:
                slow.append(pattern.pattern)
                continue
            unclaimed.claim(
                "pattern",
                (
                    span
                    for span in spans
                    if _GAP not in unclaimed.text[slice(*span)] and span[0] < span[1]
                ),
            )
        return slow


def _compare(pieces: Counter[str], source: str, output: str) -> tuple[tuple[str, str], list[str]]:
    """Returns both texts without some pieces, and the pieces that one has more often."""
    rest = source, output
    lost = []
    for text, occurrences in sorted(pieces.items(), key=lambda item: -len(item[0])):
        counts = [_count_whole(text, side) for side in rest]
        if counts[0] < occurrences:
            counts = [side.count(text) for side in rest]
        if counts[0] != counts[1]:
            lost.append(text)
        rest = rest[0].replace(text, _GAP), rest[1].replace(text, _GAP)
    return rest, lost


def _count_whole(piece: str, text: str) -> int:
    """Returns how often a piece occurs in a text without adjacent ASCII letters or digits."""
    # Only ASCII's, because scripts without spaces may directly adjoin a piece.
    count = start = 0
    while (start := text.find(piece, start)) >= 0:
        end = start + len(piece)
        count += not (_is_joined(text, start) or _is_joined(text, end))
        start = end
    return count


def _is_joined(text: str, position: int) -> bool:
    around: Sequence[str] = text[max(0, position - 1) : position + 1]
    return (
        position > 0
        and len(around) == 2
        and all(each.isascii() and (each.isalnum() or each == "_") for each in around)
    )
