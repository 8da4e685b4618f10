"""Off a terminal, what is said is plain lines on stderr; on one, nothing of a text is changed."""

import io
import sys

import pytest
from rich.console import Console

from mtkit.console import open_console, print_line, report, say, warn
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


# An emoji's code, markup, a number and a path that rich would colour, and more than a line's width.
PLAIN = "/data/:100:/a[0]:x:/nix [bold]b[/bold] 3.5 'c' http://d " + "word " * 100


@pytest.mark.parametrize("speak", [say, warn, lambda text: report(MtkitError(text, text))])
def test_a_text_is_printed_as_it_is(speak, capsys: pytest.CaptureFixture[str]) -> None:
    speak(PLAIN + "\tb")
    lines = capsys.readouterr().err.splitlines()
    assert {line.partition(": /")[2] or line[1:] for line in lines} == {PLAIN[1:] + "\tb"}


def test_a_terminal_shows_a_text_as_it_is() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=30, color_system="truecolor")
    print_line(console, PLAIN, (PLAIN, "red"))
    assert screen.getvalue() == f"{PLAIN}\x1b[31m{PLAIN}\x1b[0m\n"


def test_bytes_of_a_path_that_are_invalid_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\udcff.de")
    assert capsys.readouterr().err == "a\\xff.de\n"


def test_without_stderr_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    say("nobody hears it")
