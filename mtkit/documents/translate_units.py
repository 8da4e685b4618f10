"""Translates a document's units, and puts the document together again."""

import bisect
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, islice
from typing import NamedTuple

from mtkit.documents.atoms import SPACE
from mtkit.documents.document import (
    Document,
    Edit,
    FinishTexts,
    LinkingTranslator,
    TextTranslator,
    TranslatedText,
    Unit,
    UnwritableError,
)
from mtkit.documents.html_skeletons import ReadSkeleton, UnreadableError
from mtkit.documents.plain_text import read_plain_text
from mtkit.documents.render import render_unit
from mtkit.errors import MtkitError
from mtkit.inference.paragraphs import find_lowest
from mtkit.inference.request import LineWarning
from mtkit.text.words import replace_surrogates

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""What XML can't contain, besides surrogates."""
EMPTY = "empty"
"""The fault of a translation without any text."""
WITH_OTHERS = "with others"
"""The fault of a text that stays because another of its group does."""
_MIN_CHECKS, _MAX_CHECKED = 100, 1 << 26
"""Reads of a document to find the units that break its markup: at most so many, or so many
characters if that is more."""


class _Cut:
    """Returns characters of a document after edits, which never overlap."""

    def __init__(self, text: str, edits: Sequence[Edit]) -> None:
        self._text = text
        # Edits at the same position keep their order.
        self._edits = sorted(edits, key=lambda edit: edit[:2])
        self._starts = [edit.start for edit in self._edits]

    def __call__(self, start: int, end: int) -> str:
        first = bisect.bisect_left(self._starts, start)
        last = bisect.bisect_left(self._starts, end, lo=first)
        if end == len(self._text):
            last = len(self._edits)
        pieces = []
        for edit in self._edits[first:last]:
            pieces += [self._text[start : edit.start], edit.text]
            start = edit.end
        return "".join([*pieces, self._text[start:end]])


class WrittenDocument(NamedTuple):
    """A translated document.

    Attributes:
        kept: Units that stay untranslated.
        faults: Why, by their ids, if not because of the markup; `EMPTY` for lost texts,
            `WITH_OTHERS` for those that stay because another of the same group does.
        warnings: Warnings about units' translations.
    """

    text: str
    kept: list[Unit]
    faults: dict[int, str]
    warnings: list[tuple[Unit, LineWarning]]


def translate_document(
    document: Document, translate: TextTranslator, read_skeleton: ReadSkeleton | None = None
) -> WrittenDocument:
    """Returns a document with translated units.

    Units in tags of other units, such as an image's description, come first: their translation is
    part of the other's tag. A unit stays untranslated if its translation would change the skeleton.

    Raises:
        MtkitError: From the translator, or the document can't be read again.
    """
    writer = _Writer(document)
    windows: Iterable[FinishTexts]
    if isinstance(translate, LinkingTranslator):
        windows = translate.translate(
            writer.texts,
            writer.needs_links,
            are_program_strings=document.are_program_strings,
        )
    else:
        translated = translate(writer.texts)
        windows = [lambda: translated]
    _write_windows(windows, writer.write)
    edits = writer.list_edits()
    kept: list[Unit] = []
    if read_skeleton is None:
        text = _Cut(document.text, edits)(0, len(document.text))
    else:
        text, kept = write_checked(document.text, edits, read_skeleton)
    return WrittenDocument(text, [*writer.kept, *kept], writer.faults, writer.warnings)


