"""The front door: corpora of every kind as blocks or pairs, checked, and the files they lie in."""

from collections.abc import Iterator
from pathlib import Path

from mtkit.data.phrasebook import generate_pairs
from mtkit.data.sources.blocks import Block, ReadSettings, decode_block, group_rows
from mtkit.data.sources.columns import Columns
from mtkit.data.sources.files import check_files, read_file_blocks
from mtkit.data.sources.json_lines import read_json_blocks
from mtkit.data.sources.labelled import read_labelled
from mtkit.data.sources.lines import check_has_content
from mtkit.data.sources.moses_zip import read_zip_blocks
from mtkit.data.sources.one_language import OneLanguageCorpus, check_text
from mtkit.data.sources.parquet import find_columns, read_parquet_blocks, texts_at
from mtkit.data.sources.pharaoh import add_alignments
from mtkit.data.sources.published import read_published
from mtkit.data.sources.tmx import read_tmx_blocks
from mtkit.data.sources.treebank import read_tree_blocks
from mtkit.data.sources.tsv import read_tsv_blocks
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import (
    FileCorpus,
    FileTrainingCorpus,
    HubCorpus,
    PairedFileCorpus,
    PhrasebookCorpus,
    PublishedCorpus,
    TrainingKeys,
)
from mtkit.recipe.parsing import Linearization, Parsing, TreeCorpus
from mtkit.recipe.text_corpora import (
    ClassifierCorpus,
    LabelledCorpus,
    PlantedCorpus,
    TextCorpus,
    TextTableCorpus,
)

_ROWS_AT_ONCE = 1_024
_FORMATS = ("arrow", "cache", "csv", "json", "parquet", "text")
"""Readers of the library's that read tables and nothing else; `pandas` unpickled what it found,
and with that ran it, until the library switched that off."""
AnyCorpus = (
    FileCorpus | PairedFileCorpus | HubCorpus | PhrasebookCorpus | PublishedCorpus | TreeCorpus
)
Pair = tuple[str, str]
_PAIRS_AT_ONCE = 1_024


def read_data_set_blocks(corpus: HubCorpus, reading: ReadSettings) -> Iterator[Block]:
    """Yields the rows of a data set in blocks.

    Raises:
        MtkitError: The data set can't be found, reached or read, or lacks the columns.
    """
    columns = Columns.of(corpus, reading)
    yield from group_rows(_read_rows(corpus, columns), _name(corpus), reading)


def check_data_set(corpus: HubCorpus) -> None:
    """Returns unless the data set is meant to be a local folder and isn't there; reads no network.

    Raises:
        MtkitError: There is no such folder, or no file in it.
    """
    folder = Path(corpus.dataset)
    if folder.is_absolute() and not folder.is_dir():
        raise MtkitError(
            f"{folder}: no such folder",
            "the path is relative to data_root; to change it: --set data.data_root=FOLDER",
        )
    if folder.is_dir() and not any(path.is_file() for path in folder.rglob("*")):
        raise MtkitError(f"{folder}: no files in it", "is it complete?")


def _read_rows(corpus: HubCorpus, columns: Columns) -> Iterator[tuple[bytes, bytes]]:
    # Imported here: the library takes a second, and most recipes read files.
    import datasets  # noqa: PLC0415

    name = _name(corpus)
    num_rows = 0
    try:
        builder = datasets.load_dataset_builder(corpus.dataset, corpus.configuration)
        if builder.name not in _FORMATS:
            raise MtkitError(
                f"{name}: files of type '{builder.name}' can't be read",
                "convert it to Parquet, JSON lines or CSV files, or to two text files",
            )
        data_set = builder.as_streaming_dataset(split=corpus.split)
        for table in data_set.with_format("arrow").iter(batch_size=_ROWS_AT_ONCE):
            ways = find_columns(table.schema, columns, name)
            sides = [texts_at(table, way, name) for way in ways]
            yield from zip(*sides, strict=True)
            num_rows += table.num_rows
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        where = f", after row {num_rows:,}" if num_rows else ""
        raise MtkitError(
            f"{name}{where}: {error}",
            "check its name, configuration and split, and that this machine can reach the hub; "
            "or use two text files instead: source = ..., target = ...",
        ) from error


