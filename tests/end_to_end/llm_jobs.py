"""Jobs for a large language model: its file, lines, and what a command makes of them."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from ..command import Done, run_here
from ..llm_stub import Stub, translate

_ENGLISH = """\
the old farmer sells fresh apples and his daughter reads a long letter about our green river while
nobody waits for small birds near that bridge every morning"""
_VOCABULARY = _ENGLISH.split()


def make_lines(count: int, seed: int = 0) -> list[str]:
    """Returns lines that differ; each has its number."""
    drawn = random.Random(seed)
    return [
        f"Line {number}: {' '.join(drawn.sample(_VOCABULARY, drawn.randint(4, 12)))}."
        for number in range(1, count + 1)
    ]


@dataclass(frozen=True)
class Job:
    """A file of a large language model in a folder of its own."""

    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "llm.toml"

    def write(self, address: str, **keys: Any) -> None:
        """Writes the file; waits are short."""
        limits = {"wait_seconds": 0.01, **keys.pop("limits", {})}
        content = {
            "url": address,
            "model": "stub",
            "source_languages": ["en"],
            "target_languages": ["de"],
            **keys,
            "limits": limits,
        }
        self.file.write_text(tomli_w.dumps(content), "utf-8")

    def run(self, *options: str, text: str = "") -> Done:
        """Runs `mtkit translate` with the file."""
        return run_here(self.folder, "translate", "--model", "llm.toml", *options, text=text)

    def run_lines(self, lines: list[str], *options: str) -> Done:
        """Translates lines."""
        return self.run(*options, text="".join(f"{line}\n" for line in lines))

    def translate(self, stub: Stub, lines: list[str], *options: str, **keys: Any) -> list[str]:
        """Returns lines' translations by a command that succeeds without a warning."""
        self.write(stub.address, **keys)
        done = self.run_lines(lines, *options)
        assert done.returncode == 0, done.stderr
        assert "warning" not in done.stderr, done.stderr
        assert done.stdout.endswith("\n")
        return done.stdout.removesuffix("\n").split("\n")


def expect(lines: list[str]) -> list[str]:
    """Returns what the stub translates lines into."""
    return list(map(translate, lines))
