"""Corpora of labelled texts to a text store: read, and rows taken out that would spoil a test."""

from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

from mtkit.console import say
from mtkit.data.preparation.clean_corpora import list_text_inputs, nothing_left, nothing_read
from mtkit.data.preparation.cleaned_block import NUM_SAMPLES, shorten
from mtkit.data.preparation.facts import CorpusFacts, LongRow, TextFacts
from mtkit.data.preparation.run_stage import show_progress
from mtkit.data.preparation.stage import Preparation, Stage, is_labelled
from mtkit.data.preparation.text_store import (
    TextStoreWriter,
    make_text_batch,
    open_duplicate_marks,
)
from mtkit.data.sources.blocks import LabelledRow
from mtkit.data.sources.labelled import name_row, read_labelled
from mtkit.digests import digest_file
from mtkit.errors import MtkitError, suggest
from mtkit.recipe.cleaning import Cleaning
from mtkit.recipe.corpora import corpus_names
from mtkit.recipe.objective import MAX_LABELS
from mtkit.recipe.text_corpora import ClassifierCorpus

LABELLED_COLUMNS = ("text", "second", "label")
"""Columns of a text store of labelled texts; `second` is empty where there are no pairs."""
_ROWS_PER_PART = 10_000
_DIGEST_BYTES = 16


def list_labelled(corpora: Iterable[object]) -> list[ClassifierCorpus]:
    """Returns the corpora of a classifier's recipe, all of which have labels."""
    return [corpus for corpus in corpora if isinstance(corpus, ClassifierCorpus)]


def label_corpora(preparation: Preparation, folder: Path) -> TextFacts:
    """Writes the training corpora's rows into a folder; returns what became of them.

    Nothing is repaired and no row is judged. Left out are rows whose text is blank, rows that stand
    in the development or a test set (`data.cleaning.overlap`), and repeated rows
    (`data.cleaning.duplicates`).

    Raises:
        MtkitError: A corpus that can't be read, of which nothing is left, or with a single label.
    """
    data = preparation.data
    held_out = list_labelled((data.dev, *preparation.recipe.evaluation.test_sets))
    selector = _Selector(data.cleaning, held_out)
    corpora = []
    parts: list[tuple[int, int]] = []
    with TextStoreWriter(folder, LABELLED_COLUMNS) as store:
        train = zip(corpus_names(data.train), list_labelled(data.train), strict=True)
        for number, (name, corpus) in enumerate(train):
            facts: CorpusFacts = {**nothing_read(name), "text_characters": 0}
            corpora.append(facts)
            rows = show_progress(((1, row) for row in read_labelled(corpus)), "reading", "text")
            for part in _cut(selector.select(rows, facts)):
                columns = zip(*((row.text, row.second, row.label) for row in part), strict=True)
                store.append(make_text_batch(dict(zip(LABELLED_COLUMNS, columns, strict=True))))
                parts.append((number, len(part)))
    kept = sum(facts["kept"] for facts in corpora)
    if not kept:
        raise nothing_left(corpora, "text")
    open_duplicate_marks(folder, kept)
    labels = _check_labels(selector.labels)
    for corpus in held_out:
        check_known(corpus, labels)
    say(_describe_labels(selector.labels, labels))
    return {
        "corpora": corpora,
        "parts": parts,
        "kept": kept,
        "notes": [],
        "seconds": {},
        "labels": labels,
        "digest": [digest_file(path) for path in sorted(folder.iterdir())],
    }


def check_known(corpus: ClassifierCorpus, labels: list[str]) -> None:
    """Checks that a development or test set has labels of the training data alone.

    Raises:
        MtkitError: One isn't; it says file and line.
    """
    known = set(labels)
    for row in read_labelled(corpus):
        if row.label not in known:
            raise MtkitError(
                f"{name_row(corpus, row.number)}: label '{row.label}' isn't among those of "
                f"data.train, which are {_list(labels)}{suggest(row.label, labels)}",
                "correct it, or add training text with it; label_column names the column",
            )


