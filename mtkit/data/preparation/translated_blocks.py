"""Translates blocks of a corpus, and keeps their translations in files."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mtkit.data.batches.token_store import PAIR_COLUMNS
from mtkit.data.preparation.teachers import TeacherLine, Teachers
from mtkit.data.preparation.text_store import LINE_COLUMN
from mtkit.data.sources.blocks import Block
from mtkit.errors import MtkitError
from mtkit.files import write_atomically
from mtkit.recipe.corpora import TranslatedCorpus

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_BLANK = "blank"


@dataclass(frozen=True)
class TranslatingJob:
    """The settings of a worker process that translates blocks; picklable.

    Attributes:
        drop_invalid: Whether a line of invalid UTF-8 is translated with U+FFFD in it, and then
            dropped by the cleaning; otherwise it is an error.
        digests: Of the models, which are the same wherever blocks are translated.
    """

    teachers: Teachers
    corpus: TranslatedCorpus
    drop_invalid: bool
    digests: list[Any]


class BlockTranslator:
    """Translates blocks; created once per process."""

    def __init__(self, job: TranslatingJob) -> None:
        self._job = job
        if job.teachers.describe(job.corpus)["digests"] != job.digests:
            raise MtkitError(
                f"{', '.join(job.corpus.translated_by)}: the translator was replaced during the "
                "translation, or this machine has another copy of it",
                "run the same command again, with the same model on every machine",
            )
        self._translate = job.teachers.open(job.corpus)
        self._given, self._made = PAIR_COLUMNS[::-1] if job.corpus.is_backwards else PAIR_COLUMNS

    def __call__(self, block: Block) -> pa.RecordBatch:
        """Returns the pairs of a block, with their scores; blank lines are dropped ones."""
        rows = block.decode(drop_invalid=self._job.drop_invalid)
        texts = rows.columns[self._given]
        references = rows.columns.get(self._made, [""] * len(texts))
        lines = [
            TeacherLine(int(number), text, reference)
            for number, text, reference in zip(rows.numbers, texts, references, strict=True)
        ]
        has_text = np.array([bool(line.text.strip()) for line in lines], np.bool_)
        found = self._translate([line for line in lines if line.text.strip()])
        made, reasons = np.full(len(lines), "", object), np.full(len(lines), _BLANK, object)
        scores, probabilities = np.full((2, len(lines)), np.nan)
        made[has_text], reasons[has_text] = found.texts, found.reasons
        scores[has_text], probabilities[has_text] = found.scores, found.probabilities
        return pa.record_batch(
            {
                LINE_COLUMN: pa.array([line.number for line in lines], pa.int64()),
                self._given: pa.array([line.text for line in lines], pa.large_string()),
                self._made: pa.array(made.tolist(), pa.large_string()),
                "reason": pa.array(reasons.tolist(), pa.string()),
                "score": pa.array(scores, pa.float64()),
                "probability": pa.array(probabilities, pa.float64()),
            }
        ).replace_schema_metadata({"summary": found.summary})


def write_block(parts: Path, number: int, batch: pa.RecordBatch) -> None:
    """Writes a block's translations to a file of its own."""
    with pa.BufferOutputStream() as stream:
        with pa.ipc.new_stream(stream, batch.schema, options=_COMPRESSED) as writer:
            writer.write_batch(batch)
        write_atomically(_name_part(parts, number), stream.getvalue().to_pybytes())


def has_block(parts: Path, number: int) -> bool:
    """Checks whether a block has been translated."""
    return _name_part(parts, number).exists()


def _name_part(parts: Path, number: int) -> Path:
    return parts / f"{number:07}.arrow"


def join_blocks(parts: Path, whole: Path) -> None:
    """Writes the blocks of a corpus to one file, in order."""
    number = 0
    with ExitStack() as stack:
        writer = None
        while (path := _name_part(parts, number)).exists():
            with pa.ipc.open_stream(path.read_bytes()) as reader:
                batch = reader.read_next_batch().replace_schema_metadata()
            if writer is None:
                sink = stack.enter_context(pa.OSFile(os.fsencode(whole), "wb"))
                options = {"options": _COMPRESSED}
                writer = stack.enter_context(pa.ipc.new_file(sink, batch.schema, **options))
            writer.write_batch(batch)
            number += 1


def read_translated(whole: Path) -> Iterator[pa.RecordBatch]:
    """Yields the blocks of a file from `join_blocks`."""
    with pa.memory_map(os.fsencode(whole)) as source, pa.ipc.open_file(source) as reader:
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)
