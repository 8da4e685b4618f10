"""Reports how many of a document's texts are translated, and which are skipped and why."""

from collections import Counter
from dataclasses import dataclass, field, replace

from mtkit.documents.document import Document, Unit, unit_text
from mtkit.documents.translate_units import EMPTY, WITH_OTHERS, WrittenDocument
from mtkit.errors import shorten
from mtkit.inference.request import LineWarning
from mtkit.text.line_counter import LineCounter
from mtkit.text.placeholders import find_placeholders
from mtkit.text.words import blank_out

BROKEN_MARKUP = "kept because their translation breaks the markup"
"""The reason for texts whose translation would change the document's structure."""
BROKEN_PLACEHOLDERS = "kept because their translation breaks their placeholders"
"""The reason for format strings that a program can't fill in any more."""
EMPTY_TRANSLATION = "kept because their translation is empty"
"""The reason for texts with an empty translation."""
KEPT_WITH_OTHERS = "kept because another form of theirs is kept"
"""The reason for a plural form of a message whose other form is kept."""
ONLY_PLACEHOLDERS = "only placeholders"
"""The reason for strings, such as a plural of ICU, that are one placeholder."""
_REASONS = {EMPTY: EMPTY_TRANSLATION, WITH_OTHERS: KEPT_WITH_OTHERS}
_BROKEN = {
    EMPTY_TRANSLATION: "kept as it was, because its translation is empty",
    KEPT_WITH_OTHERS: "kept as it was, because another form of it is",
    BROKEN_MARKUP: "kept as it was, because its translation breaks the markup",
    BROKEN_PLACEHOLDERS: "kept as it was, because its translation breaks its placeholders",
}
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True)
class SkippedText:
    """A text that isn't translated.

    Attributes:
        text: Its characters, without markup.
        reason: Reads well after a number: `marked translate=no`.
        detail: What explains the reason: an element, a language, a fault.
        name: The key or id of its string, if it has any.
        part: The part of an archive, such as `word/document.xml`; else empty.
        line: Its line in the document or part, from 1; 0 if unknown.
    """

    text: str
    reason: str
    detail: str = ""
    part: str = ""
    line: int = 0
    name: str = ""


def _has_only_placeholders(unit: Unit) -> bool:
    """Checks that a string has nothing but placeholders."""
    text = unit_text(unit)
    return not any(map(str.isalpha, blank_out(text, find_placeholders(text), " ")))


@dataclass
class DocumentReport:
    """How many of a document's texts are translated, and which are skipped.

    Attributes:
        warnings: Warnings about translations; their locations lack the document's name.
    """

    num_translated: int = 0
    skipped: list[SkippedText] = field(default_factory=list)
    warnings: list[LineWarning] = field(default_factory=list)

    def add(self, document: Document, written: WrittenDocument, part: str = "") -> None:
        """Adds a translated document, or a part of one."""
        for unit in written.kept:
            fault = written.faults.get(id(unit), "")
            reason = BROKEN_PLACEHOLDERS if fault else BROKEN_MARKUP
            if fault in _REASONS:
                reason, fault = _REASONS[fault], ""
            document.skip(unit.start, unit_text(unit), reason, fault, unit.name)
        kept = set(map(id, written.kept))
        others = [unit for unit in document.units if id(unit) not in kept]
        alone = [
            unit for unit in others if document.are_program_strings and _has_only_placeholders(unit)
        ]
        for unit in alone:
            document.skip(unit.start, unit_text(unit), ONLY_PLACEHOLDERS, "", unit.name)
        self.num_translated += len(others) - len(alone)
        lines = LineCounter(document.text)
        for start, text, reason, detail, name in sorted(document.skipped):
            self.skipped.append(SkippedText(text, reason, detail, part, lines.find(start), name))
        lines = LineCounter(document.text)
        told = [each for each in written.warnings if id(each[0]) not in kept]
        for unit, warning in sorted(told, key=lambda each: each[0].start):
            place = _locate(part, lines.find(unit.start), unit.name, unit_text(unit))
            self.warnings.append(replace(warning, place=place))

    def describe(self) -> str:
        """Returns a line: `214 texts translated, 6 skipped: 4 marked translate=no, 2 code`."""
        line = f"{_count(self.num_translated, 'text')} translated"
        return f"{line}, {len(self.skipped):,} skipped: {self.explain()}" if self.skipped else line

    def explain(self) -> str:
        """Returns the reasons for skipped texts, each with its number."""
        counts = Counter(each.reason for each in self.skipped)
        details: dict[str, dict[str, None]] = {}
        for each in self.skipped:
            if each.detail and each.reason not in _BROKEN:
                details.setdefault(each.reason, {})[each.detail] = None
        return ", ".join(
            f"{count:,} {reason}"
            + (f" ({', '.join(details[reason])})" if reason in details else "")
            for reason, count in counts.most_common()
        )

    def list_warnings(self, name: str) -> list[str]:
        """Returns warnings about skipped texts for the user of the translation."""
        warnings = []
        if not self.num_translated:
            reason = self.explain() or "there is no text to translate in it"
            warnings.append(f"{name}: nothing is translated: {reason}")
        for each in self.skipped:
            if each.reason in _BROKEN:
                place = _locate(each.part, each.line, each.name, each.text)
                fault = f": {each.detail}" if each.detail else ""
                warnings.append(f"{name}:{place} is {_BROKEN[each.reason]}{fault}")
        return warnings

    def to_json(self, max_skipped: int | None = None) -> dict[str, object]:
        """Returns the report as a JSON object, with at most `max_skipped` texts and warnings."""
        warnings = [each.text for each in self.warnings[:max_skipped]]
        return {
            "summary": self.describe(),
            "translated": self.num_translated,
            "num_skipped": len(self.skipped),
            "skipped": [
                {key: value for key, value in vars(each).items() if value}
                for each in self.skipped[:max_skipped]
            ],
            **({"warnings": warnings} if warnings else {}),
        }


def _locate(part: str, line: int, name: str, text: str) -> str:
    """Returns the place of a text: `word/document.xml:12: 'Some text'`."""
    text = shorten(" ".join(text.split()), _SHOWN_CHARACTERS)
    return ":".join(filter(None, (part, str(line)))) + f": {name and f'{name}: '}{text!r}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
