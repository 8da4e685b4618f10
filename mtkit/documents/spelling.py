"""How a unit's characters are written: as its source writes them, else as the format demands."""

import re
from collections.abc import Mapping, Sequence

from mtkit.documents.document import Escapes

_ATOMS = re.compile(r"\s+|\w+|[^\w\s]")


class Speller:
    """Writes a unit's translation, piece by piece.

    The k-th time that a character occurs it is spelled as the source spells it the k-th time, and
    after that as the source spelled it last: `&eacute;` stays `&eacute;`.

    Args:
        escapes: The format's.
        spellings: How the source spells characters, in order.
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
        # Signs are often escaped only because of what stands beside them.
        atoms = _ATOMS.findall(text)
        if self._spellings and not self._spellings.keys().isdisjoint(text):
            written = "".join(map(self._spell, text))
            # Some spellings are right in some places only: `&` before a space.
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
        """Forgets that a text has been written."""
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
