"""Which tokenizer a recipe gets: another model's, one that it names, or one of its own text."""

from pathlib import Path
from typing import Literal

from mtkit.digests import digest_file
from mtkit.errors import MtkitError
from mtkit.files import read_json
from mtkit.recipe import Recipe
from mtkit.text.extend_vocabulary import extend_vocabulary
from mtkit.text.sentencepiece_segmenter import read_model, read_pretrained
from mtkit.text.tokenizer import SETTINGS_FILE, TOKENIZER_FILES, SubwordTokenizer


def reused_folder(recipe: Recipe) -> Path | None:
    """Returns the model folder whose vocabulary a recipe reuses; None where it doesn't."""
    start_from = recipe.training.start_from
    return start_from.model if start_from is not None and start_from.vocabulary == "keep" else None


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
            two, or the reverse.
    """
    if not digest_reused(folder):
        raise MtkitError(
            f"{folder}: no model here, whose vocabulary could be kept (training.start_from.model)",
            "name a model folder, such as another run's model/; a relative path in a recipe starts "
            "from data.data_root",
        )
    tokenizer = SubwordTokenizer.load(folder)
    if tokenizer.is_joint != recipe.tokenizer.joint:
        found, wanted, mend = (
            ("one vocabulary for both languages", "false", "--set tokenizer.joint=true")
            if tokenizer.is_joint
            else (
                "a vocabulary for each language",
                "true",
                "--set tokenizer.joint=false, and model.tied_embeddings as in its config.json",
            )
        )
        raise MtkitError(
            f"{folder}: this model has {found}, but tokenizer.joint = {wanted}",
            f"{mend}; or train a new vocabulary: --set training.start_from.vocabulary=new",
        )
    return tokenizer


def find_tokenizer(
    recipe: Recipe, punctuation: tuple[str, str] | None = None
) -> SubwordTokenizer | None:
    """Returns the tokenizer that a recipe takes over; None where `prepare` trains one.

    Args:
        recipe: The recipe.
        punctuation: What `punctuation_languages` returns, for a tokenizer that is to encode text.

    Raises:
        MtkitError: It can't be read, or lacks one of the recipe's tags.
    """
    tags, folder = list_tags(recipe), reused_folder(recipe)
    if folder is not None:
        return extend_vocabulary(
            read_reused(folder, recipe),
            tags=tags,
            symbols=recipe.tokenizer.user_symbols,
            punctuation=punctuation,
        )
    if recipe.tokenizer.pretrained is None:
        return None
    models = read_pretrained(recipe.tokenizer)
    return SubwordTokenizer(*models, tags=tags, punctuation=punctuation)


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


def punctuation_languages(recipe: Recipe) -> tuple[str, str] | None:
    """Returns the languages whose punctuation is normalised; None where it stays as it is."""
    return recipe.data.languages if choose_punctuation(recipe) == "moses" else None
