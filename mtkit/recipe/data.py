"""The `data` section: which parallel text a run trains on."""

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
    SerializerFunctionWrapHandler,
    Tag,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_serializer,
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
        raise ValueError(f"{value} is a URL, but files are read from disk: download it first")
    return value


def _explain_column(value: Any, validate: ValidatorFunctionWrapHandler) -> int | str:
    try:
        column: int | str = validate(value)
    except ValidationError as error:
        # pydantic would tell of each type that a column might have had.
        raise ValueError(
            "expected a name in quotes or a number, 1 or more, found "
            f"{json.dumps(value, default=str)}"
        ) from error
    return column


LocalPath = Annotated[Path, BeforeValidator(_refuse_url)]
Column = Annotated[Annotated[int, Field(ge=1)] | str, WrapValidator(_explain_column)]


class _Tagged(Section):
    tag: Annotated[str, Field(pattern=r"^(<[^\s<>]+>)?$"), AfterValidator(refuse_special)] = ""
    """Prepended to each source sentence and kept as one token, such as `<BT>` or `<de>`."""


class FileCorpus(_Tagged):
    """Two text files, aligned by line."""

    source: LocalPath
    """Source side: UTF-8 text, one sentence per line; files ending in `.gz`, `.bz2`, `.xz` or
    `.zst` are decompressed."""
    target: LocalPath
    """Target side: each line translates the same line of `source`."""


class PairedFileCorpus(_Tagged):
    """One file with both sides."""

    path: LocalPath
    """The file. Its extension says what it is: tab-separated text (`.tsv`, `.tab`, `.txt`), JSON
    lines (`.jsonl`, `.ndjson`, `.json`) or a translation memory (`.tmx`), each also compressed
    (`.gz`, `.bz2`, `.xz`, `.zst`); Parquet (`.parquet`); or a Moses archive of OPUS (`.zip`)."""
    source_column: Column = ""
    """Column of the source. In tab-separated text a number, 1 by default, or a name from the first
    line; in JSON lines and Parquet a name. If it is empty there, the `translation` column is read
    by language code, or else the column named after the source language."""
    target_column: Column = ""
    """Column of the target, in the same way; 2 by default in tab-separated text."""

    @property
    def format(self) -> FileFormat:
        """What the file is, by the ending of its name."""
        return _FORMATS[Path(uncompressed_name(self.path)).suffix.lower()]

    @model_validator(mode="after")
    def _columns_suit_the_format(self) -> "PairedFileCorpus":
        if Path(uncompressed_name(self.path)).suffix.lower() not in _FORMATS:
            raise ValueError(
                f"expected a file name ending in {', '.join(_FORMATS)}, found {self.path.name}; "
                "for two text files use `source` and `target`, for a folder of .csv files "
                "`dataset`"
            )
        is_compressed = self.path.suffix.lower() in COMPRESSIONS
        if self.format in ("parquet", "zip") and is_compressed:
            raise ValueError(
                f"{self.path.name} is compressed twice: unpack {self.path.suffix} and name the "
                "file inside"
            )
        columns = (self.source_column, self.target_column)
        if self.format in ("tmx", "zip") and any(columns):
            raise ValueError(
                f"{self.path.name} has no columns: remove source_column and target_column"
            )
        if self.format in ("json-lines", "parquet"):
            if any(isinstance(column, int) for column in columns):
                raise ValueError(f"columns of {self.path.name} are given by name, not by number")
            _check_both_or_none(*columns)
        if self.format == "tsv" and (columns[0] or 1) == (columns[1] or 2):
            raise ValueError("source_column and target_column are the same")
        return self


class HubCorpus(_Tagged):
    """A data set that the `datasets` library can stream: a hub name or a local folder."""

    dataset: str
    """Name on the Hugging Face Hub (`wmt/wmt14`), or a local folder of Parquet, JSON lines or CSV
    files, relative to `data_root` like file names."""
    configuration: str = "default"
    """Configuration of the data set, such as `de-en`."""
    split: str
    """Split of the data set, such as `train`."""
    source_column: str = ""
    """Column of the source text. If it is empty, the `translation` column is read by language code,
    or else the column named after the source language."""
    target_column: str = ""
    """Column of the target text, in the same way."""

    @model_validator(mode="after")
    def _columns_are_paired(self) -> "HubCorpus":
        _check_both_or_none(self.source_column, self.target_column)
        return self


def _check_both_or_none(source_column: int | str, target_column: int | str) -> None:
    if bool(source_column) != bool(target_column):
        raise ValueError("give both source_column and target_column, or neither")
    if source_column and source_column == target_column:
        raise ValueError("source_column and target_column are the same")


