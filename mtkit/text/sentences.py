"""Where the sentences of a text begin and end: by sentencex, with a few rules of mtkit's own."""

import bisect
import itertools
from collections.abc import Iterator, Sequence

import regex

from mtkit.text.languages import find_main_language
from mtkit.text.words import Span, strip_span

_WINDOW = 2_048
"""Characters that the library sees at once: its time grows with the square of some texts."""
_CONTEXT = 64
"""Characters before a boundary that rules look at."""
_CLOSERS = r"[\p{Pe}\p{Pf}\"'’”»]*+"
# A run of marks is tried once, from its first, and nothing of what was matched is given back: the
# time grows with the text, not with its square.
_WIDE_END = regex.compile(
    rf"(?<![。！？｡]) [。！？｡]++ [\p{{Sentence_Terminal}}…]*+ {_CLOSERS}", regex.VERBOSE
)
_NARROW_END = regex.compile(rf"[.!?…]{_CLOSERS}$")
_QUOTED_END = regex.compile(r"[」』）]$")
_ABBREVIATIONS = {"fr": regex.compile(r"(?<![\w.])MM?\.$")}
"""What the library doesn't know, by language: Monsieur was most of its faults in French news."""
_QUOTE_PARTICLE = regex.compile(r"と|って")
_SPACELESS = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}\u3000-\u303f]"
)
_LAST_WORD = regex.compile(r"(?<=\s)\S++$")
_LETTER = regex.compile(r"\p{L}")
_SURROGATE = regex.compile(r"[\ud800-\udfff]")


def find_sentences(text: str, language: str = "", keep: Sequence[Span] = ()) -> list[Span]:
    """Returns where a text's sentences are, in order; between them is nothing but space.

    The time grows with the text's length.

    Args:
        text: The text.
        language: Its code, in any common form. Where it is empty or unknown, the rules are those
            of English, which most languages share.
        keep: Stretches inside which no sentence ends.
    """
    ends = sorted({0, *_find_ends(text, find_main_language(language)), len(text)})
    found = [strip_span(text, span) for span in itertools.pairwise(ends)]
    return _join(text, [span for span in found if span[0] < span[1]], keep)


def _find_ends(text: str, language: str) -> Iterator[int]:
    # Imported here: most never split a text.
    from sentencex import get_sentence_boundaries  # noqa: PLC0415

    # The library takes no half of a pair of surrogates.
    readable, position = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text), 0
    while position < len(text):
        window = readable[position : position + _WINDOW]
        found = [each["end_index"] for each in get_sentence_boundaries(language, window)]
        ends = [end for end in found if 0 < end < len(window)]
        yield from (
            position + end for end in ends if not _continues(text, position + end, language)
        )
        if position + len(window) == len(text):
            break
        position += _find_restart(window, ends)
    for match in _WIDE_END.finditer(text):
        if match.end() < len(text) and not _continues(text, match.end(), language):
            yield match.end()


def _find_restart(window: str, ends: Sequence[int]) -> int:
    """Returns where the next window begins: with the last sentence, if it isn't a long one.

    A long one is passed over up to its last word, so that each step is half a window at least.
    """
    word = _LAST_WORD.search(window)
    starts = (ends[-1] if ends else 0, word.start() if word is not None else 0)
    return next((start for start in starts if start >= _WINDOW // 2), len(window))


def _continues(text: str, end: int, language: str) -> bool:
    """Returns whether a sentence goes on behind what looks like its end."""
    around = text[max(0, end - _CONTEXT) : end]
    before = around.rstrip()
    if len(before) < len(around) or text[end].isspace():
        abbreviations = _ABBREVIATIONS.get(language)
        return abbreviations is not None and abbreviations.search(before) is not None
    if _QUOTED_END.search(before):
        return _QUOTE_PARTICLE.match(text, end) is not None
    return _NARROW_END.search(before) is not None and not _SPACELESS.match(text, end)


def _join(text: str, spans: Sequence[Span], keep: Sequence[Span]) -> list[Span]:
    """Returns sentences, those joined that have no letter, or that a stretch of `keep` spans.

    What has no letter, such as the number of a list's item, belongs to the sentence behind it; at
    the end, to the one before.
    """
    keep = _unite(keep)
    starts = [start for start, _ in keep]
    joined: list[Span] = []
    has_letter = True
    for start, end in spans:
        index = bisect.bisect_left(starts, start) - 1
        is_kept = bool(joined) and index >= 0 and keep[index][1] > joined[-1][1]
        is_word = _LETTER.search(text, start, end) is not None
        if is_kept or not has_letter:
            joined[-1] = (joined[-1][0], end)
            has_letter = has_letter or is_word
        else:
            joined.append((start, end))
            has_letter = is_word
    if len(joined) > 1 and not has_letter:
        (start, _), (_, end) = joined[-2:]
        joined[-2:] = [(start, end)]
    return joined


def _unite(spans: Sequence[Span]) -> list[Span]:
    """Returns stretches in order, those that overlap as one."""
    united: list[Span] = []
    for start, end in sorted(spans):
        if united and start < united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((start, end))
    return united
