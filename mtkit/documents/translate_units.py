"""A document's units translated, and the document put together again."""

import bisect
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice

from mtkit.documents.atoms import SPACE
from mtkit.documents.document import (
    Document,
    Edit,
    FinishTexts,
    LinkingTranslator,
    TextTranslator,
    Unit,
)
from mtkit.documents.plain_text import read_plain_text
from mtkit.documents.render import render_unit


class _Cut:
    """Characters of a document with edits made in them; edits never overlap."""

    def __init__(self, text: str, edits: Sequence[Edit]) -> None:
        self._text = text
        self._edits = sorted(edits)
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


def translate_document(document: Document, translate: TextTranslator) -> str:
    """Returns a document's text with all of its units translated.

    Units in tags of other units, such as an image's description, come first: their translation is
    part of the other's tag.

    Raises:
        MtkitError: As the translator raises it.
    """
    writer = _Writer(document)
    windows: Iterable[FinishTexts]
    if isinstance(translate, LinkingTranslator):
        windows = translate.translate(writer.texts, writer.needs_links)
    else:
        translated = translate(writer.texts)
        windows = [lambda: translated]
    _write_windows(windows, writer.write)
    return writer.join()


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
            text = unit.before + render_unit(unit, plain, translated) + unit.after
            self._made.append(Edit(start, end, text))
            if not self._left:
                self._edits = _replace_inner(self._edits, self._made)
                self._begin_level()

    def join(self) -> str:
        """Returns the document with all of its units written."""
        assert not self._left, "each text has a translation"
        return _Cut(self._document.text, self._edits)(0, len(self._document.text))


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
