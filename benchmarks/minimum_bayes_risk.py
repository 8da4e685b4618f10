"""What minimum Bayes risk costs and chooses, from candidates that `mtkit translate` found.

    mtkit translate --json --set inference.n_best=32 --set inference.sampling.epsilon=0.02 \
        < SOURCE > CANDIDATES
    python benchmarks/minimum_bayes_risk.py CANDIDATES [--reference FILE] [--environments E]

CANDIDATES is what the first command prints. The second prints milliseconds of CPU time per line by
metric and kind of utility, the share of lines with the choice of exact utilities, and with
`--reference` BLEU and chrF of the choices, compared with those of the most probable candidates.

With `--environments`, made by `peers/make_environments.sh E fastchrf mbrs`, it also prints times of
fastchrf, the package of reference aggregation's authors (arXiv 2402.04251), and of mbrs, and how
far their utilities and choices differ.
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
_PEERS = {
    "fastchrf": """
import json, sys, time
from fastchrf import aggregate_chrf, pairwise_chrf
lists, found = json.load(sys.stdin), {}
for name, function in (("chrf exact", pairwise_chrf), ("chrf aggregated", aggregate_chrf)):
    started_at = time.process_time()
    scores = function(lists, lists)
    seconds = time.process_time() - started_at
    if name == "chrf exact":
        scores = [[sum(row) / len(row) for row in of_line] for of_line in scores]
    found[name] = [scores, seconds]
print(json.dumps(found))
""",
    # The package imports its learned metrics, which need older versions of their own packages.
    "mbrs": """
import importlib, importlib.util, json, os, sys, time, types
metrics = types.ModuleType("mbrs.metrics")
root = os.path.dirname(importlib.util.find_spec("mbrs").origin)
metrics.__path__ = [os.path.join(root, "metrics")]
sys.modules["mbrs.metrics"] = metrics
base = importlib.import_module("mbrs.metrics.base")
metrics.Metric, metrics.MetricAggregatable = base.Metric, base.MetricAggregatable
metrics.register = lambda name: lambda kind: kind
chrf, bleu = (importlib.import_module("mbrs.metrics." + name) for name in ("chrf", "bleu"))
chrf = chrf.MetricChrF(chrf.MetricChrF.Config())
bleu = bleu.MetricBLEU(bleu.MetricBLEU.Config(effective_order=True, num_workers=1))
lists, found = json.load(sys.stdin), {}
for name, function in (
    ("chrf exact", chrf.expected_scores),
    ("chrf aggregated", chrf.expected_scores_reference_aggregation),
    ("bleu exact", bleu.expected_scores),
):
    started_at = time.process_time()
    scores = [function(texts, texts).tolist() for texts in lists]
    found[name] = [scores, time.process_time() - started_at]
print(json.dumps(found))
""",
}


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
    for peer in _PEERS if options.environments is not None else ():
        python = options.environments / peer / "bin" / "python"
        if python.exists():
            compare(found, peer, python)


def describe_scores(chosen: Sequence[Hypothesis], references: list[str]) -> str:
    evaluation = Evaluation(metrics=("bleu", "chrf"))
    scores = score_corpus([each.text for each in chosen], [references], evaluation)
    return ", ".join(f"{each.name} {each.value:.2f}" for each in scores)


def compare(found: Sequence[Sequence[Hypothesis]], peer: str, python: Path) -> None:
    """Prints a peer's time, and how far its utilities and its choices differ."""
    texts = [[each.text for each in of_line] for of_line in found]
    done = subprocess.run(
        [python, "-c", _PEERS[peer]],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
    )
    for name, (scores, seconds) in json.loads(done.stdout).items():
        metric, kind = name.split()
        settings = Rerank(metric=metric, **KINDS[kind])
        greatest, num_same = 0.0, 0
        for of_line, theirs in zip(found, scores, strict=True):
            ours = Ranker().rank(of_line, settings, len(of_line))
            utility_of = dict(zip([each.text for each in of_line], theirs, strict=True))
            differences = [abs(utility_of[each.text] - (each.utility or 0.0)) for each in ours]
            greatest = max(greatest, *differences)
            # Equal utilities may be ordered by rounding.
            num_same += utility_of[ours[0].text] >= max(theirs) - 1e-4
        milliseconds = 1e3 * seconds / len(found)
        print(
            f"{peer}, {name}: {milliseconds:.2f} ms, greatest difference {greatest:.1e}, "
            f"{100 * num_same / len(found):.1f}% of choices the same"
        )


if __name__ == "__main__":
    main()