class PhrasebookCorpus(_Tagged):
    """English-German pairs from mtkit's own generator, for runs without a network."""

    builtin: Literal["phrasebook"]
    """Name of the generator."""
    sentences: Annotated[int, Field(ge=1, le=500_000)] = 40_000
    """Number of distinct pairs to generate."""


class HeldOutPhrasebook(PhrasebookCorpus):
    """The same generator; a development or test set is small by default."""

    sentences: Annotated[int, Field(ge=1, le=20_000)] = 500
    """Number of distinct pairs to generate; none of them is in the training split."""


Documents = Literal["blank-lines", "lines", "file"]
"""What parts the documents of a text file: a blank line; every line is one; the file is one."""


class TextCorpus(Section):
    """A text file in one language."""

    text: LocalPath
    """UTF-8 text, one sentence or paragraph a line; a name that ends in `.gz`, `.bz2`, `.xz` or
    `.zst` is decompressed."""
    documents: Documents = "blank-lines"
    """What parts documents: `blank-lines`; `lines`, each of which is one, for sentences in no
    order; or `file`, which is one. No block spans two."""

    @property
    def tag(self) -> str:
        """Text in one language has no tag."""
        return ""


class TextTableCorpus(Section):
    """One file with a column of text in one language; each row is a document."""

    path: LocalPath
    """The file; its ending tells what it is: tab-separated text (`.tsv`, `.tab`, `.txt`) or JSON
    lines (`.jsonl`, `.ndjson`, `.json`), each also compressed; or Parquet (`.parquet`)."""
    text_column: Column
    """Column of the text: of tab-separated text a number from 1, or a name in the first line; of
    JSON lines and Parquet a name. A line break inside a text parts its sentences."""
    document_column: Column = ""
    """Column of a document's name or number: rows that follow each other under one are one
    document. Where it is empty, or a row has no name, each row is one."""

    @property
    def format(self) -> FileFormat:
        """What the file is, by the ending of its name."""
        return _FORMATS[Path(uncompressed_name(self.path)).suffix.lower()]

    @property
    def tag(self) -> str:
        """Text in one language has no tag."""
        return ""

    @model_validator(mode="after")
    def _format_has_columns(self) -> "TextTableCorpus":
        known = [ending for ending, kind in _FORMATS.items() if kind not in ("tmx", "zip")]
        if Path(uncompressed_name(self.path)).suffix.lower() not in known:
            raise ValueError(
                f"expected a name that ends in {', '.join(known)}, found {self.path.name}; a "
                "text file is named by `text` instead"
            )
        columns = (self.text_column, self.document_column)
        if self.format != "tsv" and any(isinstance(column, int) for column in columns):
            raise ValueError(f"the columns of {self.path.name} have names, not numbers")
        return self


class LabelledCorpus(Section):
    """One file of texts, or of pairs of texts, each with a label."""

    path: LocalPath
    """The file; its ending tells what it is: tab-separated text (`.tsv`, `.tab`, `.txt`) or JSON
    lines (`.jsonl`, `.ndjson`, `.json`), each also compressed; or Parquet (`.parquet`)."""
    text_column: Column
    """Column of the text: of tab-separated text a number from 1, or a name in the first line; of
    JSON lines and Parquet a name."""
    second_column: Column = ""
    """Column of the second text, where a pair of texts has a label."""
    label_column: Column
    """Column of the label: a word or a whole number."""

    @property
    def format(self) -> FileFormat:
        """What the file is, by the ending of its name."""
        return _FORMATS[Path(uncompressed_name(self.path)).suffix.lower()]

    @property
    def columns(self) -> tuple[int | str, ...]:
        """The columns of the text, of the second text if there is one, and of the label."""
        every = (self.text_column, self.second_column, self.label_column)
        return tuple(column for column in every if column)

    @property
    def tag(self) -> str:
        """Labelled text has no tag."""
        return ""

    @model_validator(mode="after")
    def _format_has_columns(self) -> "LabelledCorpus":
        known = [ending for ending, kind in _FORMATS.items() if kind not in ("tmx", "zip")]
        if Path(uncompressed_name(self.path)).suffix.lower() not in known:
            raise ValueError(
                f"expected a name that ends in {', '.join(known)}, found {self.path.name}"
            )
        if not self.label_column or not self.text_column:
            raise ValueError("text_column and label_column must not be empty")
        if self.format != "tsv" and any(isinstance(column, int) for column in self.columns):
            raise ValueError(f"the columns of {self.path.name} have names, not numbers")
        if len(set(self.columns)) != len(self.columns):
            raise ValueError("text_column, second_column and label_column must differ")
        return self


