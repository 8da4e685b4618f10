"""Lines that translators stumble over, through file, pipe and JSON: as many come out as go in.

python tests/faults/nasty_lines.py --model FOLDER --lines 100000 [--set KEY=VALUE] [--seed 1]

Blank lines, spaces, tabs, lines of 50,000 characters, one letter again and again, emoji,
right-to-left text, combining marks, NUL, U+2028, bytes that are invalid UTF-8 (halves of characters
among them), markup, numbers. Each way of going through is checked: the lines counted, blank ones
blank, the same text whichever way, the peak of memory.
"""

import argparse
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

COMMAND = (sys.executable, "-m", "mtkit")
LONG_CHARACTERS = 50_000
_WORDS = [
    "the",
    "old",
    "man",
    "buys",
    "three",
    "red",
    "apples",
    "near",
    "a",
    "small",
    "house",
    "3.5",
    "%",
    "<b>bold</b>",
    "&amp;",
]
_EMOJI = ["😀", "👨\u200d👩\u200d👧", "🇩🇪", "❤️"]
_RIGHT_TO_LEFT = ["שלום", "مرحبا", "\u202eabc", "\u200f"]
_MARKUP = ["<a", "href='x'>", "</a>", "{{name}}", "&lt;", "</s>", "<pad>"]
_NUMBERS = ["1,234.5", "10^6", "٣٤", "½", "2026-11-21"]
_BROKEN = [b"\xed\xa0\x80", b"\xed\xb0\x80", b"\xff\xfe", b"Gr\xfc\xdfe", b"\xf0\x9f\x98", b"\xc0"]


def _join(generator: random.Random, parts: Sequence[str], most: int) -> bytes:
    return " ".join(generator.choice(parts) for _ in range(generator.randint(1, most))).encode()


