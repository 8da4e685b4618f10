"""Test sets by sacreBLEU's names, from a folder laid out as sacreBLEU leaves it."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError

import pytest

import mtkit
from mtkit.data.sources.published import read_published
from mtkit.errors import MtkitError


def score(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs `mtkit score` where sacreBLEU's folder has some test sets: it is read at import."""
    for name in ("wmt14/full", "wmt14"):
        place = folder / "sets" / name
        place.mkdir(parents=True, exist_ok=True)
        stem = name.replace("/", "_")
        (place / f"{stem}.en-de.src").write_text("A man sleeps here.\nYes.\n")
        (place / f"{stem}.en-de.ref").write_text("Ein Mann schläft hier.\nJa.\n", "utf-8")
        for field in ("docid", "genre", "origlang"):
            (place / f"{stem}.en-de.{field}").write_text("x\nx\n")
    (folder / "out").write_text("Ein Mann schläft hier.\nJa.\n", "utf-8")
    root = Path(mtkit.__file__).parents[1]
    environment = {**os.environ, "SACREBLEU": str(folder / "sets"), "PYTHONPATH": str(root)}
    return subprocess.run(
        [sys.executable, "-m", "mtkit", "score", "--hypothesis", "out", *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_files_are_scored_by_a_published_test_set(tmp_path: Path) -> None:
    result = score(
        tmp_path, "--test-set", "wmt14/full:en-de", "--set", 'evaluation.metrics=["ter"]'
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\t")[:3] == ["out", "TER", "0.00"]
    assert "2,737" not in result.stderr


def test_the_shortened_newstest2014_is_told_of(tmp_path: Path) -> None:
    result = score(tmp_path, "--test-set", "wmt14:en-de", "--set", 'evaluation.metrics=["ter"]')
    assert result.returncode == 0
    assert "wmt14 has 2,737 of newstest2014's 3,003 sentences" in result.stderr
    assert "use wmt14/full" in result.stderr


def test_a_name_and_a_pair_that_sacrebleu_lacks() -> None:
    with pytest.raises(MtkitError, match="has no test set 'wmt14/ful'") as caught:
        read_published("wmt14/ful", languages=("en", "de"))
    assert "did you mean wmt14/full" in caught.value.hint
    with pytest.raises(MtkitError, match="wmt14/full has no en-zh") as caught:
        read_published("wmt14/full", languages=("en", "zh"))
    assert "en-de" in caught.value.hint


def test_without_a_network_it_says_how_to_bring_the_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: str) -> str:
        raise URLError("no route to host")

    monkeypatch.setattr("sacrebleu.get_source_file", fail)
    with pytest.raises(MtkitError, match="can't be downloaded: no route to host") as caught:
        read_published("wmt14/full", languages=("en", "de"))
    assert "sacrebleu -t wmt14/full -l en-de --echo src" in caught.value.hint


def test_a_download_that_sacrebleu_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: str) -> str:
        sys.exit(1)

    monkeypatch.setattr("sacrebleu.get_source_file", refuse)
    with pytest.raises(MtkitError, match="wrong checksum"):
        read_published("wmt14/full", languages=("en", "de"))
