"""Makes pairs of corpora that name a translator: back-translation and distillation.

Each block's translations are kept in a file of their own until all are there, so that a killed
preparation continues after them.
"""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mtkit.console import say, show_progress
from mtkit.data.batches.token_store import PAIR_COLUMNS
from mtkit.data.preparation.cleaned_block import NUM_SAMPLES, choose_scattered, shorten_row
from mtkit.data.preparation.facts import SyntheticCorpus, SyntheticFacts
from mtkit.data.preparation.preparation_report import PreparationReport
from mtkit.data.preparation.stage import (
    CorpusSample,
    Preparation,
    ReportSection,
    Rows,
    Stage,
    make_visible,
    share,
)
from mtkit.data.preparation.teachers import TeacherLine, Teachers
from mtkit.data.preparation.text_store import (
    HEADER,
    LINE_COLUMN,
    append_dropped,
    pack_rows,
    pack_stored,
)
from mtkit.data.sources.blocks import Block
from mtkit.data.sources.corpora import NumberedPairs, ParallelCorpus, input_files, read_blocks
from mtkit.errors import MtkitError
from mtkit.files import digest, digest_file, write_atomically
from mtkit.recipe.corpora import TranslatedCorpus, corpus_names
from mtkit.recipe.data import Data
from mtkit.units import format_memory

UNFINISHED_FOLDER = "synthetic.part"
"""Translated blocks of an interrupted preparation."""
_LINES_PER_BLOCK = 1_000
_SAMPLE_BLOCKS, _SAMPLE_LINES = 8, 25
"""Blocks that a check translates, and lines of each."""
_SHOWN = 10
"""Translations that a check shows of each corpus."""
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_NOT_CHOSEN = "dual_cross_entropy"
_OF_TEACHER = {"translated_by", "synthesis", "name", "weight", "tag"}
_OF_RUN = {"rounds", "checked_by"}
"""Keys that only decide which models are used; the models' digests count."""


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
        """Returns the pairs of a block without blank lines, with their scores."""
        rows = block.decode(drop_invalid=self._job.drop_invalid)
        texts = rows.columns[self._given]
        references = rows.columns.get(self._made, [""] * len(texts))
        lines = [
            TeacherLine(int(number), text, reference)
            for number, text, reference in zip(rows.numbers, texts, references, strict=True)
            if text.strip()
        ]
        found = self._translate(lines)
        return pa.record_batch(
            {
                LINE_COLUMN: pa.array([line.number for line in lines], pa.int64()),
                self._given: pa.array([line.text for line in lines], pa.large_string()),
                self._made: pa.array(found.texts, pa.large_string()),
                "reason": pa.array(found.reasons, pa.string()),
                "score": pa.array(found.scores, pa.float64()),
                "probability": pa.array(found.probabilities, pa.float64()),
            }
        ).replace_schema_metadata({"summary": found.summary})


def translates(preparation: Preparation) -> bool:
    """Checks that a translator completes some of a recipe's corpora."""
    return bool(_list_corpora(preparation))


def _list_corpora(preparation: Preparation) -> list[tuple[int, TranslatedCorpus]]:
    return [
        (index, corpus)
        for index, corpus in enumerate(preparation.data.train)
        if isinstance(corpus, TranslatedCorpus) and corpus.translated_by
    ]


def find_synthetic(preparation: Preparation, index: int) -> ParallelCorpus | None:
    """Returns a corpus's pairs as files if a translator made them; None if it didn't."""
    corpus = preparation.data.train[index]
    assert isinstance(corpus, TranslatedCorpus)
    if str(index) not in preparation.found["synthetic"]["corpora"]:
        return None
    source, target, line = _name_files(preparation.draft / SYNTHETIC.name, index).values()
    return NumberedPairs(source=source, target=target, line=line, tag=corpus.tag)


def _name_files(folder: Path, index: int) -> dict[str, Path]:
    """Returns the files of a corpus's sources, targets and line numbers."""
    return {name: folder / f"{index}.{name}.zst" for name in (*PAIR_COLUMNS, LINE_COLUMN)}


