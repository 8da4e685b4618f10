"""Reports how many of a document's texts are translated, and which are skipped and why."""

from collections import Counter
from dataclasses import dataclass, field

from mtkit.documents.document import Document
from mtkit.text.line_counter import LineCounter

BROKEN_MARKUP = "kept because their translation breaks the markup"
"""The reason for texts whose translation would change the document's structure."""


@dataclass(frozen=True)
class SkippedText:
    """A text that isn't translated.

    Attributes:
        text: Its characters, without markup.
        reason: Reads well after a number: `marked translate=no`.
        detail: An element or a language that explains the reason.
        part: The part of an archive, such as `word/document.xml`; else empty.
        line: Its line in the document or part, from 1; 0 if unknown.
    """

    text: str
    reason: str
    detail: str = ""
    part: str = ""
    line: int = 0

    def locate(self) -> str:
        """Returns its location: `word/document.xml:12`."""
        return ":".join(filter(None, (self.part, str(self.line or ""))))


@dataclass
class Report:
    """The number of a document's translated texts, and the visible texts that were skipped."""

    num_translated: int = 0
    skipped: list[SkippedText] = field(default_factory=list)

    def add(self, document: Document, *, num_translated: int, part: str = "") -> None:
        """Adds a document, or a part of one."""
        self.num_translated += num_translated
        lines = LineCounter(document.text)
        for start, text, reason, detail in sorted(document.skipped):
            self.skipped.append(SkippedText(text, reason, detail, part, lines.find(start)))

    def describe(self) -> str:
        """Returns a line: `214 texts translated, 6 skipped: 4 marked translate=no, 2 code`."""
        line = f"{_count(self.num_translated, 'text')} translated"
        return f"{line}, {len(self.skipped):,} skipped: {self.explain()}" if self.skipped else line

    def explain(self) -> str:
        """Returns the reasons for skipped texts, each with its number."""
        counts = Counter(each.reason for each in self.skipped)
        details: dict[str, dict[str, None]] = {}
        for each in self.skipped:
            details.setdefault(each.reason, {}).update({each.detail: None} if each.detail else {})
        return ", ".join(
            f"{count:,} {reason}" + (f" ({', '.join(details[reason])})" if details[reason] else "")
            for reason, count in counts.most_common()
        )

    def list_warnings(self, name: str) -> list[str]:
        """Returns warnings for the user of the translation."""
        warnings = []
        if not self.num_translated:
            reason = self.explain() or "there is no text to translate in it"
            warnings.append(f"{name}: nothing is translated: {reason}")
        for each in self.skipped:
            if each.reason == BROKEN_MARKUP:
                place = ":".join(filter(None, (name, each.locate())))
                warnings.append(f"{place}: {_shorten(each.text)!r} is {BROKEN_MARKUP_OF_ONE}")
        return warnings

    def to_json(self, max_skipped: int | None = None) -> dict[str, object]:
        """Returns the report as a JSON object, with at most `max_skipped` texts."""
        return {
            "summary": self.describe(),
            "translated": self.num_translated,
            "num_skipped": len(self.skipped),
            "skipped": [
                {key: value for key, value in vars(each).items() if value}
                for each in self.skipped[:max_skipped]
            ],
        }


BROKEN_MARKUP_OF_ONE = "kept as it was, because its translation breaks the markup"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
