"""`mtkit score --model`: systems that translate the source themselves."""

from pathlib import Path

import pytest
from sacrebleu import corpus_bleu

from mtkit.errors import MtkitError
from mtkit.pipeline.score_files import load_scoring, score_files
from tests.unit.llm.chat_server import answer, serve_chat

SOURCE = ["the man sleeps in the house", "the dog eats the bone now", "we see an old tree here"]


def test_models_and_files_are_systems_of_one_table(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "source").write_text("\n".join(SOURCE) + "\n")
    (tmp_path / "reference").write_text("\n".join(line.upper() for line in SOURCE) + "\n")
    (tmp_path / "file").write_text("\n".join(SOURCE) + "\n")

    def reply(body, number):
        text = body["messages"][0]["content"].rpartition("\n\n")[2]
        return answer(text.upper().replace("HOUSE", "TREE"))

    with serve_chat(reply) as (address, _):
        (tmp_path / "llm.toml").write_text(
            f'url = "{address}"\nmodel = "m"\nreject = []\n'
            'source_languages = ["en"]\ntarget_languages = ["de"]\n'
        )
        scored = score_files(
            [Path("file")],
            load_scoring("", ['evaluation.metrics=["bleu"]']),
            references=[Path("reference")],
            source=Path("source"),
            models=["llm.toml"],
        )
    assert list(scored.systems) == ["file", "llm.toml"]
    expected = [line.upper().replace("HOUSE", "TREE") for line in SOURCE]
    assert scored.systems["llm.toml"] == expected
    bleu = corpus_bleu(expected, [[line.upper() for line in SOURCE]]).score
    found = scored.evaluated.systems[1].scores[0].value
    assert found == pytest.approx(bleu)


def test_a_model_without_a_source_is_refused(tmp_path: Path) -> None:
    (tmp_path / "reference").write_text("x\n")
    scoring = load_scoring("", [])
    with pytest.raises(MtkitError, match="translates the source") as found:
        score_files([], scoring, references=[tmp_path / "reference"], models=["a"])
    assert "--source" in found.value.hint


def test_a_model_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x\n")
    with pytest.raises(MtkitError, match="given twice"):
        score_files(
            [],
            load_scoring("", []),
            references=[tmp_path / "x"],
            source=tmp_path / "x",
            models=["a", "a"],
        )
