"""The bound on the wrong translations among those that are released (inference.quality).

    python benchmarks/quality_bound.py
    python benchmarks/quality_bound.py --model MODEL [--reverse MODEL] SOURCE REFERENCE [...]

Without a model, 1,000 draws of labels from a population of 100,000 segments whose true share of
errors is known for each threshold: it prints how many draws release more than the risk.

With a model, its translations of the SOURCE files get planted faults, a fifth of them: a word
dropped, two words swapped, a word of another line, another line's translation, half of it, the
source copied, a number or a negation changed where there is one. Labels are drawn again and again,
and the other segments show what share of them is released, and how much of that is wrong: with all
kinds of faults in the labels, and with one kind left out. An unchanged translation counts as right.

With `--systems FOLDER`, outputs of real systems, a file each (`newstest2017.*.gz`), take the place
of a model's: a random system's of each line. Their source isn't among those files, so the features
are the agreement with the other systems' outputs (mean chrF) and the length relative to theirs.
"""

import argparse
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from flags import read

from mtkit import Request, Translator
from mtkit.evaluation.quality import (
    Estimator,
    Threshold,
    choose_threshold,
    count_released,
    measure_area,
    split_labels,
)
from mtkit.evaluation.utilities import measure_utilities
from mtkit.inference.open_translator import open_measures, open_translator
from mtkit.inference.quality import measure_pairs
from mtkit.recipe.inference import Quality

CONFIDENCE = 0.95
RISKS = (0.01, 0.02, 0.05, 0.1)
Columns = Mapping[str, np.ndarray]
_NEGATIONS = {"kein", "keine", "keinen", "nicht", "no", "not"}


def choose(
    columns: Columns, right: np.ndarray, picked: np.ndarray, risk: float
) -> tuple[Estimator, Threshold | None]:
    """Returns what `mtkit calibrate` finds with the picked segments as labels."""
    fit, tested = split_labels([(int(index),) for index in picked])
    fit, tested = picked[fit], picked[tested]
    estimator = Estimator.fit({name: of[fit] for name, of in columns.items()}, right[fit])
    estimates = estimator.estimate(columns)
    thresholds = count_released((estimates[fit], right[fit]), (estimates[tested], right[tested]))
    return estimator, choose_threshold(thresholds, risk, CONFIDENCE)


def simulate(num_draws: int) -> None:
    """Prints the share of draws in which more than the risk of what is released is wrong."""
    generator = np.random.default_rng(1)
    features = generator.normal(size=(100_000, 3))
    features[:, 1] = np.exp(features[:, 1])
    print("| wrong | labels | risk | draws over the risk | that release | released | wrong |")
    print("|---|---|---|---|---|---|---|")
    for bias, num_labels, risk in (
        (2.0, 500, 0.1),
        (3.5, 500, 0.05),
        (3.5, 2_000, 0.05),
        (3.0, 2_000, 0.05),
        (5.0, 2_000, 0.01),
    ):
        # No logistic regression of these features is right about it.
        truth = bias + 1.5 * features[:, 0] - 0.3 * features[:, 1] + np.sin(3 * features[:, 2])
        right = generator.random(len(truth)) < 1.0 / (1.0 + np.exp(-truth))
        columns = {str(index): features[:, index] for index in range(3)}
        over, shares, wrong = 0, [], []
        for _ in range(num_draws):
            picked = generator.integers(0, len(right), num_labels)
            fit, tested = np.split(picked, [int(0.4 * num_labels)])
            estimator = Estimator.fit({key: of[fit] for key, of in columns.items()}, right[fit])
            estimates = estimator.estimate(columns)
            chosen = choose_threshold(
                count_released((estimates[fit], right[fit]), (estimates[tested], right[tested])),
                risk,
                CONFIDENCE,
            )
            if chosen is not None:
                released = estimates >= chosen.at
                shares.append(released.mean())
                wrong.append((~right[released]).mean())
                over += wrong[-1] > risk
        print(
            f"| {(~right).mean():.1%} | {num_labels:,} | {risk:.0%} | {over / num_draws:.1%} | "
            f"{len(shares) / num_draws:.1%} | {np.mean(shares or [0]):.1%} | "
            f"{np.mean(wrong or [0]):.2%} |",
            flush=True,
        )


