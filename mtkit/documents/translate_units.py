"""A document's units translated, and the document put together again."""

import bisect
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, islice

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

_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_CHECKS = 100
"""Times that a document is read to find the units that break its markup."""


class _Cut:
    """Characters of a document with edits made in them; edits never overlap."""

    def __init__(self, text: str, edits: Sequence[Edit]) -> None:
        self._text = text
        # Those at one position stay in their order.
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


def translate_document(
    document: Document, translate: TextTranslator, read_skeleton: ReadSkeleton | None = None
) -> tuple[str, list[Unit]]:
    """Returns a document's text with its units translated, and the units that stay as they were.

    Units in tags of other units, such as an image's description, come first: their translation is
    part of the other's tag.

    Args:
        document: It.
        translate: What translates its texts.
        read_skeleton: Reads the markup of its format. A unit stays as it was where its translation
            would change that.

    Raises:
        MtkitError: As the translator raises it; the document can't be read again.
    """
    writer = _Writer(document)
    windows: Iterable[FinishTexts]
    if isinstance(translate, LinkingTranslator):
        windows = translate.translate(writer.texts, writer.needs_links)
    else:
        translated = translate(writer.texts)
        windows = [lambda: translated]
    _write_windows(windows, writer.write)
    edits = writer.list_edits()
    if read_skeleton is None:
        return _Cut(document.text, edits)(0, len(document.text)), writer.kept
    text, kept = write_checked(document.text, edits, read_skeleton)
    return text, [*writer.kept, *kept]


def write_checked(
    text: str, edits: Sequence[Edit], read_skeleton: ReadSkeleton
) -> tuple[str, list[Unit]]:
    """Returns a document with edits, less those of units that change its markup, and these units.

    Raises:
        MtkitError: It can't be read without these, either.
    """
    try:
        wanted = read_skeleton(text)
    except UnreadableError:
        # Not a document to another parser: nothing can be said of its translation.
        return _Cut(text, edits)(0, len(text)), []
    fixed = [edit for edit in edits if edit.unit is None]
    groups: list[list[Edit]] = []
    for edit in edits:
        if edit.unit is not None and edit.unit.follows and groups:
            groups[-1].append(edit)
        elif edit.unit is not None:
            groups.append([edit])
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

    whole = write(groups)
    if is_right(whole):
        return whole, []
    # Halves of what is wrong are tried until single units are left.
    wrong: set[int] = set()
    pending = [(0, len(groups))]
    while pending:
        first, last = pending.pop()
        middle = (first + last) // 2
        if last - first <= 1 or num_checks >= _MAX_CHECKS:
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
        raise MtkitError(
            "its translation can't be read as a document of its format", "nothing is written"
        )
    units = [edit.unit for index in sorted(wrong) for edit in groups[index]]
    return written, [unit for unit in units if unit is not None]


def _write_windows(windows: Iterable[FinishTexts], write: Callable[[FinishTexts], None]) -> None:
    """Writes what is found for each window while the next is searched for."""
    following = iter(windows)
    # Before there is another thread: the first search may fork.
    first = list(islice(following, 1))
    with ThreadPoolExecutor(1, "documents") as thread:
        try:
            before: Future[object] = thread.submit(bool)
        except RuntimeError:
            # The system has no thread left.
            for finish in chain(first, following):
                write(finish)
            return
        for finish in chain(first, following):
            # Before a fault in it, no other is searched for in vain.
            before.result()
            before = thread.submit(write, finish)
        before.result()


class _Writer:
    """Writes a document's units one after the other.

    Args:
        document: The document.

    Attributes:
        texts: What is to be translated, in the order in which it is written.
        needs_links: Of each text whether it has tags, which need links.
        kept: Units that stay as they were, since their translations can't be written.
    """

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
        self._begin_level()

    def _begin_level(self) -> None:
        """Begins with units all of whose inner ones are written."""
        self._left = deque(self._levels.popleft() if self._levels else ())
        self._made: list[Edit] = []
        self._cut = _Cut(self._document.text, self._edits)

    def write(self, finish: FinishTexts) -> None:
        """Writes the next units, given what makes their translations."""
        for translated in finish():
            unit = self._left.popleft()
            plain = read_plain_text(unit, self._cut) if self._edits else self._plain[id(unit)]
            start, end = unit.output or (unit.start, unit.end)
            is_in_place = (start, end) == (unit.start, unit.end) and not unit.follows
            is_in_place = is_in_place and start <= unit.nodes[0].start < end
            text = self._cut(start, end)
            if not is_in_place or translated.text != plain.text.strip(SPACE):
                try:
                    text = unit.before + render_unit(unit, plain, _repair(translated)) + unit.after
                except UnwritableError:
                    self.kept.append(unit)
            self._made.append(Edit(start, end, text, unit))
            if not self._left:
                self._edits = _replace_inner(self._edits, self._made)
                self._begin_level()

    def list_edits(self) -> list[Edit]:
        """Returns what is replaced in the document now that all of its units are written."""
        assert not self._left, "each text has a translation"
        return self._edits


def _repair(translated: TranslatedText) -> TranslatedText:
    """Returns a translation without halves of pairs of surrogates, which no encoding writes."""
    if translated.text.isascii() or not _SURROGATE.search(translated.text):
        return translated
    return replace(translated, text=_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", translated.text))


def _sort_into_levels(units: Sequence[Unit]) -> list[list[Unit]]:
    """Returns units by how many others they hold inside each other, the innermost first."""
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
    """Returns edits with new ones, less those that lie in a new one and are part of it."""
    spans = sorted((edit.start, edit.end) for edit in made)
    starts = [start for start, _ in spans]
    kept = []
    for edit in edits:
        index = bisect.bisect_right(starts, edit.start) - 1
        if index < 0 or edit.end > spans[index][1]:
            kept.append(edit)
    return [*kept, *made]
