"""A model folder with the pieces alone that some text uses: `mtkit import --keep-pieces-of`."""

import shutil
import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from mtkit.console import say
from mtkit.data.sources.lines import check_is_file, read_lines
from mtkit.errors import MtkitError
from mtkit.model.alignment_head import default_head, find_word_aligner, read_alignment_head
from mtkit.model.card import read_card
from mtkit.model.config import CONFIG_FILE, INFERENCE_FILE
from mtkit.model.digest import reading
from mtkit.model.folder import load_model_folder, write_model_folder
from mtkit.model.trim import trim
from mtkit.model.weights import pack_weights
from mtkit.pipeline.import_model import import_model


def import_trimmed(source: str, output: Path, texts: Sequence[Path]) -> None:
    """Makes a model folder with the pieces that some text uses, of a public or an own model.

    Args:
        source: As `import_model` takes it; or a model folder of mtkit's.
        output: Where to: a new folder, or an empty one.
        texts: Files of text, all languages that are to stay.

    Raises:
        MtkitError: As `import_model`; a text that is missing, empty or no text.
        OSError: The disk is full, or the like.
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise MtkitError(f"{output}: there already", "name a new folder with --output")
    for text in texts:
        check_is_file(text, "name files of text with --keep-pieces-of")
    folder = Path(source)
    if (folder / CONFIG_FILE).is_file() and (folder / INFERENCE_FILE).is_file():
        _trim(folder, output, texts)
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    whole = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    try:
        import_model(source, whole)
        _trim(whole, output, texts)
    finally:
        shutil.rmtree(whole, ignore_errors=True)


def _trim(folder: Path, output: Path, texts: Sequence[Path]) -> None:
    with reading(folder):
        loaded = load_model_folder(folder)
        card = read_card(folder) or ""
        head = read_alignment_head(folder, loaded.config.model)
    before = loaded.config.target_vocab_size
    lines = chain.from_iterable(map(read_lines, texts))
    opened, weights = trim(loaded, pack_weights(loaded.model), lines)
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
