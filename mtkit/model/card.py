"""The card of a model: the README.md in its folder."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mtkit.errors import MtkitError
from mtkit.files import write_atomically
from mtkit.foreign_files import read_file
from mtkit.recipe.recipe import Recipe

CARD_FILE = "README.md"
_MAX_BYTES = 1 << 20
_SCORES = "## Scores"
_SCORES_OF_ORIGIN = "## Scores of the model that was exported"
_EXPORT = "## Export"
_UNSCORED = "Not scored yet; `mtkit score` fills this in."


def model_card(
    recipe: Recipe,
    *,
    num_parameters: int,
    vocab_sizes: tuple[int, int],
    training_facts: Mapping[str, str],
) -> str:
    """Returns the card of a model that hasn't been scored, with facts on its training by name."""
    model = recipe.model
    source, target = recipe.data.languages
    pieces = f"{vocab_sizes[0]:,} pieces for both languages"
    if not recipe.tokenizer.joint:
        pieces = f"{vocab_sizes[0]:,} source and {vocab_sizes[1]:,} target pieces"
    facts = "\n".join(f"- {name}: {fact}" for name, fact in training_facts.items())
    return f"""\
---
language:
- {source}
- {target}
library_name: mtkit
pipeline_tag: translation
---

# {recipe.name}: {source} to {target}

A Transformer that translates `{source}` into `{target}`: raw text in, raw text out.

## Use

One sentence a line, in this folder:

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
- layers: {model.num_encoder_layers} encoder, {model.num_decoder_layers} decoder
- width: {model.d_model}, feed-forward {model.d_ff}, {model.num_heads} heads
- vocabulary: {pieces} ({recipe.tokenizer.kind})

## Training

- recipe: {recipe.name}
{facts}

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
