"""The vocabulary of the model that training starts from, where a recipe keeps that."""

from pathlib import Path

from mtkit.digests import digest_file
from mtkit.errors import MtkitError
from mtkit.recipe import Recipe
from mtkit.text.sentencepiece_segmenter import read_model
from mtkit.text.tokenizer import TOKENIZER_FILES, SubwordTokenizer


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
            f"{mend}; or train a vocabulary anew: --set training.start_from.vocabulary=new",
        )
    return tokenizer
