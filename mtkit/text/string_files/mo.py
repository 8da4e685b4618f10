"""gettext's compiled catalogues (.mo).

https://www.gnu.org/software/gettext/manual/html_node/MO-Files.html. Catalogues are untrusted:
strings lie in the file and don't overlap, so that no table multiplies them.
"""

import struct
from collections.abc import Iterator

from mtkit.errors import MtkitError

_HEADER = 28
_MAGIC = 0x950412DE


def read_catalogue(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the id and the translation of each message, with NUL between plural forms.

    Raises:
        MtkitError: It isn't a catalogue, has an unknown revision, or is damaged.
    """
    orders = {struct.pack(f"{order}I", _MAGIC): order for order in "<>"}
    order = orders.get(content[:4])
    if order is None or len(content) < _HEADER:
        fault = "not a .mo file: it doesn't begin with the magic number"
        raise MtkitError(fault, "compile it again: msgfmt")
    revision, count, *tables = struct.unpack_from(f"{order}4I", content, 4)
    if revision >> 16 > 1:
        raise MtkitError(f"a .mo file of revision {revision >> 16}, expected 0 or 1")
    if any(table + 8 * count > len(content) for table in tables):
        raise MtkitError(f"a damaged .mo file: its tables of {count:,} messages end outside it")
    columns = [struct.iter_unpack(f"{order}2I", content[at : at + 8 * count]) for at in tables]
    num_bytes = 0
    for number, spans in enumerate(zip(*columns, strict=True), 1):
        num_bytes += sum(length for length, _ in spans)
        if any(start + length > len(content) for length, start in spans):
            raise MtkitError(f"a damaged .mo file: message {number} ends outside it")
        if num_bytes > len(content):
            raise MtkitError(f"a damaged .mo file: message {number} overlaps another")
        first, second = (content[start : start + length] for length, start in spans)
        yield first, second
