"""Text to read back: a real corpus, and functions that write and read pairs."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mtkit.data.sources.blocks import Block
from mtkit.data.sources.corpora import AnyCorpus, read_blocks, read_corpus_pairs

Pairs = list[tuple[str, str]]


@pytest.fixture
def pairs_of() -> Callable[..., Pairs]:
    """A function that reads a corpus as pairs."""

    def read(corpus: AnyCorpus, source_language: str = "en", target_language: str = "de") -> Pairs:
        return list(
            read_corpus_pairs(
                corpus,
                phrasebook_split="dev",
                languages=(source_language, target_language),
            )
        )

    return read


@pytest.fixture
def blocks_of() -> Callable[..., list[Block]]:
    """A function that reads a corpus as blocks."""

    def read(corpus: AnyCorpus, pairs_per_block: int = 2, index: int = 0) -> list[Block]:
        return list(
            read_blocks(
                corpus,
                index=index,
                rows_per_block=pairs_per_block,
                languages=("en", "de"),
            )
        )

    return read


@pytest.fixture(scope="session")
def multi30k() -> Pairs:
    """The 1,014 pairs of Multi30k's validation set."""
    if "MTKIT_TEST_DATA" not in os.environ:
        pytest.skip("MTKIT_TEST_DATA is not set: no folder of Multi30k")
    folder = Path(os.environ["MTKIT_TEST_DATA"]) / "multi30k"
    sides = [
        gzip.decompress((folder / f"val.{language}.gz").read_bytes()).decode().split("\n")[:-1]
        for language in ("en", "de")
    ]
    return list(zip(*sides, strict=True))
