"""Escapes of strings in C, JSON and PO."""

import re

ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a surrogate pair
    r"|(?:\\(?:x[0-9a-fA-F]++|[0-7]{1,3}))++|\\(?:u[0-9a-fA-F]{4}|.)",
    re.DOTALL,
)
_CONTROLS = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))


def read_escape(found: re.Match[str]) -> str:
    """Returns the value of a match of `ESCAPE`."""
    raw = found.group()
    first = raw[1]
    if first in _CONTROLS:
        return _CONTROLS[first]
    if first == "u" and len(raw) > 2:
        return read_utf16(raw[2:6] + raw[8:])
    if first == "\n":
        return ""
    if first in "01234567" or (first == "x" and len(raw) > 2):
        numbers = raw[1:].split("\\")
        octets = (int(each[1:], 16) if each[0] == "x" else int(each, 8) for each in numbers)
        return bytes(octet & 0xFF for octet in octets).decode("utf-8", errors="replace")
    return first


def unescape(raw: str) -> str:
    """Returns the text of an escaped string."""
    return ESCAPE.sub(read_escape, raw)


def read_utf16(digits: str) -> str:
    """Returns the text of hexadecimal UTF-16 digits; U+FFFD for a lone surrogate."""
    return bytes.fromhex(digits).decode("utf-16-be", errors="replace")
