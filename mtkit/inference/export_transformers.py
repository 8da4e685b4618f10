"""The entry point of `mtkit export --format transformers`, which transformers can load."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from mtkit.console import say, warn
from mtkit.errors import MtkitError
from mtkit.files import write_atomically
from mtkit.folders import building, check_new
from mtkit.inference.export import choose_languages
from mtkit.inference.transformers_parity import (
    MAX_TRANSLATED,
    check_transformers_folder,
    load_transformers,
)
from mtkit.model.card import CARD_FILE, hub_card, read_card
from mtkit.model.digest import digest_model, reading
from mtkit.model.exporters.transformers_translator import check_holds, write_translator
from mtkit.model.folder import load_model_folder
from mtkit.model.importers.licence import Licence
from mtkit.recipe.inference import Inference, LengthPenalty

_MAX_TOKENIZED = 5_000


def export_transformers(
    model_folder: Path,
    output: Path,
    *,
    lines: Sequence[str],
    settings: Inference | None = None,
    metadata: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Writes a folder that transformers' `AutoModelForSeq2SeqLM` and `AutoTokenizer` load.

    `output` must be new or empty. `metadata`, such as `datasets`, is added to its card's head.
    """
    version = load_transformers().__version__
    check_new(output)
    with reading(model_folder):
        loaded = load_model_folder(model_folder)
        card = read_card(model_folder) or f"# {loaded.config.recipe}\n"
        made_from = digest_model(model_folder)
    settings = settings if settings is not None else loaded.settings
    check_holds(loaded.config, loaded.tokenizer, settings)
    languages = choose_languages(loaded)
    num_marks = 0 if languages is None else 1
    usable = [line for line in lines if line.strip()][:_MAX_TOKENIZED]
    lengths = [len(tokens) + num_marks for tokens in loaded.tokenizer.encode_source(usable)]
    usable = [
        line
        for line, length in zip(usable, lengths, strict=True)
        if length <= settings.max_source_tokens
    ]
    if not usable:
        raise MtkitError(
            "no lines to compare on: all are blank or too long",
            "give a file of sentences with --lines FILE",
        )
    settings = _with_power(settings, fmean(lengths))
    with building(output.absolute()) as draft:
        written = write_translator(loaded, draft, settings)
        say(f"{written.architecture}: comparing {min(len(usable), MAX_TRANSLATED)} translations")
        compared = check_transformers_folder(
            loaded,
            draft,
            written,
            lines=usable,
            settings=settings,
            languages=languages,
        )
        for line in compared:
            say(line)
        facts = [
            f"transformers {version}, {written.architecture}",
            f"exported from the model with digest {made_from}",
            *compared,
        ]
        written_card = hub_card(
            card,
            written.architecture,
            facts,
            languages=(loaded.config.source_language, loaded.config.target_language),
            metadata=metadata or {},
        )
        write_atomically(draft / CARD_FILE, written_card)
    _warn_about_licence(written_card)
    say(f"wrote {output}; next: hf upload OWNER/NAME {output}")


def _with_power(settings: Inference, mean_length: float) -> Inference:
    """Returns settings with the power form of the length penalty, the only one in transformers."""
    # The GNMT form is replaced by the power form with the same relative slope at the mean length.
    penalty = settings.length_penalty
    if penalty.kind == "power":
        return settings
    alpha = round(penalty.alpha * mean_length / (mean_length + 5), 2)
    warn(
        f'length_penalty.kind = "gnmt": transformers has only "power"; written with alpha = '
        f"{alpha}, which is equivalent at {mean_length:.0f} tokens, the mean here"
    )
    replaced = LengthPenalty(kind="power", alpha=alpha)
    return settings.model_copy(update={"length_penalty": replaced})


def _warn_about_licence(card: str) -> None:
    found = re.search(r"^license: *(.+)$", card, flags=re.MULTILINE)
    if found is None:
        warn("the card names no licence: add `license: ...` to the head of README.md")
    elif not Licence("", found[1]).allows_commercial_use:
        warn(f"licence {found[1]}: not for commercial use; this includes derivatives of this model")
