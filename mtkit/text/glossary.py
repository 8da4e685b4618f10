"""Glossaries: translations of terms, and how terms are found in a text.

A glossary has a term per line, in tab-separated columns: source, target and flags. A first line
`source`, tab, `target` may name the other columns, `case_sensitive` and `forbidden`, which hold
`yes` or `no`. Without it these words themselves follow the target.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import regex

from mtkit.errors import MtkitError, suggest
from mtkit.files import read_file
from mtkit.text.phrases import PhraseFinder
from mtkit.text.words import UNSPACED, Span

MAX_TERMS = 100_000
_MAX_BYTES = 64 << 20
MAX_TERM_CHARACTERS = 200
"""Of a source or target."""
MAX_FOUND = 10_000
"""Maximum number of entries found in a text."""
_FLAGS = ("case_sensitive", "forbidden")
_YES, _NO = ("yes", "true", "1"), ("no", "false", "0", "")
_COLUMNS = "a line is source, tab, target, and optionally case_sensitive or forbidden"

# In scripts without spaces each character is a word, and so is each sign.
_WORD = regex.compile(
    rf"[\u3000-\u303f\uff00-\uffef{UNSPACED}]\p{{M}}*"
    rf"|(?:(?![{UNSPACED}])[\p{{L}}\p{{M}}\p{{N}}_])+|\S"
)
_JOINED_BEFORE = regex.compile(r"[\p{L}\p{N}][-‐‑]$")
_JOINED_BEHIND = regex.compile(r"[-‐‑][\p{L}\p{N}]")


@dataclass(frozen=True)
class Term:
    """A term and its translation.

    Attributes:
        is_case_sensitive: Whether case must match, in the source and in the target.
        is_forbidden: Whether the target must not be used for this source.
    """

    source: str
    target: str
    is_case_sensitive: bool = False
    is_forbidden: bool = False

    @property
    def key(self) -> tuple[str, bool]:
        """What all translations of a source have in common."""
        source = self.source if self.is_case_sensitive else fold(self.source)
        return source, self.is_case_sensitive


@dataclass(frozen=True)
class FoundTerm:
    """A term in a text: the span of its source, its translation and forbidden translations."""

    span: Span
    terms: tuple[Term, ...]


_SpelledTerm = tuple[tuple[str, ...] | None, Term]
"""A term, with its words if it is case-sensitive."""


class Glossary:
    """Terms, found by whole words, longest first; of several translations the first counts."""

    def __init__(self, terms: Sequence[Term]) -> None:
        sources: dict[tuple[str, ...], list[_SpelledTerm]] = {}
        for term in terms:
            words = [word.text for word in split_term_words(term.source)]
            spelling = tuple(map(normalize, words)) if term.is_case_sensitive else None
            sources.setdefault(tuple(map(fold, words)), []).append((spelling, term))
        self._terms, self._finder = list(sources.values()), PhraseFinder(list(sources))
        self._lengths = list(map(len, sources))

    def find(self, text: str) -> list[FoundTerm]:
        """Returns the terms of a text, in order and without overlaps, up to `MAX_FOUND` entries."""
        words = list(split_term_words(text))
        begun: defaultdict[int, list[int]] = defaultdict(list)
        for first, index in self._finder.find([fold(word.text) for word in words]):
            begun[first].append(index)
        known: dict[tuple[int, tuple[str, ...]], tuple[Term, ...]] = {}
        found: list[FoundTerm] = []
        num_entries = num_passed = 0
        for first in sorted(begun):
            if first < num_passed or _is_joined_before(text, words[first].span[0]):
                continue
            # The longest come last: matches are found by their ends.
            for index in reversed(begun[first]):
                last = first + self._lengths[index] - 1
                end = words[last].span[1]
                if _JOINED_BEHIND.match(text[end : end + 2]):
                    continue
                spelling = tuple(normalize(word.text) for word in words[first : last + 1])
                if (index, spelling) not in known:
                    known[index, spelling] = _choose(self._terms[index], spelling)
                terms = known[index, spelling]
                if terms:
                    num_entries += len(terms)
                    if num_entries > MAX_FOUND:
                        return found
                    found.append(FoundTerm((words[first].span[0], end), terms))
                    num_passed = last + 1
                    break
        return found


def _is_joined_before(text: str, start: int) -> bool:
    return _JOINED_BEFORE.search(text[max(0, start - 2) : start]) is not None


def _choose(terms: Sequence[_SpelledTerm], spelling: tuple[str, ...]) -> tuple[Term, ...]:
    """Returns the terms with this spelling: one translation, and all forbidden ones."""
    fitting = [term for wanted, term in terms if wanted is None or wanted == spelling]
    wanted = [term for term in fitting if not term.is_forbidden]
    # Entries for this spelling precede entries for any spelling.
    wanted.sort(key=lambda term: not term.is_case_sensitive)
    return (*wanted[:1], *(term for term in fitting if term.is_forbidden))


@dataclass(frozen=True)
class Word:
    """A word of a text."""

    text: str
    span: Span


def split_term_words(text: str) -> Iterator[Word]:
    """Yields the words of a text; a sign, or a character of a script without spaces, is one too."""
    for found in _WORD.finditer(text):
        yield Word(found[0], found.span())


def normalize(word: str) -> str:
    """Returns a word in Unicode's composed form."""
    return word if word.isascii() else unicodedata.normalize("NFC", word)


