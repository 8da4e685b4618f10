"""One entry of `evaluation.test_sets`: held-out text that a model is scored on."""

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from mtkit.recipe.data import (
    FileCorpus,
    HeldOutPhrasebook,
    HubCorpus,
    PairedFileCorpus,
    PublishedCorpus,
    corpus_kind,
)
from mtkit.recipe.section import Section


class _Named(Section):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    """Name of the test set; names its files in the workspace."""


class FileTestSet(_Named, FileCorpus):
    """Two aligned text files."""


class PairedFileTestSet(_Named, PairedFileCorpus):
    """One file that holds both sides."""


class HubTestSet(_Named, HubCorpus):
    """A split of a data set that `datasets` can stream."""


class PhrasebookTestSet(_Named, HeldOutPhrasebook):
    """The held-out split of the embedded corpus."""


class PublishedTestSet(_Named, PublishedCorpus):
    """A test set that sacreBLEU knows by name and downloads."""


TestSet = Annotated[
    Annotated[FileTestSet, Tag("files")]
    | Annotated[PairedFileTestSet, Tag("path")]
    | Annotated[HubTestSet, Tag("dataset")]
    | Annotated[PhrasebookTestSet, Tag("builtin")]
    | Annotated[PublishedTestSet, Tag("sacrebleu")],
    Discriminator(corpus_kind),
]