PlantedFault = Literal["shuffled", "truncated", "perturbed"]
"""A fault planted in a pair: the target is another pair's; a side is cut; words are replaced."""


class PlantedCorpus(Section):
    """Two text files, aligned by line, whose pairs are also read with planted faults.

    For a classifier of pairs: each pair is labelled `translation`, and it with a fault `fault`.
    """

    source: LocalPath
    """Source sentences, one a line; a name that ends in `.gz`, `.bz2`, `.xz` or `.zst` is
    decompressed."""
    target: LocalPath
    """Target sentences, in the same way."""
    planted_faults: tuple[PlantedFault, ...] = Field(min_length=1)
    """Faults, which take turns: `shuffled`, another pair's target of about the same length;
    `truncated`, a third to two thirds of one side; `perturbed`, a fifth to a half of the target's
    words are another pair's."""

    @property
    def second_column(self) -> str:
        """The target is the second text."""
        return "target"

    @property
    def tag(self) -> str:
        """Labelled text has no tag."""
        return ""


ClassifierCorpus = LabelledCorpus | PlantedCorpus


class PublishedCorpus(_Tagged):
    """A test set that sacreBLEU knows by name and downloads."""

    sacrebleu: str
    """Its name in sacreBLEU, such as `wmt14/full`; `wmt14` alone has 2,737 of the 3,003
    sentences."""


class TrainingKeys(Section):
    """Keys of a training corpus besides its text."""

    name: Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$")] = ""
    """Name in reports; if empty, made from the name of the file or data set."""
    weight: Annotated[float, Field(ge=0.001, le=1000)] = 1.0
    """How often each pair, or block of text in one language, occurs in an epoch: 2 means twice; 0.5
    means half of the pairs, and the other half in the next epoch."""
    max_pairs: Count | None = None
    """Read only this many pairs, from the start; default: all."""


class FileTrainingCorpus(TrainingKeys, FileCorpus):
    """Two text files, aligned by line."""


class PairedFileTrainingCorpus(TrainingKeys, PairedFileCorpus):
    """One file with both sides."""


class HubTrainingCorpus(TrainingKeys, HubCorpus):
    """A data set that the `datasets` library can stream: a hub name or a local folder."""


class PhrasebookTrainingCorpus(TrainingKeys, PhrasebookCorpus):
    """English-German pairs from mtkit's own generator, for runs without a network."""


class TextTrainingCorpus(TrainingKeys, TextCorpus):
    """A text file in one language, for a language model."""


class TextTableTrainingCorpus(TrainingKeys, TextTableCorpus):
    """One file with a column of text in one language, for a language model."""


class LabelledTrainingCorpus(TrainingKeys, LabelledCorpus):
    """One file of texts, or of pairs of texts, each with a label, for classification."""


class PlantedTrainingCorpus(TrainingKeys, PlantedCorpus):
    """Two text files, aligned by line, whose pairs are also read with planted faults."""


def corpus_kind(corpus: Any) -> str:
    """Returns which kind of corpus a table describes, by the one key that tells the kinds apart."""
    for key in (
        "builtin",
        "dataset",
        "label_column",
        "planted_faults",
        "text_column",
        "text",
        "path",
        "sacrebleu",
    ):
        if key in corpus if isinstance(corpus, dict) else hasattr(corpus, key):
            return key
    return "files"