class _Selector:
    """Chooses the rows to train on.

    Attributes:
        labels: How often each label was kept.
    """

    def __init__(self, cleaning: Cleaning, held_out: Iterable[ClassifierCorpus]) -> None:
        self.labels: Counter[str] = Counter()
        self._duplicates: set[bytes] | None = set() if cleaning.duplicates.enabled else None
        self._held_out: set[bytes] = set()
        if cleaning.overlap.enabled:
            for corpus in held_out:
                self._held_out |= {_digest(row.text, row.second) for row in read_labelled(corpus)}

    def select(self, rows: Iterable[LabelledRow], facts: CorpusFacts) -> Iterator[LabelledRow]:
        """Yields the rows that are kept; counts all of them."""
        for row in rows:
            facts["read"] += 1
            reason = self._find_reason(row)
            if reason is not None:
                facts["dropped"][reason] = facts["dropped"].get(reason, 0) + 1
                shown = facts["samples"].setdefault(reason, [])
                if len(shown) < NUM_SAMPLES:
                    shown.append(shorten(row.number, {"text": _show(row)}))
                continue
            facts["kept"] += 1
            facts["text_characters"] += len(row.text) + len(row.second)
            self.labels[row.label] += 1
            _keep_longest(facts["longest"], row)
            yield row

    def _find_reason(self, row: LabelledRow) -> str | None:
        """Returns why a row is left out; None where it is kept."""
        if not row.text.strip():
            return "blank"
        if self._held_out and _digest(row.text, row.second) in self._held_out:
            return "overlap"
        if self._duplicates is not None:
            key = _digest(row.text, row.second, row.label)
            if key in self._duplicates:
                return "duplicates"
            self._duplicates.add(key)
        return None


def _digest(*texts: str) -> bytes:
    # No text holds a line break.
    return blake2b("\n".join(texts).encode(), digest_size=_DIGEST_BYTES).digest()


def _show(row: LabelledRow) -> str:
    return "\t".join(filter(None, (row.label, row.text, row.second)))


def _keep_longest(longest: list[LongRow], row: LabelledRow) -> None:
    size = len(row.text) + len(row.second)
    if len(longest) == NUM_SAMPLES and size <= longest[-1]["characters"]:
        return
    longest.append({"characters": size, **shorten(row.number, {"text": _show(row)})})
    longest.sort(key=lambda shown: -shown["characters"])
    del longest[NUM_SAMPLES:]


def _cut(rows: Iterable[LabelledRow]) -> Iterator[list[LabelledRow]]:
    """Yields rows in parts of a text store."""
    part: list[LabelledRow] = []
    for row in rows:
        part.append(row)
        if len(part) == _ROWS_PER_PART:
            yield part
            part = []
    if part:
        yield part


def _check_labels(counts: Counter[str]) -> list[str]:
    """Returns the labels of the training data, sorted by code point.

    Raises:
        MtkitError: There is one alone, or far too many.
    """
    labels = sorted(counts)
    if len(labels) == 1:
        raise MtkitError(
            f"data.train: every text has the label '{labels[0]}': there is nothing to tell apart",
            "is label_column the right column?",
        )
    if len(labels) > MAX_LABELS:
        raise MtkitError(
            f"data.train: {len(labels):,} different labels, such as {_list(labels)}; more than "
            f"{MAX_LABELS:,} aren't supported",
            "is label_column the right column?",
        )
    return labels


def _describe_labels(counts: Counter[str], labels: list[str]) -> str:
    told = ", ".join(f"{label} {counts[label]:,}" for label in labels[:10])
    return f"labels: {told}{', ...' if len(labels) > 10 else ''}"


def _list(labels: list[str]) -> str:
    return ", ".join(f"'{label}'" for label in labels[:5]) + (", ..." if len(labels) > 5 else "")


LABELLED_TEXT = Stage("text", label_corpora, list_text_inputs, is_labelled)