def _translate_corpora(preparation: Preparation, folder: Path) -> SyntheticFacts:
    """Writes the pairs of each corpus that names a translator; returns the facts.

    The files don't depend on the number of workers.
    """
    found: dict[str, SyntheticCorpus] = {}
    append_dropped(folder, pack_rows([(*HEADER, *PAIR_COLUMNS)]))
    names = corpus_names(preparation.data.train)
    for index, corpus in _list_corpora(preparation):
        teachers = preparation.teachers
        assert teachers is not None
        with preparation.listing_faults():
            # An unreadable line is reported now, not after days.
            check_lines(preparation.data, index, corpus)
            if preparation.sample is not None:
                teachers.check(corpus, are_trained_first=True)
                if teachers.are_trained_first(corpus):
                    say(f"{names[index]}: left out, since `mtkit run` trains its translator first")
                    continue
            found[str(index)] = _translate_corpus(preparation, index, corpus, names[index], folder)
    return {"corpora": found, "digest": [digest_file(path) for path in sorted(folder.iterdir())]}


def check_lines(data: Data, index: int, corpus: TranslatedCorpus) -> None:
    """Checks that all lines of a corpus can be read, and that some aren't blank."""
    drops_invalid = data.cleaning.encoding.invalid_utf8 == "drop"
    given = PAIR_COLUMNS[corpus.is_backwards]
    has_text = False
    for block in _read(data, corpus, index, _LINES_PER_BLOCK):
        rows = block.decode(drop_invalid=drops_invalid)
        has_text = has_text or any(map(str.strip, rows.columns[given]))
    if not has_text:
        name = corpus_names(data.train)[index]
        raise MtkitError(f"{name}: only blank lines", "is this the right file?")


def _translate_corpus(
    preparation: Preparation, index: int, corpus: TranslatedCorpus, name: str, folder: Path
) -> SyntheticCorpus:
    teachers, sample = preparation.teachers, preparation.sample
    assert teachers is not None
    described = _describe(preparation, corpus)
    parts = preparation.draft / UNFINISHED_FOLDER / digest(described)[:16]
    drops_invalid = preparation.data.cleaning.encoding.invalid_utf8 == "drop"
    chosen = CorpusSample(_SAMPLE_BLOCKS, _SAMPLE_LINES)
    if sample is not None:
        blocks = chosen.choose(_read(preparation.data, corpus, index, _SAMPLE_LINES))
    else:
        blocks = _read(preparation.data, corpus, index, _LINES_PER_BLOCK)
    teacher = teachers.describe(corpus)
    job = TranslatingJob(teachers, corpus, drops_invalid, teacher["digests"])
    seconds_per_line = _translate_blocks(preparation, job, blocks, parts, name)
    facts = _join_parts(preparation, index, corpus, parts, folder)
    facts["teacher"] = teacher
    if _describe(preparation, corpus) != described:
        raise MtkitError(
            f"{name}: its text or its translator was replaced while it was translated",
            "run the same command again",
        )
    if not facts["kept"]:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in facts["dropped"].items())
        raise MtkitError(
            f"{name}: no pairs left of {facts['read']:,} translations: {reasons}",
            "look at them with `mtkit translate`; keys of `synthesis` decide what is dropped",
        )
    if sample is not None:
        # The sample's result is scaled up to the whole corpus.
        num_lines = chosen.num_rows[index]
        growth = num_lines / max(1, chosen.num_chosen[index])
        sample.num_rows[index] += round((growth - 1) * facts["kept"])
        num_bytes = sum(path.stat().st_size for path in _name_files(folder, index).values())
        say(
            f"{name}: {facts['read']:,} of {num_lines:,} lines were translated; all would take "
            f"about {_describe_time(num_lines * seconds_per_line)} and "
            f"{format_memory(round(growth * num_bytes))}"
        )
    return facts


def _describe_time(seconds: float) -> str:
    return f"{seconds / 60:,.0f} minutes" if seconds > 90 else f"{seconds:,.0f} s"


def _read(data: Data, corpus: TranslatedCorpus, index: int, rows_per_block: int) -> Iterator[Block]:
    return read_blocks(corpus, index=index, rows_per_block=rows_per_block, languages=data.languages)


