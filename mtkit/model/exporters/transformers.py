"""A language model as a folder that transformers' GPT and BERT classes load."""

from pathlib import Path

from mtkit.files import as_json_text, write_atomically
from mtkit.folders import building, check_new
from mtkit.model.card import CARD_FILE, render_text, with_use
from mtkit.model.config import CONFIG_FILE, WEIGHTS_FILE
from mtkit.model.folder import LoadedModel
from mtkit.model.new_cards import language_model_card
from mtkit.model.transformers_config import MtkitKeys, describe_language_model
from mtkit.model.transformers_names import convert_to_transformers, list_counterparts
from mtkit.model.weights import pack_weights, write_tensors

TOKENIZER_FILE = "joint.spm"
"""The SentencePiece model, as in mtkit's folders: row numbers are mtkit's tokens."""


def save_transformers_folder(loaded: LoadedModel, folder: Path) -> None:
    """Writes a new folder that `from_pretrained` of transformers' class loads.

    That class is `OpenAIGPTLMHeadModel`, `BertForPreTraining`, or `BertForMaskedLM` without a pair
    head. The tokenizer is written as a SentencePiece model, for which transformers' GPT and BERT
    have no class.
    """
    config = loaded.config
    described = describe_language_model(config)
    check_new(folder, "name a new folder")
    keys = MtkitKeys(
        recipe=config.recipe,
        language=config.target_language,
        punctuation=loaded.tokenizer.punctuation,
    )
    weights = pack_weights(loaded.model)
    card = language_model_card(
        config, num_parameters=sum(weight.numel() for weight in weights.values()), facts={}
    )
    architecture = _name_class(loaded)
    with building(folder) as draft:
        content = {
            "architectures": [architecture],
            **described.model_dump(mode="json", exclude={"mtkit"}),
            "mtkit": keys.model_dump(mode="json"),
        }
        write_atomically(draft / CONFIG_FILE, as_json_text(content, is_ascii=True))
        write_tensors(
            convert_to_transformers(weights, list_counterparts(config)), draft / WEIGHTS_FILE
        )
        (draft / TOKENIZER_FILE).write_bytes(loaded.tokenizer.models[1])
        use = render_text("use_pretrained", architecture=architecture)
        write_atomically(draft / CARD_FILE, with_use(card, use))


def _name_class(loaded: LoadedModel) -> str:
    if loaded.config.objective == "causal-lm":
        return "OpenAIGPTLMHeadModel"
    return "BertForPreTraining" if loaded.config.next_sentence else "BertForMaskedLM"
