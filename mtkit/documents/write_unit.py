"""Writes a unit's translation with its placed tags as tokens of the document."""

import bisect
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from mtkit.documents.atoms import SPACE, UNSPACED, find_punctuation_kinds
from mtkit.documents.document import Escapes, Span, Token, Unit
from mtkit.documents.plain_text import Event, PlainText

_ATOMS = re.compile(r"\s+|\w+|[^\w\s]")
_SELDOM_FIRST = ("end", "pause", "close", "quote")
"""Signs that don't begin a line, unless there is space before them."""
_SELDOM_LAST = ("open", "quote")
"""Signs that don't end a line, unless there is space after them."""
Position = tuple[int, int]
"""Index of a target atom and an offset in it: (3, 0) is the gap before the fourth atom."""


class Speller:
    """Writes a unit's translation, piece by piece.

    The k-th occurrence of a character is spelled as the source's k-th, and later ones as the
    source's last: `&eacute;` stays `&eacute;`.
    """

    def __init__(self, escapes: Escapes, spellings: Mapping[str, Sequence[str]]) -> None:
        self._escapes = escapes
        self._spellings = {
            text: raws
            for text, raws in spellings.items()
            if len(text) == 1 and set(raws) != {escapes.escape(text)}
        }
        self._used = dict.fromkeys(self._spellings, 0)

    def write(self, text: str) -> str:
        """Returns a text as the document writes it."""
        if not text:
            return ""
        escape, read = self._escapes.escape, self._escapes.read
        # Signs are often escaped only because of their neighbours.
        atoms = _ATOMS.findall(text)
        if self._spellings and not self._spellings.keys().isdisjoint(text):
            written = "".join(map(self._spell, text))
            # Some spellings are only right in some places: `&` before a space.
            if read is None or read(written) == text:
                return written
            if len(atoms) > 1:
                self._take_back(text)
        elif escape(text) == text:
            return text
        if len(atoms) > 1:
            written = "".join(map(self.write, atoms))
            if read is None or read(written) == text:
                return written
        return escape(text)

    def _take_back(self, text: str) -> None:
        """Undoes the count of a text's spellings."""
        for character in text:
            if character in self._used:
                self._used[character] -= 1

    def _spell(self, character: str) -> str:
        raws = self._spellings.get(character)
        if raws is None:
            return self._escapes.escape(character)
        index = self._used[character]
        self._used[character] = index + 1
        return raws[min(index, len(raws) - 1)]


def spread_breaks(
    breaks: Sequence[tuple[float, str]],
    target: str,
    atoms: Sequence[Span],
    taken: Collection[int],
    *,
    without_space: bool,
) -> dict[int, str]:
    """Returns the gaps of a translation that get breaks; a gap has the index of the next atom.

    Each break, in source order, goes to the nearest gap by the share of the text before it, except
    `taken` ones. Breaks without a free gap are dropped. With `without_space`, lines may also break
    between characters of scripts without spaces, such as Chinese, and anywhere if there is no other
    place.
    """
    if not breaks:
        return {}
    gaps = [gap for gap in range(1, len(atoms)) if gap not in taken]
    is_spaced = {gap: " " in target[atoms[gap - 1][1] : atoms[gap][0]] for gap in gaps}
    if not without_space:
        gaps = [gap for gap in gaps if is_spaced[gap]]
    else:
        kinds = find_punctuation_kinds(target, atoms)
        is_unspaced = [UNSPACED.match(target, start) is not None for start, _ in atoms]
        good = [
            gap
            for gap in gaps
            if is_spaced[gap]
            or (
                (is_unspaced[gap - 1] or is_unspaced[gap])
                and kinds[gap] not in _SELDOM_FIRST
                and kinds[gap - 1] not in _SELDOM_LAST
            )
        ]
        gaps = good if len(good) >= len(breaks) else gaps
    shares = [atoms[gap - 1][1] / atoms[-1][1] for gap in gaps]
    found: dict[int, str] = {}
    first = 0
    for share, raw in breaks:
        if first >= len(gaps):
            break
        nearest = bisect.bisect_left(shares, share, lo=first)
        if nearest == len(gaps) or (
            nearest > first and share - shares[nearest - 1] < shares[nearest] - share
        ):
            nearest -= 1
        found[gaps[nearest]] = raw
        first = nearest + 1
    return found


class PositionedTag(NamedTuple):
    """A tag and its position in the translation."""

    position: Position
    event: Event


