"""Tokens on disk, memory-mapped: a corpus larger than memory costs what is read of it."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import MtkitError
from mtkit.workspace import read_json, write_atomically

_SIDES = ("source", "target")


class TokenStore:
    """The sentence pairs of one split.

    Attributes:
        source_lengths: Tokens of each source, `</s>` counted.
        target_lengths: Tokens of each target, `</s>` counted.
    """

    def __init__(self, folder: Path) -> None:
        """Opens a store that a `TokenStoreWriter` made.

        Raises:
            MtkitError: It isn't there, or is incomplete.
        """
        if not (folder / "store.json").is_file():
            raise MtkitError(f"{folder}: no prepared data", "run `mtkit prepare`")
        facts = read_json(folder / "store.json")
        self._tokens: dict[str, NDArray[np.uint32] | NDArray[np.uint16]] = {}
        self._ends: dict[str, NDArray[np.int64]] = {}
        for side in _SIDES:
            ends = np.fromfile(folder / f"{side}.ends", dtype=np.int64)
            path = folder / f"{side}.tokens"
            dtype = np.dtype(facts["dtype"])
            num_tokens = int(ends[-1]) if len(ends) else 0
            if (
                len(ends) != facts["num_pairs"]
                or path.stat().st_size != num_tokens * dtype.itemsize
            ):
                raise MtkitError(f"{path}: incomplete", "run `mtkit prepare` again")
            # An empty file can't be mapped.
            self._tokens[side] = (
                np.memmap(path, dtype=dtype, mode="r") if num_tokens else np.empty(0, dtype)
            )
            self._ends[side] = ends
        self.source_lengths = np.diff(self._ends["source"], prepend=0)
        self.target_lengths = np.diff(self._ends["target"], prepend=0)

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, index: int) -> NDArray[np.int64]:
        """Returns one sentence's source tokens, closed by `</s>`."""
        return self._sentence("source", index)

    def target(self, index: int) -> NDArray[np.int64]:
        """Returns one sentence's target tokens, closed by `</s>`."""
        return self._sentence("target", index)

    def _sentence(self, side: str, index: int) -> NDArray[np.int64]:
        ends = self._ends[side]
        start = int(ends[index - 1]) if index else 0
        return self._tokens[side][start : int(ends[index])].astype(np.int64)


class TokenStoreWriter:
    """Writes a store pair by pair, in constant memory; complete once the `with` block ends.

    Args:
        folder: Where; it must exist.
        vocab_size: Greatest number of pieces of either side, which sets the width on disk.
    """

    def __init__(self, folder: Path, vocab_size: int) -> None:
        self._folder = folder
        self._dtype = np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)
        self._num_tokens = dict.fromkeys(_SIDES, 0)
        self.num_pairs = 0
        self._streams: dict[str, IO[bytes]] = {}

    def __enter__(self) -> "TokenStoreWriter":
        self._streams = {
            f"{side}.{part}": (self._folder / f"{side}.{part}").open("wb")
            for side in _SIDES
            for part in ("tokens", "ends")
        }
        return self

    def append(self, source_tokens: Sequence[int], target_tokens: Sequence[int]) -> None:
        """Adds one pair; both sides are closed by `</s>`."""
        for side, tokens in zip(_SIDES, (source_tokens, target_tokens), strict=True):
            self._num_tokens[side] += len(tokens)
            self._streams[f"{side}.tokens"].write(np.asarray(tokens, self._dtype).tobytes())
            self._streams[f"{side}.ends"].write(np.int64(self._num_tokens[side]).tobytes())
        self.num_pairs += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for stream in self._streams.values():
            stream.close()
        if error is None:
            facts = {
                "num_pairs": self.num_pairs,
                "num_source_tokens": self._num_tokens["source"],
                "num_target_tokens": self._num_tokens["target"],
                "dtype": self._dtype.name,
            }
            write_atomically(self._folder / "store.json", json.dumps(facts, indent=2))