def _name(corpus: HubCorpus) -> str:
    return f"data set {corpus.dataset} ({corpus.configuration}, {corpus.split})"


def require_parallel(corpus: AnyCorpus | OneLanguageCorpus | ClassifierCorpus) -> AnyCorpus:
    """Returns a corpus that has two sides.

    Raises:
        MtkitError: It is text in one language, or labelled text.
    """
    if isinstance(corpus, ClassifierCorpus):
        name = corpus.path if isinstance(corpus, LabelledCorpus) else corpus.source
        raise MtkitError(
            f"{name}: labelled text, where pairs of sentences are needed",
            "name parallel text, without `label_column` and `planted_faults`",
        )
    if isinstance(corpus, TextCorpus | TextTableCorpus):
        name = corpus.text if isinstance(corpus, TextCorpus) else corpus.path
        raise MtkitError(
            f"{name}: text in one language, but sentence pairs are needed",
            "choose parallel text: `source` and `target`, or a `path` without `text_column`",
        )
    return corpus


def without_tag(corpus: AnyCorpus) -> AnyCorpus:
    """Returns a corpus whose sources don't begin with its tag."""
    return corpus.model_copy(update={"tag": ""}) if corpus.tag else corpus


def read_blocks(
    corpus: AnyCorpus,
    *,
    index: int,
    pairs_per_block: int,
    languages: tuple[str, str],
    phrasebook_split: str = "train",
    linearization: Linearization | None = None,
) -> Iterator[Block]:
    """Yields a corpus's pairs in blocks, in order; `decode_block` makes text of them, anywhere.

    Args:
        corpus: An entry of the recipe; its `max_pairs` is heeded, its `tag` isn't put in.
        index: Which entry of `data.train` it is.
        pairs_per_block: Pairs of each block but the last.
        languages: Codes of source and target, for kinds that name their languages.
        phrasebook_split: The split that the embedded corpus stands for here: train, dev or test.
        linearization: What a tree looks like as a target; the default where there are no trees.

    Raises:
        MtkitError: A file that is missing, empty, damaged or longer than its partner; a data set
            that can't be read; columns, members or languages that aren't there.
    """
    reading = ReadSettings(
        index=index,
        pairs_per_block=pairs_per_block,
        max_pairs=corpus.max_pairs if isinstance(corpus, TrainingKeys) else None,
        languages=languages,
    )
    match corpus:
        case FileTrainingCorpus(alignments=Path() as alignments):
            pairs_alone = read_file_blocks(corpus, reading)
            reads_all = corpus.max_pairs is None
            yield from add_alignments(pairs_alone, alignments, reads_all=reads_all)
        case FileCorpus():
            yield from read_file_blocks(corpus, reading)
        case PairedFileCorpus(format="tsv"):
            yield from read_tsv_blocks(corpus, reading)
        case PairedFileCorpus(format="json-lines"):
            yield from read_json_blocks(corpus, reading)
        case PairedFileCorpus(format="parquet"):
            yield from read_parquet_blocks(corpus, reading)
        case PairedFileCorpus(format="tmx"):
            yield from read_tmx_blocks(corpus, reading)
        case PairedFileCorpus(format="zip"):
            yield from read_zip_blocks(corpus, reading)
        case HubCorpus():
            yield from read_data_set_blocks(corpus, reading)
        case PhrasebookCorpus():
            _check_direction(languages)
            pairs = generate_pairs(phrasebook_split, corpus.sentences)
            rows = ((source.encode(), target.encode()) for source, target in pairs)
            yield from group_rows(rows, corpus.builtin, reading)
        case TreeCorpus():
            form = linearization or Parsing().linearization
            yield from read_tree_blocks(corpus, form, reading)
        case PublishedCorpus():
            sources, references = read_published(corpus.sacrebleu, languages=languages)
            lines = zip(sources, references[0], strict=True)
            rows = ((source.encode(), target.encode()) for source, target in lines)
            yield from group_rows(rows, corpus.sacrebleu, reading)