def write_checked(
    text: str, edits: Sequence[Edit], read_skeleton: ReadSkeleton
) -> tuple[str, list[Unit]]:
    """Returns an edited document without the units that change its markup, and these units.

    Raises:
        MtkitError: It can't be read even without these.
    """
    fixed = [edit for edit in edits if edit.unit is None]
    try:
        wanted = read_skeleton(text)
    except UnreadableError:
        # Another parser can't read the original, so the translation can't be checked.
        return _Cut(text, edits)(0, len(text)), []
    groups = _group(edits)
    num_checks = 0

    def write(some: Iterable[Sequence[Edit]]) -> str:
        return _Cut(text, [*fixed, *chain.from_iterable(some)])(0, len(text))

    def is_right(written: str) -> bool:
        nonlocal num_checks
        num_checks += 1
        try:
            return read_skeleton(written) == wanted
        except UnreadableError:
            return False

    unreadable = MtkitError(
        "its translation can't be read as a document of its format", "nothing is written"
    )
    if fixed:
        # A key may be the code of the other language.
        try:
            wanted = read_skeleton(write(()))
        except UnreadableError as error:
            raise unreadable from error
    whole = write(groups)
    if is_right(whole):
        return whole, []
    # Bisects wrong units until single ones are left.
    wrong: set[int] = set()
    pending = deque([(0, len(groups))])
    max_checks = max(_MIN_CHECKS, _MAX_CHECKED // max(1, len(text)))
    while pending:
        # All parts are halved before any is again: what is left at the limit is small.
        first, last = pending.popleft()
        middle = (first + last) // 2
        if last - first <= 1 or num_checks >= max_checks:
            wrong.update(range(first, last))
            continue
        halves = [(first, middle), (middle, last)]
        found = [half for half in halves if not is_right(write(groups[slice(*half)]))]
        if found:
            pending += found
        else:
            # They are wrong only together.
            wrong.update(range(first, last))
    kept = [group for index, group in enumerate(groups) if index not in wrong]
    written = write(kept)
    if not is_right(written):
        raise unreadable
    units = {id(edit.unit): edit.unit for index in sorted(wrong) for edit in groups[index]}
    return written, [unit for unit in units.values() if unit is not None]


def _group(edits: Iterable[Edit]) -> list[list[Edit]]:
    """Returns the edits of units, those of one string together."""
    groups: list[list[Edit]] = []
    for edit in edits:
        if groups and edit.unit is not None and _continues(edit.unit, groups[-1][-1].unit):
            groups[-1].append(edit)
        elif edit.unit is not None:
            groups.append([edit])
    return groups


def _continues(unit: Unit, before: Unit | None) -> bool:
    return unit.follows or unit is before


def _write_windows(windows: Iterable[FinishTexts], write: Callable[[FinishTexts], None]) -> None:
    """Writes each window's result while the next one is searched."""
    following = iter(windows)
    # Before starting another thread: the first search may fork.
    first = list(islice(following, 1))
    with ThreadPoolExecutor(1, "documents") as thread:
        try:
            before: Future[object] = thread.submit(bool)
        except RuntimeError:
            # The system's thread limit is reached.
            for finish in chain(first, following):
                write(finish)
            return
        for finish in chain(first, following):
            # An error in it stops the loop before another search.
            before.result()
            before = thread.submit(write, finish)
        before.result()


class _Writer:
    """Writes a document's units one after the other."""

    # `texts` are in the order in which they are written. `needs_links` is true for texts with tags.
    # `kept` are units whose translations can't be written, or those of a unit of the same string,
    # and `faults` why, by a unit's id.

    def __init__(self, document: Document) -> None:
        self._document = document
        self._levels = deque(_sort_into_levels(document.units))
        units = [unit for level in self._levels for unit in level]
        self._plain = {
            id(unit): read_plain_text(unit, lambda start, end: document.text[start:end])
            for unit in units
        }
        self.texts = [self._plain[id(unit)].text.strip(SPACE) for unit in units]
        self.needs_links = [any(node.kind != "text" for node in unit.nodes) for unit in units]
        self._edits = list(document.edits)
        self.kept: list[Unit] = []
        self.faults: dict[int, str] = {}
        self.warnings: list[tuple[Unit, LineWarning]] = []
        self._released: dict[int, bool | None] = {}
        self._begin_level()

    def _begin_level(self) -> None:
        """Begins the next level, whose inner units are all written."""
        self._left = deque(self._levels.popleft() if self._levels else ())
        self._made: list[Edit] = []
        self._cut = _Cut(self._document.text, self._edits)

    def write(self, finish: FinishTexts) -> None:
        """Writes the next units, given a function that makes their translations."""
        for translated in finish():
            unit = self._left.popleft()
            plain = read_plain_text(unit, self._cut) if self._edits else self._plain[id(unit)]
            start, end = unit.output or (unit.start, unit.end)
            is_in_place = (start, end) == (unit.start, unit.end) and not unit.follows
            is_in_place = is_in_place and start <= unit.nodes[0].start < end
            text = self._cut(start, end)
            if not is_in_place or translated.text != plain.text.strip(SPACE):
                try:
                    written = render_unit(unit, plain, _require_text(plain.text, translated))
                    text = unit.before + written + unit.after
                except UnwritableError as error:
                    self.kept.append(unit)
                    if fault := str(error):
                        self.faults[id(unit)] = fault
            self.warnings += [(unit, warning) for warning in translated.warnings]
            self._released[id(unit)] = translated.released
            self._made.append(Edit(start, end, text, unit))
            if not self._left:
                self._edits = _replace_inner(self._edits, self._made)
                self._begin_level()

    def list_edits(self) -> list[Edit]:
        """Returns the edits of the document once all units are written."""
        assert not self._left, "each text has a translation"
        kept = set(map(id, self.kept))
        edits = self._mark(kept)
        if not kept:
            return edits
        groups = _group(edits)
        broken = [group for group in groups if any(id(edit.unit) in kept for edit in group)]
        dropped = {id(edit.unit) for group in broken for edit in group if len(group) > 1}
        others = [
            edit.unit
            for group in broken
            for edit in group
            if edit.unit is not None and id(edit.unit) not in kept
        ]
        self.kept += others
        self.faults |= dict.fromkeys(map(id, others), WITH_OTHERS)
        return [edit for edit in edits if edit.unit is None or id(edit.unit) not in dropped]

    def _mark(self, kept: Collection[int]) -> list[Edit]:
        """Returns the edits, with those that mark strings by whether they are released."""
        if all(unit.mark is None for unit in self._document.units):
            return self._edits
        marked = [edit for edit in self._edits if edit.unit is None]
        told: set[tuple[object, ...]] = set()
        for group in _group(self._edits):
            released = find_lowest([self._released.get(id(edit.unit)) for edit in group])
            is_whole = not any(id(edit.unit) in kept for edit in group)
            for edit in group:
                mark = edit.unit.mark if edit.unit is not None and is_whole else None
                found = [edit] if mark is None else mark(edit, released)
                # Segments of one target share its state.
                marked += [each for each in found if each[:2] == edit[:2] or each[:3] not in told]
                told.update(each[:3] for each in found)
        return marked


def _require_text(source: str, translated: TranslatedText) -> TranslatedText:
    """Returns a translation without lone surrogates and new control characters.

    No encoding can write the former, and XML can't contain the latter.

    Raises:
        UnwritableError: Nothing is left of a source with letters.
    """
    if not translated.text.strip() and any(map(str.isalpha, source)):
        raise UnwritableError(EMPTY)
    written = _FORBIDDEN.sub(
        lambda found: found[0] if found[0] in source else "\N{REPLACEMENT CHARACTER}",
        replace_surrogates(translated.text),
    )
    return translated if written == translated.text else replace(translated, text=written)


def _sort_into_levels(units: Sequence[Unit]) -> list[list[Unit]]:
    """Returns units grouped by their nesting height, the innermost first."""
    levels: list[list[Unit]] = []
    stack: list[tuple[Unit, int]] = []

    def close(before: int | None) -> None:
        while stack and (before is None or stack[-1][0].end <= before):
            unit, height = stack.pop()
            while len(levels) <= height:
                levels.append([])
            levels[height].append(unit)
            if stack:
                parent, above = stack[-1]
                stack[-1] = (parent, max(above, height + 1))

    for unit in sorted(units, key=lambda each: (each.start, -each.end)):
        close(unit.start)
        stack.append((unit, 0))
    close(None)
    return levels


def _replace_inner(edits: Sequence[Edit], made: Sequence[Edit]) -> list[Edit]:
    """Returns edits with new ones, without those that the new ones contain."""
    spans = sorted((edit.start, edit.end) for edit in made)
    starts = [start for start, _ in spans]
    kept = []
    for edit in edits:
        index = bisect.bisect_right(starts, edit.start) - 1
        if index < 0 or edit.end > spans[index][1]:
            kept.append(edit)
    return [*kept, *made]
