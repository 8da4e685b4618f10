"""A document's units translated, and the document put together again."""

import bisect
from collections.abc import Sequence

from mtkit.documents.atoms import SPACE
from mtkit.documents.document import Document, Edit, LinkingTranslator, TextTranslator, Unit
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
    levels = _sort_into_levels(document.units)
    plain = {
        id(unit): read_plain_text(unit, lambda start, end: document.text[start:end])
        for unit in document.units
    }
    texts = [plain[id(unit)].text.strip(SPACE) for unit in document.units]
    if isinstance(translate, LinkingTranslator):
        needs_links = [any(node.kind != "text" for node in unit.nodes) for unit in document.units]
        translated = translate.translate(texts, needs_links)
    else:
        translated = translate(texts)
    answers = dict(zip(map(id, document.units), translated, strict=True))
    edits = list(document.edits)
    for level in levels:
        cut = _Cut(document.text, edits)
        made = []
        for unit in level:
            source = read_plain_text(unit, cut) if edits else plain[id(unit)]
            start, end = unit.output or (unit.start, unit.end)
            text = unit.before + render_unit(unit, source, answers[id(unit)]) + unit.after
            made.append(Edit(start, end, text))
        edits = _replace_inner(edits, made)
    return _Cut(document.text, edits)(0, len(document.text))


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
