import os
from pathlib import Path

import pytest

from mtkit.paths import as_text, expand_home, for_library


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"plain.de", "plain.de"),
        (b"\xe4\xb8\xad\xc3\xbc \xf0\x9f\x92\xaf :100:", "中ü 💯 :100:"),
        (b"a\tb\nc\rd\x1be\x7f", r"a\tb\nc\rd\x1be\x7f"),
        # Latin-1, and the end of a character alone.
        (b"f\xfcr\x80", r"f\xfcr\x80"),
        # Unicode's line separator and NEL, which str.splitlines and JavaScript heed.
        (b"a\xe2\x80\xa8b\xc2\x85c", r"a\u2028b\x85c"),
    ],
)
def test_any_name_is_one_line_of_text(name: bytes, text: str) -> None:
    assert as_text(Path(os.fsdecode(name))) == text
    text.encode("utf-8")
    assert len(text.splitlines()) == 1


def test_half_a_character_is_escaped() -> None:
    assert as_text("a\ud800") == r"a\ud800"


def test_a_library_gets_a_link_to_what_it_could_not_name(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"a\xff")
    odd.write_text("content")
    with for_library(odd) as path:
        assert str(path).encode("utf-8")
        assert path.read_text() == "content"
    assert not path.exists()
    assert odd.read_text() == "content"


def test_other_paths_are_given_as_they_are(tmp_path: Path) -> None:
    with for_library(tmp_path / "ü.de") as path:
        assert path == tmp_path / "ü.de"


def test_an_unknown_users_home_stays_in_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert expand_home("~/corpus") == Path("/home/me/corpus")
    assert expand_home("~nobody-of-that-name/corpus") == Path("~nobody-of-that-name/corpus")
