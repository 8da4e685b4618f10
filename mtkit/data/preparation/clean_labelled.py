"""Labelled texts: which rows are kept, and which labels exist.

Nothing is repaired. A row is dropped if a text of it is blank, or if it is in the development or a
test set (`data.cleaning.overlap`); repeated rows are duplicates as in any other text.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mtkit.console import say
from mtkit.data.cleaning.clean import Cleaned
from mtkit.data.preparation.stage import make_visible
from mtkit.data.preparation.text_store import TextStore, digest_rows
from mtkit.data.sources.corpora import decode_all
from mtkit.errors import MtkitError, shorten, suggest
from mtkit.recipe.objective import MAX_LABELS
from mtkit.recipe.text_corpora import ClassifierCorpus

SECOND_COLUMN = "second"
LABELLED_COLUMNS = ("text", SECOND_COLUMN, "label")
"""Columns of a text store of labelled texts; `second` is empty without pairs."""
_DIGEST_BYTES = 16
_SHOWN = 40
"""Characters of a label in messages."""


def list_labelled(corpora: Iterable[object]) -> list[ClassifierCorpus]:
    """Returns the corpora of a classifier's recipe, all of which have labels."""
    return [corpus for corpus in corpora if isinstance(corpus, ClassifierCorpus)]


def digest_texts(texts: Sequence[str], seconds: Sequence[str]) -> list[bytes]:
    """Returns 16 bytes for each text or pair of texts."""
    content = digest_rows((texts, seconds), "pair")
    return [content[at : at + _DIGEST_BYTES] for at in range(0, len(content), _DIGEST_BYTES)]


@dataclass(frozen=True)
class LabelledCleaner:
    """Judges blocks of labelled texts, given digests of held-out ones; picklable."""

    held_out: frozenset[bytes]
    has_pairs: bool = False

    def clean(self, *sides: Sequence[str]) -> Cleaned:
        """Returns which rows of texts, second texts and labels are kept."""
        texts, seconds, _ = sides
        is_blank = np.array([not text.strip() for text in texts], np.bool_)
        if self.has_pairs:
            is_blank |= np.array([not second.strip() for second in seconds], np.bool_)
        is_held_out = np.zeros(len(texts), np.bool_)
        if self.held_out:
            found = [digest in self.held_out for digest in digest_texts(texts, seconds)]
            is_held_out = np.array(found, np.bool_) & ~is_blank
        indices = np.flatnonzero(~(is_blank | is_held_out))
        return Cleaned(
            sides=tuple([side[index] for index in indices.tolist()] for side in sides),
            indices=indices,
            dropped={
                "blank": np.flatnonzero(is_blank),
                "overlap": np.flatnonzero(is_held_out),
            },
            repaired={},
            seconds={},
            misaligned=[],
        )


def find_labels(
    store: TextStore, held_out: Iterable[ClassifierCorpus], elsewhere: Iterable[str] = ()
) -> list[str]:
    """Returns the training data's labels by code point; held-out sets may have no others.

    `elsewhere` are labels of training rows that aren't in the store of a check.
    """
    counts: Counter[str] = Counter(dict.fromkeys(elsewhere, 0))
    for part in store.iterate_unique():
        counts.update(part.column("label").to_pylist())
    labels = _check_labels(counts)
    for corpus in held_out:
        check_known(corpus, labels)
    say(_describe_labels(counts, labels))
    return labels


def check_known(corpus: ClassifierCorpus, labels: list[str]) -> None:
    """Checks that a development or test set has only labels of the training data."""
    known = set(labels)
    for rows in decode_all(corpus):
        for number, label in zip(rows.numbers.tolist(), rows.columns["label"], strict=True):
            if label not in known:
                raise MtkitError(
                    f"{rows.locate(number, 'label')}: label {_quote(label)} isn't among those of "
                    f"data.train, which are {_list(labels)}{suggest(label, labels)}",
                    "correct it, or add training text with it; label_column names the column",
                )


def _check_labels(counts: Counter[str]) -> list[str]:
    """Returns the labels sorted by code point; rejects a single one, or far too many."""
    labels = sorted(counts)
    if len(labels) == 1:
        raise MtkitError(
            f"data.train: every text has the label {_quote(labels[0])}: there is nothing to "
            "distinguish",
            "is label_column the right column? With planted_faults the pairs may be too few or too "
            "short for any fault",
        )
    if len(labels) > MAX_LABELS:
        raise MtkitError(
            f"data.train: {len(labels):,} different labels, such as {_list(labels)}; more than "
            f"{MAX_LABELS:,} aren't supported",
            "is label_column the right column?",
        )
    return labels


def _describe_labels(counts: Counter[str], labels: list[str]) -> str:
    told = ", ".join(
        f"{make_visible(shorten(label, _SHOWN))} {counts[label]:,}" for label in labels[:10]
    )
    return f"labels: {told}{', ...' if len(labels) > 10 else ''}"


def _list(labels: list[str]) -> str:
    return ", ".join(map(_quote, labels[:5])) + (", ..." if len(labels) > 5 else "")


def _quote(label: str) -> str:
    return f"'{make_visible(shorten(label, _SHOWN))}'"