KINDS: dict[str, Callable[[random.Random], bytes]] = {
    "empty": lambda _: b"",
    "spaces": lambda generator: (" " * generator.randint(1, 9)).encode(),
    "tabs and odd spaces": lambda generator: generator.choice(["\t", "\u3000", "\xa0 \t"]).encode(),
    "carriage return": lambda generator: generator.choice([b"\r", b"a\rb\r", b"The man.\r"]),
    "words": lambda generator: _join(generator, _WORDS, 20),
    "one letter": lambda generator: (
        generator.choice("aZß好") * generator.randint(30, 600)
    ).encode(),
    "emoji": lambda generator: _join(generator, _EMOJI, 8),
    "right to left": lambda generator: _join(generator, _RIGHT_TO_LEFT, 9),
    "combining marks": lambda generator: (
        generator.choice("aeo") + "\u0301\u0327" * generator.randint(1, 200)
    ).encode(),
    "NUL": lambda generator: b"a\0b" + b"\0" * generator.randint(0, 5),
    "nothing but NUL": lambda _: b"\0\0",
    "separators": lambda _: "one\u2028two\u2029three\x85four\x0cfive\x1esix".encode(),
    "no UTF-8": lambda generator: b"word " + generator.choice(_BROKEN) + b" word",
    "markup": lambda generator: _join(generator, _MARKUP, 9),
    "numbers": lambda generator: _join(generator, _NUMBERS, 12),
    "byte-order mark": lambda _: "\ufeffhello".encode(),
}  # fmt: skip
LONG_KINDS: dict[str, Callable[[random.Random], bytes]] = {
    "long": lambda generator: " ".join(generator.choices(_WORDS, k=LONG_CHARACTERS // 6)).encode(),
    "long without a space": lambda generator: (generator.choice("x好") * LONG_CHARACTERS).encode(),
    "long sentences": lambda _: ("Is it so? It is. " * (LONG_CHARACTERS // 17)).encode(),
}


def make_lines(
    count: int, *, seed: int = 1, long_share: float = 0.0002, long_characters: int = 50_000
) -> Iterator[bytes]:
    """Yields lines of every kind, without their newlines.

    Args:
        count: How many.
        seed: Of what is drawn.
        long_share: Share of long lines; the first three are long in any case.
        long_characters: How long these are.
    """
    generator = random.Random(seed)
    kinds, long_kinds = list(KINDS.values()), list(LONG_KINDS.values())
    for number in range(count):
        if number < len(long_kinds) or generator.random() < long_share:
            yield long_kinds[number % len(long_kinds)](generator)[:long_characters]
        else:
            yield kinds[number % len(kinds)](generator)


@dataclass(frozen=True)
class Passage:
    """What came of one way through.

    Attributes:
        lines: What came out.
        errors: What was said.
        seconds: How long it took.
        peaks: Greatest resident memory in each tenth of the time, in MiB.
    """

    lines: list[bytes]
    errors: str
    seconds: float
    peaks: list[int]

    def describe(self) -> str:
        """Returns it as a line."""
        tenths = " ".join(map(str, self.peaks))
        return f"{len(self.lines):,} lines in {self.seconds:.0f} s; MiB by tenths: {tenths}"


def pass_through(
    source: Path,
    *options: str,
    as_pipe: bool = False,
    environment: dict[str, str] | None = None,
    command: Sequence[str] = COMMAND,
) -> Passage:
    """Returns what `mtkit translate` makes of a file, given as a file or through a pipe."""
    began_at = time.monotonic()
    with (
        source.open("rb") as given,
        TemporaryDirectory() as folder,
        Path(folder, "errors").open("w+b") as said,
        subprocess.Popen(
            [*command, "translate", "--errors", "replace", *options],
            stdin=subprocess.PIPE if as_pipe else given,
            stdout=subprocess.PIPE,
            stderr=said,
            env=environment,
        ) as process,
    ):
        samples: list[int] = []
        watch = threading.Thread(target=_watch, args=(process, samples), daemon=True)
        watch.start()
        if as_pipe:
            threading.Thread(target=_feed, args=(given, process), daemon=True).start()
        assert process.stdout is not None
        output = process.stdout.read()
        code = process.wait()
        said.seek(0)
        errors = said.read().decode()
    if code:
        raise RuntimeError(f"exit code {code}:\n{errors[-2_000:]}")
    assert output.endswith(b"\n")
    tenth = max(1, len(samples) // 10)
    peaks = [max(samples[at : at + tenth]) >> 20 for at in range(0, len(samples), tenth)]
    return Passage(output.split(b"\n")[:-1], errors, time.monotonic() - began_at, peaks)


def find_faults(
    given: Sequence[bytes], file: Passage, pipe: Passage, as_json: Passage
) -> list[str]:
    """Returns what is wrong with three ways through of the same lines."""
    faults = []
    for name, passage in (("file", file), ("pipe", pipe), ("json", as_json)):
        if len(passage.lines) != len(given):
            faults.append(f"{name}: {len(passage.lines)} lines out of {len(given)}")
    texts = [json.loads(line)["text"] for line in as_json.lines]
    for number, (line, by_file, by_pipe, text) in enumerate(
        zip(given, file.lines, pipe.lines, texts, strict=True), start=1
    ):
        if not line.decode(errors="replace").strip() and by_file:
            faults.append(f"line {number} is blank, its translation isn't: {by_file!r}")
        if by_file != by_pipe or by_file.decode() != text:
            faults.append(f"line {number}: {by_file!r}, {by_pipe!r} and {text!r}")
    return faults


def _watch(process: subprocess.Popen, samples: list[int]) -> None:
    try:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            samples.append(watched.memory_info().rss)
            time.sleep(0.05)
    except psutil.NoSuchProcess:
        pass


def _feed(given, process: subprocess.Popen) -> None:
    with process.stdin:
        while chunk := given.read(5_000):
            process.stdin.write(chunk)


def main() -> int:
    """Returns the exit code: 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        source = Path(folder, "nasty")
        lines = list(make_lines(options.lines, seed=options.seed))
        source.write_bytes(b"".join(line + b"\n" for line in lines))
        arguments = ["--model", options.model]
        for override in options.overrides:
            arguments += ["--set", override]
        passages = []
        for name, more, as_pipe in (
            ("file", (), False),
            ("pipe", (), True),
            ("json", ("--json",), False),
        ):
            passages.append(pass_through(source, *arguments, *more, as_pipe=as_pipe))
            print(f"{name}: {passages[-1].describe()}", flush=True)
        faults = find_faults(lines, *passages)
    print("\n".join(faults[:20]) or "no fault", flush=True)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
