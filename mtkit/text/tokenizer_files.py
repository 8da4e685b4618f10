"""The files of a tokenizer: its SentencePiece models and its settings."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from mtkit.errors import MtkitError
from mtkit.files import read_json, reporting_faults, write_atomically
from mtkit.text.languages import ModelLanguages, SourcePlace
from mtkit.text.sentencepiece_segmenter import DAMAGED_TOKENIZER_HINT, read_model
from mtkit.text.token_ids import SPECIAL_PIECES, UNK

_MAX_SETTINGS_BYTES = 8 << 20
_MAX_ROWS = 1 << 24
_JOINT_FILE = "joint.spm"
_SOURCE_FILE = "source.spm"
_TARGET_FILE = "target.spm"
SETTINGS_FILE = "tokenizer.json"
TOKENIZER_FILES = (_JOINT_FILE, _SOURCE_FILE, _TARGET_FILE, SETTINGS_FILE)
"""The files that `write_tokenizer` may write."""


def _check_runs(runs: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    num_rows = sum(count for _, count in runs)
    if any(first < 0 or count < 1 for first, count in runs) or not UNK < num_rows < _MAX_ROWS:
        raise ValueError("expected runs of rows: their first row and length")
    return runs


_Runs = Annotated[tuple[tuple[int, int], ...], AfterValidator(_check_runs)]


class ForeignRows(BaseModel):
    """The original embedding rows of an imported model's pieces; later pieces have none."""

    model_config = ConfigDict(frozen=True)

    source: _Runs
    """Rows of the source's pieces, as runs of consecutive rows: first row and length."""
    target: _Runs
    """The same of the target's."""
    padding_bias: float | None = None
    """What the other program adds to the logit of padding, which the network here masks."""

    @classmethod
    def of(
        cls, source: Sequence[int], target: Sequence[int], padding_bias: float | None = None
    ) -> "ForeignRows":
        """Returns the rows as runs."""
        return cls(
            source=tuple(_find_runs(source)),
            target=tuple(_find_runs(target)),
            padding_bias=padding_bias,
        )

    def list_rows(self, side: str) -> list[int]:
        """Returns the row of each piece of a side."""
        runs = self.source if side == "source" else self.target
        return [row for first, count in runs for row in range(first, first + count)]

    def list_unknown(self, side: str) -> list[int]:
        """Returns the pieces of a side that share the row of unknown pieces."""
        rows = self.list_rows(side)
        return [
            token
            for token, row in enumerate(rows)
            if row == rows[UNK] and token >= len(SPECIAL_PIECES)
        ]


def _find_runs(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for index in range(1, len(rows) + 1):
        if index == len(rows) or rows[index] != rows[index - 1] + 1:
            yield rows[start], index - start
            start = index


class _Languages(BaseModel):
    """The languages of a model like M2M100."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pieces: dict[str, str]
    source_place: SourcePlace = "before"


class TokenizerSettings(BaseModel):
    """The content of `SETTINGS_FILE`."""

    model_config = ConfigDict(frozen=True)

    tags: tuple[str, ...] = ()
    punctuation: tuple[str, str] | None = None
    masks: tuple[Annotated[str, Field(min_length=1, max_length=64)], ...] = ()
    looks_up_unknown: bool = False
    languages: _Languages | None = None
    foreign_rows: ForeignRows | None = None
    unknown: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    @property
    def model_languages(self) -> ModelLanguages | None:
        """The languages of a model like M2M100; those of tags aren't stored."""
        if self.languages is None:
            return None
        return ModelLanguages.of_pieces(self.languages.pieces, self.languages.source_place)


@dataclass(frozen=True)
class StoredTokenizer:
    """A tokenizer in a folder; both models are the same bytes for a joint vocabulary."""

    source_model: bytes
    target_model: bytes
    settings: TokenizerSettings


def read_tokenizer(folder: Path) -> StoredTokenizer:
    """Returns the tokenizer in a folder."""
    if (folder / _JOINT_FILE).exists():
        names = [_JOINT_FILE, _JOINT_FILE]
    else:
        names = [_SOURCE_FILE, _TARGET_FILE]
    is_one_there = any((folder / name).exists() for name in names)
    try:
        source_model, target_model = [read_model(folder / name) for name in names]
    except FileNotFoundError as error:
        # Most tokenizers are joint.
        missing = error.filename if is_one_there else folder / _JOINT_FILE
        raise MtkitError(f"{missing}: no such tokenizer", DAMAGED_TOKENIZER_HINT) from error
    return StoredTokenizer(source_model, target_model, _read_settings(folder / SETTINGS_FILE))


def write_tokenizer(folder: Path, tokenizer: StoredTokenizer) -> None:
    """Writes a tokenizer into a folder: one model if it is joint, else two."""
    folder.mkdir(parents=True, exist_ok=True)
    if tokenizer.source_model == tokenizer.target_model:
        (folder / _JOINT_FILE).write_bytes(tokenizer.source_model)
    else:
        (folder / _SOURCE_FILE).write_bytes(tokenizer.source_model)
        (folder / _TARGET_FILE).write_bytes(tokenizer.target_model)
    content = tokenizer.settings.model_dump(mode="json")
    write_atomically(folder / SETTINGS_FILE, json.dumps(content, ensure_ascii=False) + "\n")


def store_languages(languages: ModelLanguages | None) -> _Languages | None:
    """Returns the languages for the settings: only if their pieces begin the output."""
    if languages is None or not languages.begins_output:
        return None
    return _Languages(pieces=dict(languages.target), source_place=languages.source_place)


def _read_settings(path: Path) -> TokenizerSettings:
    if not path.is_file():
        raise MtkitError(f"{path}: missing from the tokenizer", DAMAGED_TOKENIZER_HINT)
    content = read_json(path, max_bytes=_MAX_SETTINGS_BYTES)
    with reporting_faults(f"{path}: damaged", DAMAGED_TOKENIZER_HINT):
        return TokenizerSettings.model_validate(content)
