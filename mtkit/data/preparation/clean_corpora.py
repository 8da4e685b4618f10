"""Makes cleaned text from corpora: reads, repairs and filters in parallel, and marks duplicates."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from mtkit.console import show_progress
from mtkit.data.batches.numbered_texts import TEXT_COLUMNS
from mtkit.data.batches.token_store import PAIR_COLUMNS
from mtkit.data.cleaning.clean import Cleaner, learn_length_ratio
from mtkit.data.cleaning.overlap import HeldOut
from mtkit.data.note_normalization import choose_normalization
from mtkit.data.preparation.clean_labelled import (
    LABELLED_COLUMNS,
    LabelledCleaner,
    digest_texts,
    find_labels,
    list_labelled,
)
from mtkit.data.preparation.cleaned_block import (
    BlockCleaner,
    CleaningJob,
    CleaningTally,
    add_samples,
    choose_scattered,
    drop_block,
    nothing_left,
    shorten_row,
)
from mtkit.data.preparation.facts import LongRow, ShownRow, TextFacts
from mtkit.data.preparation.held_out import note_test_sets, read_held_out_rows
from mtkit.data.preparation.note_languages import note_languages
from mtkit.data.preparation.preparation_report import PreparationReport
from mtkit.data.preparation.stage import (
    Preparation,
    ReportSection,
    Rows,
    Stage,
    has_pairs,
    is_labelled,
    make_visible,
    name_unit,
    share,
)
from mtkit.data.preparation.text_store import (
    HEADER,
    LINE_COLUMN,
    KeyFiles,
    TextStore,
    TextStoreWriter,
    append_dropped,
    digest_files,
    hash_keys,
    pack_rows,
    pack_stored,
)
from mtkit.data.preparation.translate_corpora import find_synthetic
from mtkit.data.prepared import describe_inputs, describe_pretrained
from mtkit.data.sources.blocks import Block
from mtkit.data.sources.corpora import AnyCorpus, decode_all, read_blocks, require_parallel
from mtkit.data.tokenizer_choice import digest_reused
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import HeldOutCorpus, PairKeys, corpus_names
from mtkit.text.letters import letters_of, list_letters
from mtkit.text.normalization import Normalization, punctuation_normalizer
from mtkit.units import plural

_ROWS_PER_BLOCK = 10_000


def make_job(preparation: Preparation, folder: Path) -> tuple[CleaningJob, float | None]:
    """Returns how corpora are cleaned, and the development set's length ratio if it has pairs."""
    data, choice = preparation.data, preparation.choice
    settings = data.cleaning
    by = settings.duplicates.by
    if is_labelled(preparation):
        job = CleaningJob(
            folder,
            LABELLED_COLUMNS,
            preparation.files,
            partial(LabelledCleaner, _digest_held_out(preparation), data.has_pairs_of_texts),
            ("pair",) if settings.duplicates.enabled else (),
            drop_invalid=preparation.sample is not None,
        )
        return job, None
    languages = data.column_languages
    is_pairs = len(languages) > 1
    punctuation = languages if choice.punctuation == "moses" else None
    dev = _read_held_out(preparation, data.dev, "dev")
    dev_columns = tuple(zip(*dev, strict=True))
    tests = (
        row
        for test_set in preparation.recipe.evaluation.test_sets
        for row in _read_held_out(preparation, test_set, "test")
    )
    held_out = _normalize_punctuation(chain(dev, tests), punctuation)
    if data.is_trees:
        # Sources only, because many sentences share a tree with another.
        held_out = ((source, "") for source, *_ in held_out)
        settings = settings.without_rules_of_text()
    length_ratio = learn_length_ratio(dev) if is_pairs else 1.0
    normalizations: tuple[Normalization, Normalization] = ("identity", "identity")
    with preparation.listing_faults():
        normalizations = choose_normalization(choice)
    cleaner = partial(
        Cleaner,
        settings,
        languages=languages,
        length_ratio=length_ratio,
        held_out=HeldOut.of(held_out, normalizations[: len(languages)]),
        letters=tuple(
            letters_of(language) | list_letters(column)
            for language, column in zip(languages, dev_columns, strict=False)
        ),
        dev=dev_columns if settings.language.enabled else (),
    )
    keys = hash_keys(by) if is_pairs else ("text",)
    job = CleaningJob(
        folder,
        PAIR_COLUMNS if is_pairs else TEXT_COLUMNS,
        preparation.files,
        cleaner,
        keys if settings.duplicates.enabled else (),
        punctuation,
        preparation.sample is not None or settings.encoding.invalid_utf8 == "drop",
        any(data.names_alignments),
    )
    return job, length_ratio if is_pairs else None


