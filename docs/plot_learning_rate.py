"""Draws docs/images/learning-rate.png: the paper's formula and the rates that mtkit trained with.

    python docs/plot_learning_rate.py METRICS [RECIPE [KEY=VALUE ...]]

METRICS is the `metrics.jsonl` of a run of RECIPE (`mixed-en-de-small` where not given), whose
schedule must be the paper's; each KEY=VALUE is as for `--set`.
"""

import json
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

from mtkit.recipe import Recipe, load_recipe
from mtkit.recipe.training import PaperSchedule
from mtkit.training.schedule import learning_rate

mpl.use("agg")
from matplotlib import pyplot as plt

PICTURE = Path(__file__).parent / "images" / "learning-rate.png"
_NUM_DOTS = 24


def formula(steps: NDArray[np.float64], d_model: int, warmup_steps: int) -> NDArray[np.float64]:
    """Returns equation 3 of arXiv 1706.03762."""
    slope = np.minimum(steps**-0.5, steps * warmup_steps**-1.5)
    return np.asarray(d_model**-0.5 * slope)


def read_rates(path: Path) -> tuple[list[int], list[float]]:
    """Returns steps and rates of the updates that a run logged."""
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    logged = [line for line in lines if line["kind"] == "train"]
    return [line["step"] for line in logged], [line["learning_rate"] for line in logged]


def scheduled(recipe: Recipe) -> tuple[list[int], list[float]]:
    """Returns some steps of a recipe's training, and what its schedule gives for them."""
    last = recipe.training.max_steps
    steps = np.unique(np.geomspace(1, last, _NUM_DOTS).astype(int)).tolist()
    d_model, schedule = recipe.model.d_model, recipe.training.schedule
    return steps, [learning_rate(schedule, s, d_model=d_model, max_steps=last) for s in steps]


def warmup_of(recipe: Recipe) -> int:
    """Returns the steps of warm-up of a recipe with the paper's schedule."""
    schedule = recipe.training.schedule
    assert isinstance(schedule, PaperSchedule)
    return schedule.warmup_steps


def main() -> None:
    """Draws the picture."""
    metrics, name, *overrides = [*sys.argv[1:], "mixed-en-de-small"][: max(2, len(sys.argv) - 1)]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for title, color in (("wmt14-en-de-base", "tab:blue"), ("wmt14-en-de-big", "tab:orange")):
        recipe = load_recipe(title)
        every = np.arange(1, recipe.training.max_steps + 1, dtype=float)
        d_model, warmup_steps = recipe.model.d_model, warmup_of(recipe)
        left.plot(every, formula(every, d_model, warmup_steps), color=color, linewidth=1)
        left.plot(*scheduled(recipe), "o", color=color, markersize=4, label=title)
    left.set(xscale="log", yscale="log", title="Schedules of the recipes")
    recipe = load_recipe(name, overrides)
    steps, rates = read_rates(Path(metrics))
    every = np.arange(1, max(steps) + 1, dtype=float)
    d_model, warmup_steps = recipe.model.d_model, warmup_of(recipe)
    right.plot(every, formula(every, d_model, warmup_steps), color="tab:blue", linewidth=1)
    shown = slice(None, None, max(1, len(steps) // _NUM_DOTS))
    right.plot(steps[shown], rates[shown], "o", color="tab:blue", markersize=4, label=name)
    right.set(title="Rates that a training logged")
    farthest = max(
        abs(rate / wanted - 1)
        for rate, wanted in zip(
            rates, formula(np.array(steps, dtype=float), d_model, warmup_steps), strict=True
        )
    )
    for axes in (left, right):
        axes.set(xlabel="step", ylabel="learning rate")
        axes.grid(alpha=0.3)
        axes.legend()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)
    print(f"{PICTURE}: {len(steps)} logged rates, off by at most {farthest:.1g} of the formula's")


if __name__ == "__main__":
    main()
