"""Makes pairs of corpora that name a translator: back-translation and distillation.

Each block's translations are kept in a file of their own until all are there, so that a killed
preparation continues after them. Then one file per corpus keeps them with their scores, so that
nothing is translated again when other corpora or `synthesis.keep` change.
"""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mtkit.console import say, show_progress
from mtkit.data.batches.token_store import PAIR_COLUMNS
from mtkit.data.preparation.cleaned_block import choose_scattered, shorten_row
from mtkit.data.preparation.facts import SyntheticCorpus, SyntheticFacts
from mtkit.data.preparation.preparation_report import PreparationReport
from mtkit.data.preparation.stage import (
    CorpusSample,
    Preparation,
    ReportSection,
    Rows,
    Stage,
    link,
    make_visible,
    share,
)
from mtkit.data.preparation.text_store import (
    HEADER,
    LINE_COLUMN,
    append_dropped,
    pack_rows,
    pack_stored,
)
from mtkit.data.preparation.translated_blocks import (
    BlockTranslator,
    TranslatingJob,
    has_block,
    join_blocks,
    read_translated,
    write_block,
)
from mtkit.data.sources.blocks import Block
from mtkit.data.sources.corpora import NumberedPairs, ParallelCorpus, input_files, read_blocks
from mtkit.data.sources.lines import compress
from mtkit.errors import MtkitError
from mtkit.files import digest, digest_file
from mtkit.recipe.corpora import TranslatedCorpus, corpus_names
from mtkit.recipe.data import Data
from mtkit.units import format_memory

UNFINISHED_FOLDER = "synthetic.part"
"""Translated blocks of an interrupted preparation."""
_LINES_PER_BLOCK = 1_000
_SAMPLE_BLOCKS, _SAMPLE_LINES = 8, 25
"""Blocks that a check translates, and lines of each."""
_SHOWN = 10
"""Kept translations of each corpus that a report shows, and dropped ones by reason."""
_BLOCKS = ".arrow"
"""File extension of a corpus's translations, kept with their scores."""
_NOT_CHOSEN = "dual_cross_entropy"
_OF_TEACHER = {"translated_by", "synthesis", "name", "weight", "tag"}
_OF_RUN = {"rounds", "checked_by"}
"""Keys that only decide which models are used; the models' digests count."""


def translates(preparation: Preparation) -> bool:
    """Checks that a translator completes some of a recipe's corpora."""
    return bool(_list_corpora(preparation))


def _list_corpora(preparation: Preparation) -> list[tuple[int, TranslatedCorpus]]:
    return [
        (index, corpus)
        for index, corpus in enumerate(preparation.data.train)
        if isinstance(corpus, TranslatedCorpus) and corpus.translated_by
    ]


def are_all_left_out(preparation: Preparation) -> bool:
    """Checks whether a check has left out all corpora, whose translators are trained later."""
    found = preparation.found.get("synthetic", {"corpora": {}})["corpora"]
    num_missing = len(_list_corpora(preparation)) - len(found)
    return num_missing == len(preparation.data.train)


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
    teachers = preparation.teachers
    assert teachers is not None
    readable = []
    for index, corpus in _list_corpora(preparation):
        with preparation.listing_faults():
            # An unreadable line is reported now, not after days.
            check_lines(preparation.data, index, corpus)
            readable.append((index, corpus))
    for index, corpus in readable:
        with preparation.listing_faults():
            if preparation.sample is not None:
                are_missing = teachers.are_trained_first(corpus)
                teachers.check(corpus, are_trained_first=are_missing)
                if are_missing:
                    say(f"{names[index]}: left out, since `mtkit run` trains its translator first")
                    continue
            found[str(index)] = _translate_corpus(preparation, index, corpus, names[index], folder)
    files = (path for path in sorted(folder.iterdir()) if path.suffix != _BLOCKS)
    return {"corpora": found, "digest": list(map(digest_file, files))}


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
        raise MtkitError(f"{name}: only blank or skipped lines", "is this the right file?")


