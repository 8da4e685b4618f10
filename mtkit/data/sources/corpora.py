"""Corpora of every kind and format as blocks of rows, and the files that they are in."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np

from mtkit.data.phrasebook import generate_pairs
from mtkit.data.sources.blocks import (
    NUMBERS,
    Block,
    Reading,
    Rows,
    Shape,
    Source,
    as_given,
    split_into_blocks,
)
from mtkit.data.sources.csv_text import open_csv
from mtkit.data.sources.documents import DocumentCounter, Indices
from mtkit.data.sources.json_lines import open_json_lines
from mtkit.data.sources.lines import open_lines
from mtkit.data.sources.moses_zip import open_zip
from mtkit.data.sources.parquet import check_data_set, open_data_set, open_parquet
from mtkit.data.sources.pharaoh import read_links
from mtkit.data.sources.published import read_published
from mtkit.data.sources.shapes import (
    PlantedFaultsShape,
    as_labelled,
    as_lines,
    as_pairs,
    as_texts,
)
from mtkit.data.sources.string_corpora import open_keyed_strings, open_string_pairs
from mtkit.data.sources.tables import TableColumns
from mtkit.data.sources.tmx import open_tmx
from mtkit.data.sources.treebank import read_tree_rows
from mtkit.data.sources.tsv import open_tsv
from mtkit.data.sources.values import RawRows, ValueSource, encode_rows
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import (
    FileCorpus,
    FileTrainingCorpus,
    HubCorpus,
    OneSideTrainingCorpus,
    PairedFileCorpus,
    PhrasebookCorpus,
    PublishedCorpus,
    TrainingKeys,
    name_file,
    read_ranges,
)
from mtkit.recipe.parsing import Linearization, Parsing, TreeCorpus
from mtkit.recipe.text_corpora import (
    ClassifierCorpus,
    LabelledCorpus,
    PlantedCorpus,
    TextCorpus,
    TextTableCorpus,
)
from mtkit.storage import Location, Url, check_unchanged, describe_location


class NumberedPairs(FileTrainingCorpus):
    """Pairs with a third file, the number of each in the file that they come from."""

    line: Path


OneLanguageCorpus = TextCorpus | TextTableCorpus
ParallelCorpus = (
    FileCorpus | PairedFileCorpus | HubCorpus | PhrasebookCorpus | PublishedCorpus | TreeCorpus
)
AnyCorpus = ParallelCorpus | OneLanguageCorpus | ClassifierCorpus | OneSideTrainingCorpus
Pair = tuple[str, str]
_ROWS_AT_ONCE = 1_000
"""Also the number of rows that planted faults draw from; see planted_faults.py."""
_PAIR = ("source", "target")
_Opened = tuple[AbstractContextManager[Source], Shape]

_OPENERS: Mapping[str, Callable[[Location, TableColumns], AbstractContextManager[Source]]] = {
    "tsv": open_tsv,
    "csv": open_csv,
    "json-lines": open_json_lines,
    "parquet": open_parquet,
    "tmx": open_tmx,
    "zip": open_zip,
    "po": open_string_pairs,
    "mo": open_string_pairs,
    "xliff": open_string_pairs,
}


def read_blocks(
    corpus: AnyCorpus,
    *,
    languages: tuple[str, str] = ("", ""),
    index: int = 0,
    rows_per_block: int = _ROWS_AT_ONCE,
    phrasebook_split: str = "train",
    linearization: Linearization | None = None,
) -> Iterator[Block]:
    """Yields a corpus's rows in blocks, in order; any process can decode them.

    Reads at most the corpus's `max_pairs`, without those in `skip` and without its `tag`.
    `languages` are for kinds that name their languages, `index` is the corpus's in `data.train`,
    and `phrasebook_split` is the split that the embedded corpus is read as: train, dev or test.
    Raises MtkitError if a file changes while it is read.
    """
    reading = Reading(index, rows_per_block)
    if isinstance(corpus, TrainingKeys):
        reading = replace(reading, max_rows=corpus.max_pairs, skip=read_ranges(corpus.skip))
    opened, shape = _open(corpus, languages, phrasebook_split, linearization)
    inputs = [path for path in input_files(corpus) if isinstance(path, Path)]
    before = list(map(describe_location, inputs))
    with opened as source:
        yield from split_into_blocks(source, reading, shape)
    for path, version in zip(inputs, before, strict=True):
        check_unchanged(path, version)


def _open(
    corpus: AnyCorpus,
    languages: tuple[str, str],
    phrasebook_split: str,
    linearization: Linearization | None,
) -> _Opened:
    """Returns the source of a corpus, to be opened, and the shape of its rows."""
    shape: Shape = as_pairs
    match corpus:
        case FileCorpus() if corpus.has_keys:
            opened: AbstractContextManager[Source] = open_keyed_strings(
                corpus.source, corpus.target
            )
        case FileCorpus() | PlantedCorpus() | OneSideTrainingCorpus():
            named = {name: getattr(corpus, name, None) for name in (*_PAIR, NUMBERS)}
            files = {name: file for name, file in named.items() if file is not None}
            if isinstance(corpus, FileTrainingCorpus) and corpus.alignments is not None:
                files["alignment"] = corpus.alignments
            opened = open_lines(files, languages)
            shape = as_given
            if isinstance(corpus, PlantedCorpus):
                shape = PlantedFaultsShape(corpus.planted_faults)
        case TextCorpus():
            opened, shape = open_lines({"text": corpus.text}), as_lines(corpus.documents)
        case TextTableCorpus():
            columns = {"text": corpus.text_column, "document": corpus.document_column}
            opened, shape = _open_table(corpus, columns), as_texts
        case LabelledCorpus():
            columns = {
                "text": corpus.text_column,
                "second": corpus.second_column,
                "label": corpus.label_column,
            }
            opened, shape = _open_table(corpus, columns), as_labelled
        case PairedFileCorpus():
            opened = _OPENERS[corpus.format](corpus.path, _want_pair(corpus, languages))
            shape = as_given if corpus.format == "zip" else as_pairs
        case HubCorpus():
            opened = open_data_set(corpus, _want_pair(corpus, languages))
        case PhrasebookCorpus():
            _check_direction(languages)
            pairs = generate_pairs(phrasebook_split, corpus.sentences)
            opened = _generate(encode_rows(pairs), corpus.builtin)
        case TreeCorpus():
            form = linearization or Parsing().linearization
            rows = read_tree_rows(corpus, form)
            opened = nullcontext(ValueSource(rows, _PAIR, str(corpus.trees), languages))
        case PublishedCorpus():
            sources, references = read_published(corpus.sacrebleu, languages=languages)
            pairs = zip(sources, references[0], strict=True)
            opened = _generate(encode_rows(pairs), corpus.sacrebleu)
    return opened, shape


def _open_table(
    corpus: TextTableCorpus | LabelledCorpus, columns: Mapping[str, int | str]
) -> AbstractContextManager[Source]:
    wanted = TableColumns({name: column for name, column in columns.items() if column})
    return _OPENERS[corpus.format](corpus.path, wanted)


def _want_pair(corpus: PairedFileCorpus | HubCorpus, languages: tuple[str, str]) -> TableColumns:
    columns = {"source": corpus.source_column, "target": corpus.target_column}
    return TableColumns(columns, languages)


def _generate(rows: RawRows, name: str) -> AbstractContextManager[Source]:
    return nullcontext(ValueSource(rows, _PAIR, name))


def require_parallel(corpus: AnyCorpus) -> ParallelCorpus:
    """Returns the corpus if it has two sides; otherwise raises MtkitError."""
    if isinstance(corpus, ClassifierCorpus):
        name = corpus.path if isinstance(corpus, LabelledCorpus) else corpus.source
        raise MtkitError(
            f"{name}: labelled text, where pairs of sentences are needed",
            "name parallel text, without `label_column` and `planted_faults`",
        )
    if isinstance(corpus, OneLanguageCorpus):
        name = corpus.text if isinstance(corpus, TextCorpus) else corpus.path
        raise MtkitError(
            f"{name}: text in one language, but sentence pairs are needed",
            "choose parallel text: `source` and `target`, or a `path` without `text_column`",
        )
    assert not isinstance(corpus, OneSideTrainingCorpus), "a translator completes it first"
    return corpus


def without_tag(corpus: ParallelCorpus) -> ParallelCorpus:
    """Returns the corpus without its tag."""
    return corpus.model_copy(update={"tag": ""}) if corpus.tag else corpus


def read_corpus_pairs(
    corpus: ParallelCorpus,
    *,
    phrasebook_split: str,
    languages: tuple[str, str],
    linearization: Linearization | None = None,
) -> Iterator[Pair]:
    """Yields a corpus's source and target lines pair by pair, with its `tag`."""
    for block in read_blocks(
        corpus,
        languages=languages,
        phrasebook_split=phrasebook_split,
        linearization=linearization,
    ):
        columns = block.decode(drop_invalid=False).columns
        for source, target in zip(columns["source"], columns["target"], strict=True):
            yield put_tag(corpus.tag, source), target


