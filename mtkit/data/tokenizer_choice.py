"""Chooses a recipe's tokenizer: another model's, one that it names, or one trained on its text."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mtkit.data.augmentation.augment import list_augment_symbols
from mtkit.errors import MtkitError
from mtkit.files import digest_file, read_json
from mtkit.recipe import Recipe
from mtkit.recipe.data import Data
from mtkit.recipe.start_from import StartFrom
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.extend_vocabulary import extend_vocabulary
from mtkit.text.learn_pieces import learn_pieces
from mtkit.text.sentencepiece_segmenter import read_model, read_pretrained
from mtkit.text.token_ids import CLOSING_PIECES, MASK_PIECE
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.tokenizer_files import SETTINGS_FILE, TOKENIZER_FILES
from mtkit.text.train_tokenizer import train_tokenizer

_NEW = "--set training.start_from.vocabulary=new"


@dataclass(frozen=True)
class TokenizerChoice:
    """Which tokenizer a recipe gets, by the sections that decide it.

    Attributes:
        tags: The tags in front of sources, each once.
        own_symbols: The symbols that the objective or augmented examples need in a vocabulary.
    """

    settings: Tokenizer
    start_from: StartFrom | None
    data: Data
    tags: list[str]
    own_symbols: list[str]
    seed: int

    @classmethod
    def of(cls, recipe: Recipe) -> "TokenizerChoice":
        """Returns the choice for a recipe."""
        data = recipe.data
        symbols = list_augment_symbols(data.augment)
        if recipe.objective == "classification" and recipe.classification.kind == "causal-lm":
            symbols = list(CLOSING_PIECES)
        elif recipe.objective in ("masked-lm", "denoising"):
            symbols = [MASK_PIECE]
        # A piece that training never sees would be noise.
        tags = list(dict.fromkeys(corpus.tag for corpus in data.train if corpus.tag))
        start_from = recipe.training.start_from
        return cls(recipe.tokenizer, start_from, data, tags, symbols, recipe.seed)

    @property
    def reused_folder(self) -> Path | None:
        """The model folder whose vocabulary is reused; None if none is."""
        return self._reused[1]

    @property
    def extends_vocabulary(self) -> bool:
        """Whether pieces of the recipe's text are added to the reused vocabulary."""
        return self.start_from is not None and self.start_from.vocabulary == "extend"

    @property
    def symbols(self) -> list[str]:
        """The strings that are always one piece of the vocabulary, without tags."""
        return list(dict.fromkeys((*self.settings.user_symbols, *self.own_symbols)))

    @property
    def punctuation(self) -> Literal["as-is", "moses"]:
        """How punctuation is treated: as the recipe says, or as the reused model does."""
        folder = self.reused_folder
        if folder is None:
            return self.settings.punctuation
        path = folder / SETTINGS_FILE
        return "moses" if path.is_file() and read_json(path).get("punctuation") else "as-is"

    @property
    def punctuation_languages(self) -> tuple[str, str] | None:
        """The languages whose punctuation is normalised; None if it stays."""
        return self.data.languages if self.punctuation == "moses" else None

    @property
    def _reused(self) -> tuple[str, Path | None]:
        """The key that names the model folder whose vocabulary is reused, and the folder."""
        if self.start_from is None or self.start_from.vocabulary == "new":
            return "", None
        return next(iter(self.start_from.folders.items()))

    def read_reused(self) -> SubwordTokenizer:
        """Returns the tokenizer of the model that training starts from, if it fits the recipe."""
        key, folder = self._reused
        assert folder is not None, "callers look at reused_folder"
        tokenizer = _load(folder, key)
        if tokenizer.is_joint != self.settings.joint:
            found, wanted, remedy = (
                ("one vocabulary for both languages", "false", "--set tokenizer.joint=true")
                if tokenizer.is_joint
                else (
                    "a separate vocabulary for each language",
                    "true",
                    "--set tokenizer.joint=false, and model.tied_embeddings as in its config.json",
                )
            )
            raise MtkitError(
                f"{folder}: this model has {found}, but tokenizer.joint = {wanted}",
                f"{remedy}; or train a new vocabulary: {_NEW}",
            )
        decoder = None if self.start_from is None else self.start_from.decoder
        if decoder is not None and decoder != folder:
            pieces = _load(decoder, "decoder").target_vocabulary.pieces
            if tokenizer.target_vocabulary.pieces[: len(pieces)] != pieces:
                raise MtkitError(
                    f"{decoder}: this model's vocabulary isn't that of {folder}, but "
                    'training.start_from.vocabulary = "keep" needs both to be the same',
                    "train both models with the same tokenizer (tokenizer.pretrained); or train a "
                    f"new vocabulary: {_NEW}",
                )
        return tokenizer

    def find(self, punctuation: tuple[str, str] | None = None) -> SubwordTokenizer | None:
        """Returns the existing tokenizer, without pieces to be added; None if `prepare` trains one.

        `punctuation` is `punctuation_languages`, for a tokenizer that will encode text.
        """
        if self.find_source_model() is not None:
            return None
        if self.reused_folder is not None:
            return extend_vocabulary(
                self.read_reused(),
                tags=self.tags,
                symbols=self.symbols,
                languages=self.data.languages if self.extends_vocabulary else (),
                punctuation=punctuation,
            )
        if self.settings.pretrained is None:
            return None
        models = read_pretrained(self.settings)
        tokenizer = SubwordTokenizer(*models, tags=self.tags, punctuation=punctuation)
        if self.own_symbols:
            return extend_vocabulary(tokenizer, symbols=self.own_symbols, punctuation=punctuation)
        return tokenizer

    def find_source_model(self) -> bytes | None:
        """Returns an existing SentencePiece model of a parser's sentences, if any.

        It is the recipe's, or that of a model without trees that training starts from. The trees'
        vocabulary is made from the text in either case.
        """
        if not self.data.is_trees:
            return None
        key, folder = self._reused
        if folder is not None:
            tokenizer = _load(folder, key)
            return tokenizer.models[0] if tokenizer.is_joint else None
        if self.settings.pretrained is not None:
            return read_pretrained(self.settings)[0]
        return None

    def learn(
        self, sources: Iterable[str], targets: Iterable[str], *, settings: Tokenizer | None = None
    ) -> SubwordTokenizer:
        """Returns a tokenizer trained on some text, or the reused one with pieces of the text.

        Text in one language has no targets. `settings` replace the recipe's.
        """
        settings = settings or self.settings
        punctuation = self.punctuation_languages
        if not self.extends_vocabulary:
            return train_tokenizer(
                settings,
                sources,
                targets,
                seed=self.seed,
                tags=self.tags,
                symbols=self.own_symbols,
                punctuation=punctuation,
                is_trees=self.data.is_trees,
                source_model=self.find_source_model(),
            )
        return extend_vocabulary(
            learn_pieces(self.read_reused(), settings, sources, targets, seed=self.seed),
            tags=self.tags,
            symbols=self.symbols,
            languages=self.data.languages,
            punctuation=punctuation,
        )