def _read_held_out(
    preparation: Preparation, corpus: HeldOutCorpus, split: Literal["dev", "test"]
) -> list[tuple[str, ...]]:
    """Returns a development or test set; a check continues without an unreadable one."""
    rows: list[tuple[str, ...]] = []
    with preparation.listing_faults():
        rows += read_held_out_rows(preparation.data, corpus, split)
    return rows


def _digest_held_out(preparation: Preparation) -> frozenset[bytes]:
    """Returns digests of the texts of a classifier's development and test sets."""
    found: set[bytes] = set()
    if preparation.data.cleaning.overlap.enabled:
        for corpus in list_labelled(preparation.held_out):
            with preparation.listing_faults():
                for rows in decode_all(corpus):
                    found.update(digest_texts(rows.columns["text"], rows.columns["second"]))
    return frozenset(found)


def _normalize_punctuation(
    rows: Iterable[tuple[str, ...]], languages: tuple[str, ...] | None
) -> Iterable[tuple[str, ...]]:
    """Returns rows with their punctuation normalised, as in training rows."""
    if languages is None:
        return rows
    normalizers = list(map(punctuation_normalizer, languages))
    return (
        tuple(normalize([line])[0] for normalize, line in zip(normalizers, row, strict=True))
        for row in rows
    )


def _read_corpora(preparation: Preparation) -> Iterator[Iterable[Block]]:
    """Yields the blocks that are cleaned in one go: all, or in a check a sample of each corpus."""
    sample, indices = preparation.sample, range(len(preparation.data.train))
    if sample is None:
        yield chain.from_iterable(_read_corpus(preparation, index) for index in indices)
        return
    for index in indices:
        blocks = _read_corpus(preparation, index)
        counted = ((block.num_rows, block) for block in blocks)
        chosen: list[Block] = []
        with preparation.listing_faults():
            chosen += sample.choose(show_progress(counted, "reading", name_unit(preparation)))
        yield chosen


def _read_corpus(preparation: Preparation, index: int) -> Iterator[Block]:
    """Yields the blocks of one training corpus, in order."""
    data, sample = preparation.data, preparation.sample
    corpus: AnyCorpus = data.train[index]
    if isinstance(corpus, PairKeys) and corpus.translated_by:
        found = find_synthetic(preparation, index)
        if found is None:
            # A check continues without it.
            return iter(())
        corpus = found
    return read_blocks(
        require_parallel(corpus) if has_pairs(preparation) else corpus,
        index=index,
        rows_per_block=_ROWS_PER_BLOCK if sample is None else sample.rows_per_block,
        languages=data.languages if has_pairs(preparation) else ("", ""),
        linearization=data.linearization,
    )


