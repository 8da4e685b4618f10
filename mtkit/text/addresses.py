"""Web and e-mail addresses in a text, in a form that is the same however they are written."""

import re

_ADDRESS = re.compile(
    r"""(?:[a-z][a-z0-9+.-]{1,15}://|www\.)[^\s<>"'`“”„«»，。、）（(){}|\[\]\\^]+"""
    r"|[a-z0-9._+-]{1,64}@[a-z0-9-]+(?:\.[a-z0-9-]+)+"
)
"""Of a case-folded text. Bounded, or a long run of letters would be read from each of its letters;
64 is the greatest length of a mailbox name (RFC 5321, section 4.5.3.1.1)."""
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
