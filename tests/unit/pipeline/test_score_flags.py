"""`mtkit score` without references."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mtkit.cli.app import app
from mtkit.errors import MtkitError
from mtkit.pipeline.score_flags import flag_files, load_flagging

SOURCE = "The committee will meet again next week.\n\nIt opened in 1987.\nHello.\n"
GOOD = "Der Ausschuss tritt nächste Woche wieder zusammen.\n\nEs wurde 1987 eröffnet.\nHallo.\n"
BAD = "The committee will meet again next week.\n\nEs wurde 1978 eröffnet.\nHallo.\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.chdir(tmp_path)
    paths = {}
    for name, text in (("src.en", SOURCE), ("good.de", GOOD), ("bad.de", BAD)):
        paths[name] = tmp_path / name
        paths[name].write_text(text, "utf-8")
    return paths


def run(*options: str) -> tuple[str, str]:
    found = CliRunner().invoke(app, ["score", *options], catch_exceptions=False)
    assert found.exit_code == 0, found.stderr
    return found.stdout, found.stderr


def test_shares_of_lines(files: dict[str, Path]) -> None:
    out, err = run(
        *("--source", "src.en", "--hypothesis", "good.de", "--hypothesis", "bad.de"),
        *("--set", "evaluation.language=de"),
    )
    rows = [line.split("\t") for line in out.splitlines()]
    # Eight names but for those that only a model knows, and `any`, of each system.
    assert [row[1] for row in rows[:8]] == [
        *("copied", "wrong language", "looping", "too short", "too long"),
        *("numbers differ", "addresses differ", "any"),
    ]
    assert {row[0] for row in rows} == {"good", "bad"}
    assert all(row[2:] == ["0", "0.00"] for row in rows if row[0] == "good")
    of_bad = {row[1]: row[2:] for row in rows if row[0] == "bad"}
    assert of_bad["copied"] == of_bad["wrong language"] == ["1", "25.00"]
    assert of_bad["numbers differ"] == ["1", "25.00"]
    assert of_bad["any"] == ["2", "50.00"]
    assert "no references, so no score" in err
    assert "not checked: unlikely (needs a model)" in err


def test_without_a_language(files: dict[str, Path]) -> None:
    out, err = run("--source", "src.en", "--hypothesis", "bad.de")
    assert "wrong language" not in out
    assert "not checked: wrong language (name the language" in err


def test_json_and_the_lines_themselves(files: dict[str, Path]) -> None:
    out, _ = run(
        *("--source", "src.en", "--hypothesis", "bad.de", "--json", "--report", "lines.json"),
        *("--set", "inference.flags.max_copied=1.0", "--set", "evaluation.language=de"),
    )
    (system,) = json.loads(out)["systems"]
    assert system["flags"]["copied"] == {"lines": 0, "share": 0.0}
    assert system["flags"]["any"] == {"lines": 2, "share": 0.5}
    report = json.loads(Path("lines.json").read_text("utf-8"))
    assert report["settings"]["max_copied"] == 1.0
    first, second = report["systems"][0]["lines"]
    assert (first["line"], [flag["name"] for flag in first["flags"]]) == (1, ["wrong language"])
    assert (second["line"], second["source"]) == (3, "It opened in 1987.")
    assert second["flags"] == [
        {
            "name": "numbers differ",
            "found": 2,
            "threshold": 0,
            "text": "on one side only: 1978, 1987",
        }
    ]


def test_files_that_do_not_belong_together(files: dict[str, Path]) -> None:
    files["bad.de"].write_text("Hallo.\n", "utf-8")
    with pytest.raises(MtkitError, match=r"bad\.de has 1 lines, but .*src\.en has 4"):
        flag_files([files["bad.de"]], files["src.en"], load_flagging("", []))


def test_what_a_report_can_be(files: dict[str, Path]) -> None:
    command = ["score", "--source", "src.en", "--hypothesis", "bad.de", "--report", "x.html"]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 1
    assert "use a file with the ending .json, or give --reference" in found.stderr
