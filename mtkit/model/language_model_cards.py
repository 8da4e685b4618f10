"""The cards of language models, and of classifiers that are made of them."""

from collections.abc import Mapping

from mtkit.model.card import SCORES, UNSCORED
from mtkit.model.config import ModelConfig

_USE_OF_CAUSAL = """\
It continues each line, in this folder:

```sh
mtkit translate --model . < beginnings.txt > texts.txt
```

or tells how likely a text is:

```python
from pathlib import Path

import torch
from mtkit.model.folder import load_model_folder
from mtkit.network import PaddedLayout
from mtkit.text.token_ids import BOS

loaded = load_model_folder(Path("."))
tokens = loaded.tokenizer.encode_target(["A sentence."])[0]
inputs = torch.tensor([[BOS, *tokens[:-1]]])
with torch.no_grad():
    states = loaded.model(inputs, PaddedLayout.without_padding(inputs))
    scores = loaded.model.project(states).log_softmax(dim=-1)[0]
print("log-probability:", sum(row[token].item() for row, token in zip(scores, tokens)))
```"""
_USE_OF_DENOISING = """\
It fills in what was hidden of a line: a `<mask>` stands for any number of tokens, or for none. In
this folder:

```sh
echo "A man is <mask> a horse." | mtkit translate --model .
```

```python
from mtkit import Translator

print(Translator(".").translate("A man is <mask> a horse."))
```"""
_USE_OF_MASKED = """\
It tells hidden tokens, in this folder:

```python
from pathlib import Path

import torch
from mtkit.model.folder import load_model_folder
from mtkit.network import PaddedLayout
from mtkit.text.token_ids import BOS

loaded = load_model_folder(Path("."))
pieces = loaded.tokenizer.target_vocabulary
tokens = torch.tensor([[BOS, *loaded.tokenizer.encode_target(["A sentence."])[0]]])
tokens[0, 1] = pieces.id_of("<mask>")
with torch.no_grad():
    layout = PaddedLayout.without_padding(tokens)
    states = loaded.model(tokens, torch.zeros_like(tokens), layout)
    best = loaded.model.predict(states[0, 1]).topk(5).indices
print("hidden:", [pieces.pieces[token] for token in best])
```"""


def language_model_card(
    config: ModelConfig, *, num_parameters: int, facts: Mapping[str, str]
) -> str:
    """Returns the card of a language model that hasn't been scored.

    Args:
        config: The model's.
        num_parameters: Its weights.
        facts: Facts on its training, by name.
    """
    model, language = config.model, config.target_language
    if config.objective == "denoising":
        kind, task, use = "denoising", "fill-mask", _USE_OF_DENOISING
        what = "encoder and decoder, which write a text whose spans were hidden (BART)"
        num_layers = f"{model.num_encoder_layers} encoder, {model.num_decoder_layers} decoder"
    elif config.objective == "causal-lm":
        kind, task, use = "causal", "text-generation", _USE_OF_CAUSAL
        what = "decoder alone, which tells the next token of a text from those before it (GPT)"
        num_layers = f"{model.num_decoder_layers}"
    else:
        kind, task, use = "masked", "fill-mask", _USE_OF_MASKED
        what = "encoder alone, which tells hidden tokens of a text from all others (BERT)"
        num_layers = f"{model.num_encoder_layers}"
    told = "\n".join(f"- {name}: {fact}" for name, fact in facts.items())
    return f"""\
---
language:
- {language}
library_name: mtkit
pipeline_tag: {task}
---

# {config.recipe}: a {kind} language model of {language}

A Transformer's {what}.

## Use

{use}

## Model

- parameters: {num_parameters:,}
- layers: {num_layers}
- width: {model.d_model}, feed-forward {model.d_ff}, {model.num_heads} heads
- vocabulary: {config.target_vocab_size:,} pieces

## Training

- recipe: {config.recipe}
{told}

{SCORES}

{UNSCORED}
"""


def classifier_card(config: ModelConfig, *, num_parameters: int, facts: Mapping[str, str]) -> str:
    """Returns the card of a classifier that hasn't been scored.

    Args:
        config: The model's.
        num_parameters: Its weights.
        facts: Facts on its training, by name.
    """
    model, classifier = config.model, config.classifier
    assert classifier is not None, "its config says so"
    is_causal = classifier.kind == "causal-lm"
    told = "\n".join(f"- {name}: {fact}" for name, fact in facts.items())
    what = "pairs of texts, parted by a tab" if classifier.has_pairs else "texts"
    example = "A text.\\tAnother text." if classifier.has_pairs else "A text."
    return f"""\
---
language:
- {config.target_language}
library_name: mtkit
pipeline_tag: text-classification
---

# {config.recipe}: a classifier of {config.target_language}

Labels {what}: {", ".join(f"`{label}`" for label in classifier.labels)}.

## Use

One line of input is one line of output, in this folder; `--json` adds probabilities:

```sh
mtkit translate --model . < input.txt > labels.txt
```

```python
from mtkit.inference.classify import LineClassifier

print(LineClassifier(".").classify(["{example}"])[0].label)
```

## Model

- parameters: {num_parameters:,}
- made of: a {"causal" if is_causal else "masked"} language model
- layers: {model.num_decoder_layers if is_causal else model.num_encoder_layers}
- width: {model.d_model}, feed-forward {model.d_ff}, {model.num_heads} heads
- vocabulary: {config.target_vocab_size:,} pieces
- longest input: {classifier.max_tokens:,} tokens

## Training

- recipe: {config.recipe}
{told}

{SCORES}

{UNSCORED}
"""