def clean_corpora(preparation: Preparation, folder: Path) -> TextFacts:
    """Writes the training corpora's cleaned text; returns its facts.

    The text doesn't depend on the number of workers. Corpora keep their order, and the first of
    equal rows is kept. Held-out pairs are dropped from training.
    """
    data = preparation.data
    job, length_ratio = make_job(preparation, folder)
    tally = CleaningTally(corpus_names(data.train))
    parts: list[tuple[int, int]] = []
    unit = name_unit(preparation)
    if "synthetic" not in preparation.found:
        append_dropped(folder, pack_rows([(*HEADER, *job.columns)]))
    with (
        TextStoreWriter(folder) as store,
        KeyFiles(folder, job.duplicate_keys) as keys,
    ):
        for blocks in _read_corpora(preparation):
            cleaned = preparation.executor.run(
                partial(BlockCleaner, job), blocks, on_loss=partial(drop_block, job)
            )
            counted = ((block.facts["read"], block) for block in cleaned)
            # In a check a fault in one corpus leaves the others to be checked.
            with preparation.listing_faults(), closing(cleaned):
                for block in show_progress(counted, "cleaning", unit):
                    documents = tally.add(block)
                    keys.append(block.keys)
                    append_dropped(folder, block.dropped)
                    if block.text is not None:
                        store.append(block.text, documents)
                        parts.append((block.corpus, block.text.num_rows))
    tally.note_unlinked()
    tally.count_duplicates(keys)
    _list_duplicates(job, folder, parts, tally)
    _list_notes(preparation, folder, parts, tally)
    _list_invalid(preparation, tally)
    kept = sum(facts["kept"] for facts in tally.corpora)
    if not kept:
        if preparation.faults:
            # Nothing was read because of these.
            raise preparation.faults[-1]
        raise nothing_left(tally.corpora, unit)
    found: TextFacts = {
        "corpora": tally.corpora,
        "parts": parts,
        "kept": kept,
        "notes": tally.notes,
        "seconds": {name: round(spent, 3) for name, spent in tally.seconds.items()},
        "digest": digest_files(folder),
    }
    if length_ratio is not None:
        found["length_ratio"] = length_ratio
    if is_labelled(preparation):
        held_out = list_labelled(preparation.held_out)
        elsewhere = () if preparation.sample is None else preparation.sample.labels
        found["labels"] = find_labels(TextStore(folder), held_out, elsewhere)
    return found


def _list_notes(
    preparation: Preparation, folder: Path, parts: Sequence[tuple[int, int]], tally: CleaningTally
) -> None:
    """Adds what seems wrong: notes, or faults of a check if it is sure."""
    if is_labelled(preparation) or preparation.data.is_trees:
        return
    with suppress(MtkitError):
        # A check has listed a set that can't be read.
        tests = preparation.recipe.evaluation.test_sets
        tally.notes += note_test_sets(preparation.data, tests)
    for note in note_languages(TextStore(folder), parts, preparation.data):
        if note.is_sure and preparation.sample is not None:
            preparation.faults.append(MtkitError(note.message, note.hint))
        else:
            tally.notes.append(str(note))


def _list_invalid(preparation: Preparation, tally: CleaningTally) -> None:
    """Adds a fault of a check for each corpus with lines of invalid UTF-8."""
    sample, settings = preparation.sample, preparation.data.cleaning.encoding
    if sample is None or settings.invalid_utf8 == "drop":
        return
    unit = name_unit(preparation)
    for index, error in sample.invalid.items():
        count, total = sample.num_invalid[index], sample.num_rows[index]
        fault = MtkitError(
            f"{error.message}; in all {count:,} of {plural(total, unit)} of "
            f"{tally.corpora[index]['name']}",
            f"{error.hint}; or drop {plural(count, unit)}: "
            "--set data.cleaning.encoding.invalid_utf8=drop",
        )
        preparation.faults.append(fault)


def _list_duplicates(
    job: CleaningJob, folder: Path, parts: Sequence[tuple[int, int]], tally: CleaningTally
) -> None:
    """Lists the duplicates among the dropped rows, and a few of them in the facts."""
    store = TextStore(folder)
    for part in store.list_parts(parts):
        if part.is_unique.all():
            continue
        found = store.read_part(part.number).filter(pa.array(~part.is_unique))
        append_dropped(
            folder, pack_stored("duplicates", job.files[part.corpus], found, job.columns)
        )
        chosen = choose_scattered(found.column(LINE_COLUMN).to_numpy() - 1)
        rows = found.take(pa.array(chosen)).to_pylist()
        samples = [shorten_row(row.pop(LINE_COLUMN), row) for row in rows]
        add_samples(tally.corpora[part.corpus], "duplicates", samples)


def _list_inputs(preparation: Preparation) -> list[Any]:
    """Returns all that the text of a recipe's corpora depends on."""
    recipe, data, choice = preparation.recipe, preparation.data, preparation.choice
    kept, held_out = choice.reused_folder, preparation.held_out
    return [
        [
            preparation.dump(corpus, {"name", "weight", "tag", "translated_by", "synthesis"})
            for corpus in data.train
        ],
        preparation.dump(data.cleaning, {"max_tokens", "selection"}),
        [preparation.dump(corpus, {"tag"}) for corpus in held_out],
        [*data.languages, choice.punctuation],
        # Held-out pairs are compared in the tokenizer's normalisation.
        digest_reused(kept)
        if kept is not None
        else describe_pretrained(recipe.tokenizer) or recipe.tokenizer.normalization,
        describe_inputs((*data.train, *held_out)),
        *([data.linearization] if data.is_trees else []),
        *([preparation.found["synthetic"]["digest"]] if "synthetic" in preparation.found else []),
    ]


