"""Moses' punctuation rules: what sacremoses itself says of every line."""

import gzip
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacremoses import MosesPunctNormalizer

from mtkit.text.normalization import punctuation_normalizer

# Everything that some rule looks for, among what none does.
TEXT = st.text("aZ9 \t\r()`´„“”–—‘’‚…«»\u00a0\":;%'.,?!º¿-", max_size=30)


@given(TEXT, st.sampled_from(["en", "de", "fr", "cs", "zh"]))
def test_shortcuts_change_nothing(line: str, language: str) -> None:
    expected = MosesPunctNormalizer(lang=language).normalize(line)
    assert punctuation_normalizer(language)([line]) == [expected]


def test_by_hand() -> None:
    normalize = punctuation_normalizer("de_AT")
    assert normalize(["„Ja“, sagte er …", "Nein – niemals !", "schlicht"]) == [
        '"Ja", sagte er ...',
        "Nein - niemals !",
        "schlicht",
    ]


@pytest.mark.skipif("MTKIT_TEST_DATA" not in os.environ, reason="MTKIT_TEST_DATA isn't set")
@pytest.mark.parametrize(
    "name", ["mixed_en_de/dev.de", "newstest_en_fr/newstest2013.fr", "python_docs_en_zh/dev.zh"]
)
def test_on_real_text(name: str) -> None:
    content = gzip.decompress((Path(os.environ["MTKIT_TEST_DATA"]) / f"{name}.gz").read_bytes())
    lines = content.decode().split("\n")[:1000]
    language = name[-2:]
    reference = MosesPunctNormalizer(lang=language)
    assert punctuation_normalizer(language)(lines) == list(map(reference.normalize, lines))