def fold(word: str) -> str:
    """Returns a word without case."""
    return normalize(normalize(word).casefold())


@dataclass(frozen=True)
class ReadGlossary:
    """A glossary from a file.

    Attributes:
        terms: The terms, in order, without repetitions.
        notes: Warnings: sources with several translations.
        others: Further translations of these sources, which translators ignore.
    """

    terms: tuple[Term, ...]
    notes: tuple[str, ...]
    others: tuple[Term, ...] = ()


def read_glossary(path: Path) -> ReadGlossary:
    r"""Returns the terms in a file: UTF-8, tab-separated; blank lines are skipped, `\r` dropped."""
    try:
        content = read_file(path.resolve(), max_bytes=_MAX_BYTES)
    except FileNotFoundError as error:
        raise MtkitError(f"{path}: no such glossary", _COLUMNS) from error
    terms: dict[Term, None] = {}
    others: dict[Term, None] = {}
    lines: dict[tuple[str, bool], tuple[int, str]] = {}
    notes: list[str] = []
    columns: tuple[str, ...] | None = None
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        place = f"{path}:{number}"
        fields = _split(raw, place)
        if not any(fields):
            continue
        names = [field.lower() for field in fields[:2]] if not terms and columns is None else []
        if names == ["target", "source"]:
            raise MtkitError(f"{place}: the source is the first column", _COLUMNS)
        if names == ["source", "target"]:
            columns = _read_header(fields, place)
            continue
        term = _read_term(fields, columns, place)
        if len(terms) + len(others) >= MAX_TERMS and term not in terms:
            raise MtkitError(f"{place}: more than {MAX_TERMS:,} terms", "give a smaller glossary")
        before, target = lines.setdefault(term.key, (number, term.target))
        if term.is_forbidden:
            if lines[term.key] == (number, term.target):
                del lines[term.key]
        elif target != term.target:
            notes.append(
                f"{place}: '{term.source}' has another target on line {before}, '{target}', which "
                "is used"
            )
            others[term] = None
            continue
        terms[term] = None
    if not terms:
        raise MtkitError(f"{path}: no terms in it", _COLUMNS)
    wanted = {(term.source, term.target) for term in terms if not term.is_forbidden}
    notes += [
        f"{path}: '{term.target}' is both the target of '{term.source}' and forbidden"
        for term in terms
        if term.is_forbidden and (term.source, term.target) in wanted
    ]
    return ReadGlossary(tuple(terms), tuple(notes), tuple(others))


def _split(raw: bytes, place: str) -> list[str]:
    try:
        line = raw.decode().removesuffix("\r")
    except UnicodeDecodeError as error:
        raise MtkitError(
            f"{place}: invalid UTF-8", "convert it first, for example: iconv -f latin1 -t utf-8"
        ) from error
    if "\0" in line:
        raise MtkitError(f"{place}: a null character: this isn't text")
    return [part.strip() for part in line.split("\t")]


def _read_header(fields: Sequence[str], place: str) -> tuple[str, ...]:
    columns = tuple(name.lower().replace("-", "_").replace(" ", "_") for name in fields[2:])
    for name in columns:
        if name not in _FLAGS:
            raise MtkitError(
                f"{place}: unknown column '{name}'{suggest(name, _FLAGS)}",
                f"columns: source, target, {', '.join(_FLAGS)}",
            )
    return columns


def _read_term(fields: Sequence[str], columns: Sequence[str] | None, place: str) -> Term:
    if len(fields) < 2:
        raise MtkitError(f"{place}: one column, expected source and target", _COLUMNS)
    max_columns = 2 + len(_FLAGS if columns is None else columns)
    if len(fields) > max_columns:
        raise MtkitError(
            f"{place}: {len(fields)} columns, expected {max_columns} at most", _COLUMNS
        )
    for name, text in zip(("source", "target"), fields, strict=False):
        if not text:
            raise MtkitError(f"{place}: an empty {name}", _COLUMNS)
        if len(text) > MAX_TERM_CHARACTERS:
            raise MtkitError(
                f"{place}: a {name} of {len(text):,} characters, expected "
                f"{MAX_TERM_CHARACTERS} at most"
            )
    flags: dict[str, Any] = {}
    for index, text in enumerate(fields[2:]):
        value = text.lower()
        if columns is None:
            name = value.replace("-", "_").replace(" ", "_")
            if name and name not in _FLAGS:
                raise MtkitError(f"{place}: unknown flag '{text}'{suggest(name, _FLAGS)}", _COLUMNS)
            flags[name] = True
        elif value in (*_YES, *_NO):
            flags[columns[index]] = value in _YES
        else:
            raise MtkitError(f"{place}: {columns[index]} is '{text}', expected yes or no")
    return Term(
        fields[0],
        fields[1],
        is_case_sensitive=flags.get("case_sensitive", False),
        is_forbidden=flags.get("forbidden", False),
    )
