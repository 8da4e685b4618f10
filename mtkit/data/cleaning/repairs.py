"""Stray characters that are repaired rather than a reason to drop a pair."""

import numpy as np

from mtkit.checks.characters import UNDEFINED_IN_WINDOWS_1252, Text

_C1_CONTROLS = {
    code: bytes([code]).decode("cp1252")
    for code in range(0x80, 0xA0)
    if code not in UNDEFINED_IN_WINDOWS_1252
}
"""Bytes of Windows-1252 that were taken for Latin-1 (WHATWG Encoding Standard, section 4.2)."""

_REPAIRS: dict[str, dict[int, str]] = {
    "c1_control": _C1_CONTROLS,
    # What ends a line for one program or another, but not in a file of one sentence a line.
    "separator": dict.fromkeys((0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x2028, 0x2029), " "),
    "byte_order_mark": {0xFEFF: ""},
    "zero_width_space": {0x200B: ""},
    "soft_hyphen": {0x00AD: ""},
}
REPAIRS = tuple(_REPAIRS)
"""Kinds of repairs."""
_ALL_REPAIRS = {code: to for repairs in _REPAIRS.values() for code, to in repairs.items()}
_IS_STRAY = np.isin(np.arange(0x10000), list(_ALL_REPAIRS))

_EDGES = "".join(
    character
    for character in map(chr, range(0x3001))
    # U+0085 is an ellipsis of Windows-1252, and U+001C to U+001F are controls: both are judged.
    if character.isspace() and character not in "\x1c\x1d\x1e\x1f\x85"
)


def strip(line: str) -> str:
    """Returns a line without the spaces at its ends, controls that `str.strip` takes left in."""
    return line.strip(_EDGES)


def repair(line: str) -> str:
    """Returns a line with its stray characters repaired, and no spaces at its ends."""
    return strip(line.translate(_ALL_REPAIRS))


def repair_lines(text: Text) -> tuple[list[str], dict[str, int]]:
    """Returns the lines repaired and stripped, and how many each kind of repair changed."""
    lines = list(map(strip, text.lines))
    positions = np.flatnonzero(_IS_STRAY[np.minimum(text.codes, 0xFFFF)])
    # Line feeds between lines have no kind.
    positions = positions[(text.codes[positions] != 0x0A) | (text.kinds[positions] != 0)]
    owners = text.lines_at(positions)
    changed = {}
    for kind, repairs in _REPAIRS.items():
        is_this = np.isin(text.codes[positions], list(repairs))
        changed[kind] = len(np.unique(owners[is_this]))
    for number in np.unique(owners).tolist():
        lines[number] = repair(text.lines[number])
    return lines, changed


def read_c1_controls(line: str) -> str:
    """Returns a line with its C1 controls read as Windows-1252, and nothing else repaired."""
    return line.translate(_C1_CONTROLS)
