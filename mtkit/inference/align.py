"""Turns attention between pieces into links between words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import MtkitError
from mtkit.inference.engines.engine import AligningEngine, EncodedSource, Engine, make_batches
from mtkit.inference.line import Line, TextModel, list_parts
from mtkit.inference.translation import BLANK, Hypothesis, WordAlignment
from mtkit.text.token_ids import EOS
from mtkit.text.words import Span, find_owners, find_words, uses_spaces

_MIN_SHARE = 0.35
"""Minimum share of a target word's attention for a link to more than one source word."""
_WEIGHTS_AT_ONCE = 1 << 18
"""A group of pairs is summed once it has this many weights."""


@dataclass(frozen=True)
class LocatedText:
    """A text's words, and the word of each token.

    Attributes:
        owners: Index of each token's word; -1 for tags, `</s>` and space. Empty if only words are
            aligned.
    """

    words: tuple[Span, ...]
    owners: tuple[int, ...]


class LineAligner:
    """Links the words of lines and of their translations, by a word aligner or by attention."""

    def __init__(self, engine: Engine, model: TextModel) -> None:
        self._words = model.word_aligner if model.translates else None
        self._engine: AligningEngine | None = None
        if model.translates and isinstance(engine, AligningEngine) and engine.aligns:
            self._engine = engine
        self._tokenizer = model.tokenizer

    @property
    def can_align(self) -> bool:
        """Whether the model has attention or a word aligner."""
        return self._engine is not None or self._words is not None

    def check(self) -> None:
        """Raises an MtkitError if words can't be aligned."""
        if not self.can_align:
            raise MtkitError(
                "inference.alignments needs the attention of an encoder-decoder translator, or "
                "data.word_aligner: this model has neither",
                "remove it: --set inference.alignments=false",
            )

    def read_attention(self, lines: Sequence[Line], batch_tokens: int) -> None:
        """Adds alignment weights to searched candidates that lack them."""
        lacking = [
            (part, index)
            for _, part in list_parts(lines)
            for index, each in enumerate(part.candidates)
            if each.alignment_weights is None
        ]
        if self._words is not None or not lacking:
            return
        given = [(part, part.candidates[index]) for part, index in lacking]
        read = self._attend(given, batch_tokens)
        for (part, index), weights in zip(lacking, read, strict=True):
            part.candidates[index] = replace(part.candidates[index], alignment_weights=weights)

    def link_words(self, lines: Sequence[Line]) -> None:
        """Adds word links to candidates; call `read_attention` first."""
        self._link(lines, self._locate_output)

    def align_given(self, lines: Sequence[Line], batch_tokens: int) -> None:
        """Adds word links to given targets: the only candidates of scored lines."""
        for line, part in list_parts(lines):
            tags, _ = self._tokenizer.split_tags(line.text)
            part.span = len(tags), len(line.text)
        self.read_attention(lines, batch_tokens)
        self._link(
            lines,
            lambda each: _locate(each.text, self._tokenizer.locate("target", each.text)),
        )

    def _link(
        self, lines: Sequence[Line], locate_target: Callable[[Hypothesis], LocatedText]
    ) -> None:
        parts = list(list_parts(lines))
        candidates = [each for _, part in parts for each in part.candidates]
        located = []
        for line, part in parts:
            source = self._locate_source(line.text, part)
            located += [(source, locate_target(candidate)) for candidate in part.candidates]
        if self._words is not None:
            texts = ((line.text, part.span) for line, part in parts for _ in part.candidates)
            linked = self._words.align(
                [
                    (text, source.words, span)
                    for (text, span), (source, _) in zip(texts, located, strict=True)
                ],
                [
                    (each.text, target.words)
                    for each, (_, target) in zip(candidates, located, strict=True)
                ],
            )
        else:
            weights = [each.alignment_weights for each in candidates]
            linked = align_words(located, [each for each in weights if each is not None])
        found = iter(
            replace(each, alignment=links, alignment_weights=None)
            for each, links in zip(candidates, linked, strict=True)
        )
        for _, part in parts:
            part.candidates = [next(found) for _ in part.candidates]

    def _attend(
        self, found: Sequence[tuple[EncodedSource, Hypothesis]], batch_tokens: int
    ) -> list[NDArray[np.float32]]:
        """Returns the attention of outputs that came without it."""
        assert self._engine is not None, "checked before"
        outputs = [(*source.begin, *candidate.token_ids) for source, candidate in found]
        lengths = [
            len(source.tokens) + len(output)
            for (source, _), output in zip(found, outputs, strict=True)
        ]
        attended: dict[int, NDArray[np.float32]] = {}
        for batch in make_batches(lengths, batch_tokens):
            read = self._engine.align(
                [found[index][0].tokens for index in batch], [outputs[index] for index in batch]
            )
            attended.update(zip(batch, read, strict=True))
        return [attended[index][len(source.begin) :] for index, (source, _) in enumerate(found)]

    def _locate_source(self, line: str, part: EncodedSource) -> LocatedText:
        """Returns the words of a part; their spans refer to the whole line."""
        start, end = part.span
        text = line[start:end]
        located = self._locate_alone(text)
        if located is None:
            # A language's token may follow `</s>`.
            num_behind = part.tokens[::-1].index(EOS)
            tokens = part.tokens[: len(part.tokens) - 1 - num_behind]
            pieces = self._tokenizer.locate("source", text, tokens)
            num_before = len(tokens) - len(pieces)
            located = _locate(text, pieces, num_before=num_before, num_behind=num_behind)
        return _move(located, start) if start else located

    def _locate_output(self, candidate: Hypothesis) -> LocatedText:
        text = candidate.text
        located = self._locate_alone(text)
        if located is None:
            pieces = self._tokenizer.locate_decoded(candidate.token_ids, text)
            words = find_words(text, pieces)
            located = LocatedText(tuple(words), tuple(find_owners(pieces, words)))
        return located

    def _locate_alone(self, text: str) -> LocatedText | None:
        """Returns the words of a text if they don't depend on its tokens."""
        if self._words is None or not uses_spaces(text):
            return None
        return LocatedText(tuple(find_words(text, ())), ())


