"""The front door of `mtkit import`: a public translator as a model folder."""

from pathlib import Path

from mtkit.console import say, warn
from mtkit.errors import MtkitError, shorten
from mtkit.model.config import CONFIG_FILE
from mtkit.model.importers.foreign_weights import open_weights
from mtkit.model.importers.licence import Licence, read_licence
from mtkit.model.importers.m2m100 import read_m2m100
from mtkit.model.importers.marian import read_marian
from mtkit.model.importers.source_folder import SourceFolder, open_source
from mtkit.model.importers.translator import ForeignTranslator, write_imported
from mtkit.text.languages import ModelLanguages, find_language

_MAX_CONFIG_BYTES = 1 << 20
_KINDS = ("marian", "m2m_100", "pegasus")


def import_model(source: str, output: Path) -> None:
    """Makes a model folder of a public translator.

    Args:
        source: A folder in transformers' form, or `OWNER/NAME` on the Hugging Face hub.
        output: Where to: a new folder, or an empty one.

    Raises:
        MtkitError: No such model; one that mtkit doesn't have; files that are damaged; something in
            the output folder.
        OSError: The disk is full, or the like.
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise MtkitError(f"{output}: there already", "name a new folder with --output")
    folder = open_source(source)
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
    say(f"wrote {output}; next: mtkit translate --model {output}{chosen} < input.txt")


def _choose_options(languages: ModelLanguages | None) -> str:
    """Returns options of `translate` that a model needs, with languages that it has."""
    if languages is None or not languages.begins_output:
        return ""
    codes = list(languages.target)
    source = find_language("en", codes) or codes[0]
    target = find_language("de", codes) or codes[-1]
    return f" --from {source} --to {target}"


def tell_licence(licence: Licence) -> None:
    """Prints a licence; one that forbids commercial use, or none, as a warning."""
    if not licence.name:
        warn(f"{licence.origin}: its card tells no licence: look there before you use it")
    elif licence.is_commercial:
        say(f"  licence: {licence.name}")
    else:
        warn(f"licence {licence.name}: not for commercial use, nor is what is made of this model")


def _read(folder: SourceFolder) -> ForeignTranslator:
    """Returns a translator but for its weights, by the kind that its config.json names."""
    folder.need(CONFIG_FILE, "name the folder that holds config.json and the weights")
    content = folder.read_json(CONFIG_FILE, max_bytes=_MAX_CONFIG_BYTES)
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
                "mtkit imports translators such as OPUS-MT, M2M100 and dense NLLB-200",
            )
