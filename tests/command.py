"""`mtkit` as it is typed, but in this process: few tests are about how a process starts."""

from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from mtkit.cli.app import app


@dataclass(frozen=True)
class Done:
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


def run_here(folder: Path, *arguments: str, text: str = "") -> Done:
    """Runs a command in a folder."""
    with chdir(folder):
        done = CliRunner().invoke(app, list(arguments), prog_name="mtkit", input=text)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Done(done.exit_code, done.stdout, done.stderr)
