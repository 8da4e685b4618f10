"""Links between the words of a line and of its translation, by a word aligner that was learned."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.inference.translation import WordAlignment
from mtkit.text.words import Span, find_owners

if TYPE_CHECKING:
    from mtkit.data.word_alignment import WordAligner


class LearnedAligner:
    """A word aligner that is loaded when it is first asked for links.

    Args:
        path: Its file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _aligner(self) -> "WordAligner":
        # Imported here: most never ask for links.
        from mtkit.data.word_alignment import WordAligner  # noqa: PLC0415

        return WordAligner.load(self._path)

    def align(
        self,
        sources: Sequence[tuple[str, Sequence[Span], Span]],
        targets: Sequence[tuple[str, Sequence[Span]]],
        *,
        together: bool = False,
    ) -> list[WordAlignment]:
        """Returns the links of each pair's words.

        Words are linked that have a linked word of the aligner's in them, which parts punctuation
        from letters; a word's own punctuation links it to nothing.

        Args:
            sources: Each line, where its words stand, and the stretch of it that is aligned.
            targets: Each translation, and where its words stand.
            together: Whether the aligner also learns from these pairs, so that the links of one
                depend on the others.

        Raises:
            MtkitError: The aligner's file is missing or damaged.
        """
        from mtkit.data.word_alignment import align_together, find_aligned_words  # noqa: PLC0415

        of_sources = [find_aligned_words(line, *span) for line, _, span in sources]
        of_targets = [find_aligned_words(text) for text, _ in targets]
        words = (
            [_read(line, spans) for (line, _, _), spans in zip(sources, of_sources, strict=True)],
            [_read(text, spans) for (text, _), spans in zip(targets, of_targets, strict=True)],
        )
        found = align_together(self._aligner, *words) if together else self._aligner.align(*words)
        aligned = []
        for links, source, target, source_spans, target_spans in zip(
            found, sources, targets, of_sources, of_targets, strict=True
        ):
            source_owners = _find_owners(source[0], source_spans, source[1])
            target_owners = _find_owners(target[0], target_spans, target[1])
            pairs = {(source_owners[first], target_owners[second]) for first, second in links}
            known = sorted(pair for pair in pairs if min(pair) >= 0)
            aligned.append(WordAlignment(tuple(source[1]), tuple(target[1]), tuple(known)))
        return aligned


def _find_owners(text: str, spans: Sequence[Span], words: Sequence[Span]) -> list[int]:
    """Returns the word that each of the aligner's words is part of; -1 of a word's punctuation."""
    owners = find_owners(spans, words)
    has_letters = [any(map(str.isalnum, text[start:end])) for start, end in words]
    return [
        -1 if owner >= 0 and has_letters[owner] and not text[start].isalnum() else owner
        for owner, (start, _) in zip(owners, spans, strict=True)
    ]


def _read(text: str, spans: Sequence[Span]) -> list[str]:
    """Returns words as the aligner learned them."""
    return [text[start:end].casefold() for start, end in spans]
