"""Checks the language model of `inference.fusion`."""

from pathlib import Path

from mtkit.errors import MtkitError
from mtkit.model.config import ModelConfig, read_config
from mtkit.recipe.inference import Inference
from mtkit.text.tokenizer import SubwordTokenizer


def check_language_model(
    settings: Inference, translator: Path, config: ModelConfig
) -> ModelConfig | None:
    """Returns the config of the language model of `inference.fusion`; None without one.

    Raises:
        MtkitError: It isn't a causal language model, its vocabulary differs from the translator's
            target vocabulary, or the translator isn't an encoder-decoder.
    """
    if settings.fusion is None:
        return None
    folder = settings.fusion.model
    language_model = read_config(folder)
    if language_model.objective != "causal-lm":
        raise MtkitError(
            f"{folder}: not a causal language model (inference.fusion.model)",
            'train one: objective = "causal-lm"',
        )
    if not config.has_encoder_and_decoder:
        raise MtkitError(
            "inference.fusion is for translators, and this is a language model itself",
            "remove it: --set '~inference.fusion'",
        )
    vocabularies = (SubwordTokenizer.load(each).target_vocabulary for each in (folder, translator))
    if next(vocabularies) != next(vocabularies):
        raise MtkitError(
            f"{folder}: vocabulary differs from the translator's target (inference.fusion.model)",
            "train the language model with tokenizer.pretrained.source = the .spm file of the "
            "translator's target in its model folder",
        )
    return language_model
