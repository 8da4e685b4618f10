"""Real text, and a cleaner with some filters."""

import gzip
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from mtkit.data.cleaning.clean import Cleaner, learn_length_ratio
from mtkit.data.cleaning.overlap import HeldOut
from mtkit.recipe.cleaning import Cleaning

Lines = list[str]
FILTERS = (
    "encoding", "length", "length_ratio", "identical", "letters", "script", "numbers", "urls",
    "repetition", "overlap",
)  # fmt: skip


@pytest.fixture
def corpus() -> Callable[[str, str, str], tuple[Lines, Lines]]:
    """A function that returns both sides of a corpus: `corpus("flores200/devtest", "en", "zh")`."""
    folder = os.environ.get("MTKIT_TEST_DATA")
    if folder is None:
        pytest.skip("MTKIT_TEST_DATA is not set: no folder of real parallel text")

    def read(name: str, source: str, target: str) -> tuple[Lines, Lines]:
        sides = (
            gzip.decompress(Path(folder, f"{name}.{language}.gz").read_bytes())
            for language in (source, target)
        )
        # Not splitlines: U+0085 stands inside lines.
        source_lines, target_lines = (side.decode().split("\n")[:-1] for side in sides)
        return source_lines, target_lines

    return read


@pytest.fixture
def make_cleaner() -> Callable[..., Cleaner]:
    """A function that returns a cleaner: with `only`, of that filter alone."""

    def make(
        only: str = "",
        *,
        source: str = "en",
        target: str = "de",
        length_ratio: float = 1.0,
        held_out: Iterable[tuple[str, str]] = (),
        dev: tuple[Lines, ...] = (),
        **settings: Any,
    ) -> Cleaner:
        tables: dict[str, Any] = {}
        if only:
            tables = {name: {"enabled": False} for name in FILTERS}
            tables[only] = {"enabled": True, **settings}
        else:
            tables = settings
        return Cleaner(
            Cleaning.model_validate(tables),
            languages=(source, target),
            length_ratio=length_ratio,
            held_out=HeldOut.of(held_out),
            dev=dev,
        )

    return make


@pytest.fixture
def default_cleaner(make_cleaner: Callable[..., Cleaner]) -> Callable[..., Cleaner]:
    """A function that returns a cleaner of all default filters, length ratio by real pairs."""

    def make(source: str, target: str, dev: tuple[Lines, Lines], **settings: Any) -> Cleaner:
        length_ratio = learn_length_ratio(zip(*dev, strict=True))
        return make_cleaner(source=source, target=target, length_ratio=length_ratio, **settings)

    return make
