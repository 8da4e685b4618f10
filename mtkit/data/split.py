"""Splits a parallel corpus into training, development and test set: `mtkit split`.

Similar rows stay in one set, or a test would measure memorisation. Which set a row gets depends
on its text, not on its position, so that a corpus is always split in the same way.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from mtkit.checks.text import is_unspaced, split_folded_words
from mtkit.data.cleaning.alignment import describe_misaligned, find_misaligned
from mtkit.data.cleaning.overlap import make_folding
from mtkit.data.preparation.cleaned_block import are_quoted
from mtkit.data.preparation.text_store import join_cells
from mtkit.data.sources.corpora import ParallelCorpus, check_corpus, read_blocks
from mtkit.data.sources.lines import check_is_file, read_lines
from mtkit.data.sources.string_corpora import contradicts, read_declared_languages
from mtkit.errors import MtkitError
from mtkit.files import writing_atomically
from mtkit.recipe.corpora import FileCorpus, PairedFileCorpus, name_file
from mtkit.recipe.corpus_files import (
    FORMATS,
    STRING_PAIRS,
    WITHOUT_COLUMNS,
    ending_of,
    format_of,
)

SplitBy = Literal["templates", "documents", "rows"]
TRAIN = "train"
_MIN_COUNT = 5
_ROWS_PER_COUNT = 2_000
"""A word is part of a template if it occurs five times, or once in so many rows if that is more."""
_MIN_TEMPLATE_WORDS = 3
"""A text with fewer such words has no template."""
_LARGEST_GROUP = {"templates": 0.01, "documents": 1.0, "rows": 0.01}
"""Largest share of a set for one group; larger groups stay in the training set."""
_ROWS_AT_ONCE = 10_000
_COLUMN_KEYS = ("source_column", "target_column")
_Keys = NDArray[np.uint64]
_Marks = NDArray[np.bool_]


@dataclass(frozen=True)
class Splitting:
    """A corpus to split, given as files, and how rows are grouped.

    With `templates`, rows with a side in common, or with sources that differ in rare words only,
    are a group; with `documents`, the rows between two blank ones, or of a file; with `rows`, rows
    with a side in common. `notes` are filled with what to look at in the corpora.
    """

    corpora: Sequence[ParallelCorpus]
    languages: tuple[str, str]
    by: SplitBy = "templates"
    notes: list[str] = field(default_factory=list)

    def split(self, folder: Path, sizes: Mapping[str, int]) -> dict[str, int]:
        """Writes `train.tsv` and a file for each set of `sizes`; returns the pairs of each.

        Sets are filled in the order of `sizes`; they may get fewer pairs than wanted. The folder is
        created. Raises MtkitError if one of the files exists.
        """
        names = (TRAIN, *sizes)
        for corpus in self.corpora:
            check_corpus(corpus, languages=self.languages)
            _check_languages(corpus, self.languages)
        paths = [folder / f"{name}.tsv" for name in names]
        for path in paths:
            if path.exists():
                raise MtkitError(f"{path} exists", "name another folder: --output FOLDER")
        chosen = self._choose(sizes)
        with ExitStack() as stack:
            files = [stack.enter_context(writing_atomically(path)) for path in paths]
            for number, row in zip(chosen.tolist(), self._read(), strict=True):
                if any(map(str.strip, row)):
                    files[number].write(join_cells(row).encode())
        counts = np.bincount(chosen[chosen >= 0], minlength=len(names))
        return dict(zip(names, counts.tolist(), strict=True))

    def _read(self) -> Iterator[tuple[str, str]]:
        for _, sources, targets in self._read_columns():
            yield from zip(sources, targets, strict=True)

    def _read_columns(self) -> Iterator[tuple[int, list[str], list[str]]]:
        """Yields the corpus, sources and targets of each block."""
        for index, corpus in enumerate(self.corpora):
            for block in read_blocks(corpus, languages=self.languages, index=index):
                columns = block.decode(drop_invalid=False).columns
                yield index, columns["source"], columns["target"]

    def _choose(self, sizes: Mapping[str, int]) -> NDArray[np.int64]:
        """Returns the set of each row, 0 for training, and -1 for a blank row."""
        keys, is_blank, is_fit, is_copied = self._describe_rows()
        num_rows = int(np.count_nonzero(~is_blank))
        if sum(sizes.values()) > num_rows / 2:
            tenth = max(1, num_rows // 10)
            raise MtkitError(
                f"{num_rows:,} pairs are too few for sets of "
                f"{' and '.join(f'{size:,}' for size in sizes.values())}",
                f"make the sets smaller: --dev {tenth} --test {tenth}"
                if num_rows >= 2 * len(sizes)
                else "are these the right files?",
            )
        groups = _connect(keys[1:])
        order = np.argsort(groups, kind="stable")
        ends = np.flatnonzero(np.diff(groups[order])) + 1
        if self.by != "documents":
            is_fit &= ~is_copied
        # A document has names and numbers, which are equal on both sides.
        members = [
            rows
            for rows in np.split(order, ends)
            if is_fit[rows].all() and 2 * is_copied[rows].sum() <= np.count_nonzero(~is_blank[rows])
        ]
        # By the smallest key of a row in it: the same whatever the order of the corpus is.
        members.sort(key=lambda rows: int(keys[0][rows].min()))
        chosen = np.zeros(len(is_blank), np.int64)
        for number, wanted in enumerate(sizes.values(), start=1):
            largest, left = max(1, int(_LARGEST_GROUP[self.by] * wanted)), wanted
            waiting = []
            for rows in members:
                size = int(np.count_nonzero(~is_blank[rows]))
                if 0 < size <= min(largest, left):
                    chosen[rows] = number
                    left -= size
                else:
                    waiting.append(rows)
            members = waiting
        chosen[is_blank] = -1
        return chosen

    def _describe_rows(self) -> tuple[list[_Keys], _Marks, _Marks, _Marks]:
        """Returns keys of the rows, and which are blank, fit for a small set, and copied.

        The first key is the pair's, the others group rows. Untranslated pairs, and pairs with a
        blank side, stay in the training set, where cleaning judges them.
        """
        templates = self._find_templates() if self.by == "templates" else None
        fold = make_folding("nmt_nfkc").fold
        columns: list[list[int]] = [[] for _ in range(2 if self.by == "documents" else 4)]
        blank: list[bool] = []
        fit: list[bool] = []
        copied: list[bool] = []
        document = 0
        lengths: list[tuple[int, int, int]] = []
        num_quoted = 0
        for corpus, sources, targets in self._read_columns():
            num_quoted += sum(map(are_quoted, sources, targets))
            lengths += [
                (corpus, len(source), len(target))
                for source, target in zip(sources, targets, strict=True)
            ]
            folded = fold(sources), fold(targets)
            for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
                left, right = folded[0][number], folded[1][number]
                blank.append(not (source.strip() or target.strip()))
                fit.append(bool(left and right))
                copied.append(bool(left) and left == right)
                document += blank[-1]
                keys = [_hash(f"{source}\n{target}")]
                if self.by == "documents":
                    keys.append(_hash(f"{corpus} {document}"))
                else:
                    template = left if templates is None else templates.find(source) or left
                    keys += [_hash(f"s{left}"), _hash(f"t{right}"), _hash(f"m{template}")]
                for column, key in zip(columns, keys, strict=True):
                    column.append(key)
        if not blank:
            raise MtkitError("there are no pairs to split", "are these the right files?")
        is_blank, is_fit = np.array(blank), np.array(fit)
        if num_quoted > len(blank) / 2:
            self.notes.append(
                f"{num_quoted:,} of {len(blank):,} pairs are in quotation marks, which are text "
                "here; if a spreadsheet wrote the file, name it .csv, whose quotes are read"
            )
        self._note_misaligned(np.array(lengths), is_fit)
        return (
            [np.array(column, np.uint64) for column in columns],
            is_blank,
            is_fit | is_blank,
            np.array(copied),
        )

    def _note_misaligned(self, lengths: NDArray[np.int64], is_fit: NDArray[np.bool_]) -> None:
        """Notes stretches whose sides don't match; their rows aren't fit for a small set.

        `lengths` has the corpus of each row, and the lengths of its sides, [rows, 3].
        """
        for index, corpus in enumerate(self.corpora):
            rows = np.flatnonzero(lengths[:, 0] == index)
            for begin in range(0, len(rows), _ROWS_AT_ONCE):
                block = rows[begin : begin + _ROWS_AT_ONCE]
                for found in find_misaligned(lengths[block, 1], lengths[block, 2]):
                    is_fit[block[found["first"] : found["last"] + 1]] = False
                    found["first"] += begin + 1
                    found["last"] += begin + 1
                    self.notes.append(
                        f"{describe_misaligned(str(name_file(corpus)), found)}; these pairs are in "
                        f"{TRAIN}.tsv: repair the file near line {found['first']:,}, and split it "
                        "again"
                    )

    def _find_templates(self) -> "_Templates":
        counts: Counter[str] = Counter()
        num_rows = 0
        for _, sources, _ in self._read_columns():
            num_rows += len(sources)
            counts.update(word for source in sources for word in _split_words(source))
        least = max(_MIN_COUNT, num_rows // _ROWS_PER_COUNT)
        return _Templates(frozenset(word for word, count in counts.items() if count >= least))


@dataclass(frozen=True)
class _Templates:
    """Finds what a text has in common with others: its frequent words, and gaps between them."""

    words: frozenset[str]

    def find(self, text: str) -> str:
        """Returns the template of a text; empty if it has too few frequent words, or no gap."""
        kept = [
            word if word in self.words and not any(map(str.isdigit, word)) else ""
            for word in _split_words(text)
        ]
        num_words = sum(map(bool, kept))
        if num_words < _MIN_TEMPLATE_WORDS or num_words == len(kept):
            return ""
        return " ".join(word or "*" for word, _ in groupby(kept))


def _split_words(text: str) -> list[str]:
    """Returns the words of a text, or its characters in a script without spaces."""
    if not text.isascii() and is_unspaced([text]):
        return split_folded_words(text)
    return text.casefold().split()


def _hash(text: str) -> int:
    content = text.encode(errors="surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


def _connect(keys: Sequence[_Keys]) -> NDArray[np.int64]:
    """Returns the group of each row: rows with a key in common, directly or through others."""
    numbers = [np.unique(column, return_inverse=True)[1] for column in keys]
    groups = np.arange(len(keys[0]))
    while True:
        before = groups
        for column in numbers:
            smallest = np.full(int(column.max()) + 1, len(groups))
            np.minimum.at(smallest, column, groups)
            groups = smallest[column]
        # The group of a group's first row joins long chains in few rounds.
        groups = groups[groups]
        if np.array_equal(before, groups):
            return groups


def read_as_corpora(
    files: Sequence[Path], columns: tuple[int | str, int | str] | None = None
) -> list[ParallelCorpus]:
    """Returns files as corpora: those with a format for pairs, and others as two text files.

    `columns` are those of source and target in tables.
    """
    for path in files:
        check_is_file(path, "is its name right?")
    if len(files) == 2 and all(map(_has_one_side, files)):
        return [FileCorpus(source=files[0], target=files[1])]
    paired = [path for path in files if format_of(path)]
    texts = [path for path in files if not format_of(path)]
    if len(texts) not in (0, 2):
        raise MtkitError(
            f"{texts[-1]}: expected two text files aligned by line, or files with both sides "
            f"({', '.join(FORMATS)})",
            "save a sheet as .csv; join several text files of a language: cat a.en b.en > all.en",
        )
    tables = [path for path in paired if format_of(path) not in WITHOUT_COLUMNS]
    if columns and not tables:
        raise MtkitError("--columns: none of these files is a table", "leave --columns out")
    named: dict[str, Any] = dict(zip(_COLUMN_KEYS, columns or (), strict=False))
    corpora: list[ParallelCorpus] = []
    for path in paired:
        try:
            corpora.append(PairedFileCorpus(path=path, **(named if path in tables else {})))
        except ValidationError as error:
            faults = "; ".join(
                fault["msg"].removeprefix("Value error, ") for fault in error.errors()
            )
            raise MtkitError(f"{path}: {faults}") from error
    return [*corpora, *([FileCorpus(source=texts[0], target=texts[1])] if texts else [])]


def _has_one_side(path: Path) -> bool:
    """Checks whether a file of a format for pairs has text without columns, or keyed strings."""
    lines = list(islice(read_lines(path), 2)) if ending_of(path) in (".txt", ".json") else []
    if not lines:
        return False
    if ending_of(path) == ".txt":
        return "\t" not in lines[0]
    # JSON lines have an object in each line.
    return lines[0].lstrip().startswith("{") and not (
        len(lines) == 2 and lines[0].rstrip().endswith("}")
    )


def _check_languages(corpus: ParallelCorpus, languages: tuple[str, str]) -> None:
    """Checks that a file of strings doesn't declare other languages."""
    if not isinstance(corpus, PairedFileCorpus) or corpus.format not in STRING_PAIRS:
        return
    declared = read_declared_languages(corpus.path, languages)
    if any(map(contradicts, declared, languages)):
        raise MtkitError(
            f"{corpus.path}: it declares {' to '.join(filter(None, declared))}, not "
            f"{' to '.join(languages)}",
            "correct --from and --to, or the file's header",
        )
