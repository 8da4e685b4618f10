"""Words of a text by their characters, and stretches of a changed text in the one before."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

import regex

UNSPACED_SCRIPTS = (
    "Han", "Hiragana", "Katakana", "Bopomofo", "Yi", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan",
    "Tai_Le", "New_Tai_Lue", "Tai_Tham", "Tai_Viet", "Javanese", "Balinese",
)  # fmt: skip
"""Scripts without spaces between words, by Unicode's names."""
Span = tuple[int, int]
"""Where a stretch of a text begins and ends, in characters."""
_BETWEEN_SPACES = regex.compile(r"[^ \t]+")
_RUN = regex.compile(r"\S+")
_WITHOUT_SPACES = regex.compile(
    r"[\u3000-\u303f\uff00-\uffef"  # Punctuation, and letters as wide.
    r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]"
)
_MAX_MATCHED = 2_000
"""Characters of a text whose changes are looked for one by one: time grows with the square."""


def find_script(language: str) -> str:
    """Returns the ISO 15924 code of the script that a language is written in; empty if unknown.

    Args:
        language: Code such as `de`, `zh-TW` or `jpn`, or `sr-Latn`, whose script counts.
    """
    from babel.core import get_global, parse_locale  # noqa: PLC0415 (slow to load)

    try:
        name, territory, script = parse_locale(language.replace("-", "_"))[:3]
    except ValueError:
        return ""
    if script:
        return str(script)
    known = get_global("likely_subtags")
    name = get_global("language_aliases").get(name, name)
    likely = known.get(f"{name}_{territory}") or known.get(name)
    return str(parse_locale(likely)[2]) if likely else ""


def puts_spaces(text: str) -> bool:
    """Returns whether all of a text is in scripts that put space between words."""
    return text.isascii() or not _WITHOUT_SPACES.search(text)


def find_words(text: str, pieces: Sequence[Span]) -> list[Span]:
    """Returns the words of a text: maximal runs without space.

    In scripts that put no space between words a run is cut where a piece ends next to one of their
    characters.

    Args:
        text: The text.
        pieces: Where the pieces of a tokenizer stand in it, in order.
    """
    if puts_spaces(text):
        return [found.span() for found in _RUN.finditer(text)]
    words: list[Span] = []
    ends = sorted({end for _, end in pieces})
    for found in _RUN.finditer(text):
        start = found.start()
        if _WITHOUT_SPACES.search(found[0]):
            for end in ends[bisect_left(ends, found.start() + 1) : bisect_left(ends, found.end())]:
                if _WITHOUT_SPACES.search(text[end - 1 : end + 1]):
                    words.append((start, end))
                    start = end
        words.append((start, found.end()))
    return words


def strip_span(text: str, span: Span) -> Span:
    """Returns a span without the space at its ends; an empty one where it holds nothing else."""
    start, end = span
    stripped = text[start:end].lstrip()
    start = end - len(stripped)
    return start, start + len(stripped.rstrip())


def replace_spans(text: str, others: Iterable[tuple[Span, str]]) -> str:
    """Returns a text with others in the place of stretches, which are in order."""
    parts, position = [], 0
    for (start, end), other in others:
        parts += [text[position:start], other]
        position = end
    return "".join([*parts, text[position:]])


def blank_out(text: str, spans: Iterable[Span], gap: str) -> str:
    """Returns a text with stretches, in order, replaced by as many of a character."""
    return replace_spans(text, (((start, end), gap * (end - start)) for start, end in spans))


def count_between_spaces(text: str) -> int:
    """Returns how many words there are, where only spaces and tabs separate them."""
    return len(_BETWEEN_SPACES.findall(text))


def find_between_spaces(text: str) -> list[Span]:
    """Returns the words of a text, where only spaces and tabs separate them."""
    return [found.span() for found in _BETWEEN_SPACES.finditer(text)]


def find_owners(pieces: Sequence[Span], words: Sequence[Span]) -> list[int]:
    """Returns for each piece the index of the first word that it shares a character with, or -1.

    Args:
        pieces: Where pieces stand, in order.
        words: Where words do.
    """
    owners = []
    index, num_words = 0, len(words)
    for start, end in pieces:
        while index < num_words and words[index][1] <= start:
            index += 1
        is_inside = index < num_words and words[index][0] < end and start < end
        owners.append(index if is_inside else -1)
    return owners


def map_back(spans: Sequence[Span], changed: str, original: str) -> list[Span]:
    """Returns where stretches of a changed text stood in the original.

    Args:
        spans: Stretches of the changed text.
        changed: The changed text.
        original: The text before.
    """
    if max(len(changed), len(original)) > _MAX_MATCHED:
        scale = len(original) / max(len(changed), 1)
        return [(round(start * scale), round(end * scale)) for start, end in spans]
    starts = [0] * (len(changed) + 1)
    ends = [0] * (len(changed) + 1)
    matcher = SequenceMatcher(None, original, changed, autojunk=False)
    for _, first, last, changed_first, changed_last in matcher.get_opcodes():
        is_same = last - first == changed_last - changed_first
        for index in range(changed_first, changed_last):
            offset = index - changed_first
            starts[index] = first + offset if is_same else first
            ends[index + 1] = first + offset + 1 if is_same else last
    starts[len(changed)] = len(original)
    return [(starts[start], max(ends[end], starts[start])) for start, end in spans]