def _translate_blocks(
    preparation: Preparation, job: TranslatingJob, blocks: Iterator[Block], parts: Path, name: str
) -> float:
    """Writes the translations of each block to a file, except for those that have one.

    Returns:
        Seconds for each line, without the time until models are open.
    """
    parts.mkdir(parents=True, exist_ok=True)
    num_done = 0
    while _name_part(parts, num_done).exists():
        num_done += 1
        if next(blocks, None) is None:
            # A file that has become shorter has another key.
            break
    summary = ""
    executor = preparation.executor.fit(job.teachers.needs(job.corpus))
    done = executor.run(partial(BlockTranslator, job), blocks)
    counted = ((batch.num_rows, batch) for batch in done)
    started_at, opened_at, num_lines = time.monotonic(), 0.0, 0
    for batch in show_progress(counted, f"translating {name}", "line"):
        if opened_at:
            num_lines += batch.num_rows
        opened_at = opened_at or time.monotonic()
        with pa.BufferOutputStream() as stream:
            with pa.ipc.new_stream(stream, batch.schema, options=_COMPRESSED) as writer:
                writer.write_batch(batch)
            write_atomically(_name_part(parts, num_done), stream.getvalue().to_pybytes())
        num_done += 1
        summary = batch.schema.metadata[b"summary"].decode()
    if summary:
        say(f"{name}: {summary}")
    return (time.monotonic() - (opened_at if num_lines else started_at)) / max(1, num_lines)


def _name_part(parts: Path, number: int) -> Path:
    return parts / f"{number:07}.arrow"


def _read_parts(parts: Path) -> Iterator[pa.RecordBatch]:
    number = 0
    while (path := _name_part(parts, number)).exists():
        with pa.ipc.open_stream(path.read_bytes()) as reader:
            yield reader.read_next_batch()
        number += 1


def _join_parts(
    preparation: Preparation, index: int, corpus: TranslatedCorpus, parts: Path, folder: Path
) -> SyntheticCorpus:
    """Writes the pairs that stay to two files, and the others to the list of dropped rows."""
    limit = _find_limit(corpus, parts)
    dropped: Counter[str] = Counter()
    facts: SyntheticCorpus = {
        "read": 0,
        "kept": 0,
        "dropped": {},
        "limit": limit,
        "samples": [],
        "teacher": {},
    }
    known = [np.zeros(0)]
    files = _name_files(folder, index)
    with ExitStack() as stack:
        streams = {name: stack.enter_context(path.open("wb")) for name, path in files.items()}
        for batch in _read_parts(parts):
            reasons = _read_reasons(batch)
            scores = batch.column("score").to_numpy()
            if limit is not None:
                reasons[(reasons == "") & ~(scores >= limit)] = _NOT_CHOSEN
            is_kept = reasons == ""
            facts["read"] += batch.num_rows
            facts["kept"] += int(np.count_nonzero(is_kept))
            dropped.update(reasons[~is_kept].tolist())
            for reason in sorted(set(reasons[~is_kept])):
                rows = batch.filter(pa.array(reasons == reason))
                file = preparation.name_corpus(index)
                append_dropped(folder, pack_stored(str(reason), file, rows, PAIR_COLUMNS))
            kept = batch.filter(pa.array(is_kept))
            for column, stream in streams.items():
                lines = kept.column(column).to_pylist()
                text = "".join(f"{line}\n" for line in lines).encode(errors="replace")
                stream.write(pa.compress(text, codec="zstd", asbytes=True))
            known.append(kept.column("probability").to_numpy())
            _add_samples(facts, batch, reasons)
    facts["dropped"] = dict(sorted(dropped.items()))
    probabilities = np.concatenate(known)
    probabilities = probabilities[~np.isnan(probabilities)]
    if len(probabilities):
        facts["mean_probability"] = round(float(probabilities.mean()), 4)
    return facts


def _find_limit(corpus: TranslatedCorpus, parts: Path) -> float | None:
    """Returns the smallest score that is kept; None if `keep` isn't given."""
    if corpus.synthesis.keep is None:
        return None
    chosen = [
        batch.column("score").to_numpy()[_read_reasons(batch) == ""] for batch in _read_parts(parts)
    ]
    scores = np.sort(np.concatenate(chosen))[::-1]
    scores = scores[~np.isnan(scores)]
    if not len(scores):
        return 0.0
    return float(scores[max(1, round(corpus.synthesis.keep * len(scores))) - 1])