def _count_rows(report: PreparationReport) -> ReportSection:
    """Returns the section on what was dropped and repaired in each corpus."""
    corpora = report.corpora
    several = len(corpora) > 1
    read = [corpus["read"] for corpus in corpora]
    rows: Rows = []

    def add(label: str, counts: Sequence[int], of: Sequence[int] = ()) -> None:
        if several:
            counts, of = [*counts, sum(counts)], [*of, sum(of)] if of else ()
        cells = map(share, counts, of) if of else (f"{count:,}" for count in counts)
        rows.append([label, *cells])

    add("read", read)
    for name, total in report.total_dropped().items():
        if total:
            add(f"- {name}", [corpus["dropped"].get(name, 0) for corpus in corpora], read)
    kept = [corpus["kept"] for corpus in corpora]
    add("kept", kept, read)
    for kind in report.total_augmented():
        add(f"+ {kind}", [corpus.get("augmented", {}).get(kind, 0) for corpus in corpora], kept)
    if len(report.languages) == 1:
        add("documents", [corpus.get("documents", 0) for corpus in corpora])
        if report.tokens:
            add("blocks", [corpus.get("blocks", 0) for corpus in corpora])
    if any(corpus["weight"] != 1.0 for corpus in corpora):
        weights = [f"{corpus['weight']:g}" for corpus in corpora]
        rows.append(["times per epoch", *weights, *([""] if several else [])])
    for kind in dict.fromkeys(kind for corpus in corpora for kind in corpus["repaired"]):
        counts = [corpus["repaired"].get(kind, 0) for corpus in corpora]
        if any(counts):
            add(f"lines repaired: {kind}", counts)
    names = [corpus["name"] for corpus in corpora]
    return ReportSection(
        "Corpora", [f"{report.unit}s", *names, *(["all"] if several else [])], rows
    )


def describe_corpora(report: PreparationReport, _: TextFacts) -> Iterator[ReportSection]:
    """Yields the sections on the corpora: what was dropped and repaired, and sample rows."""
    corpora, unit = report.corpora, report.unit
    yield _count_rows(report)
    num_read = max(1, sum(corpus["read"] for corpus in corpora))
    times = [
        [name, f"{spent:,.1f}", f"{spent / num_read * 1e6:.2f}"]
        for name, spent in report.seconds.items()
    ]
    if times:
        header = ["", "CPU seconds", f"microseconds per {unit}"]
        yield ReportSection("Time spent on cleaning", header, times, on_terminal=False)
    for corpus in corpora:
        for name, samples in corpus["samples"].items():
            title = f"{corpus['name']}: dropped by {name}"
            yield _show_rows(title, samples, report.columns)
    for corpus in corpora:
        if corpus["longest"]:
            title = f"{corpus['name']}: longest {unit}s read"
            yield _show_rows(title, corpus["longest"], report.columns, in_check=True)


def _show_rows(
    title: str,
    rows: Sequence[ShownRow | LongRow],
    columns: Sequence[str],
    *,
    in_check: bool = False,
) -> ReportSection:
    """Returns a section with sample rows."""
    shown = [
        [
            f"{row['line'] or ''}",
            *_show_size(row),
            *(make_visible(str(row.get(column, ""))) for column in columns),
        ]
        for row in rows
    ]
    has_sizes = any("characters" in row for row in rows)
    header = ["line", *(["characters"] if has_sizes else []), *columns]
    return ReportSection(
        title,
        header,
        shown,
        caption=title if in_check else "",
        num_text_columns=len(columns),
        on_terminal=False,
        in_check=in_check,
    )


def _show_size(row: Mapping[str, Any]) -> list[str]:
    return [f"{row['characters']:,}"] if "characters" in row else []


CLEANED_TEXT = Stage("text", clean_corpora, _list_inputs, describe=describe_corpora)
