"""How often good lines are flagged, and how many planted faults are.

    python benchmarks/flags.py DATA [--json FILE]

DATA holds real text by the names below. Without references flags have only the source, and three
kinds of lines are flagged: references of test sets, which are good translations; the outputs of
WMT17's 16 English-German systems, with the German reference, since the English source isn't among
those files (so `copied` is left out there); and references with a fault planted in each line that
can have it. Prints tables: lines that have each flag, in percent, by kind. Thresholds are the
defaults; the model's own flags, `unlikely` and `poorly covered`, aren't measured.
"""

import argparse
import gzip
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from peers.machine import describe_machine

from mtkit.evaluation.flags import FlagFinder, ScoredLine, count_flagged_lines
from mtkit.recipe.flags import FLAG_NAMES, FlagName, Flags

Rows = list[tuple[str, str]]
"""Sources and translations."""
_TEST_SETS = (
    ("newstest2014", "en-de", "mixed_en_de/test.en.gz", "mixed_en_de/test.de.gz"),
    (
        "newstest2014",
        "en-fr",
        "newstest_en_fr/newstest2014.en.gz",
        "newstest_en_fr/newstest2014.fr.gz",
    ),
    ("Tatoeba", "en-de", "tatoeba_en_de/test.en.gz", "tatoeba_en_de/test.de.gz"),
    ("Multi30k", "en-de", "multi30k/test_2016_flickr.en.gz", "multi30k/test_2016_flickr.de.gz"),
    ("Python docs", "en-zh", "python_docs_en_zh/test.en.gz", "python_docs_en_zh/test.zh.gz"),
    *(
        ("FLORES-200", pair, *(f"flores200/devtest.{side}.gz" for side in pair.split("-")))
        for pair in ("en-de", "en-fr", "en-zh", "en-ja", "zh-ja", "ja-en", "de-fr")
    ),
)
_FILE_FLAGS = tuple(name for name in FLAG_NAMES if name not in ("unlikely", "poorly covered"))


def read(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode("utf-8").split("\n")[:-1]


def flag(
    rows: Sequence[tuple[str, str]], pair: str, names: tuple[FlagName, ...] = _FILE_FLAGS
) -> dict[str, float]:
    """Returns the share of lines with each flag and with any, in percent."""
    finder = FlagFinder(Flags(names=names))
    languages = pair.split("-")
    found = [finder.find(ScoredLine(*row, *languages)) for row in rows]
    counts = {**count_flagged_lines(found, names), "any": sum(map(bool, found))}
    return {name: 100.0 * count / len(rows) for name, count in counts.items()}


def plant(rows: Rows, other_language: Sequence[str] | None) -> dict[str, Rows]:
    """Returns lines with each fault, of the rows that can have it."""
    changes: dict[str, Callable[[int, str, str], str | None]] = {
        "the source copied": lambda _, source, __: source,
        "another line's": lambda index, _, __: rows[(index + 1) % len(rows)][1],
        "cut to half": lambda _, __, target: target[: len(target) // 2],
        "a phrase doubled": lambda _, __, target: double(target),
        "a word five times": lambda _, __, target: loop(target),
        "a number changed": lambda _, __, target: change_number(target),
        "an address dropped": lambda _, __, target: drop_address(target),
    }
    if other_language is not None:
        changes["another language"] = lambda index, _, __: other_language[index]
    return {
        name: [
            (source, changed)
            for index, (source, target) in enumerate(rows)
            if (changed := change(index, source, target)) is not None
        ]
        for name, change in changes.items()
    }


def double(text: str) -> str | None:
    """Returns a text whose second half is there twice; None for a short one."""
    words = text.split(" ")
    middle = len(words) // 2
    return " ".join([*words, *words[middle:]]) if len(words) >= 8 else None


def loop(text: str) -> str | None:
    """Returns a text with its middle word, or character, five times."""
    words = text.split(" ") if " " in text else list(text)
    middle = len(words) // 2
    joint = " " if " " in text else ""
    return joint.join([*words[:middle], *words[middle : middle + 1] * 5, *words[middle + 1 :]])


def change_number(text: str) -> str | None:
    """Returns a text whose first number of two digits or more has another last digit."""
    found = re.search(r"\d*\d\d(?!\d)", text)
    if found is None:
        return None
    last = found.end() - 1
    return text[:last] + str((int(text[last]) + 3) % 10) + text[last + 1 :]


def drop_address(text: str) -> str | None:
    """Returns a text without its addresses; None where it has none."""
    changed = re.sub(r"(?:https?://|www\.)\S+|\S+@\S+\.\S+", "", text)
    return changed if changed != text else None


def print_table(results: Mapping[str, Mapping[str, float]], sizes: Mapping[str, int]) -> None:
    names = list(next(iter(results.values())))
    print("\n| lines | number | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 2) + "|")
    for kind, shares in results.items():
        cells = " | ".join(f"{share:.2f}" if share else "0" for share in shares.values())
        print(f"| {kind} | {sizes[kind]:,} | {cells} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    data: Path = options.data
    facts: dict[str, object] = {"machine": describe_machine(), "settings": Flags().model_dump()}

    good = {
        f"{name}, {pair}": (pair, list(zip(read(data / source), read(data / target), strict=True)))
        for name, pair, source, target in _TEST_SETS
    }
    results = {name: flag(rows, pair) for name, (pair, rows) in good.items()}
    sizes = {name: len(rows) for name, (_, rows) in good.items()}
    print("References, as good translations:")
    print_table(results, sizes)
    facts["references"] = results

    folder = data / "wmt17_en_de_systems"
    reference = read(folder / "reference.0.txt.gz")
    systems = {}
    for path in sorted(folder.glob("newstest2017.*.gz")):
        name = path.name.split(".")[1]
        systems[name] = list(zip(reference, read(path), strict=True))
    # German and German are alike.
    others = tuple(name for name in _FILE_FLAGS if name != "copied")
    results = {name: flag(rows, "-de", others) for name, rows in systems.items()}
    # They have equally many lines.
    names = list(next(iter(results.values())))
    results["all"] = {name: fmean(each[name] for each in results.values()) for name in names}
    sizes = {name: len(rows) for name, rows in systems.items()}
    sizes["all"] = sum(sizes.values())
    print("\nWMT17's systems, compared with the reference:")
    print_table(results, sizes)
    facts["systems"] = results

    planted: dict[str, Rows] = {}
    french = read(data / "flores200/devtest.fr.gz")
    for name, pair in (("newstest2014", "en-de"), ("FLORES-200", "en-de"), ("FLORES-200", "en-zh")):
        rows = good[f"{name}, {pair}"][1]
        of_kind = plant(rows, french if name == "FLORES-200" else None)
        planted |= {f"{kind}, {name}, {pair}": changed for kind, changed in of_kind.items()}
    # The only text here with more than a few addresses.
    with_addresses = plant(good["Python docs, en-zh"][1], None)["an address dropped"]
    planted["an address dropped, Python docs, en-zh"] = with_addresses
    planted = {kind: rows for kind, rows in planted.items() if len(rows) >= 10}
    results = {kind: flag(rows, kind.rsplit(", ", 1)[1]) for kind, rows in planted.items()}
    print("\nPlanted faults:")
    print_table(results, {kind: len(rows) for kind, rows in planted.items()})
    facts["planted"] = results
    if options.json is not None:
        options.json.write_text(json.dumps(facts, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
