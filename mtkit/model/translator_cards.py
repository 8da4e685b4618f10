"""The cards of translators: of a trained one, and of a public one that was imported."""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mtkit.model.card import SCORES, UNSCORED
from mtkit.model.config import ModelConfig
from mtkit.recipe.inference import Inference
from mtkit.recipe.model import Model

if TYPE_CHECKING:
    from mtkit.recipe import Recipe

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def model_card(
    recipe: "Recipe",
    *,
    num_parameters: int,
    vocab_sizes: tuple[int, int],
    training_facts: Mapping[str, str],
    licence: str = "",
) -> str:
    """Returns the card of a model that hasn't been scored.

    Args:
        recipe: Its recipe.
        num_parameters: Its weights.
        vocab_sizes: Number of source and of target pieces.
        training_facts: Facts on its training, by name.
        licence: That of the model it was made of, if any.
    """
    model = recipe.model
    source, target = recipe.data.languages
    pieces = f"{vocab_sizes[0]:,} pieces for both languages"
    if not recipe.tokenizer.joint:
        pieces = f"{vocab_sizes[0]:,} source and {vocab_sizes[1]:,} target pieces"
    layers = f"{model.num_encoder_layers} encoder, {model.num_decoder_layers} decoder"
    if model.architecture == "decoder-only":
        layers = (
            f"{model.num_decoder_layers}, of a decoder that reads source and target as one text"
        )
    facts = "\n".join(f"- {name}: {fact}" for name, fact in training_facts.items())
    told = f"\nlicense: {licence}" if licence else ""
    return f"""\
---
language:
- {source}
- {target}
library_name: mtkit
pipeline_tag: translation{told}
---

# {recipe.name}: {source} to {target}

A Transformer that translates `{source}` into `{target}`: raw text in, raw text out.

## Use

One sentence per line, in this folder:

```sh
mtkit translate --model . < input.txt > output.txt
```

```python
from mtkit import Translator

print(Translator(".").translate("A sentence."))
```

`inference.json` holds the decoding defaults: beam {recipe.inference.beam_size}, length penalty
`{recipe.inference.length_penalty.kind}` with alpha {recipe.inference.length_penalty.alpha}.

## Model

- parameters: {num_parameters:,}
- layers: {layers}
- width: {model.d_model}, feed-forward {model.d_ff}, {model.num_heads} heads
- vocabulary: {pieces} ({recipe.tokenizer.kind})

## Training

- recipe: {recipe.name}
{facts}

{SCORES}

{UNSCORED}
"""


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
    told = [config.source_language, config.target_language]
    languages = "\n".join(f"- {language}" for language in dict.fromkeys(told))
    head = f"language:\n{languages}\nlibrary_name: mtkit\npipeline_tag: translation"
    if licence:
        head += f"\nlicense: {licence}"
    if _HUB_NAME.fullmatch(origin):
        head += f"\nbase_model: {origin}"
    pieces = f"{config.source_vocab_size:,} pieces for both languages"
    if model.tied_embeddings != "three-way":
        pieces = f"{config.source_vocab_size:,} source, {config.target_vocab_size:,} target pieces"
    return f"""\
---
{head}
---

# {config.recipe}: {told[0]} to {told[1]}

A public translator, imported: raw text in, raw text out.

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

## Model

- parameters: {num_parameters:,}
- layers: {model.num_encoder_layers} encoder, {model.num_decoder_layers} decoder
- width: {model.d_model}, feed-forward {model.d_ff}, {model.num_heads} heads
- vocabulary: {pieces}

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
- licence: {licence or "not told by the model's card; look there before you use it"}

{SCORES}

{UNSCORED}
"""


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
