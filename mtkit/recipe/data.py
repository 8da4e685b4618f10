"""The `data` section: which parallel text a run learns from."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from mtkit.paths import as_text
from mtkit.recipe.cleaning import Cleaning
from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.section import Count, Section, refuse_special

_LANGUAGE = r"^[A-Za-z]{2,3}([_-][A-Za-z0-9]{1,8})*$"
"""A language's ISO 639 code, with script or region: `zh-Hant`."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")

COMPRESSIONS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
"""What a file is compressed with, by the ending of its name."""

FileFormat = Literal["tsv", "json-lines", "parquet", "tmx", "zip"]
_FORMATS: dict[str, FileFormat] = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "tsv",
    ".jsonl": "json-lines",
    ".ndjson": "json-lines",
    ".json": "json-lines",
    ".parquet": "parquet",
    ".tmx": "tmx",
    ".zip": "zip",
}


def _refuse_url(value: Any) -> Any:
    if _URL.match(str(value)):
        raise ValueError(f"{value} is a URL, and files are read from disk: download it first")
    return value


def _explain_column(value: Any, validate: ValidatorFunctionWrapHandler) -> int | str:
    try:
        column: int | str = validate(value)
    except ValidationError as error:
        # pydantic would tell of each type that a column might have had.
        raise ValueError(
            f"expected a name in quotes or a number from 1, found {json.dumps(value, default=str)}"
        ) from error
    return column


LocalPath = Annotated[Path, BeforeValidator(_refuse_url)]
Column = Annotated[Annotated[int, Field(ge=1)] | str, WrapValidator(_explain_column)]


class _Tagged(Section):
    tag: Annotated[str, Field(pattern=r"^(<[^\s<>]+>)?$"), AfterValidator(refuse_special)] = ""
    """Put before each source sentence and kept as one token, such as `<BT>` or `<de>`."""


class FileCorpus(_Tagged):
    """Two text files, aligned by line."""

    source: LocalPath
    """Source side: UTF-8 text, one sentence a line; a name that ends in `.gz`, `.bz2`, `.xz` or
    `.zst` is decompressed."""
    target: LocalPath
    """Target side, line by line the translation of `source`."""


class PairedFileCorpus(_Tagged):
    """One file that holds both sides."""

    path: LocalPath
    """The file; its ending tells what it is: tab-separated text (`.tsv`, `.tab`, `.txt`), JSON
    lines (`.jsonl`, `.ndjson`, `.json`) or a translation memory (`.tmx`), each also compressed
    (`.gz`, `.bz2`, `.xz`, `.zst`); Parquet (`.parquet`); or a Moses archive of OPUS (`.zip`)."""
    source_column: Column = ""
    """Column of the source. Of tab-separated text a number from 1, which is the default, or a name
    in the first line; of JSON lines and Parquet a name. Where it is empty there, the `translation`
    column is read by language code, or else the column named like the source language."""
    target_column: Column = ""
    """Column of the target, likewise; 2 by default in tab-separated text."""

    @property
    def format(self) -> FileFormat:
        """What the file is, by the ending of its name."""
        return _FORMATS[Path(uncompressed_name(self.path)).suffix.lower()]

    @model_validator(mode="after")
    def _columns_suit_the_format(self) -> "PairedFileCorpus":
        if Path(uncompressed_name(self.path)).suffix.lower() not in _FORMATS:
            raise ValueError(
                f"expected a name that ends in {', '.join(_FORMATS)}, found {self.path.name}; "
                "two text files are named by `source` and `target` instead, and a folder of .csv "
                "files by `dataset`"
            )
        is_compressed = self.path.suffix.lower() in COMPRESSIONS
        if self.format in ("parquet", "zip") and is_compressed:
            raise ValueError(
                f"{self.path.name} is compressed twice: unpack {self.path.suffix} and name what "
                "was in it"
            )
        columns = (self.source_column, self.target_column)
        if self.format in ("tmx", "zip") and any(columns):
            raise ValueError(
                f"{self.path.name} has no columns: remove source_column and target_column"
            )
        if self.format in ("json-lines", "parquet"):
            if any(isinstance(column, int) for column in columns):
                raise ValueError(f"the columns of {self.path.name} have names, not numbers")
            _check_both_or_none(*columns)
        if self.format == "tsv" and (columns[0] or 1) == (columns[1] or 2):
            raise ValueError("source_column and target_column are the same")
        return self


class HubCorpus(_Tagged):
    """A data set that the `datasets` library can stream: a hub name or a local folder."""

    dataset: str
    """Name on the hub (`wmt/wmt14`), or a local folder of Parquet, JSON lines or csv files, which
    starts from `data_root` as file names do."""
    configuration: str = "default"
    """Configuration of the data set, such as `de-en`."""
    split: str
    """Split of the data set, such as `train`."""
    source_column: str = ""
    """Column of the source text. Where it is empty, the `translation` column is read by language
    code, or else the column named like the source language."""
    target_column: str = ""
    """Column of the target text, likewise."""

    @model_validator(mode="after")
    def _columns_are_paired(self) -> "HubCorpus":
        _check_both_or_none(self.source_column, self.target_column)
        return self


