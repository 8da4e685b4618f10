"""What became of a document's texts: how many are translated, and which are skipped and why."""

from collections import Counter
from dataclasses import dataclass, field

from mtkit.documents.document import Document

BROKEN_MARKUP = "kept because their translation breaks the markup"
"""The reason of texts whose translation would have made another document."""


@dataclass(frozen=True)
class SkippedText:
    """A text that isn't translated.

    Attributes:
        text: Its characters, without markup.
        reason: Why, so that it reads after a number: `marked translate=no`.
        detail: What the reason names, such as an element or a language.
        part: The part of an archive that it is in, such as `word/document.xml`; else empty.
        line: Its line in the document or part, from 1; 0 where that isn't known.
    """

    text: str
    reason: str
    detail: str = ""
    part: str = ""
    line: int = 0

    def locate(self) -> str:
        """Returns where it is: `word/document.xml:12`."""
        return ":".join(filter(None, (self.part, str(self.line or ""))))


@dataclass
class Report:
    """What became of a document's texts.

    Attributes:
        num_translated: Texts that are translated.
        skipped: Texts that a reader sees and that aren't.
    """

    num_translated: int = 0
    skipped: list[SkippedText] = field(default_factory=list)

    def add(self, document: Document, *, num_translated: int, part: str = "") -> None:
        """Adds a document, or a part of one.

        Args:
            document: It, with the texts that were skipped.
            num_translated: Its texts that are translated.
            part: The name of the part.
        """
        self.num_translated += num_translated
        line, done = 1, 0
        for start, text, reason, detail in sorted(document.skipped):
            line += document.text.count("\n", done, start)
            done = max(done, start)
            self.skipped.append(SkippedText(text, reason, detail, part, line))

    def describe(self) -> str:
        """Returns a line: `214 texts translated, 6 skipped: 4 marked translate=no, 2 code`."""
        line = f"{_count(self.num_translated, 'text')} translated"
        return f"{line}, {len(self.skipped):,} skipped: {self.explain()}" if self.skipped else line

    def explain(self) -> str:
        """Returns the reasons for what is skipped, each with its number."""
        counts = Counter(each.reason for each in self.skipped)
        details: dict[str, dict[str, None]] = {}
        for each in self.skipped:
            details.setdefault(each.reason, {}).update({each.detail: None} if each.detail else {})
        return ", ".join(
            f"{count:,} {reason}" + (f" ({', '.join(details[reason])})" if details[reason] else "")
            for reason, count in counts.most_common()
        )

    def list_warnings(self, name: str) -> list[str]:
        """Returns what a person should know before the translation is used.

        Args:
            name: The document's.
        """
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
        """Returns the report as a JSON object.

        Args:
            max_skipped: Texts that are listed at most.
        """
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
