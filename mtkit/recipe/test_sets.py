"""One entry of `evaluation.test_sets`: held-out text that a model is scored on."""

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from mtkit.recipe.corpora import (
    FileCorpus,
    HeldOutPhrasebook,
    HubCorpus,
    PairedFileCorpus,
    PublishedCorpus,
    corpus_kind,
)
from mtkit.recipe.parsing import TreeCorpus
from mtkit.recipe.section import Section
from mtkit.recipe.text_corpora import LabelledCorpus, PlantedCorpus, TextCorpus, TextTableCorpus


class _Named(Section):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    """Name of the test set; names its files in the workspace."""


class FileTestSet(_Named, FileCorpus):
    """Two aligned text files."""


class PairedFileTestSet(_Named, PairedFileCorpus):
    """One file with both sides."""


class HubTestSet(_Named, HubCorpus):
    """A split of a data set that the `datasets` library can stream."""


class PhrasebookTestSet(_Named, HeldOutPhrasebook):
    """The held-out split of the embedded corpus."""


class PublishedTestSet(_Named, PublishedCorpus):
    """A test set that sacreBLEU knows by name and downloads."""


class TextTestSet(_Named, TextCorpus):
    """A text file in one language."""


class TextTableTestSet(_Named, TextTableCorpus):
    """One file with a column of text in one language."""


class LabelledTestSet(_Named, LabelledCorpus):
    """One file of texts, or of pairs of texts, each with a label."""


class PlantedTestSet(_Named, PlantedCorpus):
    """Two text files, aligned by line, whose pairs are also read with planted faults."""


class TreeTestSet(_Named, TreeCorpus):
    """A treebank: sentences with their constituency trees, in Penn Treebank brackets."""


TestSet = Annotated[
    Annotated[FileTestSet, Tag("files")]
    | Annotated[PairedFileTestSet, Tag("path")]
    | Annotated[HubTestSet, Tag("dataset")]
    | Annotated[PhrasebookTestSet, Tag("builtin")]
    | Annotated[PublishedTestSet, Tag("sacrebleu")]
    | Annotated[TextTestSet, Tag("text")]
    | Annotated[TextTableTestSet, Tag("text_column")]
    | Annotated[LabelledTestSet, Tag("label_column")]
    | Annotated[PlantedTestSet, Tag("planted_faults")]
    | Annotated[TreeTestSet, Tag("trees")],
    Discriminator(corpus_kind),
]
