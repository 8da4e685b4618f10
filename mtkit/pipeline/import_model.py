"""Entry point of `mtkit import`: writes a public translator or metric as a model folder."""

import shlex
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from mtkit.console import say, warn
from mtkit.data.sources.lines import check_is_file, read_lines
from mtkit.errors import MtkitError, shorten
from mtkit.folders import check_new
from mtkit.model.alignment_head import default_head, find_word_aligner, read_alignment_head
from mtkit.model.card import read_card
from mtkit.model.config import CONFIG_FILE, INFERENCE_FILE
from mtkit.model.digest import reading
from mtkit.model.folder import load_model_folder, write_model_folder
from mtkit.model.importers.comet import (
    HPARAMS_FILE,
    SENTENCEPIECE_FILE,
    ForeignComet,
    write_comet,
)
from mtkit.model.importers.foreign_weights import open_weights
from mtkit.model.importers.licence import Licence, read_licence
from mtkit.model.importers.m2m100 import read_m2m100
from mtkit.model.importers.marian import read_marian
from mtkit.model.importers.source_folder import SourceFolder, open_source
from mtkit.model.importers.translator_folder import ForeignTranslator, write_imported
from mtkit.model.trim import trim_model
from mtkit.model.weights import pack_weights
from mtkit.text.languages import ModelLanguages, find_language

_MAX_CONFIG_BYTES = 1 << 20
_KINDS = ("marian", "m2m_100", "pegasus")


def import_model(source: str, output: Path, *, encoder: str = "", shows_use: bool = True) -> None:
    """Writes a public translator, or a COMET metric, as a model folder.

    `source` is a folder in transformers' or unbabel-comet's form, or `OWNER/NAME` on the Hugging
    Face hub. `output` must be new or empty. `encoder` is where a metric's encoder has its
    config.json and tokenizer; by default it is found on the hub.
    """
    check_new(output)
    folder = open_source(source)
    if folder.find(HPARAMS_FILE) is not None:
        _import_comet(folder, output, encoder)
        return
    licence = read_licence(folder)
    translator = _read(folder)
    num_parameters = write_imported(output, translator, open_weights(folder), licence)
    config, settings = translator.config, translator.settings
    languages = translator.tokenizer.languages
    if languages is not None and languages.begins_output:
        say(f"imported {folder.origin}: {len(languages.target):,} languages")
    else:
        say(f"imported {folder.origin}: {config.source_language} to {config.target_language}")
    say(
        f"  {num_parameters:,} parameters, {len(translator.source.pieces):,} pieces; beam "
        f"{settings.beam_size}"
    )
    tell_licence(licence)
    chosen = _choose_options(languages)
    if shows_use:
        name = shlex.quote(str(output))
        say(f"wrote {output}; next: mtkit translate --model {name}{chosen} < input.txt")


def _import_comet(folder: SourceFolder, output: Path, encoder: str) -> None:
    licence, metric = read_licence(folder), ForeignComet(folder)
    name = metric.encoder_name
    # The hub's first models have no owner in their older names.
    of_hub = name if "/" in name else f"FacebookAI/{name}"
    hint = (
        f"copy config.json and tokenizer.json or {SENTENCEPIECE_FILE} of {shorten(name, 80)} into "
        "a folder, and give it with --encoder FOLDER"
    )
    if not encoder and Path(of_hub).exists():
        raise MtkitError(
            f"{folder.origin} names the folder {shorten(name, 80)}, which isn't opened", hint
        )
    try:
        of_encoder = open_source(encoder or of_hub, has_weights=False)
        of_encoder.need(CONFIG_FILE)
    except MtkitError as error:
        raise MtkitError(f"the encoder of {folder.origin}: {error.message}", hint) from error
    config, num_parameters = write_comet(output, metric, of_encoder, licence)
    say(f"imported {folder.origin}: a {config.metric} metric, {num_parameters:,} parameters")
    tell_licence(licence)
    say(
        f"wrote {output}; next: mtkit score --hypothesis FILE --reference FILE --source FILE "
        f'--set \'evaluation.metrics=["bleu", "{_with_slash(output)}"]\''
    )


