"""A learned metric as a portable folder: written by `mtkit import`, and opened.

config.json        the network's sizes, and how texts are read
model.safetensors  fp32 weights
tokenizer.json     the encoder's tokenizer, in the form of the `tokenizers` library
README.md          the card
"""

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mtkit.errors import MtkitError, shorten
from mtkit.files import parse_json, read_file, reporting_faults
from mtkit.model.config import CONFIG_FILE, WEIGHTS_FILE
from mtkit.model.digest import digest_model, reading
from mtkit.model.weight_files import check_weights
from mtkit.model.weights import read_weights
from mtkit.network.comet import CometConfig, CometNetwork, Segment, list_comet_shapes
from mtkit.programs import import_extra
from mtkit.text.tokenizer_files import SETTINGS_FILE

MAX_TOKENIZER_BYTES = 64 << 20
_MAX_CONFIG_BYTES = 1 << 20
_IMPORT = "import a published metric: mtkit import FOLDER --output NEW"
_STEPS = {"Metaspace", "Precompiled", "Replace", "Sequence", "Strip", "WhitespaceSplit"}
"""Steps of XLM-R's tokenizer; others could make a text grow without bound."""
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
"""The first pieces of XLM-R's tokenizer."""
_MAX_UNUSED_ROWS = 1_024
"""XLM-R XL has 878 rows without a piece."""
_MAX_REPLACEMENT = 64
"""Bytes; the longest of SentencePiece's own maps has 33."""
_SPACES = [{"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": to} for to in "▁ "]


