"""Cleans a block of pairs or lines, in any process: what is left, and what was dropped.

The facts of blocks are added up in the parent.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mtkit.data.cleaning.alignment import Misaligned
from mtkit.data.cleaning.clean import Cleaned
from mtkit.data.preparation.carry_links import carry_links
from mtkit.data.preparation.facts import BlockFacts, CorpusFacts, ShownRow
from mtkit.data.preparation.text_store import (
    ALIGNMENT_COLUMN,
    LINE_COLUMN,
    DuplicateKey,
    KeyFiles,
    WrittenPart,
    digest_rows,
    make_text_batch,
    pack_rows,
    write_part,
)
from mtkit.data.sources.blocks import Block, Rows
from mtkit.data.sources.documents import DocumentCounter, DocumentRun, Indices
from mtkit.data.sources.pharaoh import Link, read_links, write_links
from mtkit.errors import MtkitError
from mtkit.recipe.cleaning import Cleaning
from mtkit.text.normalization import punctuation_normalizer
from mtkit.units import plural

NUM_SAMPLES = 5
"""Sample rows that a report shows per filter and corpus."""
_LONGEST_SHOWN = 300
"""Maximum characters of a line in a report."""
_SCATTER = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio: odd, so that multiples modulo 2^64 are scattered."""


class RowCleaner(Protocol):
    """Judges blocks of rows; the verdict on a row depends on that row alone."""

    def clean(self, *sides: Sequence[str]) -> Cleaned:
        """Returns which rows are kept, and which filter drops each of the others."""
        ...


@dataclass(frozen=True)
class CleaningJob:
    """The settings of a worker process that cleans blocks; picklable.

    Attributes:
        folder: Folder of the text store.
        columns: Names of the columns that are cleaned.
        files: The file of each corpus, for the list of dropped rows.
        duplicate_keys: How duplicates are found; empty to keep them.
        punctuation: Languages whose punctuation is normalised first; None to leave it.
        drop_invalid: Whether a line of invalid UTF-8 is dropped, not an error.
        has_alignments: Whether the text gets a column of alignments, because some corpus has them.
    """

    folder: Path
    columns: tuple[str, ...]
    files: tuple[str, ...]
    build_cleaner: Callable[[], RowCleaner]
    duplicate_keys: tuple[DuplicateKey, ...]
    punctuation: tuple[str, ...] | None = None
    drop_invalid: bool = False
    has_alignments: bool = False


@dataclass(frozen=True)
class CleanedBlock:
    """A block of pairs or lines, cleaned.

    Attributes:
        corpus: Index in `data.train`.
        text: What is left, as a part of a text store, without its documents; None if nothing.
        documents: The documents of the remaining lines; None for pairs.
        keys: For each kind of duplicates, 16 bytes per remaining row.
        facts: Counts and samples; duplicates aren't known yet.
        dropped: The other rows, from `pack_rows`.
        num_unlinked: Remaining pairs whose alignment a repair invalidated.
    """

    corpus: int
    text: WrittenPart | None
    documents: DocumentRun | None
    keys: tuple[bytes, ...]
    facts: BlockFacts
    dropped: bytes
    seconds: dict[str, float]
    notes: tuple[str, ...]
    num_unlinked: int = 0


