"""The `data` section: which text a run trains on."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from mtkit.recipe.augment import Augment
from mtkit.recipe.cleaning import Cleaning
from mtkit.recipe.corpora import Corpus, HeldOutCorpus
from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.parsing import Linearization, Parsing, TreeCorpus
from mtkit.recipe.section import Section
from mtkit.recipe.text_corpora import ClassifierCorpus

_LANGUAGE = r"^[A-Za-z]{2,3}([_-][A-Za-z0-9]{1,8})*$"
"""A language's ISO 639 code, with script or region: `zh-Hant`."""


class Data(Section):
    """Text to train on and to validate on: parallel, or in one language."""

    language: Annotated[str, Field(pattern=rf"^$|{_LANGUAGE}")] = ""
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
    """Folder that all paths of a recipe are relative to, with `--set` too. It is itself relative to
    the recipe's folder, or for a recipe that ships with mtkit, and with `--set`, to the working
    directory."""
    train: tuple[Corpus, ...] = Field(min_length=1)
    """Training corpora; `weight` says how often each occurs in an epoch."""
    dev: HeldOutCorpus
    """Development set: its loss and score decide which checkpoint is best."""
    parsing: Parsing | None = None
    """How trees become targets, where corpora are `trees`."""
    cleaning: Cleaning = Cleaning()
    """Which training pairs, or lines of text in one language, are dropped."""
    augment: Augment | None = None
    """Training examples that are made of others, such as some without final punctuation."""
    word_aligner: bool = False
    """Train a word aligner on the pairs in `mtkit prepare`, and store it in the model folder (a few
    megabytes). Alignments then come from it instead of from attention."""

    @model_validator(mode="after")
    def _languages_agree(self) -> "Data":
        if self.language and self.languages != (self.language, self.language):
            raise ValueError("give either language, or source_language and target_language")
        for key in ("source_language", "target_language"):
            if not getattr(self, key):
                raise ValueError(f"{key} is missing")
        return self

    @model_validator(mode="after")
    def _all_are_trees_or_none(self) -> "Data":
        if self.parsing is not None and not self.is_trees:
            raise ValueError("parsing is for corpora with `trees`")
        if self.is_trees:
            others = [corpus for corpus in self.train if not isinstance(corpus, TreeCorpus)]
            if others or not isinstance(self.dev, TreeCorpus):
                raise ValueError(
                    "`trees` and other corpora don't go together: name trees in each of data.train "
                    "and in data.dev"
                )
            if self.cleaning.selection is not None:
                raise ValueError("cleaning.selection chooses text, not trees: remove it")
        return self

    @model_validator(mode="after")
    def _is_of_pairs(self) -> "Data":
        if self.is_text or self.is_trees:
            if self.augment is not None:
                raise ValueError("augment needs sentence pairs: remove it")
            if self.word_aligner:
                raise ValueError("word_aligner learns from pairs of sentences: remove it")
        return self

    @model_validator(mode="after")
    def _cleaning_suits_text(self) -> "Data":
        if not self.is_text:
            return self
        cleaning, plain = self.cleaning, Cleaning()
        for key, section in cleaning.filters.items():
            if section.compares_sides and section != plain.filters[key]:
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

    @property
    def is_trees(self) -> bool:
        """Whether it is treebanks, for a parser."""
        return any(isinstance(corpus, TreeCorpus) for corpus in (*self.train, self.dev))

    @property
    def linearization(self) -> Linearization | None:
        """What a tree looks like as a target; None where there are no trees."""
        return (self.parsing or Parsing()).linearization if self.is_trees else None

    @property
    def names_alignments(self) -> tuple[bool, ...]:
        """Whether each training corpus names a file of word alignments."""
        return tuple(getattr(corpus, "alignments", None) is not None for corpus in self.train)

    @property
    def aligns_terms(self) -> bool:
        """Whether examples with terms are made from word alignments, rather than a dictionary."""
        terms = None if self.augment is None else self.augment.terms
        return terms is not None and terms.dictionary is None

    @property
    def dictionary(self) -> Path | None:
        """The dictionary that examples with terms are made from; None where none is."""
        terms = None if self.augment is None else self.augment.terms
        return None if terms is None else terms.dictionary

    @property
    def has_pairs_of_texts(self) -> bool:
        """Whether labels are of pairs of texts."""
        return isinstance(self.dev, ClassifierCorpus) and bool(self.dev.second_column)

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
