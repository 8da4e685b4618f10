"""A document: its text, the units to translate in it, and fixed edits.

A format finds the units; all characters outside of them stay the same.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from mtkit.inference.request import LineWarning
from mtkit.text.languages import find_main_language

Span = tuple[int, int]
"""Start and end of a part of a text, in characters."""
Link = tuple[Span, Span]
"""The spans of a source word and of a target word that are linked."""


class UnwritableError(Exception):
    """A unit's translation can't be written so that the format reads it as intended.

    Its message, if any, says which placeholders it breaks, or that it is empty.
    """


@dataclass(frozen=True)
class TranslatedText:
    """A text's translation, with word alignments or None, and warnings about its sentences.

    Attributes:
        released: Whether all its sentences are (`inference.quality`); None without.
    """

    text: str
    links: tuple[Link, ...] | None = None
    warnings: tuple[LineWarning, ...] = ()
    released: bool | None = None


FinishTexts = Callable[[], Sequence[TranslatedText]]
"""Turns search results into translations. Called once and in order, by any thread."""


class TextTranslator(Protocol):
    """Translates texts, each a sentence or a paragraph without a newline."""

    def __call__(self, texts: Sequence[str]) -> Sequence[TranslatedText]:
        """Returns each text's translation, in order."""
        ...


@runtime_checkable
class LinkingTranslator(Protocol):
    """A translator of texts that aligns words only on request."""

    def translate(
        self,
        texts: Sequence[str],
        needs_links: Sequence[bool],
        *,
        are_program_strings: bool = False,
    ) -> Iterable[FinishTexts]:
        """Yields functions that each make the translations of some texts, in order.

        `needs_links` says for each text whether its word alignments are needed.
        """
        ...


class EscapedText(NamedTuple):
    """A piece of text and its spelling in the document: `é` as `&eacute;`."""

    text: str
    raw: str


def as_written(text: str) -> tuple[EscapedText, ...]:
    """Returns a text that the document spells literally."""
    return (EscapedText(text, text),)


@dataclass(frozen=True)
class Escapes:
    """How a format writes text; `read` is the reverse, None if no text can be misread."""

    escape: Callable[[str], str]
    read: Callable[[str], str] | None = None


PLAIN = Escapes(lambda text: text)
"""Escapes of a format without any."""


class Node(NamedTuple):
    """A text, an inline element or a standalone tag in a unit.

    Attributes:
        kind: `text`; `element`, with an opening and a closing tag; `void`, without text;
            `protected`, whose text the sentence needs but which stays unchanged. In formats whose
            text is always in runs, `run` is an element that is one, and `joint` a void inside one.
        start: Start in the document's text.
        inner: The span between an element's tags.
        spelled: The characters of a text, or of a protected node, which the model sees.
        is_break: A void that breaks the line, where other text would have a space.
    """

    kind: Literal["text", "element", "void", "protected", "run", "joint"]
    start: int
    end: int
    inner: Span = (0, 0)
    children: tuple["Node", ...] = ()
    spelled: tuple[EscapedText, ...] = ()
    is_break: bool = False


