"""Corpora without two sides to translate: text in one language, and labelled texts."""

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from mtkit.recipe.corpus_files import (
    FORMATS,
    NUMBERED_FORMATS,
    WITHOUT_COLUMNS,
    Column,
    FileLocation,
    ending_of,
    format_of,
)
from mtkit.recipe.section import Section

Documents = Literal["blank-lines", "lines", "file"]
"""What separates the documents of a text file: a blank line; every line is one; the file is one."""


class TextCorpus(Section):
    """A text file in one language."""

    text: FileLocation
    """UTF-8 text, one sentence or paragraph a line; a name that ends in `.gz`, `.bz2`, `.xz` or
    `.zst` is decompressed."""
    documents: Documents = "blank-lines"
    """What separates documents: `blank-lines`; `lines`, each of which is one, for sentences in no
    order; or `file`, which is one. No block spans two."""

    tag: ClassVar[str] = ""


class _TableCorpus(Section):
    path: FileLocation
    """The file; its extension gives the format: tab-separated text (`.tsv`, `.tab`, `.txt`),
    comma-separated text (`.csv`) or JSON lines (`.jsonl`, `.ndjson`, `.json`), each also
    compressed; or Parquet (`.parquet`)."""

    @property
    def format(self) -> str:
        """What the file is, by the ending of its name."""
        return format_of(self.path)

    tag: ClassVar[str] = ""

    def _check_columns(self, *columns: int | str, hint: str = "") -> None:
        known = [ending for ending, kind in FORMATS.items() if kind not in WITHOUT_COLUMNS]
        if ending_of(self.path) not in known:
            raise ValueError(
                f"expected a name that ends in {', '.join(known)}, found {self.path.name}{hint}"
            )
        if self.format not in NUMBERED_FORMATS and any(
            isinstance(column, int) for column in columns
        ):
            raise ValueError(f"the columns of {self.path.name} have names, not numbers")


class TextTableCorpus(_TableCorpus):
    """One file with a column of text in one language; each row is a document."""

    text_column: Column
    """Column of the text: of tab- or comma-separated text a number from 1, or a name in the first
    line; of JSON lines and Parquet a name. A line break in a text separates sentences."""
    document_column: Column = ""
    """Column of a document's name or number: consecutive rows with the same one are one
    document. Where it is empty, or a row has no name, each row is one."""

    @model_validator(mode="after")
    def _format_has_columns(self) -> "TextTableCorpus":
        hint = "; a text file is named by `text` instead"
        self._check_columns(self.text_column, self.document_column, hint=hint)
        return self


class LabelledCorpus(_TableCorpus):
    """One file of texts, or of pairs of texts, each with a label."""

    text_column: Column
    """Column of the text: of tab- or comma-separated text a number from 1, or a name in the first
    line; of JSON lines and Parquet a name."""
    second_column: Column = ""
    """Column of the second text, where a pair of texts has a label."""
    label_column: Column
    """Column of the label: a word or a whole number."""

    @property
    def columns(self) -> tuple[int | str, ...]:
        """The columns of the text, of the second text if there is one, and of the label."""
        every = (self.text_column, self.second_column, self.label_column)
        return tuple(column for column in every if column)

    @model_validator(mode="after")
    def _format_has_columns(self) -> "LabelledCorpus":
        self._check_columns(*self.columns)
        if not self.label_column or not self.text_column:
            raise ValueError("text_column and label_column must not be empty")
        if len(set(self.columns)) != len(self.columns):
            raise ValueError("text_column, second_column and label_column must differ")
        return self


PlantedFault = Literal["shuffled", "truncated", "perturbed"]
"""A fault planted in a pair: the target is another pair's; a side is cut; words are replaced."""


class PlantedCorpus(Section):
    """Two text files, aligned by line, whose pairs are also read with planted faults.

    For a classifier of pairs: a pair is labelled `translation`, and its copy with a fault `fault`.
    """

    source: FileLocation
    """Source sentences, one a line; a name that ends in `.gz`, `.bz2`, `.xz` or `.zst` is
    decompressed."""
    target: FileLocation
    """Target sentences, in the same way."""
    planted_faults: tuple[PlantedFault, ...] = Field(min_length=1)
    """Kinds of faults, round-robin: `shuffled`, another pair's target of about the same length;
    `truncated`, a third to two thirds of one side; `perturbed`, a fifth to a half of the target's
    words are another pair's."""

    second_column: ClassVar[str] = "target"
    tag: ClassVar[str] = ""


ClassifierCorpus = LabelledCorpus | PlantedCorpus
