"""One entry of `data.train`, or `data.dev`: what a corpus may be, and its name."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from mtkit.paths import as_text
from mtkit.recipe.corpus_files import (
    COMPRESSIONS,
    FORMATS,
    NUMBERED_FORMATS,
    STRING_FORMATS,
    WITHOUT_COLUMNS,
    Column,
    FileLocation,
    ending_of,
    format_of,
    uncompressed_name,
)
from mtkit.recipe.parsing import TreeCorpus
from mtkit.recipe.section import Count, NameOrFolder, Section, refuse_special
from mtkit.recipe.synthesis import OneSide, TranslatedKeys
from mtkit.recipe.text_corpora import LabelledCorpus, PlantedCorpus, TextCorpus, TextTableCorpus
from mtkit.storage import Location, Url

MIN_WEIGHT = 0.001
"""Of a corpus; an epoch takes its pairs to six decimals."""
_RANGE = re.compile(r"([0-9]{1,15})\s*(?:(-)\s*([0-9]{0,15}))?")


class _Tagged(Section):
    tag: Annotated[
        str, Field(pattern=r"^(<[^\s<>]+>|>>[^\s<>]+<<)?$"), AfterValidator(refuse_special)
    ] = ""
    """Prepended to each source sentence and kept as one token, such as `<BT>` or `<de>`; OPUS-MT's
    are `>>deu<<`."""


class FileCorpus(_Tagged):
    """Two text files, aligned by line, or two files of a program's strings, paired by key."""

    source: FileLocation
    """Source side: UTF-8 text, one sentence per line; files ending in `.gz`, `.bz2`, `.xz` or
    `.zst` are decompressed. Strings: `.properties`, Fluent (`.ftl`), Apple's `.strings`, `.arb`,
    JSON (`.json`) or Android's (`.xml`)."""
    target: FileLocation
    """Target side: each line translates the same line of `source`, or the string with its key."""

    @property
    def has_keys(self) -> bool:
        """Whether its files hold keyed strings."""
        return ending_of(self.source) in STRING_FORMATS

    @model_validator(mode="after")
    def _sides_have_one_format(self) -> "FileCorpus":
        kinds = [STRING_FORMATS.get(ending_of(path), "text") for path in (self.source, self.target)]
        if kinds[0] != kinds[1]:
            raise ValueError(
                f"{self.source.name} is {kinds[0]}, but {self.target.name} is {kinds[1]}: both "
                "must have the same format"
            )
        return self


class PairedFileCorpus(_Tagged):
    """One file with both sides."""

    path: FileLocation
    """The file. Its extension says what it is: tab-separated text (`.tsv`, `.tab`, `.txt`),
    comma-separated text with quotes (`.csv`), JSON lines (`.jsonl`, `.ndjson`, `.json`) or a
    translation memory (`.tmx`), a translated PO, MO or XLIFF file (`.po`, `.mo`, `.xlf`,
    `.xliff`), each also compressed (`.gz`, `.bz2`, `.xz`, `.zst`); Parquet (`.parquet`); or a Moses
    archive of OPUS (`.zip`)."""
    source_column: Column = ""
    """Column of the source. In tab- and comma-separated text a number, 1 by default, or a name from
    the first line; in JSON lines and Parquet a name. If it is empty there, the `translation` column
    is read by language code, or else the column named after the source language."""
    target_column: Column = ""
    """Column of the target, in the same way; 2 by default in tab-separated text."""

    @property
    def format(self) -> str:
        """What the file is, by the ending of its name."""
        return format_of(self.path)

    @model_validator(mode="after")
    def _columns_suit_the_format(self) -> "PairedFileCorpus":
        if not self.format:
            raise ValueError(
                f"expected a file name ending in {', '.join(FORMATS)}, found {self.path.name}; "
                "for two text files use `source` and `target`"
            )
        is_compressed = self.path.suffix.lower() in COMPRESSIONS
        if self.format in ("parquet", "zip") and is_compressed:
            raise ValueError(
                f"{self.path.name} is compressed twice: unpack {self.path.suffix} and name the "
                "file inside"
            )
        columns = (self.source_column, self.target_column)
        if self.format in WITHOUT_COLUMNS and any(columns):
            raise ValueError(
                f"{self.path.name} has no columns: remove source_column and target_column"
            )
        if self.format in ("json-lines", "parquet"):
            if any(isinstance(column, int) for column in columns):
                raise ValueError(f"columns of {self.path.name} are given by name, not by number")
            _check_both_or_none(*columns)
        if self.format in NUMBERED_FORMATS and (columns[0] or 1) == (columns[1] or 2):
            raise ValueError("source_column and target_column are the same")
        return self


