"""Links the words of a line and of its translation by a learned word aligner."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.inference.request import LineWarning
from mtkit.inference.translation import WordAlignment
from mtkit.text.words import Span, find_owners, uses_spaces

if TYPE_CHECKING:
    from mtkit.data.word_alignment.aligner import WordAligner

_MAX_CACHED_CHARACTERS = 40
"""Maximum characters of a word whose split is cached."""


class LearnedAligner:
    """A word aligner that is loaded on first use."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _aligner(self) -> "WordAligner":
        # Imported here: most programs never need links.
        from mtkit.data.word_alignment.aligner import WordAligner  # noqa: PLC0415

        return WordAligner.load(self._path)

    def align(
        self,
        sources: Sequence[tuple[str, Sequence[Span], Span]],
        targets: Sequence[tuple[str, Sequence[Span]]],
        *,
        together: bool = False,
    ) -> list[WordAlignment]:
        """Returns the links of each pair's words.

        The aligner separates punctuation from letters. Two words are linked if any of their parts
        are; links of a word's own punctuation are ignored. `sources` are lines with their words and
        the span to align; `targets` are translations with their words. With `together`, the aligner
        also learns from these pairs, so that the links of one depend on the others.
        """
        if not sources:
            return []
        from mtkit.data.word_alignment.aligner import MAX_WORDS  # noqa: PLC0415
        from mtkit.data.word_alignment.together import align_together  # noqa: PLC0415

        of_sources = [_read(line, words, *span) for line, words, span in sources]
        of_targets = [_read(text, words, 0, len(text)) for text, words in targets]
        names = [each for each, _ in of_sources], [each for each, _ in of_targets]
        found = align_together(self._aligner, *names) if together else self._aligner.align(*names)
        aligned = []
        for links, source, target, (_, source_owners), (_, target_owners) in zip(
            found, sources, targets, of_sources, of_targets, strict=True
        ):
            is_too_long = max(len(source_owners), len(target_owners)) > MAX_WORDS
            pairs = {(source_owners[first], target_owners[second]) for first, second in links}
            known = sorted(pair for pair in pairs if min(pair) >= 0)
            words = tuple(source[1]), tuple(target[1])
            aligned.append(WordAlignment(*words, tuple(known), is_too_long))
        return aligned


def warn_too_long(alignment: WordAlignment | None, line: int) -> list[LineWarning]:
    """Returns a warning if a line was too long to be aligned."""
    if alignment is None or not alignment.is_too_long:
        return []
    from mtkit.data.word_alignment.aligner import MAX_WORDS  # noqa: PLC0415

    fault = f"more than {MAX_WORDS} words on a side, with punctuation: no links"
    return [LineWarning("too long to align", fault, line)]


def _read(
    text: str, words: Sequence[Span], first: int, last: int
) -> tuple[Sequence[str], Sequence[int]]:
    """Returns the aligner's words in a span, and the word that each belongs to, or -1."""
    from mtkit.data.word_alignment.word_table import find_aligned_words, split_word  # noqa: PLC0415

    names, owners = [], []
    if uses_spaces(text):
        for owner, (start, end) in enumerate(words):
            word = text[start:end]
            # Long words hardly repeat.
            split = split_word if len(word) <= _MAX_CACHED_CHARACTERS else split_word.__wrapped__
            for name, is_owned in split(word):
                names.append(name)
                owners.append(owner if is_owned else -1)
        return names, owners
    has_letters = [any(map(str.isalnum, text[start:end])) for start, end in words]
    spans = find_aligned_words(text, first, last)
    for owner, (start, end) in zip(find_owners(spans, words), spans, strict=True):
        is_owned = owner < 0 or not has_letters[owner] or text[start].isalnum()
        names.append(text[start:end].casefold())
        owners.append(owner if is_owned else -1)
    return names, owners