def walk(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yields nodes and all their descendants, in document order."""
    pending = list(reversed(nodes))
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(node.children)


def find_holders(nodes: Sequence[Node], is_text: Callable[[Node], bool]) -> set[int]:
    """Returns the ids of the nodes that are text or hold some, at any depth."""
    listed = [(node, -1) for node in nodes]
    for index, (node, _) in enumerate(listed):
        listed += [(child, index) for child in node.children]
    holds = [is_text(node) for node, _ in listed]
    # Parents come before their children.
    for index in range(len(listed) - 1, -1, -1):
        parent = listed[index][1]
        if parent >= 0:
            holds[parent] = holds[parent] or holds[index]
    return {id(node) for (node, _), has_text in zip(listed, holds, strict=True) if has_text}


@dataclass(frozen=True)
class Unit:
    """A block's text, with the inline tags in it.

    Attributes:
        output: Span for the translation; None for the unit's own.
        before: Written before it there.
        after: Written after it.
        follows: Whether it continues the string of the previous unit.
        name: The key or id of its string, if it has any.
        keeps_breaks: Whether its translation has as many lines; otherwise only as many as there are
            spaces for.
        join: Makes the document's characters from the translation's tokens, or raises
            `UnwritableError`; by default they are concatenated.
        mark: Returns the edits of its translation, given the edit and whether all units of its
            string are released: `fuzzy` in PO, `state` in XLIFF. By default the edit alone.
    """

    nodes: tuple[Node, ...]
    start: int
    end: int
    escapes: Escapes
    output: Span | None = None
    before: str = ""
    after: str = ""
    follows: bool = False
    name: str = ""
    keeps_breaks: bool = False
    join: "Callable[[Sequence[Token]], str] | None" = None
    mark: "Callable[[Edit, bool | None], Sequence[Edit]] | None" = None


def unit_text(unit: Unit) -> str:
    """Returns a unit's text without its markup."""
    return "".join(each.text for node in walk(unit.nodes) for each in node.spelled)


class Token(NamedTuple):
    """A piece of a translated unit: text or a tag, as the document writes it."""

    kind: Literal["text", "open", "close", "void"]
    raw: str
    node: Node | None = None


class Edit(NamedTuple):
    """Characters of a document that are replaced, perhaps by a unit's translation."""

    start: int
    end: int
    text: str
    unit: Unit | None = None


def mark_string(
    unreleased: Edit, otherwise: Edit | None, edit: Edit, released: bool | None
) -> list[Edit]:
    """Returns a translation's edit, preceded by the edit of its string's release state."""
    mark = unreleased if released is False else otherwise
    return [edit] if mark is None else [mark._replace(unit=edit.unit), edit]


class SkippedSpan(NamedTuple):
    """A visible text that isn't translated.

    Attributes:
        start: Start in the document's text.
        text: Its characters, without markup.
        reason: Reads well after a number: `marked translate=no`.
        detail: What explains the reason: an element, a language, a fault.
        name: The key or id of its string, if it has any.
    """

    start: int
    text: str
    reason: str
    detail: str = ""
    name: str = ""


@dataclass
class Document:
    """A text with the units to translate.

    Attributes:
        units: A unit may be inside a tag of another.
        edits: Fixed edits, such as the new language of `lang="en"`.
        skipped: Texts with letters that aren't translated.
        are_program_strings: Whether the texts are a program's, with placeholders.
    """

    text: str
    units: list[Unit] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    skipped: list[SkippedSpan] = field(default_factory=list)
    are_program_strings: bool = False

    def skip(self, start: int, text: str, reason: str, detail: str = "", name: str = "") -> None:
        """Records a text that isn't translated, if it has a letter."""
        text = " ".join(text.split())
        if any(map(str.isalpha, text)):
            self.skipped.append(SkippedSpan(start, text, reason, detail, name))


@dataclass(frozen=True)
class LanguageCodes:
    """Codes of the languages of a translation, as in HTML and XML; empty if unknown."""

    source: str = ""
    target: str = ""

    def is_source(self, code: str) -> bool:
        """Checks that a text marked with a code may be of the source language.

        An invalid code, such as a template's `{{ lang }}`, or `und` means nothing.
        """
        main = _find_main(code)
        return not self.source or not main or main == _find_main(self.source)

    def is_marked_source(self, code: str) -> bool:
        """Checks that a text is marked as one of the source language."""
        return bool(_find_main(code)) and self.is_source(code)

    def rename(self, span: Span, code: str) -> list[Edit]:
        """Returns the edit that turns the source language's code into the target's, if it is."""
        is_renamed = self.target and self.is_marked_source(code)
        return [Edit(*span, self.target)] if is_renamed else []


def _find_main(code: str) -> str:
    """Returns the language of a code (BCP 47); empty if it names none."""
    found = _CODE.fullmatch(code.strip().lower())
    if found is None or found[1] in ("und", "mul", "mis"):
        return ""
    return found[1] if len(found[1]) == 2 else find_main_language(found[1]) or found[1]


_CODE = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]{1,8})*+")