def read_pairs(
    corpus: AnyCorpus,
    *,
    phrasebook_split: str,
    languages: tuple[str, str],
    linearization: Linearization | None = None,
) -> Iterator[Pair]:
    """Yields a corpus's source and target lines, one pair at a time, in order, its `tag` put in.

    Args:
        corpus: An entry of the recipe.
        phrasebook_split: The split that the embedded corpus stands for here: train, dev or test.
        languages: Codes of source and target, for kinds that name their languages.
        linearization: What a tree looks like as a target.

    Raises:
        MtkitError: What `read_blocks` and `decode_block` raise.
    """
    for block in read_blocks(
        corpus,
        index=0,
        pairs_per_block=_PAIRS_AT_ONCE,
        languages=languages,
        phrasebook_split=phrasebook_split,
        linearization=linearization,
    ):
        sources, targets, _ = decode_block(block, drop_invalid=False)
        for source, target in zip(sources, targets, strict=True):
            yield put_tag(corpus.tag, source), target


def put_tag(tag: str, source: str) -> str:
    """Returns a source with a corpus's tag before it; a blank one stays as it is."""
    return f"{tag} {source}" if tag and source.strip() else source


def check_corpus(
    corpus: AnyCorpus | OneLanguageCorpus | ClassifierCorpus, *, languages: tuple[str, str]
) -> None:
    """Checks that a corpus can be read as far as its first row tells; a hub's isn't fetched.

    Args:
        corpus: An entry of the recipe.
        languages: Codes of source and target, for kinds that name their languages.

    Raises:
        MtkitError: A file that is missing, a folder, empty, damaged at its start or of another
            kind than its name says; columns, members or languages that aren't there.
    """
    match corpus:
        case TextCorpus() | TextTableCorpus():
            return check_text(corpus)
        case LabelledCorpus() | PlantedCorpus():
            next(read_labelled(corpus), None)
            return None
        case PhrasebookCorpus():
            return _check_direction(languages)
        case FileTrainingCorpus(alignments=Path() as alignments):
            check_files(corpus)
            check_has_content(alignments)
        case FileCorpus():
            check_files(corpus)
        case HubCorpus():
            check_data_set(corpus)
            if not input_files(corpus):
                return None
    blocks = read_blocks(
        corpus,
        index=0,
        pairs_per_block=1,
        languages=languages,
    )
    # What isn't UTF-8 may be dropped later on.
    first = next(blocks)
    sources, targets, _ = decode_block(first, drop_invalid=True)
    if first.alignments is not None:
        first.alignments.read(sources, targets)
    return None


def input_files(corpus: AnyCorpus | OneLanguageCorpus | ClassifierCorpus) -> list[Path]:
    """Returns the local files whose size and time tell whether a corpus changed, there or not."""
    match corpus:
        case FileCorpus() | PlantedCorpus():
            alignments = corpus.alignments if isinstance(corpus, FileTrainingCorpus) else None
            return [corpus.source, corpus.target, *([] if alignments is None else [alignments])]
        case PairedFileCorpus() | TextTableCorpus() | LabelledCorpus():
            return [corpus.path]
        case TextCorpus():
            return [corpus.text]
        case TreeCorpus():
            return [corpus.trees]
        case HubCorpus():
            # A name on the hub is no folder, and nothing is found in it.
            return sorted(path for path in Path(corpus.dataset).rglob("*") if path.is_file())
        case PhrasebookCorpus() | PublishedCorpus():
            return []


def _check_direction(languages: tuple[str, str]) -> None:
    if languages != ("en", "de"):
        raise MtkitError(
            f"the phrasebook is English-German, but the recipe says {'-'.join(languages)}",
            'set data.source_language to "en" and data.target_language to "de"',
        )
