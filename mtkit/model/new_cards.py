"""Cards of new models without scores: trained and imported translators, language models."""

import re
from collections.abc import Mapping

from mtkit.model.card import SCORES, UNSCORED, render_text
from mtkit.model.config import ModelConfig
from mtkit.recipe.inference import Inference
from mtkit.recipe.model import Model
from mtkit.recipe.tokenizer import Tokenizer

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def model_card(
    config: ModelConfig,
    tokenizer: Tokenizer,
    *,
    num_parameters: int,
    settings: Inference,
    training_facts: Mapping[str, str],
    licence: str = "",
) -> str:
    """Returns the card of a trained translator; `licence` is that of the model it started from."""
    languages = (config.source_language, config.target_language)
    found = {"tokenizer": tokenizer, "settings": settings, "facts": training_facts}
    return _render("translator", config, num_parameters, languages, licence, **found)


def imported_card(
    config: ModelConfig,
    *,
    num_parameters: int,
    settings: Inference,
    origin: str,
    licence: str,
    is_joint: bool,
) -> str:
    """Returns the card of an imported public translator.

    Args:
        config: The model's.
        num_parameters: Its weights.
        settings: Its decoding defaults.
        origin: Its name on the Hugging Face hub, or that of its folder.
        licence: Its licence in the hub's spelling; empty if unknown.
        is_joint: Whether both languages share one vocabulary.
    """
    return _render(
        "imported",
        config,
        num_parameters,
        tuple(dict.fromkeys((config.source_language, config.target_language))),
        licence,
        settings=settings,
        origin=origin,
        base_model=origin if _HUB_NAME.fullmatch(origin) else "",
        is_joint=is_joint,
        network=_list_keys(config.model),
    )


def language_model_card(
    config: ModelConfig, *, num_parameters: int, facts: Mapping[str, str]
) -> str:
    """Returns the card of a language model or a classifier; `facts` are about its training."""
    kind = "language_model" if config.classifier is None else "classifier"
    return _render(kind, config, num_parameters, (config.target_language,), facts=facts)


def _render(
    name: str,
    config: ModelConfig,
    num_parameters: int,
    languages: tuple[str, ...],
    licence: str = "",
    **found: object,
) -> str:
    return render_text(
        name,
        config=config,
        num_parameters=num_parameters,
        languages=languages,
        licence=licence,
        scores=SCORES,
        unscored=UNSCORED,
        **{"base_model": "", **found},
    )


def _list_keys(model: Model) -> dict[str, object]:
    """Returns a network's keys in a recipe that differ from the defaults."""
    told = model.model_dump(mode="json", exclude_defaults=True)
    width = model.d_model // model.num_heads
    return {
        key: value
        for key, value in told.items()
        if key not in ("d_key", "d_value") or value != width
    }