def _read_reasons(batch: pa.RecordBatch) -> Any:
    return np.array(batch.column("reason").to_pylist(), object)


def _add_samples(facts: SyntheticCorpus, batch: pa.RecordBatch, reasons: Any) -> None:
    """Adds a few rows of a block to those that a report shows, while they are few."""
    if len(facts["samples"]) >= _SHOWN or not batch.num_rows:
        return
    for index in choose_scattered(batch.column(LINE_COLUMN).to_numpy())[:NUM_SAMPLES]:
        [row] = batch.slice(int(index), 1).to_pylist()
        shown = shorten_row(row[LINE_COLUMN], row)
        facts["samples"].append(
            {
                **shown,
                "reason": str(reasons[index]),
                "probability": _round(row["probability"]),
                "score": _round(row["score"]),
            }
        )
    del facts["samples"][_SHOWN:]


def _round(value: float) -> float | None:
    return None if np.isnan(value) else round(value, 3)


def _describe(preparation: Preparation, corpus: TranslatedCorpus) -> list[Any]:
    """Returns all that a corpus's translations depend on."""
    assert preparation.teachers is not None
    is_ready = preparation.teachers.is_ready(corpus)
    return [
        preparation.dump(corpus, _OF_TEACHER),
        preparation.dump(corpus.synthesis, _OF_RUN),
        preparation.data.languages,
        preparation.data.cleaning.encoding.invalid_utf8,
        [
            digest_file(file) if isinstance(file, Path) and file.is_file() else str(file)
            for file in input_files(corpus)
        ],
        preparation.teachers.describe(corpus)["digests"] if is_ready else None,
    ]


def list_teachers(preparation: Preparation) -> dict[str, dict[str, Any]]:
    """Returns names, digests and licences of the models that translated each corpus, by name."""
    names, corpora = corpus_names(preparation.data.train), preparation.found["synthetic"]["corpora"]
    return {names[int(index)]: each["teacher"] for index, each in corpora.items()}


def _depends(preparation: Preparation) -> list[Any]:
    return [[index, _describe(preparation, corpus)] for index, corpus in _list_corpora(preparation)]


def _show(report: PreparationReport, facts: SyntheticFacts) -> Iterator[ReportSection]:
    """Yields what was dropped, and some of the translations."""
    corpora = list(facts["corpora"].values())
    if not corpora:
        return
    # Translations are kept when their corpus gets another name.
    names = [report.names[int(index)] for index in facts["corpora"]]
    rows: Rows = [["translated", *(f"{each['read']:,}" for each in corpora)]]
    for reason in dict.fromkeys(reason for each in corpora for reason in each["dropped"]):
        counts = (share(each["dropped"].get(reason, 0), each["read"]) for each in corpora)
        rows.append([f"- {reason}", *counts])
    rows.append(["kept", *(share(each["kept"], each["read"]) for each in corpora)])
    rows.append(["log-probability", *(_as_cell(each.get("mean_probability")) for each in corpora)])
    teachers = "; ".join(
        f"{name} by {', '.join(each['teacher']['names'])}"
        for name, each in zip(names, corpora, strict=True)
    )
    yield ReportSection(
        "Translated corpora",
        ["lines", *names],
        rows,
        caption=teachers,
        in_check=True,
    )
    yield ReportSection(
        "Some translations",
        ["log-probability", "dual cross-entropy", "dropped by", "corpus", *PAIR_COLUMNS],
        [
            [
                _as_cell(row["probability"]),
                _as_cell(row["score"]),
                row["reason"],
                name,
                *(make_visible(str(row.get(column, ""))) for column in PAIR_COLUMNS),
            ]
            for name, each in zip(names, corpora, strict=True)
            for row in each["samples"]
        ],
        num_text_columns=4,
        on_terminal=False,
        in_check=True,
    )


def _as_cell(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


SYNTHETIC = Stage("synthetic", _translate_corpora, _depends, translates, _show)
