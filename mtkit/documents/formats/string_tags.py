r"""Inline HTML in strings of programs: `Press <b>Start</b> to begin`, `<a href=\"%s\">here</a>`.

Only elements that are inline in HTML count, and only where each has its end in the same string:
whatever else looks like a tag, such as `<file>` in a line of usage, is text.
"""

import re
from collections.abc import Sequence

from mtkit.documents.document import Languages, Span, Spelled
from mtkit.documents.formats.html import is_inline, is_left
from mtkit.documents.units import Part

_TAG = re.compile(r"""<(/?)([A-Za-z][A-Za-z0-9]*)(?:\s(?:[^<>"']|"[^"]*"|'[^']*')*?)?(/?)>""")
_ALONE = ("br", "img", "wbr")


def find_string_tags(text: str, spans: Sequence[Span]) -> list[Part]:
    """Returns the tags of a string, and what is in elements of code; none if any has no partner.

    Args:
        text: The document's.
        spans: Where the string is written in it, in order.
    """
    parts: list[Part] = []
    opened: list[Part] = []
    code: Part | None = None
    """The element of code that is being read: what it holds is left as it is."""
    for found in (each for span in spans for each in _TAG.finditer(text, *span)):
        end, name, selfclosed = found.groups()
        name = name.lower()
        if not is_inline(name):
            continue
        start, stop = found.span()
        if name in _ALONE or selfclosed:
            if code is None:
                parts.append(Part("void", start, stop, name, is_break=name == "br"))
        elif not end:
            opened.append(Part("open", start, stop, name))
            if code is None and is_left(name, {}, Languages()):
                code = opened[-1]
            elif code is None:
                parts.append(opened[-1])
        elif not opened or opened.pop().name != name:
            return []
        elif code is None:
            parts.append(Part("close", start, stop, name))
        elif code not in opened:
            raw = _TAG.sub("", text[code.start : stop])
            parts.append(Part("protected", code.start, stop, spelled=(Spelled(raw, raw),)))
            code = None
    return [] if opened else parts