class BlockCleaner:
    """Cleans blocks; created once per process."""

    def __init__(self, job: CleaningJob) -> None:
        self._job = job
        self._normalizers = tuple(map(punctuation_normalizer, job.punctuation or ()))
        self._cleaner = job.build_cleaner()

    def __call__(self, block: Block) -> CleanedBlock:
        """Returns the cleaned block; invalid UTF-8 raises MtkitError unless the job drops it."""
        rows = block.decode(drop_invalid=self._job.drop_invalid)
        given = tuple(rows.columns[name] for name in self._job.columns)
        sides: tuple[Sequence[str], ...] = given
        if self._normalizers:
            sides = tuple(
                list(normalize(lines))
                for normalize, lines in zip(self._normalizers, given, strict=True)
            )
        cleaned = self._cleaner.clean(*sides)
        columns: dict[str, Sequence[str] | Indices] = dict(
            zip(self._job.columns, cleaned.sides, strict=True)
        )
        columns[LINE_COLUMN] = rows.numbers[cleaned.indices]
        num_unlinked = 0
        if self._job.has_alignments:
            links = _carry_alignments(rows, cleaned)
            columns[ALIGNMENT_COLUMN] = [write_links(each or set()) for each in links]
            num_unlinked = links.count(None)
        text = None
        if len(cleaned.indices):
            text = write_part(self._job.folder, make_text_batch(columns))
        return CleanedBlock(
            corpus=block.corpus,
            text=text,
            documents=rows.documents and rows.documents.keep(cleaned.indices),
            keys=tuple(digest_rows(cleaned.sides, key) for key in self._job.duplicate_keys),
            facts=_describe(rows, dict(zip(self._job.columns, sides, strict=True)), cleaned),
            dropped=_pack_dropped(self._job.files[block.corpus], rows, given, cleaned),
            seconds=cleaned.seconds,
            notes=cleaned.notes,
            num_unlinked=num_unlinked,
        )


class _DropsAll:
    """Drops every row."""

    def clean(self, *sides: Sequence[str]) -> Cleaned:
        dropped = {"bad_block": np.arange(len(sides[0]))}
        return Cleaned(tuple([] for _ in sides), np.zeros(0, np.int64), dropped, {}, {}, [])


def drop_block(job: CleaningJob, block: Block) -> CleanedBlock:
    """Returns a block of which all rows are dropped."""
    return BlockCleaner(replace(job, build_cleaner=_DropsAll, drop_invalid=True))(block)


def _carry_alignments(rows: Rows, cleaned: Cleaned) -> list[set[Link] | None]:
    """Returns the links of each remaining row; None where its words have changed."""
    links = read_links(rows)
    if links is None:
        return [set() for _ in cleaned.indices]
    sources, targets = rows.columns["source"], rows.columns["target"]
    return [
        carry_links(links[index], (sources[index], targets[index]), after)
        for index, after in zip(
            cleaned.indices.tolist(), zip(*cleaned.sides, strict=True), strict=True
        )
    ]


def _pack_dropped(
    file: str, rows: Rows, columns: Sequence[Sequence[str]], cleaned: Cleaned
) -> bytes:
    """Returns the dropped rows of a block in order, as they were read."""
    found = sorted(
        (index, name) for name, indices in cleaned.dropped.items() for index in indices.tolist()
    )
    return pack_rows(
        (name, file, rows.numbers[index], *(column[index] for column in columns))
        for index, name in found
    )


def _describe(rows: Rows, columns: Mapping[str, Sequence[str]], cleaned: Cleaned) -> BlockFacts:
    """Returns the facts of a block."""

    def sample(indices: NDArray[np.int64]) -> list[ShownRow]:
        return [
            shorten_row(
                int(rows.numbers[index]), {name: lines[index] for name, lines in columns.items()}
            )
            for index in indices.tolist()
        ]

    texts = [lines for name, lines in columns.items() if name != "label"]
    lengths = np.array([list(map(len, lines)) for lines in texts], np.int64).sum(axis=0)
    longest = np.argsort(-lengths, kind="stable")[:NUM_SAMPLES]
    facts: BlockFacts = {
        "read": len(rows.numbers),
        "kept": len(cleaned.indices),
        "invalid_utf8": rows.num_invalid,
        "skipped": rows.num_skipped,
        "dropped": {name: len(indices) for name, indices in cleaned.dropped.items()},
        "repaired": cleaned.repaired,
        "quoted": sum(map(are_quoted, *texts)),
        "strange_rows": {},
        "strange_letters": {},
        "samples": {
            name: sample(indices[choose_scattered(rows.numbers[indices] - 1)])
            for name, indices in cleaned.dropped.items()
            if len(indices)
        },
        "misaligned": [
            {
                **stretch,
                "first": int(rows.numbers[stretch["first"]]),
                "last": int(rows.numbers[stretch["last"]]),
            }
            for stretch in cleaned.misaligned
        ],
        "longest": [
            {"characters": int(lengths[index]), **row}
            for index, row in zip(longest, sample(longest), strict=True)
        ],
    }
    for column, strange in zip(columns, cleaned.strange, strict=False):
        facts["strange_rows"][column] = strange.num_lines
        facts["strange_letters"][column] = dict(strange.counts)
    characters = [sum(map(len, lines)) for lines in cleaned.sides]
    if "text" in columns:
        # Both texts of a labelled pair.
        facts["text_characters"] = sum(characters[:2])
    else:
        facts["source_characters"], facts["target_characters"] = characters
    return facts


