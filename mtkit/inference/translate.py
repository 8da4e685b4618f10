"""Lines of text to lines of text: the front door of the room."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import torch

from mtkit.console import warn
from mtkit.data.sources.lines import BYTE_ORDER_MARK
from mtkit.data.tokenizer import SubwordTokenizer
from mtkit.errors import MtkitError
from mtkit.inference.engines.engine import Engine
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.model_folder import load_model_folder
from mtkit.recipe.inference import Inference

_WINDOW_LINES = 1_024
"""Lines read ahead: enough to batch sentences of like length, few enough to stream."""
_LONG_LINE_TOKENS = 1_024
"""A line of more is warned of: four times what training keeps by default
(data.cleaning.max_tokens)."""
_LEAST_COUNTED_TOKENS = 8
"""A source counts for this many tokens at least, since each hypothesis of a step takes a row of the
vocabulary's size however short its source is."""


class Translator:
    """Translates text with one model.

    Args:
        engine: What holds the model.
        tokenizer: What the model's text was cut with.
        settings: How to search.
    """

    def __init__(self, engine: Engine, tokenizer: SubwordTokenizer, settings: Inference) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._settings = settings

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        device: str = "cpu",
        weights_file: Path | None = None,
        settings: Inference | None = None,
    ) -> "Translator":
        """Returns a translator with the model in a folder.

        Args:
            folder: A model folder.
            device: `cpu`, `cuda`, `cuda:1`, or `auto`: a GPU where there is one.
            weights_file: Weights to use in place of the folder's, such as a checkpoint's.
            settings: How to search; as the folder says where it isn't given.

        Raises:
            MtkitError: There is no such device; there is no model, or it is damaged.
        """
        place = find_device(device)
        loaded = load_model_folder(Path(folder), device=place, weights_file=weights_file)
        return cls(
            TorchEngine(loaded.model, place),
            loaded.tokenizer,
            settings if settings is not None else loaded.settings,
        )

    def translate(
        self, lines: Iterable[str], *, window_lines: int = _WINDOW_LINES
    ) -> Iterator[str]:
        """Yields the translation of each line, in order; a blank line's is an empty string.

        Args:
            lines: One sentence each; the end of a line that still has its newline is dropped.
            window_lines: Lines read before the first of them is translated; translations hardly
                depend on it, speed does.

        Raises:
            MtkitError: A line is longer than the model can read, or the model is broken.
        """
        numbered = enumerate(lines, start=1)
        while window := list(islice(numbered, window_lines)):
            yield from self._translate_window(window)

    def _translate_window(self, window: Sequence[tuple[int, str]]) -> list[str]:
        translations = [""] * len(window)
        places = [place for place, (_, line) in enumerate(window) if line.strip()]
        sources = self._tokenizer.encode_source(
            [window[place][1].rstrip("\r\n") for place in places]
        )
        longest = self._engine.max_source_tokens
        for place, source in zip(places, sources, strict=True):
            if len(source) > _LONG_LINE_TOKENS:
                warn(
                    f"input line {window[place][0]} has {len(source):,} tokens: models are trained "
                    "on sentences, so expect a slow and poor translation; split it into sentences"
                )
            if longest is not None and len(source) > longest:
                raise MtkitError(
                    f"input line {window[place][0]}: {len(source)} tokens, but the model reads at "
                    f"most {longest} (model.max_positions)",
                    "split the line into sentences",
                )
        for batch in make_batches([len(source) for source in sources], self._settings.batch_tokens):
            found = self._engine.search([sources[index] for index in batch], self._settings)
            for index, hypotheses in zip(batch, found, strict=True):
                if not hypotheses or math.isnan(hypotheses[0].log_probability):
                    raise MtkitError(
                        f"input line {window[places[index]][0]}: the model's probabilities are no "
                        "numbers (NaN)",
                        "its training diverged: use an earlier checkpoint, or train with a lower "
                        "learning rate",
                    )
                text = self._tokenizer.decode_target(hypotheses[0].tokens)
                translations[places[index]] = text.replace("\n", " ").replace("\r", " ")
        return translations


def translate_stream(translator: Translator, source: BinaryIO, target: BinaryIO) -> int:
    r"""Leaves one line of UTF-8 in `target` for each in `source`; returns how many.

    Only `\n` ends a line, and one `\r` before it is dropped; what follows the last `\n`, if
    anything, is a line too. A terminal is answered line by line.

    Args:
        translator: What translates.
        source: UTF-8 text, one sentence a line.
        target: Where translations go; flushed whenever a window of lines is done.

    Raises:
        MtkitError: A line isn't UTF-8, or is longer than the model can read.
    """
    window_lines = 1 if source.isatty() else _WINDOW_LINES
    num_lines = 0
    for translation in translator.translate(read_lines(source), window_lines=window_lines):
        target.write(translation.encode() + b"\n")
        num_lines += 1
        if num_lines % window_lines == 0:
            target.flush()
    target.flush()
    return num_lines


def read_lines(source: BinaryIO) -> Iterator[str]:
    r"""Yields the lines of UTF-8 text that `\n` ends, without it and without a `\r` before it.

    A byte-order mark before the first line is left out.

    Raises:
        MtkitError: A line isn't UTF-8.
    """
    for number, line in enumerate(source, start=1):
        try:
            text = line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise MtkitError(
                f"input line {number}: byte {error.start + 1} (0x{line[error.start]:02x}) "
                "is no UTF-8",
                "convert the input, for example: iconv -f latin1 -t utf-8",
            ) from error
        yield text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text


def make_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Returns indices in batches of like length, longest first.

    Args:
        lengths: Number of tokens of each sentence.
        batch_tokens: Tokens with padding that a batch holds at most, unless it is one sentence.
    """
    batches: list[list[int]] = []
    room = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if room == 0:
            batches.append([])
            # Sorted, so the first sentence of a batch is its longest.
            room = max(1, batch_tokens // max(lengths[index], _LEAST_COUNTED_TOKENS))
        batches[-1].append(index)
        room -= 1
    return batches


def find_device(name: str) -> torch.device:
    """Returns the device of this name; for `auto` a GPU where there is one, else the CPU.

    Raises:
        MtkitError: There is no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    # torch keeps an index in a byte: 250 would pass for a negative one.
    if re.fullmatch(r"cpu|cuda(:\d\d?)?", name) is None:
        raise MtkitError(f"no device '{name}'", "expected auto, cpu, cuda or cuda:1")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise MtkitError(
            f"no device '{name}': {torch.cuda.device_count()} GPUs found", "take cpu or auto"
        )
    return device
