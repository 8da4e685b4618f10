"""Real text; a test that asks for it is skipped where MTKIT_TEST_DATA names no folder of it."""

import gzip
import os
from functools import cache
from pathlib import Path

import pytest


def read_system(name: str) -> list[str]:
    """Returns a system's translations of newstest2017, English to German, 3,004 lines."""
    return list(_read(f"wmt17_en_de_systems/newstest2017.{name}.[0-9]*.txt.gz"))


def read_reference() -> list[str]:
    """Returns newstest2017's German reference."""
    return list(_read("wmt17_en_de_systems/reference.0.txt.gz"))


def read_flores(language: str) -> list[str]:
    """Returns FLORES-200's test set in a language, 1,012 lines."""
    return list(_read(f"flores200/devtest.{language}.gz"))


@cache
def _read(pattern: str) -> tuple[str, ...]:
    folder = os.environ.get("MTKIT_TEST_DATA")
    if not folder:
        pytest.skip("MTKIT_TEST_DATA is not set: no folder of WMT17 system outputs and FLORES-200")
    [path] = Path(folder).glob(pattern)
    return tuple(gzip.decompress(path.read_bytes()).decode("utf-8").split("\n")[:-1])
