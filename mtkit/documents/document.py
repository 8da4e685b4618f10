"""A document as the room sees it: its text, the units to translate in it, and fixed edits.

A format finds the units; all that isn't in one stays the same characters.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from mtkit.errors import MtkitError
from mtkit.text.languages import find_main_language

Span = tuple[int, int]
"""Where a part of a text begins and ends, in characters."""
Link = tuple[Span, Span]
"""A source word and a target word that stand for each other, each by its characters."""


class UnwritableError(Exception):
    """A unit's translation can't be written so that the format reads it as it is meant."""


@dataclass(frozen=True)
class TranslatedText:
    """A text's translation.

    Attributes:
        text: The translation.
        links: Word alignments; None where the translator has none.
    """

    text: str
    links: tuple[Link, ...] | None = None


FinishTexts = Callable[[], Sequence[TranslatedText]]
"""Makes translations of what a search has found. It is called once and in order, by any thread."""


class TextTranslator(Protocol):
    """Translates texts, each a sentence or a paragraph without a newline."""

    def __call__(self, texts: Sequence[str]) -> Sequence[TranslatedText]:
        """Returns each text's translation, in order."""
        ...


@runtime_checkable
class LinkingTranslator(Protocol):
    """A translator of texts that aligns words only where it is asked to."""

    def translate(self, texts: Sequence[str], needs_links: Sequence[bool]) -> Iterable[FinishTexts]:
        """Yields what makes the translations of some texts at a time, in order.

        Args:
            texts: As `TextTranslator` takes them.
            needs_links: Of each text whether its word alignments are needed.
        """
        ...


class Spelled(NamedTuple):
    """Some of a text and how a document spells it: `é` as `&eacute;`."""

    text: str
    raw: str


def as_written(text: str) -> tuple[Spelled, ...]:
    """Returns a text that a document writes as it is."""
    return (Spelled(text, text),)


@dataclass(frozen=True)
class Escapes:
    """How a format writes text.

    Attributes:
        escape: Writes a text so that the format reads it as such.
        read: The reverse; None where nothing that is written can be misread.
    """

    escape: Callable[[str], str]
    read: Callable[[str], str] | None = None


PLAIN = Escapes(lambda text: text)
"""Escapes of a format that has none."""


class Node(NamedTuple):
    """A text, an inline element or a tag that stands alone, in a unit.

    Attributes:
        kind: `text`; `element`, with an opening and a closing tag; `void`, which has no text of its
            own; `protected`, whose text the sentence needs but which stays as it is. In formats
            whose text always stands in runs, `run` is an element that is one, and `joint` a void
            that stands in one.
        start: Where it begins in the document's text.
        end: Where it ends.
        inner: What lies between an element's tags.
        children: What an element holds.
        spelled: A text's characters; a protected node's, which the model sees.
        is_break: A void that breaks the line, where other text would have a space.
    """

    kind: Literal["text", "element", "void", "protected", "run", "joint"]
    start: int
    end: int
    inner: Span = (0, 0)
    children: tuple["Node", ...] = ()
    spelled: tuple[Spelled, ...] = ()
    is_break: bool = False


def walk(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yields nodes and all that they hold, in the order of the document."""
    pending = list(reversed(nodes))
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(node.children)


def find_holders(nodes: Sequence[Node], is_text: Callable[[Node], bool]) -> set[int]:
    """Returns the ids of the nodes that are text or hold some, at whatever depth."""
    listed = [(node, -1) for node in nodes]
    for index, (node, _) in enumerate(listed):
        listed += [(child, index) for child in node.children]
    holds = [is_text(node) for node, _ in listed]
    # Whatever holds a node stands before it.
    for index in range(len(listed) - 1, -1, -1):
        parent = listed[index][1]
        if parent >= 0:
            holds[parent] = holds[parent] or holds[index]
    return {id(node) for (node, _), has_text in zip(listed, holds, strict=True) if has_text}


@dataclass(frozen=True)
class Unit:
    """A block's text, with the inline tags in it.

    Attributes:
        nodes: What it holds, in order.
        start: Where it begins in the document's text.
        end: Where it ends.
        escapes: How its text is written.
        output: Where the translation goes, if not in the place of the unit.
        before: What is written in front of it there.
        after: What is written behind it.
        follows: Whether it is written behind the unit before it as more of the same string.
        keeps_breaks: Whether it has as many lines in translation; otherwise only as many as there
            are spaces for.
        join: Makes the document's characters of the translation's tokens, or raises
            `UnwritableError`; by default they follow one another.
    """

    nodes: tuple[Node, ...]
    start: int
    end: int
    escapes: Escapes
    output: Span | None = None
    before: str = ""
    after: str = ""
    follows: bool = False
    keeps_breaks: bool = False
    join: "Callable[[Sequence[Token]], str] | None" = None


def read_text(unit: Unit) -> str:
    """Returns a unit's text without its markup."""
    return "".join(each.text for node in walk(unit.nodes) for each in node.spelled)


class Token(NamedTuple):
    """Some of a translated unit: text or a tag, as the document writes it."""

    kind: Literal["text", "open", "close", "void"]
    raw: str
    node: Node | None = None


class Edit(NamedTuple):
    """Characters of a document that are replaced, by the translation of a unit if one is named."""

    start: int
    end: int
    text: str
    unit: Unit | None = None


class Skipped(NamedTuple):
    """A text that a reader sees and that isn't translated.

    Attributes:
        start: Where it begins in the document's text.
        text: Its characters, without markup.
        reason: Why, so that it reads after a number: `marked translate=no`.
        detail: What the reason names, such as an element or a language.
    """

    start: int
    text: str
    reason: str
    detail: str = ""


@dataclass
class Document:
    """A text, what is to be translated in it, and what is replaced whatever the translation says.

    Attributes:
        text: All of it.
        units: What is translated; a unit may lie in a tag of another.
        edits: For example the new language of `lang="en"`.
        skipped: Texts that aren't translated. Text without a letter isn't listed.
    """

    text: str
    units: list[Unit] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def skip(self, start: int, text: str, reason: str, detail: str = "") -> None:
        """Notes a text that isn't translated, if there is a letter in it."""
        text = " ".join(text.split())
        if any(map(str.isalpha, text)):
            self.skipped.append(Skipped(start, text, reason, detail))


@dataclass(frozen=True)
class Languages:
    """Codes of the languages of a translation, as HTML and XML write them; empty if not known."""

    source: str = ""
    target: str = ""

    def is_source(self, code: str) -> bool:
        """Returns whether a text marked with a code may be of the source language.

        A code that isn't one, such as a template's `{{ lang }}`, says nothing, nor does `und`.
        """
        main = _find_main(code)
        return not self.source or not main or main == _find_main(self.source)

    def is_marked_source(self, code: str) -> bool:
        """Returns whether a text is marked as one of the source language."""
        return bool(_find_main(code)) and self.is_source(code)


def _find_main(code: str) -> str:
    """Returns the language of a code (BCP 47); nothing of one that names none."""
    found = _CODE.fullmatch(code.strip().lower())
    if found is None or found[1] in ("und", "mul", "mis"):
        return ""
    return found[1] if len(found[1]) == 2 else find_main_language(found[1]) or found[1]


_CODE = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]{1,8})*+")


def fail_at(text: str, position: int, fault: str, hint: str = "") -> MtkitError:
    """Returns the error of a document with a fault at a position, told by its line."""
    return MtkitError(f"line {text.count(chr(10), 0, position) + 1}: {fault}", hint)
