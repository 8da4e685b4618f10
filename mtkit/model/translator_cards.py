"""The cards of translators: of a trained one, and of a public one that was imported."""

import json
import re
from collections.abc import Mapping

from mtkit.model.card import SCORES, UNSCORED
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
    """Returns the card of a model that hasn't been scored.

    Args:
        config: The model's.
        tokenizer: The section of its recipe.
        num_parameters: Its weights.
        settings: Its decoding defaults.
        training_facts: Facts on its training, by name.
        licence: That of the model it was made of, if any.
    """
    model, sizes = config.model, config.vocab_sizes
    source, target = config.source_language, config.target_language
    pieces = f"{sizes[0]:,} pieces for both languages"
    if not tokenizer.joint:
        pieces = f"{sizes[0]:,} source and {sizes[1]:,} target pieces"
    layers = _count_layers(model)
    if model.architecture == "decoder-only":
        layers = (
            f"{model.num_decoder_layers}, of a decoder that reads source and target as one text"
        )
    facts = "\n".join(f"- {name}: {fact}" for name, fact in training_facts.items())
    return _write(
        config,
        (source, target),
        f"A Transformer that translates `{source}` into `{target}`: raw text in, raw text out.",
        _describe_network(model, num_parameters, layers, f"{pieces} ({tokenizer.kind})"),
        f"## Training\n\n- recipe: {config.recipe}\n{facts}",
        settings=settings,
        licence=licence,
    )


def imported_card(
    config: ModelConfig,
    *,
    num_parameters: int,
    settings: Inference,
    origin: str,
    licence: str,
    is_joint: bool,
) -> str:
    """Returns the card of a public translator that was imported.

    Args:
        config: The model's.
        num_parameters: Its weights.
        settings: Its decoding defaults.
        origin: Its name on the Hugging Face hub, or that of its folder.
        licence: Its licence, as the hub spells it; empty if untold.
        is_joint: Whether both languages share one vocabulary.
    """
    model = config.model
    pieces = f"{config.source_vocab_size:,} pieces for both languages"
    if model.tied_embeddings != "three-way":
        pieces = f"{config.source_vocab_size:,} source, {config.target_vocab_size:,} target pieces"
    return _write(
        config,
        tuple(dict.fromkeys((config.source_language, config.target_language))),
        "A public translator, imported: raw text in, raw text out.",
        _describe_network(model, num_parameters, _count_layers(model), pieces),
        f"""\
## Fine-tune

The part of a recipe that starts from this folder:

```toml
{_describe_model(model)}

[tokenizer]
joint = {str(is_joint).lower()}

[training.start_from]
model = "FOLDER"
```

## Origin

- model: {origin}
- licence: {licence or "not told by the model's card; look there before you use it"}""",
        settings=settings,
        licence=licence,
        base_model=origin if _HUB_NAME.fullmatch(origin) else "",
    )


def _write(
    config: ModelConfig,
    languages: tuple[str, ...],
    introduction: str,
    *sections: str,
    settings: Inference,
    licence: str,
    base_model: str = "",
) -> str:
    """Returns a card that hasn't any scores yet, from the sections that are its own."""
    head = [
        "language:",
        *(f"- {language}" for language in languages),
        "library_name: mtkit",
        "pipeline_tag: translation",
        *([f"license: {licence}"] if licence else []),
        *([f"base_model: {base_model}"] if base_model else []),
    ]
    return (
        "\n".join(["---", *head, "---", ""])
        + f"""
# {config.recipe}: {config.source_language} to {config.target_language}

{introduction}

## Use

One sentence per line, in this folder:

```sh
mtkit translate --model . < input.txt > output.txt
```

```python
from mtkit import Translator

print(Translator(".").translate("A sentence."))
```

`inference.json` holds the decoding defaults: beam {settings.beam_size}, length penalty
`{settings.length_penalty.kind}` with alpha {settings.length_penalty.alpha}.

{chr(10).join(f"{section}{chr(10)}" for section in sections)}
{SCORES}

{UNSCORED}
"""
    )


def _count_layers(model: Model) -> str:
    return f"{model.num_encoder_layers} encoder, {model.num_decoder_layers} decoder"


def _describe_network(model: Model, num_parameters: int, layers: str, pieces: str) -> str:
    return f"""\
## Model

- parameters: {num_parameters:,}
- layers: {layers}
- width: {model.d_model}, feed-forward {model.d_ff}, {model.num_heads} heads
- vocabulary: {pieces}"""


def _describe_model(model: Model) -> str:
    """Returns a network's section of a recipe, as TOML, without keys that have their defaults."""
    told = model.model_dump(mode="json", exclude_defaults=True)
    width = model.d_model // model.num_heads
    keys = {
        key: value
        for key, value in told.items()
        if key not in ("d_key", "d_value") or value != width
    }
    # TOML spells such values as JSON does.
    lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(["[model]", *lines])