def put_tag(tag: str, source: str) -> str:
    """Returns a source with a corpus's tag in front; a blank one stays as it is."""
    return f"{tag} {source}" if tag and source.strip() else source


def read_corpus_text(corpus: OneLanguageCorpus) -> tuple[list[str], Indices]:
    """Returns all lines of a corpus that aren't blank, and their document numbers."""
    lines: list[str] = []
    documents: list[Indices] = [np.zeros(0, np.int64)]
    counter = DocumentCounter()
    for rows in decode_all(corpus):
        assert rows.documents is not None
        lines += rows.columns["text"]
        documents.append(counter.number(0, rows.documents))
    return lines, np.concatenate(documents)


def read_labelled(corpus: ClassifierCorpus) -> dict[str, list[str]]:
    """Returns the texts, second texts and labels of a corpus."""
    found: dict[str, list[str]] = {"text": [], "second": [], "label": []}
    for rows in decode_all(corpus):
        for name, values in found.items():
            values.extend(rows.columns[name])
    return found


def decode_all(corpus: OneLanguageCorpus | ClassifierCorpus) -> Iterator[Rows]:
    """Yields the rows of a corpus without languages, block by block."""
    return (block.decode(drop_invalid=False) for block in read_blocks(corpus))


def check_corpus(corpus: AnyCorpus, *, languages: tuple[str, str]) -> None:
    """Checks that a corpus is readable, up to its first row; doesn't fetch one from a hub."""
    if isinstance(corpus, PhrasebookCorpus):
        return _check_direction(languages)
    if isinstance(corpus, HubCorpus):
        check_data_set(corpus)
        if not input_files(corpus):
            return None
    # Invalid UTF-8 may be dropped later.
    block = next(read_blocks(corpus, languages=languages, rows_per_block=1), None)
    if block is None:
        raise MtkitError(f"{name_file(corpus)}: `skip` leaves nothing", "leave rows in")
    read_links(block.decode(drop_invalid=True))
    return None


def input_files(corpus: AnyCorpus) -> list[Location]:
    """Returns the files whose size and time show whether a corpus changed, existing or not."""
    match corpus:
        case FileCorpus() | PlantedCorpus():
            alignments = corpus.alignments if isinstance(corpus, FileTrainingCorpus) else None
            return [corpus.source, corpus.target, *([] if alignments is None else [alignments])]
        case HubCorpus():
            # A name on the hub isn't a folder, and yields nothing.
            return sorted(path for path in Path(corpus.dataset).rglob("*") if path.is_file())
        case PhrasebookCorpus() | PublishedCorpus():
            return []
        case _:
            file = name_file(corpus)
            assert isinstance(file, Path | Url)
            return [file]


def _check_direction(languages: tuple[str, str]) -> None:
    if languages != ("en", "de"):
        raise MtkitError(
            f"the phrasebook is English-German, but the recipe says {'-'.join(languages)}",
            'set data.source_language to "en" and data.target_language to "de"',
        )