def are_quoted(*texts: str) -> bool:
    """Checks that all texts of a row that aren't empty are in quotation marks, and there is one."""
    return any(texts) and all(
        len(text) > 1 and text[0] == text[-1] == '"' for text in texts if text
    )


def shorten_row(line: int, texts: Mapping[str, str]) -> ShownRow:
    """Returns a row to show, cut to a report's maximum; `line` is its number."""
    shown: ShownRow = {"line": line}
    if "label" in texts:
        texts = {"text": " | ".join(filter(None, map(texts.get, ("label", "text", "second"))))}
    for column in ("source", "target", "text"):
        if column in texts:
            shown[column] = _clip(texts[column])
    return shown


def _clip(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def choose_scattered(numbers: NDArray[np.int64], count: int = NUM_SAMPLES) -> NDArray[np.int64]:
    """Returns the indices of a few numbers, the same ones in one go as part by part."""
    ranks = numbers.astype(np.uint64) * np.uint64(_SCATTER)
    return np.argsort(ranks, kind="stable")[:count]


class CleaningTally:
    """Facts of all training corpora so far; `kept` counts duplicates until `count_duplicates`."""

    def __init__(self, names: Iterable[str]) -> None:
        self.corpora = list(map(_nothing_read, names))
        self.seconds: Counter[str] = Counter()
        self.notes: list[str] = []
        self._documents = DocumentCounter()
        self._num_unlinked: Counter[int] = Counter()

    def add(self, block: CleanedBlock) -> Indices | None:
        """Adds the next block; returns the document number of each of its remaining lines."""
        facts = self.corpora[block.corpus]
        _add_facts(facts, block.facts)
        self.seconds.update(block.seconds)
        self._num_unlinked[block.corpus] += block.num_unlinked
        self.notes += [note for note in block.notes if note not in self.notes]
        if block.documents is None:
            return None
        num_before = self._documents.num_documents
        numbers = self._documents.number(block.corpus, block.documents)
        num_begun = self._documents.num_documents - num_before
        facts["documents"] = facts.get("documents", 0) + num_begun
        return numbers

    def note_unlinked(self) -> None:
        """Adds a note for each corpus in which pairs lost their alignment."""
        self.notes += [
            f"{self.corpora[corpus]['name']}: {plural(count, 'pair')} lost "
            f"{'its' if count == 1 else 'their'} alignment, since repairs or punctuation changed "
            "the words"
            for corpus, count in sorted(self._num_unlinked.items())
            if count
        ]

    def count_duplicates(self, keys: KeyFiles) -> None:
        """Marks duplicates in the text store, and counts them as dropped."""
        marks = keys.mark_duplicates([facts["kept"] for facts in self.corpora])
        for facts, is_duplicate in zip(self.corpora, marks, strict=True):
            facts["dropped"]["duplicates"] = int(np.count_nonzero(is_duplicate))
            facts["kept"] -= facts["dropped"]["duplicates"]


def _nothing_read(name: str) -> CorpusFacts:
    """Returns the facts of a corpus before its first row."""
    return {
        "name": name,
        "read": 0,
        "kept": 0,
        "invalid_utf8": 0,
        "skipped": 0,
        "dropped": {},
        "repaired": {},
        "quoted": 0,
        "strange_rows": {},
        "strange_letters": {},
        "samples": {},
        "misaligned": [],
        "longest": [],
    }


def _add_facts(facts: BlockFacts, block: BlockFacts) -> None:
    """Adds the facts of the next block."""
    facts["read"] += block["read"]
    facts["kept"] += block["kept"]
    facts["invalid_utf8"] += block["invalid_utf8"]
    facts["skipped"] += block["skipped"]
    if "text_characters" in block:
        facts["text_characters"] = facts.get("text_characters", 0) + block["text_characters"]
    else:
        source, target = block["source_characters"], block["target_characters"]
        facts["source_characters"] = facts.get("source_characters", 0) + source
        facts["target_characters"] = facts.get("target_characters", 0) + target
    facts["quoted"] += block["quoted"]
    for column, letters in block["strange_letters"].items():
        found = Counter(facts["strange_letters"].get(column, {})) + Counter(letters)
        facts["strange_letters"][column] = dict(found.most_common())
    for counts, added in (
        (facts["dropped"], block["dropped"]),
        (facts["repaired"], block["repaired"]),
        (facts["strange_rows"], block["strange_rows"]),
    ):
        for name, count in added.items():
            counts[name] = counts.get(name, 0) + count
    for name, samples in block["samples"].items():
        add_samples(facts, name, samples)
    for stretch in block["misaligned"]:
        last = facts["misaligned"][-1] if facts["misaligned"] else None
        if last and _continues(last, stretch):
            last["last"] = stretch["last"]
            last["correlation"] = min(last["correlation"], stretch["correlation"])
        else:
            facts["misaligned"].append(stretch)
    longest = [*facts["longest"], *block["longest"]]
    facts["longest"] = sorted(longest, key=lambda pair: -pair["characters"])[:NUM_SAMPLES]


def _continues(last: Misaligned, stretch: Misaligned) -> bool:
    """Checks that a stretch continues one of earlier blocks.

    Neighbours that are alike hide a shift: the same shift continues in a gap that is no longer than
    the stretches around it.
    """
    gap = stretch["first"] - last["last"] - 1
    longer = max(each["last"] + 1 - each["first"] for each in (last, stretch))
    is_near = not gap or (last["shift"] != 0 and gap <= longer)
    return is_near and last["shift"] == stretch["shift"]


def add_samples(facts: BlockFacts, name: str, samples: Iterable[ShownRow]) -> None:
    """Adds rows dropped by a filter to the few that are shown."""
    merged = [*facts["samples"].get(name, []), *samples]
    chosen = choose_scattered(np.array([sample["line"] - 1 for sample in merged]))
    in_order = sorted((merged[index] for index in chosen), key=lambda sample: sample["line"])
    facts["samples"][name] = in_order


def nothing_left(corpora: Sequence[CorpusFacts], unit: str) -> MtkitError:
    """Returns the error for no row passing the filters, with what dropped them."""
    dropped: Counter[str] = Counter()
    for facts in corpora:
        dropped.update(facts["dropped"])
    reasons = ", ".join(f"{count:,} by {name}" for name, count in dropped.most_common() if count)
    total = sum(facts["read"] for facts in corpora)
    if not total:
        return MtkitError(
            "data.train: no text in it, only blank or skipped lines", "are these the right files?"
        )
    worst = dropped.most_common(1)[0][0]
    if worst == "overlap":
        return MtkitError(
            f"data.train: no {unit}s left of {total:,}; dropped: {reasons}",
            "nearly all are in the development or test sets: give those text of their own, as "
            "`mtkit split` does",
        )
    return MtkitError(
        f"data.train: no {unit}s left of {total:,}; dropped: {reasons}",
        "are these the right files and languages?"
        # A blank side can't be kept.
        + (
            f"; else --set data.cleaning.{worst}.enabled=false"
            if worst in Cleaning.model_fields
            else ""
        ),
    )
