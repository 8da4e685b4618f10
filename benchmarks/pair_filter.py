"""How well a pair classifier, and the rule filters of `mtkit prepare`, find planted faults.

    python benchmarks/pair_filter.py MODEL SOURCE TARGET [--languages en de] [--json FILE]

MODEL is the model folder of a classifier that was trained on `planted_faults`; SOURCE and TARGET
are files, aligned by line, that it hasn't seen. Each kind of fault is planted in every pair, so
that there are as many faults as translations. A fault that is found is a true positive: precision
is the share of faults among the pairs that are dropped, recall the share of the faults that are.
The rules are those that are on by default (length, length ratio, identical sides, letters, script,
numbers, addresses, repetition), and those with language identification. Prints a table.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray
from peers.machine import describe_machine

from mtkit.data.cleaning.clean import Cleaner, learn_length_ratio
from mtkit.data.cleaning.overlap import HeldOut
from mtkit.data.sources.corpora import read_labelled
from mtkit.data.sources.planted_faults import FAULT
from mtkit.inference.classify import LineClassifier
from mtkit.recipe.cleaning import Cleaning, LanguageIdentification
from mtkit.recipe.text_corpora import PlantedCorpus, PlantedFault

Found = NDArray[np.bool_]


def drop_by_rules(
    rows: Mapping[str, Sequence[str]], settings: Cleaning, languages: list[str]
) -> Found:
    """Returns which rows the rules drop, [rows]."""
    every = zip(rows["text"], rows["second"], rows["label"], strict=True)
    pairs = [(text, second) for text, second, label in every if label != FAULT]
    source, target = languages
    cleaner = Cleaner(
        settings,
        languages=(source, target),
        length_ratio=learn_length_ratio(pairs),
        held_out=HeldOut.of([("", "")]),
    )
    kept = cleaner.clean(rows["text"], rows["second"]).indices
    dropped = np.ones(len(rows["text"]), np.bool_)
    dropped[kept] = False
    return dropped


def measure(wanted: Found, found: Found) -> dict[str, float]:
    """Returns precision, recall and F1 in percent; precision is 100 where nothing is found."""
    right = int((wanted & found).sum())
    precision = right / max(1, int(found.sum())) if found.any() else 1.0
    recall = right / int(wanted.sum())
    f1 = 2.0 * precision * recall / max(1e-9, precision + recall)
    return {"precision": 100.0 * precision, "recall": 100.0 * recall, "f1": 100.0 * f1}


def print_table(results: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    names = list(next(iter(results.values())))
    print("| fault | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 1) + "|")
    for kind, systems in results.items():
        cells = [
            f"{each['precision']:.1f} / {each['recall']:.1f} / {each['f1']:.1f}"
            for each in systems.values()
        ]
        print(f"| {kind} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--languages", nargs=2, default=["en", "de"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    classifier = LineClassifier(options.model)
    with_languages = Cleaning(language=LanguageIdentification(enabled=True))
    kinds: tuple[PlantedFault, ...] = get_args(PlantedFault)
    results: dict[str, dict[str, dict[str, float]]] = {}
    num_pairs, elapsed_seconds = 0, 0.0
    for name, planted in {**{kind: (kind,) for kind in kinds}, "all, in turn": kinds}.items():
        rows = read_labelled(
            PlantedCorpus(source=options.source, target=options.target, planted_faults=planted)
        )
        wanted = np.array([label == FAULT for label in rows["label"]])
        started_at = time.perf_counter()
        labelled = classifier.classify(rows["text"], rows["second"])
        elapsed_seconds += time.perf_counter() - started_at
        num_pairs += len(wanted)
        found = np.array([each.label == FAULT for each in labelled])
        results[name] = {
            "classifier": measure(wanted, found),
            "rules": measure(wanted, drop_by_rules(rows, Cleaning(), options.languages)),
            "rules, with languages": measure(
                wanted, drop_by_rules(rows, with_languages, options.languages)
            ),
        }
    print_table(results)
    speed = num_pairs / elapsed_seconds
    print(f"\nthe classifier reads {speed:,.0f} pairs a second")
    if options.json is not None:
        facts = {"machine": describe_machine(), "results": results, "pairs_per_second": speed}
        options.json.write_text(json.dumps(facts, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
