"""Messages of gettext's PO files."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mtkit.errors import fail_at
from mtkit.text.string_files.escapes import unescape
from mtkit.text.words import Span

_TOKEN = re.compile(
    r"[ \t\r\n\v\f]++|#[,=](?P<flags>[^\n]*+)|#[^\n]*+"
    r"|(?P<keyword>msgctxt|msgid_plural|msgid|msgstr|domain)"
    r"(?P<form>[ \t]*+\[[ \t]*+\d++[ \t]*+\])?+"
    r'(?=["\s#])|"(?P<string>(?:[^"\\\n]|\\.)*+)"',
    re.DOTALL,
)


@dataclass
class PoMessage:
    """A message: the spans of the strings of each keyword (`msgid`, `msgstr[0]`), and its flags.

    Attributes:
        start: Where its keywords begin, or the comments with its previous ones.
    """

    strings: dict[str, list[Span]] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    start: int = 0

    def read(self, text: str, keyword: str) -> str:
        """Returns the string of a keyword in the file's text; empty without one."""
        return "".join(unescape(text[slice(*span)]) for span in self.strings.get(keyword, ()))

    def list_forms(self) -> list[str]:
        """Returns the keywords of its translations, in order."""
        return [key for key, spans in self.strings.items() if key.startswith("msgstr") and spans]


def read_messages(text: str) -> Iterator[PoMessage]:
    """Yields the messages of a PO file, including the header, without obsolete ones.

    Raises:
        MtkitError: It contains anything but comments, keywords and strings.
    """
    message = PoMessage()
    spans: list[Span] | None = None
    flags: set[str] = set()
    position = 0
    start: int | None = None
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None or (found["string"] is not None and spans is None):
            raise fail_at(text, position, "expected a comment, a keyword or a string in quotes")
        position = found.end()
        keyword = found["keyword"]
        if found["flags"] is not None:
            flags.update(each.strip() for each in found["flags"].split(","))
        elif found.group().startswith("#~"):
            # They were an obsolete message's.
            flags.clear()
        elif found.group().startswith("#|"):
            start = found.start() if start is None else start
        elif keyword is not None:
            if keyword in ("msgid", "msgctxt", "domain") and "msgid" in message.strings:
                yield message
                message = PoMessage()
            if not message.strings:
                message.start = found.start() if start is None else start
            start = None
            message.flags |= flags
            flags.clear()
            spans = []
            message.strings[keyword + re.sub(r"\s", "", found["form"] or "")] = spans
        elif spans is not None and found["string"] is not None:
            spans.append(found.span("string"))
    if "msgid" in message.strings:
        yield message
