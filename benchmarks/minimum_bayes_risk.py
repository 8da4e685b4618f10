"""What minimum Bayes risk costs and chooses, from candidates that `mtkit translate` found.

    mtkit translate --json --set inference.n_best=32 --set inference.sampling.epsilon=0.02 < SOURCE
    python benchmarks/minimum_bayes_risk.py CANDIDATES [--reference FILE] [--environments E]

CANDIDATES is what the first command prints. The second prints milliseconds of CPU time per line by
metric and kind of utility, the share of lines with the choice of exact utilities, and with
`--reference` BLEU and chrF of the choices, beside those of the most probable candidates.

With `--environments`, made by `peers/make_environments.sh E fastchrf`, it also prints the greatest
difference from fastchrf, the package of reference aggregation's authors (arXiv 2402.04251), and its
time.
"""

import argparse
import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peers.machine import describe_machine

from mtkit.evaluation.scores import score_corpus
from mtkit.inference.rerank import Ranker
from mtkit.inference.translation import Hypothesis, read_translation
from mtkit.recipe.evaluation import Evaluation
from mtkit.recipe.inference import Rerank

KINDS: dict[str, dict[str, Any]] = {
    "exact": {},
    "aggregated": {"aggregate": True},
    "pruned to 8": {"aggregate": True, "prune": 8},
}
_PEER = """
import json, sys, time
from fastchrf import aggregate_chrf, pairwise_chrf
lists, found = json.load(sys.stdin), {}
for name, function in (("exact", pairwise_chrf), ("aggregated", aggregate_chrf)):
    started_at = time.process_time()
    scores = function(lists, lists)
    found[name] = [scores, time.process_time() - started_at]
print(json.dumps(found))
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("candidates", type=Path)
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--environments", type=Path)
    options = parser.parse_args()
    lines = options.candidates.read_text("utf-8").splitlines()
    found = [read_translation(json.loads(line), 1).candidates for line in lines]
    print(describe_machine())
    num_candidates = sum(map(len, found)) / len(found)
    print(f"{len(found):,} lines of {num_candidates:.1f} candidates")
    references = None
    if options.reference is not None:
        references = options.reference.read_text("utf-8").splitlines()
        best = [max(each, key=lambda one: one.log_probability) for each in found]
        print(f"most probable: {describe_scores(best, references)}")
    for metric in ("chrf", "bleu"):
        exact: list[Hypothesis] = []
        for kind, keys in KINDS.items():
            settings = Rerank(metric=metric, **keys)
            Ranker().rank(found[0], settings, 1)
            started_at = time.process_time()
            chosen = [Ranker().rank(each, settings, 1)[0] for each in found]
            milliseconds = 1e3 * (time.process_time() - started_at) / len(found)
            exact = exact or chosen
            same = sum(a.text == b.text for a, b in zip(exact, chosen, strict=True)) / len(found)
            scores = "" if references is None else f", {describe_scores(chosen, references)}"
            print(f"{metric}, {kind}: {milliseconds:.2f} ms, {100 * same:.1f}% as exact{scores}")
    if options.environments is not None:
        compare(found, options.environments / "fastchrf" / "bin" / "python")


def describe_scores(chosen: Sequence[Hypothesis], references: list[str]) -> str:
    evaluation = Evaluation(metrics=("bleu", "chrf"))
    scores = score_corpus([each.text for each in chosen], [references], evaluation)
    return ", ".join(f"{each.name} {each.value:.2f}" for each in scores)


def compare(found: Sequence[Sequence[Hypothesis]], python: Path) -> None:
    texts = [[each.text for each in of_line] for of_line in found]
    done = subprocess.run(
        [python, "-c", _PEER], input=json.dumps(texts), capture_output=True, text=True, check=True
    )
    for kind, (scores, seconds) in json.loads(done.stdout).items():
        greatest = 0.0
        for of_line, theirs in zip(found, scores, strict=True):
            ours = Ranker().rank(of_line, Rerank(**KINDS[kind]), len(of_line))
            means = [sum(row) / len(row) for row in theirs] if kind == "exact" else theirs
            utility_of = dict(zip([each.text for each in of_line], means, strict=True))
            differences = (abs(utility_of[each.text] - (each.utility or 0.0)) for each in ours)
            greatest = max(greatest, *differences)
        milliseconds = 1e3 * seconds / len(found)
        print(f"fastchrf, {kind}: {milliseconds:.2f} ms, greatest difference {greatest:.1e}")


if __name__ == "__main__":
    main()