Corpus = Annotated[
    Annotated[FileTrainingCorpus, Tag("files")]
    | Annotated[PairedFileTrainingCorpus, Tag("path")]
    | Annotated[HubTrainingCorpus, Tag("dataset")]
    | Annotated[PhrasebookTrainingCorpus, Tag("builtin")]
    | Annotated[TextTrainingCorpus, Tag("text")]
    | Annotated[TextTableTrainingCorpus, Tag("text_column")]
    | Annotated[LabelledTrainingCorpus, Tag("label_column")]
    | Annotated[PlantedTrainingCorpus, Tag("planted_faults")],
    Discriminator(corpus_kind),
]
HeldOutCorpus = Annotated[
    Annotated[FileCorpus, Tag("files")]
    | Annotated[PairedFileCorpus, Tag("path")]
    | Annotated[HubCorpus, Tag("dataset")]
    | Annotated[HeldOutPhrasebook, Tag("builtin")]
    | Annotated[PublishedCorpus, Tag("sacrebleu")]
    | Annotated[TextCorpus, Tag("text")]
    | Annotated[TextTableCorpus, Tag("text_column")]
    | Annotated[LabelledCorpus, Tag("label_column")]
    | Annotated[PlantedCorpus, Tag("planted_faults")],
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
        case FileCorpus() | PlantedCorpus():
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
        case TextCorpus():
            return Path(uncompressed_name(corpus.text)).stem
        case TextTableCorpus() | LabelledCorpus():
            return Path(uncompressed_name(corpus.path)).stem


class Data(Section):
    """Text to train on and to validate on: parallel, or in one language."""

    language: Annotated[str, Field(pattern=_LANGUAGE)] | Literal[""] = ""
    """Language of a language model's text, instead of the two below; `mul` for several."""
    source_language: Annotated[str, Field(pattern=_LANGUAGE)] = Field(
        default_factory=lambda data: str(data.get("language", ""))
    )
    """Source language as an ISO 639 code, such as `en`."""
    target_language: Annotated[str, Field(pattern=_LANGUAGE)] = Field(
        default_factory=lambda data: str(data.get("language", ""))
    )
    """Target language as an ISO 639 code, such as `de`."""
    block_tokens: Annotated[int, Field(ge=8, le=1_000_000)] = 512
    """Maximum length in tokens of what a language model reads at once: documents are cut into
    blocks of this length. For parallel text see `cleaning.max_tokens`."""
    data_root: Annotated[Path, Invalidates.NOTHING] = Path()
    """Folder that corpus paths are relative to; itself relative to the recipe's folder, or to the
    working directory for a recipe that ships with mtkit."""
    train: tuple[Corpus, ...] = Field(min_length=1)
    """Training corpora; `weight` says how often each occurs in an epoch."""
    dev: HeldOutCorpus
    """Development set: its loss and score decide which checkpoint is best."""
    cleaning: Cleaning = Cleaning()
    """Which training pairs, or lines of text in one language, are dropped."""

    @model_validator(mode="after")
    def _languages_agree(self) -> "Data":
        if self.language and self.languages != (self.language, self.language):
            raise ValueError("give either language, or source_language and target_language")
        for key in ("source_language", "target_language"):
            if not getattr(self, key):
                raise ValueError(f"{key} is missing")
        return self

    @model_validator(mode="after")
    def _cleaning_suits_text(self) -> "Data":
        if not self.is_text:
            return self
        cleaning, plain = self.cleaning, Cleaning()
        for key in ("length_ratio", "identical", "numbers", "urls"):
            if getattr(cleaning, key) != getattr(plain, key):
                raise ValueError(
                    f"cleaning.{key} compares source and target, and text in one language has one "
                    "side: remove it"
                )
        if cleaning.duplicates.by != "pair":
            raise ValueError("cleaning.duplicates.by is for pairs: remove it")
        if cleaning.script.target:
            raise ValueError("cleaning.script.target is for pairs: name cleaning.script.source")
        if cleaning.max_tokens != plain.max_tokens:
            raise ValueError(
                "cleaning.max_tokens is for pairs: text in one language is cut into blocks of "
                "block_tokens"
            )
        return self

    @model_validator(mode="after")
    def _selection_suits_the_columns(self) -> "Data":
        selection = self.cleaning.selection
        if selection is None:
            return self
        if selection.classifier is not None:
            if self.is_text:
                raise ValueError(
                    "cleaning.selection.classifier is for pairs: text in one language needs "
                    "in_domain and general"
                )
            return self
        scored = set(selection.models)
        if self.is_text and scored != {"text"}:
            raise ValueError(
                "cleaning.selection: text in one language needs in_domain and general, without "
                "_source and _target"
            )
        if not self.is_text and scored not in ({"source"}, {"source", "target"}):
            raise ValueError(
                "cleaning.selection: pairs need in_domain_source and general_source, and may have "
                "in_domain_target and general_target"
            )
        return self

    @model_serializer(mode="wrap")
    def _leave_out_later_keys(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Returns the section without the keys of language models where it has no text of theirs.

        Earlier versions don't know them, and a translator's data stay up to date.
        """
        tables: dict[str, Any] = serialize(self)
        if not self.language:
            tables.pop("language", None)
            tables.pop("block_tokens", None)
        return tables

    @property
    def is_text(self) -> bool:
        """Whether it is text in one language, for a language model."""
        return bool(self.language)

    @property
    def max_tokens(self) -> int:
        """Longest row of the training data, in tokens of one side."""
        return self.block_tokens if self.is_text else self.cleaning.max_tokens

    @property
    def max_tokens_key(self) -> str:
        """The key that bounds it."""
        return "data.block_tokens" if self.is_text else "data.cleaning.max_tokens"

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        return self.source_language, self.target_language

    @property
    def column_languages(self) -> tuple[str, ...]:
        """Language of each column of the data: source and target, or that of the text alone."""
        return (self.language,) if self.is_text else self.languages
