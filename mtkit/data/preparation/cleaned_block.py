"""A block of pairs or lines, cleaned in whatever process: what is left, what was dropped."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mtkit.data.batches.text_blocks import TEXT_COLUMNS
from mtkit.data.batches.token_store import PAIR_COLUMNS
from mtkit.data.cleaning.clean import Cleaned, Cleaner, measure_length_ratio
from mtkit.data.cleaning.overlap import HeldOut
from mtkit.data.preparation.duplicates import DuplicateKey, digest_rows, list_keys
from mtkit.data.preparation.facts import BlockFacts, ShownRow
from mtkit.data.preparation.text_store import ALIGNMENT_COLUMN, make_text_batch
from mtkit.data.sources.blocks import Block, decode_block
from mtkit.data.sources.pharaoh import Link, write_links
from mtkit.data.sources.sentences import DocumentRun, TextBlock
from mtkit.data.tokenizer_choice import TokenizerChoice
from mtkit.recipe.cleaning import Cleaning
from mtkit.text.normalization import Normalization, punctuation_normalizer
from mtkit.text.words import Span, find_between_spaces

NUM_SAMPLES = 5
"""Pairs that a report shows of each filter and corpus."""
_LONGEST_SHOWN = 300
"""Characters of a line that a report shows."""
_SCATTER = 0x9E3779B97F4A7C15
"""Odd, so that multiples modulo 2^64 are scattered: 2^64 divided by the golden ratio."""


def carry_links(
    links: set[Link], before: tuple[str, str], after: tuple[str, str]
) -> set[Link] | None:
    """Returns links between the words that a pair has after repairs; None where none can be told.

    Words are what spaces separate. A repair may add spaces or remove some: then words are found by
    their characters.

    Args:
        links: Between the words of the pair as it was.
        before: Source and target as they were.
        after: Source and target as they are now.
    """
    if before == after or not links:
        return links
    sources, targets = map(_map_words, before, after)
    if sources is None or targets is None:
        return None
    return {
        (source, target)
        for old_source, old_target in links
        for source in sources[old_source]
        for target in targets[old_target]
    }


def _map_words(before: str, after: str) -> list[list[int]] | None:
    """Returns which words each word of a text became; None where it can't be told."""
    old, new = find_between_spaces(before), find_between_spaces(after)
    if [before[slice(*span)] for span in old] == [after[slice(*span)] for span in new]:
        return [[index] for index in range(len(old))]
    of_old, of_new = _list_owners(before, old), _list_owners(after, new)
    if [character for character, _ in of_old] != [character for character, _ in of_new]:
        # Other characters: the same number of words is as good a sign as any.
        return [[index] for index in range(len(old))] if len(old) == len(new) else None
    found: list[list[int]] = [[] for _ in old]
    for (_, old_word), (_, new_word) in zip(of_old, of_new, strict=True):
        if new_word not in found[old_word]:
            found[old_word].append(new_word)
    return found


def _list_owners(text: str, words: list[Span]) -> list[tuple[str, int]]:
    """Returns each character of a text that is no space of any kind, with its word."""
    return [
        (character, index)
        for index, (start, end) in enumerate(words)
        for character in text[start:end]
        if not character.isspace()
    ]


