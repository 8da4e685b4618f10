"""Labelled texts to tokens and numbers of labels."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.data.batches.joined_texts import encode_texts
from mtkit.data.batches.text_blocks import LabelledStoreWriter
from mtkit.data.preparation.facts import DevFacts, TrainFacts
from mtkit.data.preparation.held_out import list_line_inputs
from mtkit.data.preparation.labelled_text import list_labelled
from mtkit.data.preparation.run_stage import show_progress
from mtkit.data.preparation.stage import Preparation, Stage, is_labelled
from mtkit.data.preparation.text_store import TextStore
from mtkit.data.preparation.token_counts import ColumnCounts, count_unknown, describe_column
from mtkit.data.preparation.tokenize_blocks import list_block_inputs
from mtkit.data.sources.labelled import read_labelled
from mtkit.digests import digest, digest_file
from mtkit.errors import MtkitError
from mtkit.files import write_atomically
from mtkit.text.tokenizer import SubwordTokenizer


def tokenize_examples(preparation: Preparation, folder: Path) -> TrainFacts:
    """Writes the rows of labelled text as tokens, in order of length too; returns their facts."""
    data, found = preparation.data, preparation.found["text"]
    tokenizer = SubwordTokenizer.load(preparation.tokenizer)
    num_pieces, store = tokenizer.source_vocab_size, TextStore(preparation.text)
    numbers = {label: number for number, label in enumerate(found["labels"])}
    max_tokens, has_pairs = data.block_tokens, data.has_pairs_of_texts
    kept: Counter[int] = Counter()
    lengths = np.zeros(max_tokens + 1, np.int64)
    pieces, unknown = np.zeros(num_pieces, np.int64), Counter[str]()
    parts = ((size, (number, corpus)) for number, (corpus, size) in enumerate(found["parts"]))
    with LabelledStoreWriter(folder, num_pieces, found["labels"]) as writer:
        for number, corpus in show_progress(parts, "tokenising", "text"):
            columns = store.read_part(number).to_pydict()
            texts, seconds = columns["text"], columns["second"] if has_pairs else None
            rows = encode_texts(tokenizer, texts, seconds, max_tokens=max_tokens)
            labels = np.array([numbers[label] for label in columns["label"]], np.int64)
            writer.append(rows, labels, corpus=corpus)
            kept[corpus] += len(rows)
            lengths += np.bincount(rows.lengths, minlength=len(lengths))
            pieces += np.bincount(rows.tokens, minlength=num_pieces)
            if seconds is None:
                unknown += count_unknown(tokenizer, "source", rows, texts)
    counts = ColumnCounts(lengths, pieces, unknown, best_tokens=0, sampled_tokens=0)
    return {
        "corpora": [
            {
                "kept": kept[corpus],
                "too_long": 0,
                "samples": [],
                "documents": kept[corpus],
                "blocks": kept[corpus],
            }
            for corpus in range(len(data.train))
        ],
        "text": describe_column(counts, num_pieces),
        "digest": [digest_file(path) for path in sorted(folder.iterdir())],
    }


def prepare_labelled_dev(preparation: Preparation, folder: Path) -> DevFacts:
    """Writes the development set as tokens and labels, and its texts to be read.

    Raises:
        MtkitError: It can't be read, or has no text.
    """
    data, labels = preparation.data, preparation.found["text"]["labels"]
    tokenizer = SubwordTokenizer.load(preparation.tokenizer)
    [corpus] = list_labelled((data.dev,))
    rows = list(read_labelled(corpus))
    if not rows:
        raise MtkitError("data.dev: no text in it", "is this the right file?")
    numbers = {label: number for number, label in enumerate(labels)}
    texts = [row.text for row in rows]
    seconds = [row.second for row in rows] if data.has_pairs_of_texts else None
    tokens = encode_texts(tokenizer, texts, seconds, max_tokens=data.block_tokens)
    found = np.array([numbers[row.label] for row in rows], np.int64)
    with LabelledStoreWriter(folder, tokenizer.source_vocab_size, labels) as writer:
        writer.append(tokens, found, corpus=0)
    lines = texts if seconds is None else list(map("\t".join, zip(texts, seconds, strict=True)))
    write_atomically(folder / "text.txt", "".join(f"{line}\n" for line in lines))
    write_atomically(folder / "labels.txt", "".join(f"{row.label}\n" for row in rows))
    return {
        "read": len(rows),
        "kept": len(rows),
        "text_tokens": len(tokens.tokens),
        "digest": digest([[row.text, row.second, row.label] for row in rows]),
    }


def _depends(preparation: Preparation) -> list[Any]:
    return [*list_line_inputs(preparation), *preparation.found["text"]["labels"]]


LABELLED_TOKENS = Stage("train", tokenize_examples, list_block_inputs, is_labelled)
LABELLED_DEV = Stage("dev", prepare_labelled_dev, _depends, is_labelled)