def _translate_corpus(
    preparation: Preparation, index: int, corpus: TranslatedCorpus, name: str, folder: Path
) -> SyntheticCorpus:
    teachers, sample = preparation.teachers, preparation.sample
    assert teachers is not None
    described = _describe(preparation, corpus)
    # The share to keep is chosen afterwards.
    described[1]["keep"] = corpus.synthesis.keep is not None
    key = digest(described)
    drops_invalid = preparation.data.cleaning.encoding.invalid_utf8 == "drop"
    chosen = CorpusSample(_SAMPLE_BLOCKS, _SAMPLE_LINES)
    if sample is not None:
        blocks = chosen.choose(_read(preparation.data, corpus, index, _SAMPLE_LINES))
    else:
        blocks = _read(preparation.data, corpus, index, _LINES_PER_BLOCK)
    teacher = teachers.describe(corpus)
    job = TranslatingJob(teachers, corpus, drops_invalid, teacher["digests"])
    seconds_per_line = 0.0
    whole = None if sample is not None else _reuse(preparation, folder, key)
    if whole is None:
        parts = preparation.draft / UNFINISHED_FOLDER / key
        seconds_per_line = _translate_blocks(preparation, job, blocks, parts, name)
        whole = _keep(parts, folder, key)
    facts = _write_pairs(preparation, index, corpus, whole, folder)
    facts["teacher"] = teacher
    described[1]["keep"] = preparation.dump(corpus.synthesis)["keep"]
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
    while has_block(parts, num_done):
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
        write_block(parts, num_done, batch)
        num_done += 1
        summary = batch.schema.metadata[b"summary"].decode()
    if summary:
        say(f"{name}: {summary}")
    return (time.monotonic() - (opened_at if num_lines else started_at)) / max(1, num_lines)


def _keep(parts: Path, folder: Path, key: str) -> Path:
    """Writes a corpus's blocks to one file, whose name has the digest of its content."""
    draft = folder / f"{key}.draft"
    join_blocks(parts, draft)
    return draft.rename(_name_translations(folder, key, draft))


def _reuse(preparation: Preparation, folder: Path, key: str) -> Path | None:
    """Takes a corpus's whole translations from here or an earlier preparation; None without."""
    earlier = (data / SYNTHETIC.name for data in (preparation.draft, preparation.earlier) if data)
    for known in (folder, *earlier):
        for found in sorted(known.glob(f"{key}.*{_BLOCKS}")):
            if found.name == _name_translations(folder, key, found).name:
                target = folder / found.name
                if not target.exists():
                    link(found, target)
                return target
    return None


def _name_translations(folder: Path, key: str, content: Path) -> Path:
    return folder / f"{key}.{digest_file(content)}{_BLOCKS}"


def _write_pairs(
    preparation: Preparation, index: int, corpus: TranslatedCorpus, whole: Path, folder: Path
) -> SyntheticCorpus:
    """Writes the pairs that stay to two files, and the others to the list of dropped rows."""
    limit = _find_limit(corpus, whole)
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
        for batch in read_translated(whole):
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
                stream.write(compress(text, files[column]))
            known.append(kept.column("probability").to_numpy())
            _add_samples(facts, batch, reasons)
    facts["dropped"] = dict(sorted(dropped.items()))
    facts["samples"].sort(key=lambda row: row["reason"])
    probabilities = np.concatenate(known)
    probabilities = probabilities[~np.isnan(probabilities)]
    if len(probabilities):
        facts["mean_probability"] = round(float(probabilities.mean()), 4)
    return facts


def _find_limit(corpus: TranslatedCorpus, whole: Path) -> float | None:
    """Returns the smallest score that is kept; None if `keep` isn't given."""
    if corpus.synthesis.keep is None:
        return None
    chosen = [
        batch.column("score").to_numpy()[_read_reasons(batch) == ""]
        for batch in read_translated(whole)
    ]
    scores = np.sort(np.concatenate(chosen))[::-1]
    scores = scores[~np.isnan(scores)]
    if not len(scores):
        return 0.0
    return float(scores[max(1, round(corpus.synthesis.keep * len(scores))) - 1])


def _read_reasons(batch: pa.RecordBatch) -> Any:
    return np.array(batch.column("reason").to_pylist(), object)


def _add_samples(facts: SyntheticCorpus, batch: pa.RecordBatch, reasons: Any) -> None:
    """Adds a block's rows to the few of each reason that a report shows."""
    numbers = batch.column(LINE_COLUMN).to_numpy()
    for reason in sorted(set(reasons)):
        rows = np.flatnonzero(reasons == reason)
        of_reason = [each for each in facts["samples"] if each["reason"] == reason]
        for index in sorted(rows[choose_scattered(numbers[rows], _SHOWN)].tolist()):
            [row] = batch.slice(index, 1).to_pylist()
            of_reason.append(
                {
                    **shorten_row(row[LINE_COLUMN], row),
                    "reason": str(reason),
                    "probability": _round(row["probability"]),
                    "score": _round(row["score"]),
                }
            )
        chosen = choose_scattered(np.array([each["line"] for each in of_reason]), _SHOWN)
        others = (each for each in facts["samples"] if each["reason"] != reason)
        facts["samples"] = [*others, *(of_reason[index] for index in sorted(chosen.tolist()))]


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