def _drop(words: list[str], _: list[str], generator: random.Random) -> list[str]:
    at = generator.randrange(len(words))
    return words[:at] + words[at + 1 :]


def _swap(words: list[str], _: list[str], generator: random.Random) -> list[str]:
    first, second = generator.sample(range(len(words)), 2)
    changed = list(words)
    changed[first], changed[second] = changed[second], changed[first]
    return changed


def _mix(words: list[str], other: list[str], generator: random.Random) -> list[str]:
    changed = list(words)
    changed[generator.randrange(len(words))] = generator.choice(other)
    return changed


def _renumber(words: list[str], _: list[str], generator: random.Random) -> list[str]:
    names = ("zwei", "drei", "vier", "fünf")
    return [
        generator.choice([each for each in names if each != word.lower()])
        if word.lower() in names
        else str(int(word) + generator.randrange(1, 9))
        if word.isdecimal()
        else word
        for word in words
    ]


def _negate(words: list[str], _: list[str], generator: random.Random) -> list[str]:
    without = [word for word in words if word.lower() not in _NEGATIONS]
    if without != words:
        return without
    return ["kein" if word.lower() == "ein" else "keine" if word.lower() == "eine" else word
            for word in words]  # fmt: skip


FAULTS: Mapping[str, Callable[[list[str], list[str], random.Random], list[str]]] = {
    "a word dropped": _drop,
    "two words swapped": _swap,
    "a word of another line": _mix,
    "another line's": lambda words, other, _: other,
    "cut to half": lambda words, _, __: words[: len(words) // 2],
    "a number changed": _renumber,
    "negated": _negate,
}


def plant(
    sources: Sequence[str], hypotheses: Sequence[str], share: float
) -> tuple[list[str], list[str]]:
    """Returns hypotheses, a share of them with a fault, and the kind of fault, if any, of each."""
    generator, kinds = random.Random(1), [*FAULTS, "the source copied"]
    texts, planted = [], []
    for index, (source, text) in enumerate(zip(sources, hypotheses, strict=True)):
        words, other = text.split(), hypotheses[(index + 1) % len(hypotheses)].split()
        kind = generator.choice(kinds)
        if generator.random() >= share or len(words) < 3 or not other:
            kind, changed = "", text
        elif kind == "the source copied" and source:
            changed = source
        elif kind == "the source copied":
            changed = text
        else:
            changed = " ".join(FAULTS[kind](words, other, generator))
        texts.append(changed)
        planted.append(kind if changed != text else "")
    return texts, planted


def compare(columns: Columns, planted: Sequence[str], num_labels: int, num_draws: int) -> None:
    """Prints what is released of the segments that aren't labelled, and how much is wrong."""
    kinds = np.array(planted)
    right = kinds == ""
    generator = np.random.default_rng(1)
    print("\n| risk | draws that release | released | wrong of it | draws over the risk |")
    print("|---|---|---|---|---|")
    areas = []
    for risk in RISKS:
        rows = []
        for _ in range(num_draws):
            order = generator.permutation(len(right))
            picked, rest = order[:num_labels], order[num_labels:]
            estimator, chosen = choose(columns, right, picked, risk)
            estimates = estimator.estimate({name: of[rest] for name, of in columns.items()})
            areas.append(measure_area(estimates, right[rest]) or 0.0)
            if chosen is not None:
                released = estimates >= chosen.at
                rows.append((released.mean(), (~right[rest][released]).mean()))
        found = np.array(rows).reshape(-1, 2)
        means = found.mean(axis=0) if len(found) else (0.0, 0.0)
        print(
            f"| {risk:.0%} | {len(found)} of {num_draws} | {means[0]:.1%} | {means[1]:.2%} | "
            f"{(found[:, 1] > risk).sum()} |"
        )
    print(f"\nMean area under the ROC curve: {np.mean(areas):.3f}")
    risk = RISKS[2]
    print(f"\nAt a risk of {risk:.0%}:\n")
    print("| kind left out of the labels | lines | released of it | with it in | wrong of all |")
    print("|---|---|---|---|---|")
    for kind in [each for each in dict.fromkeys(planted) if each]:
        without, with_it, wrong = [], [], []
        for _ in range(num_draws):
            order = generator.permutation(len(right))
            picked, rest = order[:num_labels], order[num_labels:]
            for labels, found in (
                (picked[kinds[picked] != kind], without),
                (picked, with_it),
            ):
                estimator, chosen = choose(columns, right, labels, risk)
                if chosen is None:
                    continue
                estimates = estimator.estimate({name: of[rest] for name, of in columns.items()})
                released = estimates >= chosen.at
                found.append(released[kinds[rest] == kind].mean())
                if found is without:
                    wrong.append((~right[rest][released]).mean())
        print(
            f"| {kind} | {(kinds == kind).sum()} | {np.mean(without or [0]):.1%} | "
            f"{np.mean(with_it or [0]):.1%} | {np.mean(wrong or [0]):.2%} |"
        )


def measure_systems(folder: Path, share: float) -> tuple[Columns, list[str]]:
    """Returns features of systems' outputs, a random system's for each line, and their faults."""
    systems = [read(path) for path in sorted(folder.glob("newstest2017.*.gz"))]
    generator, rows, texts = random.Random(1), [*zip(*systems, strict=True)], []
    chosen = [generator.randrange(len(systems)) for _ in rows]
    texts, planted = plant(
        [""] * len(rows), [row[which] for row, which in zip(rows, chosen, strict=True)], share
    )
    agreements, ratios = [], []
    for text, row, which in zip(texts, rows, chosen, strict=True):
        others = [*row[:which], *row[which + 1 :]]
        weights = [0, *[1] * len(others)]
        agreements.append(measure_utilities([text, *others], weights, "chrf")[0])
        mean = np.mean([len(each) for each in others])
        ratios.append(np.log((len(text) + 15) / (mean + 15)))
    lengths = np.array(ratios)
    columns = {"agreement": np.array(agreements), "length": lengths, "length squared": lengths**2}
    return columns, planted


def measure_model(options: argparse.Namespace) -> tuple[Columns, list[str]]:
    """Returns features of a model's translations, and their faults."""
    sources = [line for path in options.sources for line in read(path)]
    translator = Translator(options.model, device="cpu", warns=False)
    texts, planted = plant(sources, translator.translate(sources), options.share)
    pipeline = open_translator(
        [options.model],
        engine=None,
        device="cpu",
        settings=None,
        source_language="",
        target_language="",
    )
    quality = Quality(path=Path("unused"), reverse=options.reverse, samples=options.samples)
    measures = open_measures(pipeline, quality, "cpu")
    pairs = [Request(source, prefix=text) for source, text in zip(sources, texts, strict=True)]
    columns: dict[str, list[float]] = {}
    for first in range(0, len(pairs), 1_024):
        for name, numbers in measure_pairs(measures, pairs[first : first + 1_024]).items():
            columns.setdefault(name, []).extend(numbers)
    return {name: np.array(numbers) for name, numbers in columns.items()}, planted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("sources", nargs="*", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--reverse", type=Path)
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--systems", type=Path)
    parser.add_argument("--share", type=float, default=0.2, help="of lines that get a fault")
    parser.add_argument("--labels", type=int, default=1_000)
    parser.add_argument("--draws", type=int, default=1_000)
    options = parser.parse_args()
    if options.model is None and options.systems is None:
        simulate(options.draws)
        return
    if options.systems is not None:
        columns, planted = measure_systems(options.systems, options.share)
    else:
        columns, planted = measure_model(options)
    print(f"{len(planted):,} segments, {sum(map(bool, planted)):,} with a fault, "
          f"{options.labels:,} labels a draw; features: {', '.join(columns)}")  # fmt: skip
    compare(columns, planted, options.labels,
            options.draws)  # fmt: skip


if __name__ == "__main__":
    main()
