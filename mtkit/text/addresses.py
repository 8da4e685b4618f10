"""Web and e-mail addresses in a text, in a form that is the same however they are written."""

import re
from collections.abc import Iterator

from mtkit.text.words import Span

_URL = r"""(?:[a-z][a-z0-9+.-]{1,15}://|www\.)[^\s<>"'`“”„«»，。、）（(){}|\[\]\\^]+"""
_EMAIL = r"[a-z0-9._+-]{1,64}@[a-z0-9-]+(?:\.[a-z0-9-]+)+"
_ADDRESS = re.compile(f"{_URL}|{_EMAIL}")
"""Of a case-folded text. Bounded, or a long run of letters would be read from each of its letters;
64 is the greatest length of a mailbox name (RFC 5321, section 4.5.3.1.1)."""
_ANY_CASE = re.compile(f"({_URL})|{_EMAIL}", re.IGNORECASE)
_SCHEME = re.compile(r"^(?:[a-z0-9+.-]*://)?(?:www\.)?")


def find_addresses(folded: str) -> list[str]:
    """Returns the addresses of a case-folded text, without scheme and `www.`."""
    # Far quicker than the pattern, and most texts hold none.
    if not ("://" in folded or "@" in folded or "www." in folded):
        return []
    return [_SCHEME.sub("", address).rstrip(".,;:!?/*") for address in _ADDRESS.findall(folded)]


def remove_addresses(folded: str) -> str:
    """Returns a case-folded text with a space in place of each address."""
    return _ADDRESS.sub(" ", folded)


def locate_addresses(text: str) -> Iterator[tuple[Span, bool]]:
    """Yields where each address of a text stands, and whether it is one of the web.

    Punctuation behind it, which ends a sentence, isn't part of it.
    """
    if not ("://" in text or "@" in text or "www." in text.lower()):
        return
    for found in _ANY_CASE.finditer(text):
        end = found.start() + len(found.group().rstrip(".,;:!?*"))
        yield (found.start(), end), found.group(1) is not None