class HubCorpus(_Tagged):
    """A data set that the `datasets` library can stream: a hub name or a local folder."""

    dataset: NameOrFolder
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


class PublishedCorpus(_Tagged):
    """A test set that sacreBLEU knows by name and downloads."""

    sacrebleu: str
    """Its name in sacreBLEU, such as `wmt14/full`; `wmt14` alone has 2,737 of the 3,003
    sentences."""


def read_ranges(text: str) -> tuple[range, ...]:
    """Returns ranges of numbers, such as `3-5, 7, 9-`, in ascending order; ValueError if none."""
    ranges: list[range] = []
    for part in filter(None, map(str.strip, text.split(","))):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise ValueError(f'expected line numbers such as "201-500, 730", found "{part}"')
        first, dash, last = found.groups()
        end = int(last) if last else sys.maxsize - 1 if dash else int(first)
        if not 1 <= int(first) <= end:
            raise ValueError(f'"{part}": the first line is 1, and no line comes after the last')
        ranges.append(range(int(first), end + 1))
    return tuple(sorted(ranges, key=lambda each: each.start))


def _check_ranges(text: str) -> str:
    read_ranges(text)
    return text


class TrainingKeys(Section):
    """Keys of a training corpus besides its text."""

    name: Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$")] = ""
    """Name in reports; if empty, made from the name of the file or data set."""
    weight: Annotated[float, Field(ge=MIN_WEIGHT, le=1000)] = 1.0
    """How often each pair, or block of text in one language, occurs in an epoch: 2 means twice; 0.5
    means half of the pairs, and the other half in the next epoch."""
    max_pairs: Count | None = None
    """Read only this many pairs, from the start; default: all."""
    skip: Annotated[str, AfterValidator(_check_ranges)] = ""
    """Lines of the file to leave out, such as `"201-500, 730, 900-"`; numbers as in reports."""


class PairKeys(TrainingKeys, TranslatedKeys):
    """Keys of a training corpus of pairs besides its text."""


class FileTrainingCorpus(PairKeys, FileCorpus):
    """Two text files, aligned by line."""

    alignments: FileLocation | None = None
    """Word alignments for `training.guided_alignment`, and for `data.augment.terms` without a
    dictionary: a line for each pair, `0-0 1-2`, a source word and the target word that it is
    aligned to, both from 0, as fast_align and eflomal write them. Words are what spaces separate in
    the two files."""

    @model_validator(mode="after")
    def _alignments_are_of_lines(self) -> "FileTrainingCorpus":
        if self.alignments is not None and self.has_keys:
            raise ValueError("alignments need two text files, not keyed strings")
        if self.alignments is not None and self.translated_by:
            raise ValueError("alignments are of the file's own targets: remove translated_by")
        return self


class OneSideTrainingCorpus(PairKeys, OneSide, _Tagged):
    """A text file of one side, whose other side a translator writes."""

    @property
    def is_backwards(self) -> bool:
        """Whether the source side is what is missing."""
        return self.source is None

    @model_validator(mode="after")
    def _has_one_side(self) -> "OneSideTrainingCorpus":
        if (self.source is None) == (self.target is None):
            raise ValueError("give source or target, or both without translated_by")
        if not self.translated_by:
            raise ValueError("translated_by is empty: name a translator of the missing side")
        ending = ending_of(self.path)
        if ending in STRING_FORMATS:
            raise ValueError(
                f"{self.path.name} has keyed strings, not lines: translate it with `mtkit "
                f"translate {self.path.name} --output ...`, and name both files"
            )
        if ending in FORMATS and ending != ".txt":
            raise ValueError(f"{self.path.name} isn't a file of lines: write its text to one")
        if self.synthesis.closest_to_reference is not None:
            raise ValueError("synthesis.closest_to_reference needs a corpus with both sides")
        return self


class PairedFileTrainingCorpus(PairKeys, PairedFileCorpus):
    """One file with both sides."""


class HubTrainingCorpus(PairKeys, HubCorpus):
    """A data set that the `datasets` library can stream: a hub name or a local folder."""


class PhrasebookTrainingCorpus(PairKeys, PhrasebookCorpus):
    """English-German pairs from mtkit's own generator, for runs without a network."""


class TextTrainingCorpus(TrainingKeys, TextCorpus):
    """A text file in one language, for a language model."""


