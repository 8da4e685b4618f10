"""How often the intervals of `mtkit score --runs` hold the true difference, on simulated runs.

A sentence's score is the sum of effects of the sentence, of the method on the sentence, of the run,
and of the run on the sentence, all normal with known variances.

    python benchmarks/methods_coverage.py [--repeats 500]
"""

import argparse

import numpy as np

from mtkit.evaluation.methods import compare_methods
from mtkit.evaluation.statistics import Statistics
from mtkit.recipe.evaluation import Significance

SETTINGS = (
    (2, 0.005, 0.2),
    (3, 0.005, 0.2),
    (3, 0.02, 0.1),
    (3, 0.0, 0.3),
    (5, 0.01, 0.2),
    (10, 0.01, 0.1),
)
"""Runs, and the standard deviations of runs and of runs on sentences."""
NUM_SENTENCES, DIFFERENCE = 300, 0.03
SENTENCES, METHODS = 0.2, 0.1
"""Standard deviations of sentences, and of a method on sentences."""


def simulate(
    generator: np.random.Generator, num_runs: int, of_runs: float, of_both: float
) -> dict[str, dict[str, list[Statistics]]]:
    """Returns two methods with their runs."""
    sentences = 0.5 + generator.normal(0.0, SENTENCES, NUM_SENTENCES)
    methods = {}
    for name, mean in (("a", DIFFERENCE), ("b", 0.0)):
        of_method = sentences + mean + generator.normal(0.0, METHODS, NUM_SENTENCES)
        methods[name] = {}
        for index in range(num_runs):
            scores = of_method + generator.normal(0.0, of_runs)
            scores += generator.normal(0.0, of_both, NUM_SENTENCES)
            rows = np.stack([scores, np.ones(NUM_SENTENCES)], axis=1)
            methods[name][f"{name}{index}"] = [Statistics.of("comet", "mean", "", rows)]
    return methods


def main() -> None:
    """Prints a row for each setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=500)
    options = parser.parse_args()
    print("| runs | SD of runs | SD of runs on sentences | difference held | mean held |")
    print("|---:|---:|---:|---:|---:|")
    for num_runs, of_runs, of_both in SETTINGS:
        generator = np.random.default_rng(num_runs)
        held = np.zeros(2)
        for seed in range(options.repeats):
            methods = simulate(generator, num_runs, of_runs, of_both)
            first, second = compare_methods("test", methods, Significance(seed=seed))
            assert first.difference is not None
            for index, (interval, truth) in enumerate(
                ((first.difference.interval, 100 * DIFFERENCE), (second.interval, 50.0))
            ):
                held[index] += interval.low <= truth <= interval.high
        shares = " | ".join(f"{share:.1%}" for share in held / options.repeats)
        print(f"| {num_runs} | {100 * of_runs} | {100 * of_both:.0f} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
