"""Labelled texts for tests: sentences of the phrasebook with the language that each is in."""

from pathlib import Path

from mtkit.data.phrasebook import generate_pairs


def write_labelled(folder: Path) -> None:
    """Writes sentences with `en` or `de`, in turn, and pairs of which half are translations."""
    for split, count in (("train", 300), ("dev", 40), ("test", 40)):
        pairs = list(generate_pairs(split, count))
        rows = [
            f"{pair[number % 2]}\t{('en', 'de')[number % 2]}" for number, pair in enumerate(pairs)
        ]
        _write(folder / f"{split}.tsv", ["text\tlanguage", *rows])
        rows = [
            f"{english}\t{german if number % 2 else pairs[number - 1][1]}\t{number % 2}"
            for number, (english, german) in enumerate(pairs)
        ]
        _write(folder / f"pairs.{split}.tsv", ["first\tsecond\tis_right", *rows])


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
