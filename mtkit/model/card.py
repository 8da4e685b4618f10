"""The card of a model: the README.md in its folder."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.errors import MtkitError
from mtkit.files import write_atomically
from mtkit.foreign_files import read_file
from mtkit.model.config import ModelConfig
from mtkit.recipe.inference import Inference
from mtkit.recipe.model import Model

if TYPE_CHECKING:
    from mtkit.recipe import Recipe

CARD_FILE = "README.md"
_MAX_BYTES = 1 << 20
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_USE = "## Use"
_SCORES = "## Scores"
_SCORES_OF_ORIGIN = "## Scores of the model that was exported"
_EXPORT = "## Export"
_UNSCORED = "Not scored yet; `mtkit score` fills this in."

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
_USE_OF_TRANSFORMERS = """\
A folder of transformers:

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".")
model = AutoModelForSeq2SeqLM.from_pretrained(".")  # {architecture}
outputs = model.generate(**tokenizer(["A sentence."], return_tensors="pt", padding=True))
print(tokenizer.batch_decode(outputs, skip_special_tokens=True))
```

`generation_config.json` holds the decoding defaults."""
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

{_SCORES}

{_UNSCORED}
"""


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

{_SCORES}

{_UNSCORED}
"""


def find_licence(folder: Path) -> str:
    """Returns the licence that the card of a model folder names; empty if it has none."""
    card = read_card(folder) or ""
    head = card.removeprefix("---\n").partition("\n---\n")[0] if card.startswith("---\n") else ""
    found = re.search(r"^license: *(\S.{0,80})$", head, flags=re.MULTILINE)
    return found[1].strip() if found else ""


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

{_SCORES}

{_UNSCORED}
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

{_SCORES}

{_UNSCORED}
"""


def with_scores(card: str, rows: Sequence[tuple[str, str, str, str]], *, origin: str = "") -> str:
    """Returns the card with its scores replaced; all else stays as it was, hand-written parts too.

    Args:
        card: A model card; where it has no `## Scores`, the section is added at the end.
        rows: Test set, metric, score and signature of each.
        origin: The translator, as a phrase, such as "`torch` on `cpu` in `fp32`", if known.
    """
    lines = ["| test set | metric | score | signature |", "|---|---|---:|---|"]
    # A sacreBLEU signature is full of bars, which would end a cell.
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    if origin:
        lines += ["", f"Translated by {origin}."]
    return _with_section(card, _SCORES, "\n".join(lines) if rows else _UNSCORED)


def with_export(card: str, facts: Sequence[str]) -> str:
    """Returns the card of an export, from that of the model and facts on the export, one a line.

    Scores become those of the model that was exported: the export may translate otherwise.
    """
    if _UNSCORED not in card:
        card = re.sub(rf"^{_SCORES}\s*$", f"{_SCORES_OF_ORIGIN}\n", card, flags=re.MULTILINE)
    return _with_section(card, _EXPORT, "\n".join(f"- {fact}" for fact in facts))


def hub_card(
    card: str,
    architecture: str,
    facts: Sequence[str],
    *,
    languages: Sequence[str],
    metadata: Mapping[str, Sequence[str]],
) -> str:
    """Returns the card of a folder for transformers, with the head that the hub reads.

    Languages, licence and whatever else the head had stay; scores become those of the model that
    was exported, and their metrics go into the head.

    Args:
        card: The model's.
        architecture: The class that loads it.
        facts: Facts on the export.
        languages: The model's languages, for a card that names none.
        metadata: Lists for the head, by key.
    """
    head, body = "", card
    if card.startswith("---\n") and "\n---\n" in card:
        head, _, body = card.removeprefix("---\n").partition("\n---\n")
    head = re.sub(r"^library_name:.*\n?", "", f"{head}\n", flags=re.MULTILINE)
    head = re.sub(r"^- und\n", "", head, flags=re.MULTILINE)
    head = re.sub(r"^language:\n(?!- )", "", head, flags=re.MULTILINE)
    if "pipeline_tag:" not in head:
        head = f"{head.rstrip()}\npipeline_tag: translation"
    known = [language for language in dict.fromkeys(languages) if language != "und"]
    lists = {"language": known, "metrics": _list_metrics(card), **metadata}
    told = [
        f"{key}:\n" + "".join(f"- {value}\n" for value in values)
        for key, values in lists.items()
        if values and not re.search(rf"^{key}:", head, flags=re.MULTILINE)
    ]
    whole = (
        f"---\n{head.strip()}\nlibrary_name: transformers\n{''.join(told)}---\n\n{body.lstrip()}"
    )
    use = _USE_OF_TRANSFORMERS.format(architecture=architecture)
    return with_export(with_use(whole, use), facts)


def _list_metrics(card: str) -> list[str]:
    """Returns the hub's names of the metrics in a card's table of scores."""
    found = re.search(rf"^{_SCORES}\s*$.*?(?=^## |\Z)", card, flags=re.MULTILINE | re.DOTALL)
    table = found[0].lower() if found is not None else ""
    return [name for name in ("bleu", "chrf", "ter", "comet") if f"| {name}" in table]


def with_use(card: str, use: str) -> str:
    """Returns the card with another text on how to use the model."""
    return _with_section(card, _USE, use)


def write_scores(
    folder: Path, rows: Sequence[tuple[str, str, str, str]], *, origin: str = ""
) -> None:
    """Writes scores into the model card in place of those it had.

    For the arguments see `with_scores`.

    Raises:
        MtkitError: The folder has no model card.
    """
    card = read_card(folder)
    if card is None:
        raise MtkitError(f"{folder / CARD_FILE}: no model card", "train a model with `mtkit train`")
    write_atomically(folder / CARD_FILE, with_scores(card, rows, origin=origin))


def read_card(folder: Path) -> str | None:
    """Returns a model folder's card; None where it has none.

    Raises:
        MtkitError: It is a link to another place, too large, or invalid UTF-8.
    """
    path = folder / CARD_FILE
    try:
        return read_file(path, max_bytes=_MAX_BYTES).decode("utf-8").replace("\r\n", "\n")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise MtkitError(f"{path}: damaged: invalid UTF-8: {error}") from error


def _with_section(card: str, title: str, content: str) -> str:
    section = f"{title}\n\n{content}\n"
    found = re.search(rf"^{title}\s*$.*?(?=^## |\Z)", card, flags=re.MULTILINE | re.DOTALL)
    if found is None:
        return f"{card.rstrip()}\n\n{section}"
    rest = card[found.end() :]
    return card[: found.start()] + section + (f"\n{rest}" if rest else "")
