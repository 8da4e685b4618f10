"""Options, file paths and versions in a text about programs."""

import re
from collections.abc import Iterator

from mtkit.text.words import Span

_SWITCH = re.compile(
    r"(?<![\w/.=-])-(?:-[A-Za-z](?:[\w-]{0,64}\w)?|[A-Za-z]\d{0,4})(?![\w-])", re.ASCII
)
_NAME = r"[\w.+@%~-]"
_PATH = re.compile(
    rf"""(?<![\w/.:<>)}}\]*~@-])(?:
      ~(?:/{_NAME}{{1,255}}){{1,32}}(?<=\w)/?                       # ~/.config/x
    | (?:/{_NAME}{{1,255}}){{2,32}}(?<=\w)/?                        # /opt/x
    | /(?:bin|boot|dev|etc|home|lib|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var)\b/?
    | (?:\.{{1,2}}/|\w[\w.+-]{{0,254}}/){{1,32}}\w[\w.+-]{{0,254}}\.[A-Za-z][A-Za-z\d]{{0,4}}
      (?![\w/])                                                    # src/main.py
    | [A-Za-z]:(?:\\[\w.+@-]{{1,255}}){{1,32}}(?<=\w)
    )""",
    re.ASCII | re.VERBOSE,
)
_VERSION = re.compile(
    r"""(?<![\w.,-])[vV]?\d{1,8}\.\d{1,8}
    (?:(?:\.\d{1,8}){1,8}(?:[-+~.]?(?:alpha|beta|dev|pre|rc|a|b)[-.]?\d{0,8})?
    | [-+~](?:alpha|beta|dev|pre|rc)[-.]?\d{0,8})
    (?!\w|[.,]\d)""",
    re.ASCII | re.VERBOSE,
)
_REWRITTEN = re.compile(r"\d\d?\.\d\d?\.(?:\d\d){1,2}|\d{1,3}(?:\.\d{3})+", re.ASCII)
"""A date, or a number with thousands separators, which a translation may write differently."""


def find_options(text: str) -> Iterator[Span]:
    """Yields the spans of command-line options, without their arguments."""
    return (found.span() for found in _SWITCH.finditer(text))


def find_paths(text: str) -> Iterator[Span]:
    """Yields the spans of paths of files; a relative one needs an extension."""
    return (found.span() for found in _PATH.finditer(text))


def find_versions(text: str) -> Iterator[Span]:
    """Yields the spans of versions and IP addresses, not of dates and decimal numbers."""
    return (
        found.span() for found in _VERSION.finditer(text) if not _REWRITTEN.fullmatch(found.group())
    )
