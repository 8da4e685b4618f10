"""The `data` section: which parallel text a run learns from."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, PositiveInt, Tag

from mtkit.recipe.section import Section

_LANGUAGE = r"^[A-Za-z]{2,8}([_-][A-Za-z0-9]{1,8})*$"


class FileCorpus(Section):
    """Two text files, aligned by line."""

    source: Path
    """Source side: UTF-8 text, one sentence a line; a name that ends in `.gz` is decompressed."""
    target: Path
    """Target side, line by line the translation of `source`."""


class HubCorpus(Section):
    """A data set that the `datasets` library can stream: a hub name or a local folder."""

    dataset: str
    """Name on the hub (`wmt/wmt14`), or a local folder of Parquet files, which starts from
    `data_root` as file names do."""
    configuration: str = "default"
    """Configuration of the data set, such as `de-en`."""
    split: str
    """Split of the data set, such as `train`; its rows hold a `translation` column."""


class PhrasebookCorpus(Section):
    """English-German pairs from mtkit's own generator, for a run without a network."""

    builtin: Literal["phrasebook"]
    """Name of the generator."""
    sentences: Annotated[int, Field(ge=1, le=500_000)] = 40_000
    """How many distinct pairs to generate."""


class HeldOutPhrasebook(PhrasebookCorpus):
    """The same generator; a development or test set is small by default."""

    sentences: Annotated[int, Field(ge=1, le=20_000)] = 500
    """How many distinct pairs to generate; none of them stands in the training split."""


def corpus_kind(corpus: Any) -> str:
    """Returns which kind of corpus a table describes, by the one key that tells the kinds apart."""
    for key in ("builtin", "dataset"):
        if key in corpus if isinstance(corpus, dict) else hasattr(corpus, key):
            return key
    return "files"


Corpus = Annotated[
    Annotated[FileCorpus, Tag("files")]
    | Annotated[HubCorpus, Tag("dataset")]
    | Annotated[PhrasebookCorpus, Tag("builtin")],
    Discriminator(corpus_kind),
]
HeldOutCorpus = Annotated[
    Annotated[FileCorpus, Tag("files")]
    | Annotated[HubCorpus, Tag("dataset")]
    | Annotated[HeldOutPhrasebook, Tag("builtin")],
    Discriminator(corpus_kind),
]


class Cleaning(Section):
    """Which training pairs are left out. A pair with a blank side always is."""

    max_tokens: PositiveInt = 256
    """Greatest length of either side in subword tokens, `</s>` counted."""


class Data(Section):
    """Parallel text: what to train on and what to watch while training."""

    source_language: Annotated[str, Field(pattern=_LANGUAGE)]
    """Language translated from, as its ISO 639 code: `en`."""
    target_language: Annotated[str, Field(pattern=_LANGUAGE)]
    """Language translated into, as its ISO 639 code: `de`."""
    data_root: Path = Path()
    """Folder that relative corpus paths start from; itself relative to the recipe's folder, or to
    the working directory for a recipe that ships with mtkit."""
    train: tuple[Corpus, ...] = Field(min_length=1)
    """Training corpora; they are concatenated."""
    dev: HeldOutCorpus
    """Development set: its loss and score choose the best checkpoint."""
    cleaning: Cleaning = Cleaning()
    """Which training pairs are left out."""
