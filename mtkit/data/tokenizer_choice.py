"""Which tokenizer a recipe gets: another model's, one that it names, or one of its own text."""

from pathlib import Path
from typing import Literal

from mtkit.data.augmentation.augment import list_augment_symbols
from mtkit.digests import digest_file
from mtkit.errors import MtkitError
from mtkit.files import read_json
from mtkit.recipe import Recipe
from mtkit.text.extend_vocabulary import extend_vocabulary
from mtkit.text.sentencepiece_segmenter import read_model, read_pretrained
from mtkit.text.token_ids import CLOSING_PIECES, MASK_PIECE
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.tokenizer_files import SETTINGS_FILE, TOKENIZER_FILES

_NEW = "--set training.start_from.vocabulary=new"


def reused_folder(recipe: Recipe) -> Path | None:
    """Returns the model folder whose vocabulary a recipe reuses; None where it doesn't."""
    _, folder = _find_reused(recipe)
    return folder


def extends_vocabulary(recipe: Recipe) -> bool:
    """Checks whether pieces of a recipe's text are added to the vocabulary that it reuses."""
    start_from = recipe.training.start_from
    return start_from is not None and start_from.vocabulary == "extend"


def _find_reused(recipe: Recipe) -> tuple[str, Path | None]:
    """Returns the key that names the model folder whose vocabulary a recipe reuses, and it."""
    start_from = recipe.training.start_from
    if start_from is None or start_from.vocabulary == "new":
        return "", None
    return next(iter(start_from.folders.items()))


def digest_reused(folder: Path) -> dict[str, str]:
    """Returns a digest of each file of a model folder that its vocabulary depends on.

    Raises:
        MtkitError: One is a link to another place, or larger than it can be.
    """
    names = [name for name in TOKENIZER_FILES if (folder / name).is_file()]
    for name in names:
        read_model(folder / name)
    return {name: digest_file(folder / name) for name in names}


def read_reused(folder: Path, recipe: Recipe) -> SubwordTokenizer:
    """Returns the tokenizer of the model that a recipe starts from.

    Raises:
        MtkitError: There is none, it is damaged, or the recipe wants one vocabulary where it has
            two, or the reverse; or encoder and decoder start from models of different vocabularies.
    """
    key, _ = _find_reused(recipe)
    tokenizer = _load(folder, key)
    if tokenizer.is_joint != recipe.tokenizer.joint:
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
    start_from = recipe.training.start_from
    decoder = None if start_from is None else start_from.decoder
    if decoder is not None and decoder != folder:
        pieces = _load(decoder, "decoder").target_vocabulary.pieces
        if tokenizer.target_vocabulary.pieces[: len(pieces)] != pieces:
            raise MtkitError(
                f"{decoder}: this model's vocabulary isn't that of {folder}, but "
                'training.start_from.vocabulary = "keep" needs both to be the same',
                "train both models with the same tokenizer (tokenizer.pretrained); or train a new "
                f"vocabulary: {_NEW}",
            )
    return tokenizer


def _load(folder: Path, key: str) -> SubwordTokenizer:
    """Returns the tokenizer of a model folder that a key of `[training.start_from]` names."""
    if not digest_reused(folder):
        raise MtkitError(
            f"{folder}: no model here to reuse the vocabulary of (training.start_from.{key})",
            "give a model folder, such as another run's model/; a path in a recipe is "
            "relative to data.data_root",
        )
    return SubwordTokenizer.load(folder)


def find_tokenizer(
    recipe: Recipe, punctuation: tuple[str, str] | None = None
) -> SubwordTokenizer | None:
    """Returns the tokenizer that a recipe reuses; None where `prepare` trains one.

    Where pieces of the recipe's text are to be added, it is the one without them.

    Args:
        recipe: The recipe.
        punctuation: What `punctuation_languages` returns, for a tokenizer that is to encode text.

    Raises:
        MtkitError: It can't be read, or lacks one of the recipe's tags.
    """
    tags, folder = list_tags(recipe), reused_folder(recipe)
    if find_source_model(recipe) is not None:
        return None
    if folder is not None:
        return extend_vocabulary(
            read_reused(folder, recipe),
            tags=tags,
            symbols=list_symbols(recipe),
            languages=recipe.data.languages if extends_vocabulary(recipe) else (),
            punctuation=punctuation,
        )
    if recipe.tokenizer.pretrained is None:
        return None
    models = read_pretrained(recipe.tokenizer)
    tokenizer = SubwordTokenizer(*models, tags=tags, punctuation=punctuation)
    if symbols := list_own_symbols(recipe):
        return extend_vocabulary(tokenizer, symbols=symbols, punctuation=punctuation)
    return tokenizer


def find_source_model(recipe: Recipe) -> bytes | None:
    """Returns the SentencePiece model of a parser's sentences that is there already.

    It is that which the recipe names, or that of a model without trees that training starts from.
    The trees' vocabulary is made of the text in either case.

    Raises:
        MtkitError: It can't be read.
    """
    if not recipe.data.is_trees:
        return None
    key, folder = _find_reused(recipe)
    if folder is not None:
        tokenizer = _load(folder, key)
        return tokenizer.models[0] if tokenizer.is_joint else None
    if recipe.tokenizer.pretrained is not None:
        return read_pretrained(recipe.tokenizer)[0]
    return None


def list_own_symbols(recipe: Recipe) -> list[str]:
    """Returns the symbols that a vocabulary needs for a recipe's objective or examples."""
    if recipe.objective == "classification" and recipe.classification.kind == "causal-lm":
        return list(CLOSING_PIECES)
    if recipe.objective in ("masked-lm", "denoising"):
        return [MASK_PIECE]
    return list_augment_symbols(recipe.data.augment)


def list_symbols(recipe: Recipe) -> list[str]:
    """Returns the strings that are always one piece of a recipe's vocabulary, tags left out."""
    return list(dict.fromkeys((*recipe.tokenizer.user_symbols, *list_own_symbols(recipe))))


def list_tags(recipe: Recipe) -> list[str]:
    """Returns the tags that a recipe puts before sources, each once."""
    corpora = (*recipe.data.train, recipe.data.dev, *recipe.evaluation.test_sets)
    return list(dict.fromkeys(corpus.tag for corpus in corpora if corpus.tag))


def choose_punctuation(recipe: Recipe) -> Literal["as-is", "moses"]:
    """Returns how punctuation is treated: as the recipe says, or the reused vocabulary's model."""
    folder = reused_folder(recipe)
    if folder is None:
        return recipe.tokenizer.punctuation
    path = folder / SETTINGS_FILE
    return "moses" if path.is_file() and read_json(path).get("punctuation") else "as-is"


def has_language_pieces(folder: Path) -> bool:
    """Returns whether the vocabulary of a model folder has a piece for each language."""
    path = folder / SETTINGS_FILE
    return path.is_file() and bool(read_json(path).get("languages"))


def punctuation_languages(recipe: Recipe) -> tuple[str, str] | None:
    """Returns the languages whose punctuation is normalised; None where it stays as it is."""
    return recipe.data.languages if choose_punctuation(recipe) == "moses" else None