def _check_both_or_none(source_column: int | str, target_column: int | str) -> None:
    if bool(source_column) != bool(target_column):
        raise ValueError("give both of source_column and target_column, or none")
    if source_column and source_column == target_column:
        raise ValueError("source_column and target_column are the same")


class PhrasebookCorpus(_Tagged):
    """English-German pairs from mtkit's own generator, for a run without a network."""

    builtin: Literal["phrasebook"]
    """Name of the generator."""
    sentences: Annotated[int, Field(ge=1, le=500_000)] = 40_000
    """How many distinct pairs to generate."""


class HeldOutPhrasebook(PhrasebookCorpus):
    """The same generator; a development or test set is small by default."""

    sentences: Annotated[int, Field(ge=1, le=20_000)] = 500
    """How many distinct pairs to generate; none of them stands in the training split."""


class PublishedCorpus(_Tagged):
    """A test set that sacreBLEU knows by name and downloads."""

    sacrebleu: str
    """sacreBLEU's name of it, such as `wmt14/full`; `wmt14` alone is 2,737 of the 3,003 sentences.
    """


class TrainingKeys(Section):
    """What a training corpus has beside its text."""

    name: Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$")] = ""
    """Name in reports; made from the name of the file or data set where it is empty."""
    weight: Annotated[float, Field(ge=0.001, le=1000)] = 1.0
    """How often an epoch sees each pair: 2 sees each twice; 0.5 sees half of them, and the other
    half in the next epoch."""
    max_pairs: Count | None = None
    """Only the first so many pairs are read; default: all."""


class FileTrainingCorpus(TrainingKeys, FileCorpus):
    """Two text files, aligned by line."""


class PairedFileTrainingCorpus(TrainingKeys, PairedFileCorpus):
    """One file that holds both sides."""


class HubTrainingCorpus(TrainingKeys, HubCorpus):
    """A data set that the `datasets` library can stream: a hub name or a local folder."""


class PhrasebookTrainingCorpus(TrainingKeys, PhrasebookCorpus):
    """English-German pairs from mtkit's own generator, for a run without a network."""


def corpus_kind(corpus: Any) -> str:
    """Returns which kind of corpus a table describes, by the one key that tells the kinds apart."""
    for key in ("builtin", "dataset", "path", "sacrebleu"):
        if key in corpus if isinstance(corpus, dict) else hasattr(corpus, key):
            return key
    return "files"


Corpus = Annotated[
    Annotated[FileTrainingCorpus, Tag("files")]
    | Annotated[PairedFileTrainingCorpus, Tag("path")]
    | Annotated[HubTrainingCorpus, Tag("dataset")]
    | Annotated[PhrasebookTrainingCorpus, Tag("builtin")],
    Discriminator(corpus_kind),
]
HeldOutCorpus = Annotated[
    Annotated[FileCorpus, Tag("files")]
    | Annotated[PairedFileCorpus, Tag("path")]
    | Annotated[HubCorpus, Tag("dataset")]
    | Annotated[HeldOutPhrasebook, Tag("builtin")]
    | Annotated[PublishedCorpus, Tag("sacrebleu")],
    Discriminator(corpus_kind),
]


def uncompressed_name(path: Path) -> str:
    """Returns a file's name without the ending that tells its compression."""
    return path.stem if path.suffix.lower() in COMPRESSIONS else path.name


def corpus_names(train: Sequence[Corpus]) -> list[str]:
    """Returns a name for each training corpus; no two are the same.

    A name that is given stays, but for the second of two that are given alike; a computed one that
    is taken gets a number behind it.
    """
    names: dict[int, str] = {}
    for index in sorted(range(len(train)), key=lambda index: not train[index].name):
        name = train[index].name or as_text(_file_name_of(train[index]))
        number = 1
        names_taken = set(names.values())
        numbered = name
        while numbered in names_taken:
            number += 1
            numbered = f"{name}-{number}"
        names[index] = numbered
    return [names[index] for index in range(len(train))]


def _file_name_of(corpus: Corpus) -> str:
    match corpus:
        case FileCorpus():
            # What is left of train.en.gz once compression and language are off.
            return Path(uncompressed_name(corpus.source)).stem
        case PairedFileCorpus():
            stem = Path(uncompressed_name(corpus.path)).stem
            # OPUS calls its Moses archives de-en.txt.zip.
            return stem.removesuffix(".txt") if corpus.format == "zip" else stem
        case HubCorpus():
            return Path(corpus.dataset).name
        case PhrasebookCorpus():
            return corpus.builtin


class Data(Section):
    """Parallel text: what to train on and what to watch while training."""

    source_language: Annotated[str, Field(pattern=_LANGUAGE)]
    """Language translated from, as its ISO 639 code: `en`."""
    target_language: Annotated[str, Field(pattern=_LANGUAGE)]
    """Language translated into, as its ISO 639 code: `de`."""
    data_root: Annotated[Path, Invalidates.NOTHING] = Path()
    """Folder that relative corpus paths start from; itself relative to the recipe's folder, or to
    the working directory for a recipe that ships with mtkit."""
    train: tuple[Corpus, ...] = Field(min_length=1)
    """Training corpora; an epoch sees each as often as its `weight` says."""
    dev: HeldOutCorpus
    """Development set: its loss and score choose the best checkpoint."""
    cleaning: Cleaning = Cleaning()
    """Which training pairs are left out."""

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        return self.source_language, self.target_language
