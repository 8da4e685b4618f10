"""The bound on the wrong translations among those that are released (inference.quality).

    python benchmarks/quality_bound.py
    python benchmarks/quality_bound.py SOURCE [...] --model MODEL [--hypotheses FILE [...]]
    python benchmarks/quality_bound.py --systems FOLDER

Without a model, 1,000 draws of labels from a population of 100,000 segments whose true share of
errors is known for each threshold: it prints how many draws release more than the risk.

With a model, its translations of the SOURCE files, or the hypotheses of other files, get planted
faults, a fifth of them: a word dropped, two words swapped, a word of another line, another line's
translation, half of it, the source copied, a number or a negation changed where there is one.
Labels are drawn again and again, with replacement, so the true share of errors is that of all
lines: of the same lines with the same faults; and of the same lines with faults of only one kind,
which the labels lack. Unchanged lines count as right.

With `--systems FOLDER`, outputs of real systems, a file each (`newstest2017.*.gz`), replace
a model's: for each line that of a random system.
Their source isn't among those files, so the features
are the agreement with the other systems' outputs (mean chrF) and the length relative to theirs.
"""

import argparse
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from flags import read

from mtkit import Request, Translator
from mtkit.evaluation.quality import (
    FIT_SHARE,
    Estimator,
    Threshold,
    choose_threshold,
    compute_roc_auc,
    make_thresholds,
)
from mtkit.evaluation.utilities import measure_utilities
from mtkit.inference.open_translator import open_measures, open_translator
from mtkit.inference.quality import measure_pairs
from mtkit.recipe.inference import Quality

CONFIDENCE = 0.95
RISKS = (0.01, 0.02, 0.05, 0.1)
Columns = Mapping[str, np.ndarray]
_NEGATIONS = {"kein", "keine", "keinen", "nicht", "no", "not"}


def choose(columns: Columns, right: np.ndarray, risk: float) -> tuple[Estimator, Threshold | None]:
    """Returns what `mtkit calibrate` finds with labels in random order."""
    num_fit = round(FIT_SHARE * len(right))
    fit, tested = slice(num_fit), slice(num_fit, None)
    estimator = Estimator.fit({name: of[fit] for name, of in columns.items()}, right[fit])
    estimates = estimator.estimate(columns)
    thresholds = make_thresholds((estimates[fit], right[fit]), (estimates[tested], right[tested]))
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
            labels = {key: of[picked] for key, of in columns.items()}
            estimator, chosen = choose(labels, right[picked], risk)
            estimates = estimator.estimate(columns)
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


Variants = dict[str, list[str | None]]
"""Texts by kind of fault, "" without one; None where a line can't have it."""


@dataclass(frozen=True)
class Pool:
    """Lines without and with each fault: features by kind, [lines], NaN where there is none."""

    kinds: list[str]
    columns: dict[str, np.ndarray]
    """Features, [kinds, lines]; the first kind is no fault."""

    @property
    def num_lines(self) -> int:
        """Lines of the pool."""
        return next(iter(self.columns.values())).shape[1]

    def draw(
        self,
        lines: np.ndarray,
        kinds: Sequence[str],
        share: float,
        generator: np.random.Generator,
    ) -> tuple[Columns, np.ndarray]:
        """Returns features of lines, a share of them with faults of some kinds, and their kinds."""
        numbers = np.array([self.kinds.index(kind) for kind in kinds])
        chosen = generator.choice(numbers, len(lines))
        chosen[generator.random(len(lines)) >= share] = 0
        found = {name: of[chosen, lines] for name, of in self.columns.items()}
        is_missing = np.isnan(np.array([*found.values()])).any(axis=0)
        chosen[is_missing] = 0
        return {name: of[chosen, lines] for name, of in self.columns.items()}, chosen


def plant(sources: Sequence[str], hypotheses: Sequence[str]) -> Variants:
    """Returns hypotheses without and with each kind of fault."""
    generator = random.Random(1)
    found: Variants = {"": list(hypotheses), **{kind: [] for kind in FAULTS}}
    for index, text in enumerate(hypotheses):
        words, other = text.split(), hypotheses[(index + 1) % len(hypotheses)].split()
        for kind, change in FAULTS.items():
            can = len(words) >= 3 and other
            changed = " ".join(change(words, other, generator)) if can else text
            found[kind].append(None if changed == text else changed)
    if any(sources):
        copied = zip(sources, hypotheses, strict=True)
        found["the source copied"] = [None if text == source else source for source, text in copied]
    return found


def fill(variants: Variants, measure: Callable[[str, np.ndarray], Columns]) -> Pool:
    """Returns the features of all variants; `measure` takes a kind and the lines that have it."""
    columns: dict[str, np.ndarray] = {}
    for row, (kind, texts) in enumerate(variants.items()):
        lines = np.array([index for index, text in enumerate(texts) if text is not None])
        for name, numbers in measure(kind, lines).items():
            of_all = columns.setdefault(name, np.full((len(variants), len(texts)), np.nan))
            of_all[row, lines] = numbers
    return Pool(list(variants), columns)


