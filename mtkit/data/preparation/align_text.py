"""Aligns the words of the cleaned pairs: with a corpus's own links, or with mtkit's aligner."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mtkit.console import show_progress
from mtkit.data.batches.token_store import PAIR_COLUMNS
from mtkit.data.preparation.facts import AlignerFacts, AlignmentFacts
from mtkit.data.preparation.stage import Preparation, Stage, needs_alignments
from mtkit.data.preparation.text_store import (
    ALIGNMENT_COLUMN,
    TextPart,
    TextStore,
    TextStoreWriter,
    WrittenPart,
    digest_files,
    make_text_batch,
    write_part,
)
from mtkit.data.sources.pharaoh import write_links
from mtkit.data.word_alignment.aligner import ALIGNER_FILE, WordAligner
from mtkit.data.word_alignment.estimate import train_aligner
from mtkit.data.word_alignment.word_table import find_aligned_words
from mtkit.files import digest_file


class PartAligner:
    """Aligns parts of a text store; created once per process.

    Args:
        folder: Folder of the store of alignments.
        text: Folder of the text store.
        names_alignments: For each corpus, whether the text store has its alignments.
        aligner: File of the aligner for the other corpora, if any.
    """

    def __init__(
        self, folder: Path, text: Path, names_alignments: Sequence[bool], aligner: Path | None
    ) -> None:
        self._folder, self._names_alignments = folder, names_alignments
        self._text = TextStore(text)
        self._aligner = None if aligner is None else WordAligner.load(aligner)

    def __call__(self, part: TextPart) -> tuple[WrittenPart, int, int]:
        """Writes the links of each row of a part, none for rows that don't count.

        Returns them, the number of rows with links, and that of links.
        """
        rows = self._text.read_part(part.number)
        wanted = np.flatnonzero(part.is_unique)
        if self._names_alignments[part.corpus]:
            found = rows.column(ALIGNMENT_COLUMN).take(pa.array(wanted)).to_pylist()
        else:
            assert self._aligner is not None
            sides = rows.take(pa.array(wanted)).select(PAIR_COLUMNS).to_pydict().values()
            links = self._aligner.align(*([_split(line) for line in side] for side in sides))
            found = [write_links(each) for each in links]
        lines = [""] * rows.num_rows
        for row, line in zip(wanted.tolist(), found, strict=True):
            lines[row] = line
        written = write_part(self._folder, make_text_batch({ALIGNMENT_COLUMN: lines}))
        return written, sum(map(bool, lines)), sum(line.count("-") for line in lines)


def _split(line: str) -> list[str]:
    """Returns the words of a line in the aligner's form."""
    return [line[start:end].casefold() for start, end in find_aligned_words(line)]


def _split_pair(pair: tuple[str, str]) -> tuple[list[str], list[str]]:
    return _split(pair[0]), _split(pair[1])


def align_text(preparation: Preparation, folder: Path) -> AlignmentFacts:
    """Writes the alignment of each row of the cleaned text, in the same parts.

    One aligner learns from all corpora without alignments together. The file doesn't depend on the
    number of workers.
    """
    store, parts = preparation.open_text(), preparation.parts
    names_alignments = preparation.data.names_alignments
    aligner = None
    if not all(names_alignments[corpus] for corpus, _ in parts):
        aligner = folder / ALIGNER_FILE
        chosen = (part for part in store.list_parts(parts) if not names_alignments[part.corpus])
        train_aligner(_read_pairs(store, chosen), _split_pair).save(aligner)
    build = partial(PartAligner, folder, preparation.text, names_alignments, aligner)
    aligned = num_links = 0
    found = preparation.executor.run(build, store.list_parts(parts))
    with TextStoreWriter(folder) as writer, closing(found):
        counted = ((aligned_part[0].num_rows, aligned_part) for aligned_part in found)
        for part, num_rows, num_found in show_progress(counted, "aligning"):
            writer.append(part)
            aligned += num_rows
            num_links += num_found
    if aligner is not None:
        aligner.unlink()
    return {"aligned": aligned, "links": num_links, "digest": digest_files(folder)}


def learn_aligner(preparation: Preparation, folder: Path) -> AlignerFacts:
    """Writes an aligner that has learned from all pairs of the cleaned text."""
    path = folder / ALIGNER_FILE
    pairs = _read_pairs(preparation.open_text(), preparation.list_parts())
    train_aligner(pairs, _split_pair).save(path)
    return {"bytes": path.stat().st_size, "digest": [digest_file(path)]}


def _read_pairs(store: TextStore, parts: Iterable[TextPart]) -> Iterator[tuple[str, str]]:
    """Yields the pairs that count, in order."""
    for part in parts:
        rows = store.read_unique(part)
        yield from zip(*rows.select(PAIR_COLUMNS).to_pydict().values(), strict=True)


def list_text_and_names(preparation: Preparation) -> list[Any]:
    """Returns what a stage that reads alignments depends on."""
    return [*_list_text(preparation), preparation.data.names_alignments]


def _list_text(preparation: Preparation) -> list[Any]:
    return [preparation.describe_text(), preparation.parts]


ALIGNER = Stage(
    "aligner", learn_aligner, _list_text, lambda preparation: preparation.data.word_aligner
)
ALIGNMENT = Stage("alignment", align_text, list_text_and_names, needs_alignments)
