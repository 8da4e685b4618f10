"""Off a terminal, what is said is plain lines on stderr."""

import pytest

from mtkit.console import open_console, report, say, warn
from mtkit.errors import MtkitError


def test_everything_goes_to_stderr_plain(capsys: pytest.CaptureFixture[str]) -> None:
    say("prepared [bold]10[/bold] pairs")
    warn("no GPU")
    report(MtkitError("a.en: no such file", "check data_root"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "prepared [bold]10[/bold] pairs",
        "warning: no GPU",
        "error: a.en: no such file",
        "hint: check data_root",
    ]


def test_no_hint_no_hint_line(capsys: pytest.CaptureFixture[str]) -> None:
    report(MtkitError("damaged"))
    assert capsys.readouterr().err == "error: damaged\n"


def test_a_long_line_is_not_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    say("word " * 100)
    assert capsys.readouterr().err.count("\n") == 1


def test_forced_colour_makes_no_terminal_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not open_console().is_terminal