def compare(pool: Pool, share: float, num_labels: int, num_draws: int) -> None:
    """Prints what is released, and how much of it is wrong."""
    kinds = pool.kinds[1:]
    generator = np.random.default_rng(1)

    def try_all(of_labels: Sequence[str], of_all: Sequence[str], risk: float) -> np.ndarray:
        """Returns, for each draw that releases: released, wrong of it, released faults, area."""
        every = np.arange(pool.num_lines)
        columns, planted = pool.draw(every, of_labels, share, generator)
        others, faults = pool.draw(every, of_all, share, generator)
        if of_labels == of_all:
            others, faults = columns, planted
        right, found = faults == 0, []
        for _ in range(num_draws):
            picked = generator.integers(0, pool.num_lines, num_labels)
            labels = {name: of[picked] for name, of in columns.items()}
            estimator, chosen = choose(labels, planted[picked] == 0, risk)
            estimates = estimator.estimate(others)
            if chosen is not None:
                released = estimates >= chosen.at
                wrong, area = (~right[released]).mean(), compute_roc_auc(estimates, right)
                found.append((released.mean(), wrong, released[~right].mean(), area or 0.0))
        return np.array(found).reshape(-1, 4)

    print("\n| risk | draws that release | released | wrong of it | draws over the risk | area |")
    print("|---|---|---|---|---|---|")
    for risk in RISKS:
        found = try_all(kinds, kinds, risk)
        means = found.mean(axis=0) if len(found) else np.zeros(4)
        print(
            f"| {risk:.0%} | {len(found) / num_draws:.0%} | {means[0]:.1%} | {means[1]:.2%} | "
            f"{(found[:, 1] > risk).sum()} | {means[3]:.3f} |",
            flush=True,
        )
    risk = RISKS[2]
    print(f"\nOne kind alone in what is translated, at a risk of {risk:.0%}:\n")
    print("| kind | lines | without it in the labels: released of it | wrong of all | draws over | "
          "with all kinds in them: released of it | wrong of all | draws over |")  # fmt: skip
    print("|---" * 8 + "|")
    for kind in kinds:
        cells = []
        for of_labels in ([each for each in kinds if each != kind], kinds):
            found = try_all(of_labels, [kind], risk)
            means = found.mean(axis=0) if len(found) else np.zeros(4)
            cells.append(
                f"{means[2]:.1%} | {means[1]:.2%} | {(found[:, 1] > risk).sum()} of {len(found)}"
            )
        row = pool.kinds.index(kind)
        lines = (~np.isnan(next(iter(pool.columns.values()))[row])).sum()
        print(f"| {kind} | {lines:,} | {' | '.join(cells)} |", flush=True)


def measure_systems(folder: Path) -> Pool:
    """Returns features of systems' outputs, a random system's for each line."""
    systems = [read(path) for path in sorted(folder.glob("newstest2017.*.gz"))]
    generator, rows = random.Random(1), [*zip(*systems, strict=True)]
    chosen = [generator.randrange(len(systems)) for _ in rows]
    own = [row[which] for row, which in zip(rows, chosen, strict=True)]
    variants = plant([""] * len(rows), own)

    def measure(kind: str, lines: np.ndarray) -> Columns:
        agreements, ratios = [], []
        for line in lines:
            row, text = rows[line], variants[kind][line] or ""
            others = [*row[: chosen[line]], *row[chosen[line] + 1 :]]
            weights = [0, *[1] * len(others)]
            agreements.append(measure_utilities([text, *others], weights, "chrf")[0])
            mean = np.mean([len(each) for each in others])
            ratios.append(np.log((len(text) + 15) / (mean + 15)))
        lengths = np.array(ratios)
        return {
            "agreement": np.array(agreements),
            "length": lengths,
            "length squared": lengths**2,
        }

    return fill(variants, measure)


def measure_model(options: argparse.Namespace) -> Pool:
    """Returns features of a model's translations, or of other hypotheses."""
    sources = [line for path in options.sources for line in read(path)]
    translator = Translator(options.model, device="cpu", warns=False)
    hypotheses = [line for path in options.hypotheses or () for line in read(path)]
    variants = plant(sources, hypotheses or translator.translate(sources))
    pipeline = open_translator([options.model], device="cpu")
    quality = Quality(path=Path("unused"), reverse=options.reverse, samples=options.samples)
    measures = open_measures(pipeline, quality, "cpu")

    def measure(kind: str, lines: np.ndarray) -> Columns:
        pairs = [Request(sources[line], prefix=variants[kind][line] or "") for line in lines]
        columns: dict[str, list[float]] = {}
        for first in range(0, len(pairs), 1_024):
            for name, numbers in measure_pairs(measures, pairs[first : first + 1_024]).items():
                columns.setdefault(name, []).extend(numbers)
        return {name: np.array(numbers) for name, numbers in columns.items()}

    return fill(variants, measure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("sources", nargs="*", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--reverse", type=Path)
    parser.add_argument("--hypotheses", nargs="*", type=Path)
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
        pool = measure_systems(options.systems)
    else:
        pool = measure_model(options)
    print(
        f"{pool.num_lines:,} lines, {options.share:.0%} get a fault; {options.labels:,} labels in "
        f"each of {options.draws:,} draws; features: {', '.join(pool.columns)}"
    )
    compare(pool, options.share, options.labels, options.draws)


if __name__ == "__main__":
    main()
