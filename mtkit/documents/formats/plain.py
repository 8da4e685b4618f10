"""Plain text: a line is a paragraph, unless the next one continues its sentence."""

import re

from mtkit.documents.document import PLAIN, Document, Languages, as_written
from mtkit.documents.units import Part, make_units

_LINE_END = re.compile(r"\r?\n")
_MIN_WRAPPED = 50
"""Characters of a line that may have been broken because it was full."""


def read_plain(text: str, _: Languages) -> Document:
    """Returns a text with its paragraphs."""
    document = Document(text)
    parts = []
    start = 0
    for found in [*_LINE_END.finditer(text), None]:
        end = len(text) if found is None else found.start()
        parts.append(Part("text", start, end, spelled=as_written(text[start:end])))
        if found is not None:
            start = found.end()
            following = _LINE_END.search(text, start)
            line = text[start : following.start() if following else len(text)]
            raw = found.group()
            if continues(parts[-1].spelled[0].text, line):
                parts.append(Part("text", end, start, spelled=as_written(raw)))
            else:
                parts.append(Part("edge", end, start))
    document.units = make_units(parts, PLAIN)
    return document


def continues(line: str, following: str) -> bool:
    """Returns whether a line goes on with the sentence of the line before.

    It does if it begins with a small letter, or with any letter behind a full line that ends in no
    sign; what is indented, or a list's next point, doesn't.
    """
    if not following[:1].isalpha() or not line.strip():
        return False
    ends = line.rstrip()[-1]
    if following[0].islower():
        return ends.isalnum() or ends in ",;-–—)\"'’"
    return len(line) >= _MIN_WRAPPED and (ends.isalnum() or ends == ",")