class TextTableTrainingCorpus(TrainingKeys, TextTableCorpus):
    """One file with a column of text in one language, for a language model."""


class LabelledTrainingCorpus(TrainingKeys, LabelledCorpus):
    """One file of texts, or of pairs of texts, each with a label, for classification."""


class PlantedTrainingCorpus(TrainingKeys, PlantedCorpus):
    """Two text files, aligned by line, whose pairs are also read with planted faults."""


class TreeTrainingCorpus(TrainingKeys, TreeCorpus):
    """A treebank: sentences with their constituency trees, in Penn Treebank brackets."""


def corpus_kind(corpus: Any) -> str:
    """Returns which kind of corpus a table describes, by the one key that distinguishes them."""
    for key in (
        "builtin",
        "dataset",
        "label_column",
        "planted_faults",
        "text_column",
        "text",
        "trees",
        "path",
        "sacrebleu",
    ):
        if key in corpus if isinstance(corpus, dict) else hasattr(corpus, key):
            return key
    return "files"


def training_corpus_kind(corpus: Any) -> str:
    """Returns the same of a training corpus, which may also be text of one side."""
    if isinstance(corpus, dict):
        kind = corpus_kind(corpus)
        has_both = {"source", "target"} <= corpus.keys()
        is_side = kind == "files" and "translated_by" in corpus and not has_both
        return "side" if is_side else kind
    return "side" if isinstance(corpus, OneSide) else corpus_kind(corpus)


TranslatedCorpus = (
    FileTrainingCorpus
    | OneSideTrainingCorpus
    | PairedFileTrainingCorpus
    | HubTrainingCorpus
    | PhrasebookTrainingCorpus
)
"""Corpora that a translator may complete."""
Corpus = Annotated[
    Annotated[FileTrainingCorpus, Tag("files")]
    | Annotated[OneSideTrainingCorpus, Tag("side")]
    | Annotated[PairedFileTrainingCorpus, Tag("path")]
    | Annotated[HubTrainingCorpus, Tag("dataset")]
    | Annotated[PhrasebookTrainingCorpus, Tag("builtin")]
    | Annotated[TextTrainingCorpus, Tag("text")]
    | Annotated[TextTableTrainingCorpus, Tag("text_column")]
    | Annotated[LabelledTrainingCorpus, Tag("label_column")]
    | Annotated[PlantedTrainingCorpus, Tag("planted_faults")]
    | Annotated[TreeTrainingCorpus, Tag("trees")],
    Discriminator(training_corpus_kind),
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
    | Annotated[PlantedCorpus, Tag("planted_faults")]
    | Annotated[TreeCorpus, Tag("trees")],
    Discriminator(corpus_kind),
]


def list_translated(train: Sequence[Corpus]) -> list[TranslatedCorpus]:
    """Returns the corpora that a translator completes."""
    return [each for each in train if isinstance(each, TranslatedCorpus) and each.translated_by]


def corpus_names(train: Sequence[Corpus]) -> list[str]:
    """Returns a name for each training corpus; no two are the same.

    Names from the recipe stay, except the second of two equal ones; a computed name that is taken
    gets a number appended.
    """
    names: dict[int, str] = {}
    for index in sorted(range(len(train)), key=lambda index: not train[index].name):
        name = train[index].name or as_text(_default_name(train[index]))
        number = 1
        names_taken = set(names.values())
        numbered = name
        while numbered in names_taken:
            number += 1
            numbered = f"{name}-{number}"
        names[index] = numbered
    return [names[index] for index in range(len(train))]


def name_file(corpus: Any) -> Location | str:
    """Returns a corpus's file (the source's if it has two), data set name or generator."""
    match corpus:
        case FileCorpus() | PlantedCorpus():
            return corpus.source
        case HubCorpus():
            return str(corpus.dataset)
        case PhrasebookCorpus():
            return corpus.builtin
        case TextCorpus():
            return corpus.text
        case TreeCorpus():
            return corpus.trees
        case _:
            path: Location = corpus.path
            return path


def _default_name(corpus: Corpus) -> str:
    file = name_file(corpus)
    if not isinstance(file, Path | Url):
        return Path(file).name
    # What is left of train.en.gz once compression and language are off.
    stem = Path(uncompressed_name(file)).stem
    # OPUS calls its Moses archives de-en.txt.zip.
    is_archive = isinstance(corpus, PairedFileCorpus) and corpus.format == "zip"
    return stem.removesuffix(".txt") if is_archive else stem