class UnitWriter:
    """Writes a translation once."""

    def __init__(self, unit: Unit, plain: PlainText, target: str, atoms: Sequence[Span]) -> None:
        self._unit, self._plain = unit, plain
        self._source, self._target, self._atoms = plain.text, target, atoms
        self._of_gap: defaultdict[int, list[Event]] = defaultdict(list)
        """The content of each gap of the source, by the index of the next atom."""
        self._num_tags: Counter[int] = Counter()
        self._alone: set[int] = set()
        """The starts of tags without text that are followed by space."""
        before: Event | None = None
        for event in plain.events:
            gap = self._gap_of(event)
            if gap == 0 or plain.atoms[gap - 1][1] <= event.position:
                self._of_gap[gap].append(event)
                self._num_tags[gap] += event.kind != "space"
            if event.kind == "space" and before and before[:2] == (event.position, "void"):
                self._alone.update(() if before.node is None else (before.node.start,))
            before = event
        self._speller = Speller(unit.escapes, plain.spellings)

    def write(self, placed: Sequence[PositionedTag], swallowed: set[int]) -> list[Token]:
        """Returns the translation's text and tags in order.

        Protected text replaces the `swallowed` target atoms, which are omitted.
        """
        tagged: defaultdict[int, list[Event]] = defaultdict(list)
        inside: defaultdict[int, list[PositionedTag]] = defaultdict(list)
        for each in placed:
            index, offset = each.position
            if offset:
                inside[index].append(each)
            else:
                tagged[index].append(each.event)
        breaks = self._place_breaks(tagged)
        tokens: list[Token] = []
        last = len(self._atoms)
        # Gaps with more than text.
        stops = {0, last, *breaks, *tagged, *inside}
        for index in swallowed:
            stops |= {index, index + 1}
        ordered = sorted(stops)
        for index, following in zip(ordered, [*ordered[1:], last], strict=True):
            events = tagged.get(index, [])
            if not (index in swallowed and index - 1 in swallowed and not events):
                tokens += self._write_gap(index, events, breaks.get(index))
            if index == last:
                break
            start, end = self._atoms[index]
            done = start
            for (_, offset), event in inside.get(index, ()):
                if index not in swallowed:
                    tokens += self._write_text(self._target[done : start + offset])
                    done = start + offset
                tokens.append(_as_token(event))
            # Together with the atoms up to the next stop, which are plain text.
            done = end if index in swallowed else done
            tokens += self._write_text(self._target[done : self._atoms[following - 1][1]])
        return tokens

    def _place_breaks(self, tagged: Mapping[int, Sequence[Event]]) -> dict[int, str]:
        """Returns the breaks of the target's gaps, given their tags."""
        keeps = self._unit.keeps_breaks
        repeated: dict[int, int] = {}
        if keeps:
            # Gaps whose tags differ from the source's may also get a break.
            found = (
                (index, self._find_repeated(index, events)) for index, events in tagged.items()
            )
            repeated = {index: gap for index, gap in found if gap is not None}
        return spread_breaks(
            self._find_breaks(repeated.values()),
            self._target,
            self._atoms,
            repeated if keeps else tagged,
            without_space=keeps,
        )

    def _write_text(self, text: str) -> list[Token]:
        return [Token("text", self._speller.write(text))] if text else []

    def _write_gap(
        self, index: int, events: Sequence[Event], line_break: str | None
    ) -> list[Token]:
        """Returns what is between two atoms: tags, and the translation's space."""
        space = self._read_gap(index)
        if events or index in (0, len(self._atoms)):
            repeated = self._find_repeated(index, events)
            if repeated is not None:
                return self._repeat_gap(repeated)
        if line_break is not None and not events:
            return self._write_space(space, line_break)
        if space in SPACE and any(_breaks(event) for event in events):
            space = ""
        before = 0
        while before < len(events) and not self._leads(events[before]):
            before += 1
        behind, space_behind, space_between = len(events), "", ""
        inserted = [
            number
            for number, event in enumerate(events)
            if _ends_protected(event) or (self._has_only_placeholders(event) and self._leads(event))
        ]
        if inserted and before <= inserted[-1] and events[before].kind in ("open", "void"):
            # Content that replaces no word here is like one more word.
            behind = inserted[-1] + 1
            while behind < len(events) and events[behind].kind == "close":
                behind += 1
            before_it = self._source[: events[before].position][-1:]
            space_between = " " if " " in self._target else ""
            is_spaced = space_between and before_it in ("", " ")
            space_behind = " " if is_spaced and index == 0 else space
            space = " " if is_spaced and index else space
        return [
            *map(_as_token, events[:before]),
            *self._write_space(space, line_break),
            *self._write_apart(events[before:behind], space_between),
            *self._write_text(space_behind),
            *map(_as_token, events[behind:]),
        ]

    def _write_space(self, space: str, line_break: str | None) -> list[Token]:
        """Returns the text of a gap, with its space replaced by any line break."""
        if line_break is None:
            return self._write_text(space)
        before, _, behind = space.partition(" ")
        return [
            *self._write_text(before),
            Token("text", line_break),
            *self._write_text(behind.lstrip(" ")),
        ]

    def _write_apart(self, events: Sequence[Event], space: str) -> list[Token]:
        """Returns tags, with space between elements that had any in between."""
        tokens: list[Token] = []
        for number, event in enumerate(events):
            before = events[max(0, number - 1)]
            words = self._source[before.position : event.position]
            if (before.kind, event.kind) == ("close", "open") and " " in words:
                tokens += self._write_text(space)
            tokens.append(_as_token(event))
        return tokens

    def _leads(self, event: Event) -> bool:
        """Checks that the space of a gap comes before a tag, not after it."""
        # A tag without text, such as a footnote's, stays with the word that it followed.
        if event.kind != "void":
            return event.kind == "open"
        before, behind = (
            self._source[start : start + 1].strip(SPACE) if start >= 0 else ""
            for start in (event.position - 1, event.position)
        )
        return not before or bool(behind)

    def _has_only_placeholders(self, event: Event) -> bool:
        return event.kind == "void" and event.node is not None and event.node.start in self._alone

    def _find_repeated(self, index: int, events: Sequence[Event]) -> int | None:
        """Returns the source gap that has the same tags and text as a target gap."""
        # `events` is only empty for the first and last gap.
        space = self._read_gap(index)
        at_edge = 0 if index == 0 else len(self._plain.atoms)
        gap = self._gap_of(events[0]) if events else at_edge
        if self._num_tags[gap] != len(events):
            return None
        tags = [event for event in self._of_gap.get(gap, ()) if event.kind != "space"]
        start, end = self._find_source_gap(gap)
        if tags != list(events) or self._source[start:end].strip(SPACE) != space.strip(SPACE):
            return None
        edges = (index == 0, index == len(self._atoms))
        if edges != (gap == 0, gap == len(self._plain.atoms)) or (
            not any(edges) and bool(space) != (start < end)
        ):
            return None
        return gap

    def _repeat_gap(self, gap: int) -> list[Token]:
        """Returns a gap of the source as the document writes it."""
        start, end = self._find_source_gap(gap)
        tokens = []
        done = start
        for event in self._of_gap.get(gap, ()):
            position = min(max(event.position, start), end)
            tokens += self._write_text(self._source[done:position].strip(SPACE))
            done = position
            tokens.append(_as_token(event))
        return tokens + self._write_text(self._source[done:end].strip(SPACE))

    def _find_source_gap(self, gap: int) -> Span:
        """Returns the span of a source gap."""
        return _find_gap(self._plain.atoms, gap, len(self._source))

    def _read_gap(self, index: int) -> str:
        """Returns the text of a gap of the translation."""
        return self._target[slice(*_find_gap(self._atoms, index, len(self._target)))]

    def _gap_of(self, event: Event) -> int:
        return self._plain.index.find_beginning_at(event.position)

    def _find_breaks(self, repeated: Collection[int]) -> list[tuple[float, str]]:
        """Returns wide space and line breaks of the source, except those of repeated gaps."""
        # Each comes with the share of the text before it, in order.
        atoms = self._plain.atoms
        found = []
        for gap, events in self._of_gap.items():
            raws = [event.raw for event in events if event.kind == "space"]
            raw = "".join(raws)
            is_free = not self._num_tags[gap] or (
                self._unit.keeps_breaks and gap not in repeated and "\n" in raw
            )
            start, end = self._find_source_gap(gap)
            # Single spaces around a no-break space aren't wide space.
            is_wide = raw not in ("", " ") and (
                set(raws) != {" "} or not self._source[start:end].strip(SPACE)
            )
            if 0 < gap < len(atoms) and is_free and is_wide:
                found.append((atoms[gap - 1][1] / atoms[-1][1], raw))
        return found


def _find_gap(atoms: Sequence[Span], index: int, length: int) -> Span:
    """Returns the span of the gap before an atom, or of the one after the last."""
    start = atoms[index - 1][1] if index else 0
    return start, atoms[index][0] if index < len(atoms) else length


def _as_token(event: Event) -> Token:
    kind = "text" if event.kind == "space" else event.kind
    return Token(kind, event.raw, event.node)


def _ends_protected(event: Event) -> bool:
    return event.kind == "close" and event.node is not None and event.node.kind == "protected"


def _breaks(event: Event) -> bool:
    return event.node is not None and event.kind == "void" and event.node.is_break