@dataclass(frozen=True)
class CleaningJob:
    """The settings of a worker process that cleans blocks; picklable.

    Attributes:
        settings: The recipe's section.
        languages: Codes of source and target, or of the text alone.
        length_ratio: Target characters per source character, of the development set.
        held_out: Development and test sets.
        punctuation: Languages whose punctuation is normalised first; None leaves it.
        drop_invalid: Whether a line of invalid UTF-8 is dropped, rather than an error.
        has_alignments: Whether the text gets a column of alignments, which some corpus names.
    """

    settings: Cleaning
    languages: tuple[str, ...]
    length_ratio: float
    held_out: HeldOut
    punctuation: tuple[str, ...] | None
    drop_invalid: bool
    has_alignments: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of text."""
        return PAIR_COLUMNS if len(self.languages) > 1 else TEXT_COLUMNS

    @property
    def duplicate_keys(self) -> tuple[DuplicateKey, ...]:
        """The ways by which duplicates are found, if they are dropped."""
        duplicates = self.settings.duplicates
        if not duplicates.enabled:
            return ()
        return list_keys(duplicates.by) if len(self.languages) > 1 else ("text",)

    @classmethod
    def of(
        cls,
        choice: TokenizerChoice,
        dev: Sequence[tuple[str, ...]],
        tests: Iterable[tuple[str, ...]],
        *,
        normalizations: tuple[Normalization, Normalization],
        drop_invalid: bool = False,
    ) -> "CleaningJob":
        """Returns a recipe's job.

        Args:
            choice: The recipe's tokenizer, and whose corpora are to be cleaned.
            dev: Rows of its development set: pairs, or lines.
            tests: Rows of its test sets, one after the other.
            normalizations: How its tokenizer normalises sources and targets.
            drop_invalid: Drop lines of invalid UTF-8, whatever the recipe says.
        """
        data = choice.data
        languages = data.column_languages
        punctuation = languages if choice.punctuation == "moses" else None
        held_out = _normalize_punctuation(chain(dev, tests), punctuation)
        settings = data.cleaning
        if data.is_trees:
            # Many a sentence has another's tree.
            held_out = ((source, "") for source, *_ in held_out)
            settings = settings.without_rules_of_text()
        return cls(
            settings=settings,
            languages=languages,
            length_ratio=1.0 if data.is_text else measure_length_ratio(dev),
            held_out=HeldOut.of(held_out, normalizations[: len(languages)]),
            punctuation=punctuation,
            drop_invalid=drop_invalid or data.cleaning.encoding.invalid_utf8 == "drop",
            has_alignments=any(data.names_alignments),
        )


@dataclass(frozen=True)
class CleanedBlock:
    """A block of pairs or of lines, cleaned.

    Attributes:
        corpus: Which entry of `data.train` it is of.
        text: What is left, as a part of a text store, without its documents.
        documents: The documents of the lines that are left; None for pairs.
        keys: For each way of finding duplicates, 16 bytes a row that is left.
        facts: What became of its rows; duplicates aren't known yet.
        seconds: Time spent, by filter.
        notes: What the filters can't do for these languages.
        num_unlinked: Pairs that are left whose alignment a repair made meaningless.
    """

    corpus: int
    text: pa.RecordBatch
    documents: DocumentRun | None
    keys: tuple[bytes, ...]
    facts: BlockFacts
    seconds: dict[str, float]
    notes: tuple[str, ...]
    num_unlinked: int = 0


class BlockCleaner:
    """Cleans blocks; made once in each process."""

    def __init__(self, job: CleaningJob) -> None:
        self._job = job
        self._normalizers = tuple(map(punctuation_normalizer, job.punctuation or ()))
        self._keys = job.duplicate_keys
        self._cleaner = Cleaner(
            job.settings,
            languages=job.languages,
            length_ratio=job.length_ratio,
            held_out=job.held_out,
        )

    def __call__(self, block: Block | TextBlock) -> CleanedBlock:
        """Returns what becomes of a block.

        Raises:
            MtkitError: A line is invalid UTF-8, and such lines aren't dropped.
        """
        rows = _decode(block, drop_invalid=self._job.drop_invalid)
        given = rows.sides
        if self._normalizers:
            sides = tuple(
                list(normalize(lines))
                for normalize, lines in zip(self._normalizers, rows.sides, strict=True)
            )
            rows = replace(rows, sides=sides)
        cleaned = self._cleaner.clean(*rows.sides)
        columns = dict(zip(self._job.columns, cleaned.sides, strict=True))
        num_unlinked = 0
        if self._job.has_alignments:
            links = _carry_alignments(block, given, cleaned)
            columns[ALIGNMENT_COLUMN] = [write_links(each or set()) for each in links]
            num_unlinked = links.count(None)
        return CleanedBlock(
            corpus=block.corpus,
            text=make_text_batch(columns),
            documents=rows.documents.keep(cleaned.indices) if rows.documents is not None else None,
            keys=tuple(digest_rows(cleaned.sides, key) for key in self._keys),
            facts=_describe(rows, cleaned, self._job.columns),
            seconds=cleaned.seconds,
            notes=self._cleaner.notes(),
            num_unlinked=num_unlinked,
        )


@dataclass(frozen=True)
class _Rows:
    """A block, decoded.

    Attributes:
        sides: Lines of source and target, or of the text alone.
        numbers: Number of each row in its corpus, from 1, [rows].
        documents: The documents of lines in one language; None for pairs.
        num_invalid: Lines that were invalid UTF-8.
        num_skipped: Entries without a pair.
    """

    sides: tuple[list[str], ...]
    numbers: NDArray[np.int64]
    documents: DocumentRun | None
    num_invalid: int
    num_skipped: int


def _decode(block: Block | TextBlock, *, drop_invalid: bool) -> _Rows:
    if isinstance(block, Block):
        sources, targets, num_invalid = decode_block(block, drop_invalid=drop_invalid)
        numbers = block.first + 1 + np.arange(block.num_pairs)
        return _Rows((sources, targets), numbers, None, num_invalid, block.num_skipped)
    found = block.decode(drop_invalid=drop_invalid)
    numbers = block.first + 1 + found.rows
    return _Rows((found.lines,), numbers, found.documents, found.num_invalid, 0)


def _carry_alignments(
    block: Block | TextBlock, given: tuple[list[str], ...], cleaned: Cleaned
) -> list[set[Link] | None]:
    """Returns the links of each row that is left; None where its words have changed."""
    if not isinstance(block, Block) or block.alignments is None:
        return [set() for _ in cleaned.indices]
    sources, targets = given
    links = block.alignments.read(sources, targets)
    return [
        carry_links(links[index], (sources[index], targets[index]), after)
        for index, after in zip(
            cleaned.indices.tolist(),
            zip(cleaned.sources, cleaned.targets, strict=True),
            strict=True,
        )
    ]


def _describe(rows: _Rows, cleaned: Cleaned, columns: Sequence[str]) -> BlockFacts:
    """Returns what became of a block's rows."""

    def sample(indices: NDArray[np.int64]) -> list[ShownRow]:
        return [
            shorten(
                int(rows.numbers[index]),
                {name: lines[index] for name, lines in zip(columns, rows.sides, strict=True)},
            )
            for index in indices.tolist()
        ]

    lengths = np.array([list(map(len, lines)) for lines in rows.sides], np.int64).sum(axis=0)
    longest = np.argsort(-lengths, kind="stable")[:NUM_SAMPLES]
    facts: BlockFacts = {
        "read": len(rows.numbers),
        "kept": len(cleaned.indices),
        "invalid_utf8": rows.num_invalid,
        "skipped": rows.num_skipped,
        "dropped": {name: len(indices) for name, indices in cleaned.dropped.items()},
        "repaired": cleaned.repaired,
        "samples": {
            name: sample(indices[choose_scattered(rows.numbers[indices] - 1)])
            for name, indices in cleaned.dropped.items()
            if len(indices)
        },
        "misaligned": [
            {
                "first": int(rows.numbers[suspect.first]),
                "last": int(rows.numbers[suspect.last]),
                "shift": suspect.shift,
                "correlation": round(suspect.correlation, 3),
            }
            for suspect in cleaned.suspects
        ],
        "longest": [
            {"characters": int(lengths[index]), **row}
            for index, row in zip(longest, sample(longest), strict=True)
        ],
    }
    characters = [sum(map(len, lines)) for lines in cleaned.sides]
    if len(characters) == 1:
        facts["text_characters"] = characters[0]
    else:
        facts["source_characters"], facts["target_characters"] = characters
    return facts


def _normalize_punctuation(
    rows: Iterable[tuple[str, ...]], languages: tuple[str, ...] | None
) -> Iterable[tuple[str, ...]]:
    """Returns rows with the punctuation that the tokenizer sees, as training rows have it."""
    if languages is None:
        return rows
    normalizers = list(map(punctuation_normalizer, languages))
    return (
        tuple(normalize([line])[0] for normalize, line in zip(normalizers, row, strict=True))
        for row in rows
    )


def shorten(line: int, texts: Mapping[str, str]) -> ShownRow:
    """Returns a row to read, as long as a report shows.

    Args:
        line: Its number.
        texts: Its text by column.
    """
    shown: ShownRow = {"line": line}
    for column in ("source", "target", "text"):
        if column in texts:
            shown[column] = _clip(texts[column])
    return shown


def _clip(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def choose_scattered(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the indices of a few numbers, the same few of a union of parts as of the whole."""
    ranks = numbers.astype(np.uint64) * np.uint64(_SCATTER)
    return np.argsort(ranks, kind="stable")[:NUM_SAMPLES]