def digest_reused(folder: Path) -> dict[str, str]:
    """Returns a digest of each file of a model folder that its vocabulary depends on."""
    names = [name for name in TOKENIZER_FILES if (folder / name).is_file()]
    for name in names:
        read_model(folder / name)
    return {name: digest_file(folder / name) for name in names}


def check_start(settings: StartFrom | None) -> None:
    """Checks that the models that training starts from are there."""
    for key, folder in {} if settings is None else settings.folders.items():
        if not folder.is_dir():
            raise MtkitError(
                f"{folder}: no such folder (training.start_from.{key})",
                "name a model folder, such as another run's model/; a relative path starts from "
                "data.data_root, also with --set",
            )


def has_language_pieces(folder: Path) -> bool:
    """Checks that the vocabulary of a model folder has a piece for each language."""
    path = folder / SETTINGS_FILE
    return path.is_file() and bool(read_json(path).get("languages"))


def _load(folder: Path, key: str) -> SubwordTokenizer:
    """Returns the tokenizer of a model folder that a key of `[training.start_from]` names."""
    if not digest_reused(folder):
        raise MtkitError(
            f"{folder}: no model here to reuse the vocabulary of (training.start_from.{key})",
            "give a model folder, such as another run's model/; a path in a recipe is "
            "relative to data.data_root",
        )
    return SubwordTokenizer.load(folder)
