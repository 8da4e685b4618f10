"""Decodes raw text into lines; errors name file and line, and how to convert it."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import PurePath

from mtkit.errors import MtkitError
from mtkit.recipe.corpus_files import COMPRESSIONS
from mtkit.storage import FileRange
from mtkit.text.letters import guess_encoding
from mtkit.units import plural

BYTE_ORDER_MARK = "\ufeff"
"""Windows editors write it before the first line of UTF-8; it isn't part of the line."""
MAGIC = {
    "gzip": b"\x1f\x8b",
    "bzip2": b"BZh",
    "xz": b"\xfd7zXZ\x00",
    "zstd": b"\x28\xb5\x2f\xfd",
    "zip": b"PK",
}
"""First bytes of a file of each kind."""
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def decode_text(
    content: bytes | FileRange,
    name: str,
    first_line: int,
    *,
    drop_invalid: bool,
    languages: Sequence[str] = (),
) -> tuple[list[str], list[int]]:
    r"""Returns lines of a text file without their ends, and indices of those of invalid UTF-8.

    `content` is from `LineReader.pack`; its last "\n" ends its last line. Removes a byte-order mark
    if `first_line` is 1. Invalid UTF-8 becomes U+FFFD if `drop_invalid`, except in a file that is
    UTF-16 or compressed. `languages` are for the error's hint.
    """
    text = (content.read() if isinstance(content, FileRange) else content).removesuffix(b"\n")

    def fault(index: int, error: UnicodeDecodeError) -> MtkitError:
        number = first_line + index
        invalid = list(filter(is_invalid, text.split(b"\n")))
        last = first_line + text.count(b"\n")
        more = f"; also {plural(len(invalid) - 1, 'other line')} up to line {last:,}"
        return MtkitError(
            f"{name}:{number}: byte {error.start + 1} of the line is invalid UTF-8 "
            f"(0x{error.object[error.start]:02x})" + (more if len(invalid) > 1 else ""),
            explain_encoding(PurePath(name), number, invalid, languages),
        )

    is_no_text = first_line == 1 and text.startswith((*_UTF_16, *MAGIC.values()))
    on_fault = None if drop_invalid and not is_no_text else fault
    lines, invalid = decode_lines(text, on_fault)
    if b"\r" in text:
        lines = [line.removesuffix("\r") for line in lines]
    if first_line == 1:
        lines[0] = lines[0].removeprefix(BYTE_ORDER_MARK)
    return lines, invalid


def is_invalid(line: bytes) -> bool:
    """Checks that a line isn't UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return True
    return False


def decode_lines(
    content: bytes, fault: Callable[[int, UnicodeDecodeError], MtkitError] | None
) -> tuple[list[str], list[int]]:
    r"""Returns lines joined by "\n", decoded, and indices of those of invalid UTF-8.

    `fault` makes the error from a line's index and the fault; without it, U+FFFD replaces bytes.
    """
    try:
        return content.decode().split("\n"), []
    except UnicodeDecodeError:
        # Checked line by line only now.
        return decode_values(content.split(b"\n"), fault)


def decode_values(
    values: Sequence[bytes], fault: Callable[[int, UnicodeDecodeError], MtkitError] | None
) -> tuple[list[str], list[int]]:
    """Returns values, decoded, and indices of those of invalid UTF-8; see `decode_lines`."""
    texts: list[str] = []
    invalid: list[int] = []
    for index, value in enumerate(values):
        try:
            texts.append(value.decode())
        except UnicodeDecodeError as error:
            if fault is not None:
                raise fault(index, error) from error
            texts.append(value.decode(errors="replace"))
            invalid.append(index)
    return texts, invalid


def explain_encoding(
    path: PurePath, number: int, invalid: Sequence[bytes], languages: Sequence[str]
) -> str:
    """Returns what to do about a file with invalid lines or values; the first is in row `number`.

    `languages` are those of the text, if known.
    """
    endings = {compression: ending for ending, compression in COMPRESSIONS.items()}
    if number == 1:
        for compression, ending in endings.items():
            if invalid[0].startswith(MAGIC[compression]):
                return f"it is compressed with {compression}: rename it to {path.name}{ending}"
        if invalid[0].startswith(_UTF_16):
            return f"it is UTF-16; convert it: {_convert(path, 'UTF-16')}"
    if encoding := guess_encoding(invalid, languages):
        return f"it looks like {encoding}; convert it: {_convert(path, encoding)}"
    return f"convert it: {_convert(path, 'WINDOWS-1252')}, if that is its encoding"


def _convert(path: PurePath, encoding: str) -> str:
    names = (path, path.with_name(f"{path.stem}.utf8{path.suffix}"))
    return f"iconv -f {encoding} -t UTF-8 {' > '.join(map(shlex.quote, map(str, names)))}"