class CometTokenizer:
    """The encoder's tokenizer: texts to sequences, cut as COMET cuts them."""

    def __init__(self, content: bytes, config: CometConfig, origin: Path | str) -> None:
        tokenizers = import_extra("tokenizers", "COMET needs transformers", "transformers")
        settings = parse_json(content, Path(origin))
        if not isinstance(settings, dict) or not _is_plain(settings):
            raise MtkitError(
                f"{origin}: not XLM-R's tokenizer: expected SentencePiece's unigram model",
                "use the files that the encoder was published with",
            )
        self._origin = origin
        with naming_faults(origin):
            self._tokenizer = tokenizers.Tokenizer.from_str(content.decode("utf-8"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        ids = self._tokenizer.get_vocab(with_added_tokens=True)
        rows = config.encoder.vocab_size
        least = rows - min(_MAX_UNUSED_ROWS, rows // 2)
        if (
            max(ids.values(), default=0) >= rows
            or len(ids) < least
            or [ids.get(each) for each in SPECIAL] != [0, 1, 2, 3]
        ):
            raise MtkitError(
                f"{origin}: {len(ids):,} pieces, but the encoder has {rows:,} rows, of which the "
                f"first are for {', '.join(SPECIAL)}",
                "use the files that the encoder was published with",
            )
        self._begin, self._end, self._pad = ids["<s>"], ids["</s>"], ids["<pad>"]
        # The first two positions aren't used.
        self._max_tokens = config.encoder.max_position_embeddings - 2
        self._inputs, self._is_joined = config.inputs, config.metric == "unified"
        # Some faults only show when a text is encoded.
        self.encode([{name: "½ text" for names in self._inputs for name in names}])

    def encode(self, rows: Sequence[Mapping[Segment, str]]) -> list[list[tuple[int, ...]]]:
        """Returns the sequences of each row of texts, as `config.inputs` lists them."""
        names = {name for texts in self._inputs for name in texts}
        texts = list(dict.fromkeys(row[name] for row in rows for name in names))
        with naming_faults(self._origin):
            encoded = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        # COMET cuts each text two tokens before the encoder would, and joined ones again.
        limit = self._max_tokens - 4
        tokens = {text: each.ids[:limit] for text, each in zip(texts, encoded, strict=True)}
        return [
            [self._join([tokens[row[name]] for name in names]) for names in self._inputs]
            for row in rows
        ]

    def _join(self, segments: Sequence[Sequence[int]]) -> tuple[int, ...]:
        sequence = [self._begin]
        for index, tokens in enumerate(segments):
            sequence += [self._end] if index else []
            kept = [each for each in tokens if each != self._pad] if self._is_joined else tokens
            sequence += [*kept, self._end]
        return tuple(sequence[: self._max_tokens])


@contextmanager
def naming_faults(origin: Path | str) -> Iterator[None]:
    """Turns any exception of the tokenizers library into an error that names the file."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    # Its errors have no class of their own, and a Rust panic isn't an `Exception`.
    except BaseException as error:
        fault = shorten(str(error), 200)
        raise MtkitError(f"{origin}: damaged tokenizer: {fault}", _IMPORT) from error


def _is_plain(settings: Mapping[str, Any]) -> bool:
    """Checks that a tokenizer is a unigram model with steps that can't make a text grow."""
    steps, num_maps = [settings.get("normalizer"), settings.get("pre_tokenizer")], 0
    while steps:
        step = steps.pop()
        if step is None:
            continue
        if not isinstance(step, dict) or step.get("type") not in _STEPS:
            return False
        if step["type"] == "Replace" and step not in _SPACES:
            return False
        if step["type"] == "Precompiled":
            num_maps += 1
            # Each could multiply a text's length.
            if num_maps > 1 or not _is_sound_map(step.get("precompiled_charsmap")):
                return False
        for key in ("normalizers", "pretokenizers"):
            inner = step.get(key, [])
            if not isinstance(inner, list):
                return False
            steps += inner
    model = settings.get("model")
    return isinstance(model, dict) and (model.get("type"), model.get("unk_id")) == ("Unigram", 3)


def _is_sound_map(encoded: object) -> bool:
    """Checks that no text can lead outside SentencePiece's map of characters.

    The map is the trie's size in bytes, the trie (Darts: 32 bits per unit), and replacements, each
    terminated by NUL.
    """
    try:
        content = b64decode(str(encoded), validate=True)
        size = int.from_bytes(content[:4], "little")
        replacements = content[4 + size :]
        replacements.decode("utf-8")
        units = np.frombuffer(content, "<u4", size // 4, offset=4)
    except ValueError:
        return False
    longest = max(map(len, replacements.split(b"\0")))
    # A byte leads to another unit of the same 256.
    if not size or size % 1_024 or longest > _MAX_REPLACEMENT or units[0] >> 31:
        return False
    inner = units >> 31 == 0
    following = np.arange(len(units)) ^ ((units >> 10) << ((units & 512) >> 6))
    if following[inner].max() >= len(units):
        return False
    starts = units[following[inner & (units & 256 > 0)]] & 0x7FFFFFFF
    if starts.max(initial=0) >= len(replacements):
        return False
    first_bytes = np.frombuffer(replacements, np.uint8)[starts]
    return not (first_bytes & 0xC0 == 0x80).any()


@dataclass(frozen=True)
class LoadedComet:
    """A metric's folder in memory; the network is on the CPU, in evaluation mode."""

    config: CometConfig
    tokenizer: CometTokenizer
    network: CometNetwork
    digest: str


def read_comet_config(folder: Path) -> CometConfig:
    """Returns the config of a metric's folder."""
    path = folder / CONFIG_FILE
    try:
        content = read_file(path, max_bytes=_MAX_CONFIG_BYTES)
    except FileNotFoundError as error:
        raise MtkitError(f"{folder}: no metric here (no {CONFIG_FILE})", _IMPORT) from error
    parse_json(content, path)
    with reporting_faults(f"{path}: not a learned metric", _IMPORT):
        return CometConfig.model_validate_json(content)


def load_comet(folder: Path) -> LoadedComet:
    """Returns a metric's folder in memory, after checks of the sizes that it claims."""
    with reading(folder):
        config = read_comet_config(folder)
        path = folder / SETTINGS_FILE
        try:
            content = read_file(path, max_bytes=MAX_TOKENIZER_BYTES)
        except FileNotFoundError as error:
            raise MtkitError(f"{path}: missing", "copy the complete folder again") from error
        tokenizer = CometTokenizer(content, config, path)
        check_weights(folder / WEIGHTS_FILE, list_comet_shapes(config))
        with torch.device("meta"):
            network = CometNetwork(config)
        network.load_state_dict(read_weights(folder / WEIGHTS_FILE), assign=True)
        for module in network.modules():
            # Segment ids: all are 0.
            for name, buffer in list(module.named_buffers(recurse=False)):
                module.register_buffer(name, torch.zeros_like(buffer, device="cpu"))
        return LoadedComet(config, tokenizer, network.float().eval(), digest_model(folder))
