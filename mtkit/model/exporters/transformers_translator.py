"""A translator as a folder that transformers' `AutoModelForSeq2SeqLM` loads.

A model with a piece for each language becomes M2M100 or NLLB; any other becomes Marian, or Pegasus
if it is pre-norm.
"""

from pathlib import Path

from mtkit.errors import MtkitError
from mtkit.model.config import CONFIG_FILE, WEIGHTS_FILE, ModelConfig, check_translates
from mtkit.model.exporters.m2m100 import (
    arrange_m2m100,
    check_bias,
    describe_m2m100,
    list_m2m100_faults,
    rename_m2m100,
    write_m2m100_tokenizer,
)
from mtkit.model.exporters.marian import (
    arrange_marian,
    describe_marian,
    list_marian_faults,
    rename_marian,
    write_marian_tokenizer,
)
from mtkit.model.exporters.transformers_rows import (
    WrittenTranslator,
    describe_search,
    find_longest,
    list_unsupported_settings,
    write_json,
)
from mtkit.model.folder import LoadedModel
from mtkit.model.weights import pack_weights, write_tensors
from mtkit.recipe.inference import Inference
from mtkit.text.tokenizer import SubwordTokenizer

GENERATION_FILE = "generation_config.json"


def check_holds(config: ModelConfig, tokenizer: SubwordTokenizer, settings: Inference) -> None:
    """Checks that a transformers class can represent a translator exactly, apart from its weights.

    The error lists all reasons.
    """
    check_translates(config, "export to transformers")
    list_faults = list_m2m100_faults if tokenizer.has_language_pieces else list_marian_faults
    faults = [*list_faults(config.model, tokenizer), *list_unsupported_settings(settings)]
    if config.objective != "translation":
        faults.append(f'objective = "{config.objective}"')
    if faults:
        raise MtkitError(
            f"{config.recipe}: transformers has no class for this: " + "; ".join(faults),
            "export for CTranslate2 instead (--format ctranslate2)",
        )


def write_translator(loaded: LoadedModel, folder: Path, settings: Inference) -> WrittenTranslator:
    """Writes a translator into an empty folder, without its card.

    `settings` have the power form of the length penalty.
    """
    check_holds(loaded.config, loaded.tokenizer, settings)
    config, tokenizer = loaded.config, loaded.tokenizer
    weights = pack_weights(loaded.translator)
    longest = find_longest(settings)
    if tokenizer.has_language_pieces:
        check_bias(config, tokenizer, weights)
        written = arrange_m2m100(config, tokenizer, weights)
        described = describe_m2m100(config.model, written, longest)
        tensors = rename_m2m100(config, weights, written)
        write_m2m100_tokenizer(folder, config, tokenizer, written, longest)
    else:
        written = arrange_marian(config.model, tokenizer, weights)
        described = describe_marian(config, written, longest)
        tensors = rename_marian(config, tokenizer, weights, written, longest)
        write_marian_tokenizer(folder, config, tokenizer, written, longest)
    write_json(folder / CONFIG_FILE, described)
    write_json(folder / GENERATION_FILE, describe_search(written, settings))
    write_tensors(tensors, folder / WEIGHTS_FILE)
    return written