def _with_slash(folder: Path) -> str:
    return str(folder) if "/" in str(folder) else f"./{folder}"


def _choose_options(languages: ModelLanguages | None) -> str:
    """Returns options of `translate` that a model needs, with languages that it has."""
    if languages is None or not languages.begins_output:
        return ""
    codes = list(languages.target)
    source = find_language("en", codes) or codes[0]
    target = find_language("de", codes) or codes[-1]
    return f" --from {source} --to {target}"


def tell_licence(licence: Licence) -> None:
    """Prints a licence; a missing or non-commercial one as a warning."""
    if not licence.name:
        warn(f"{licence.origin}: its card names no licence: look there before you use it")
    elif licence.allows_commercial_use:
        say(f"  licence: {licence.name}")
    else:
        warn(
            f"licence {licence.name}: not for commercial use; this includes derivatives of this "
            "model"
        )


def _read(folder: SourceFolder) -> ForeignTranslator:
    """Returns a translator without its weights, by the kind in its config.json."""
    folder.need(CONFIG_FILE, "name the folder that holds config.json and the weights")
    content = folder.read_json(CONFIG_FILE, max_bytes=_MAX_CONFIG_BYTES)
    if "format_version" in content and "model_type" not in content:
        raise MtkitError(
            f"{folder.origin}: a model of mtkit already", "translate with it: --model FOLDER"
        )
    match content.get("model_type"):
        case "marian" | "pegasus":
            return read_marian(folder, content)
        case "m2m_100":
            return read_m2m100(folder, content)
        case found:
            kind = shorten(str(found), 40)
            raise MtkitError(
                f'{folder.origin}/{CONFIG_FILE}: model_type = "{kind}", expected '
                + " or ".join(f'"{each}"' for each in _KINDS),
                "mtkit imports translators such as OPUS-MT, M2M100 and dense NLLB-200, and COMET "
                "with its hparams.yaml",
            )


def import_trimmed(source: str, output: Path, texts: Sequence[Path]) -> None:
    """Writes a model folder with only the pieces that some text uses (`--keep-pieces-of`).

    `source` is as in `import_model`, or a model folder of mtkit's. `texts` must cover all languages
    to keep.
    """
    check_new(output)
    for text in texts:
        check_is_file(text, "name files of text with --keep-pieces-of")
    folder = Path(source)
    if (folder / CONFIG_FILE).is_file() and (folder / INFERENCE_FILE).is_file():
        _trim(folder, output, texts)
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(
        prefix=f".{output.name}.", dir=output.parent, ignore_cleanup_errors=True
    ) as whole:
        import_model(source, Path(whole), shows_use=False)
        _trim(Path(whole), output, texts)


def _trim(folder: Path, output: Path, texts: Sequence[Path]) -> None:
    with reading(folder):
        loaded = load_model_folder(folder)
        card = read_card(folder) or ""
        head = read_alignment_head(folder, loaded.config.model)
    before = loaded.config.target_vocab_size
    lines = chain.from_iterable(map(read_lines, texts))
    opened, weights = trim_model(loaded, pack_weights(loaded.model), lines)
    after = opened.config.target_vocab_size
    names = ", ".join(f"`{text.name}`" for text in texts)
    note = f"\n## Vocabulary\n\n{after:,} of {before:,} pieces: those that {names} use.\n"
    write_model_folder(
        output,
        opened,
        weights=weights,
        card=card.rstrip() + "\n" + note,
        alignment_head=None if head == default_head(loaded.config.model) else head,
        word_aligner=find_word_aligner(folder),
    )
    num_before = sum(weight.numel() for weight in loaded.model.parameters())
    num_after = sum(weight.numel() for weight in weights.values())
    say(
        f"kept {after:,} of {before:,} pieces: {num_after:,} of {num_before:,} parameters; wrote "
        f"{output}"
    )