UNALIGNED = (replace(BLANK.candidates[0], alignment=WordAlignment((), (), ())),)
"""The candidates of a blank line."""


def align_words(
    pairs: Sequence[tuple[LocatedText, LocatedText]], weights: Sequence[NDArray[np.float32]]
) -> list[WordAlignment]:
    """Returns the links of targets' words.

    A word is linked to the source word that gets most of its pieces' attention, and to any other
    that gets a good share of it. Attention to `</s>` and tags is ignored; a word without known
    attention has no link. `weights` are [tgt_len, src_len] per pair.
    """
    aligned: list[WordAlignment] = []
    first, num_cells = 0, 0
    for last, of_pair in enumerate(weights, 1):
        num_cells += of_pair.size
        if num_cells >= _WEIGHTS_AT_ONCE or last == len(weights):
            aligned += _align_words(pairs[first:last], weights[first:last])
            first, num_cells = last, 0
    return aligned


def _align_words(
    pairs: Sequence[tuple[LocatedText, LocatedText]], weights: Sequence[NDArray[np.float32]]
) -> list[WordAlignment]:
    """Aligns all pairs at once: a numpy call costs more than a word."""
    # Attention is summed in one table. Each target word has a row as wide as its source has words.
    # An extra column per row, and an extra row per pair, collect tokens outside words.
    num_rows = np.array([len(target.words) + 1 for _, target in pairs])
    first_rows = np.cumsum(num_rows) - num_rows
    widths = np.repeat([len(source.words) + 1 for source, _ in pairs], num_rows)
    starts = np.cumsum(widths) - widths
    cells, owners = [], []
    for (source, target), first_row in zip(pairs, first_rows.tolist(), strict=True):
        # -1 wraps around to the last index.
        rows = first_row + np.array(target.owners, np.int64) % (len(target.words) + 1)
        columns = np.array(source.owners, np.int64) % (len(source.words) + 1)
        owners.append(rows)
        cells.append(np.add.outer(starts[rows], columns).ravel())
    sizes = np.bincount(np.concatenate(owners), minlength=len(starts))
    sizes[first_rows + num_rows - 1] = 0
    added = np.bincount(
        np.concatenate(cells),
        np.concatenate([of_pair.ravel() for of_pair in weights]),
        minlength=starts[-1] + widths[-1],
    )
    shares = added / np.repeat(np.maximum(sizes, 1), widths)
    shares[starts + widths - 1] = 0.0
    most = np.maximum.reduceat(shares, starts)
    min_shares = np.repeat(np.minimum(most, _MIN_SHARE), widths)
    is_word = np.repeat(sizes > 0, widths)
    linked = np.flatnonzero(is_word & (shares > 0.0) & (shares >= min_shares))
    of_row = np.searchsorted(starts, linked, side="right") - 1
    of_pair = np.searchsorted(first_rows, of_row, side="right") - 1
    columns, rows = linked - starts[of_row], of_row - first_rows[of_pair]
    order = np.lexsort((rows, columns, of_pair))
    links = list(zip(columns[order].tolist(), rows[order].tolist(), strict=True))
    ends = np.cumsum(np.bincount(of_pair, minlength=len(pairs))).tolist()
    return [
        WordAlignment(source.words, target.words, tuple(links[first:last]))
        for (source, target), first, last in zip(pairs, [0, *ends[:-1]], ends, strict=True)
    ]


def _locate(
    text: str, pieces: Sequence[Span], *, num_before: int = 0, num_behind: int = 0
) -> LocatedText:
    """Returns the words of a text whose tokens follow `num_before` tags and end with `</s>`."""
    words = find_words(text, pieces)
    owners = [-1] * num_before + find_owners(pieces, words) + [-1] * (1 + num_behind)
    return LocatedText(tuple(words), tuple(owners))


def _move(located: LocatedText, start: int) -> LocatedText:
    words = tuple((first + start, last + start) for first, last in located.words)
    return LocatedText(words, located.owners)
