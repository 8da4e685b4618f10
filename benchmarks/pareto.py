"""Quality by speed: engines, precisions, beams, and deep encoders with few decoders.

    python benchmarks/pareto.py train DATA WORK [--minutes 10]
    python benchmarks/pareto.py measure DATA WORK [--rounds 3] [--threads 1] [--test PATH]
    python benchmarks/pareto.py draw WORK [--picture FILE] [--name "Multi30k test2016"]

DATA holds `multi30k`; `--test` names another test set in it, without `.en.gz`. `train`: networks
of `multi30k-en-de` by their encoder's and decoder's layers (arXiv 2006.10369), each for the same
time in one thread; it measures the time of an update first, while nothing else should run.
`measure`: translate_speed.py for each WORK/NAME/model,
such as a teacher's and its students', each beam in a run of its own. `draw`: the table, by speed,
with the Pareto-optimal ones marked, and a plot.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from text_runs import Run

SHAPES = ((6, 6), (6, 2), (6, 1), (12, 1), (4, 4))
"""Layers of encoder and decoder."""
COLORS = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#7f7f7f"
PROBED_UPDATES = 20, 80
"""Updates between which the time of one is measured; the second ends a short training."""
SEARCHES = {"beam 1": "1", "beam 4": "4"}
"""The beam of each run of translate_speed.py."""


def configure(data: Path, workspace: Path, shape: tuple[int, int], steps: int) -> Run:
    return Run(
        workspace,
        "multi30k-en-de",
        (
            f"data.data_root={data.absolute() / 'multi30k'}",
            f"model.num_encoder_layers={shape[0]}",
            f"model.num_decoder_layers={shape[1]}",
            f"training.max_steps={steps}",
            f"training.checkpoint_every={steps}",
            "training.schedule.warmup_steps=200",
            "training.averaging={choose='last', num_checkpoints=1}",
            "training.processes=1",
        ),
    )


def time_update(data: Path, folder: Path, shape: tuple[int, int]) -> float:
    """Returns the seconds that an update takes, by the log of a short training."""
    first, last = PROBED_UPDATES
    run = configure(data, folder / f"{shape[0]}+{shape[1]}", shape, last)
    for name in ("prepare", "train"):
        command = [sys.executable, "-m", "mtkit", name, "--recipe", run.recipe]
        command += ["--workspace", str(run.workspace), "--set", f"training.log_every={first}"]
        for override in run.overrides:
            command += ["--set", override.replace("warmup_steps=200", "warmup_steps=10")]
        subprocess.run(command, check=True, capture_output=True)
    lines = (run.workspace / "metrics.jsonl").read_text("utf-8").splitlines()
    logged = {
        line["step"]: line["elapsed_seconds"]
        for line in map(json.loads, lines)
        if line["kind"] == "train"
    }
    return float(logged[last] - logged[first]) / (last - first)


def train(options: argparse.Namespace) -> None:
    work: Path = options.work
    work.mkdir(parents=True, exist_ok=True)
    steps_file = work / "steps.json"
    if not steps_file.is_file():
        times = {shape: time_update(options.data, work / "probes", shape) for shape in SHAPES}
        print({f"{shape}": round(seconds, 3) for shape, seconds in times.items()}, file=sys.stderr)
        steps = {
            f"{encoder}+{decoder}": int(60 * options.minutes / seconds)
            for (encoder, decoder), seconds in times.items()
        }
        steps_file.write_text(json.dumps(steps), "utf-8")
    for (encoder, decoder), steps in zip(
        SHAPES, json.loads(steps_file.read_text("utf-8")).values(), strict=True
    ):
        workspace = work / f"{encoder}+{decoder}"
        configure(options.data, workspace, (encoder, decoder), steps).finish()


def measure(options: argparse.Namespace) -> None:
    work: Path = options.work
    for name, beam in SEARCHES.items():
        slug = "".join(each for each in name if each.isalnum())
        output = work / f"{slug}.json"
        if output.is_file():
            continue
        script = Path(__file__).parent / "translate_speed.py"
        command = [sys.executable, str(script), "--json", str(output), "--beam", beam]
        for model in sorted(work.glob("*/model")):
            command += ["--model", str(model)]
        command += ["--work", str(work / slug), "--measure", "steady"]
        command += ["--rounds", str(options.rounds), "--threads", str(options.threads)]
        for language, option in (("en", "--source"), ("de", "--reference")):
            command += [option, str(options.data.absolute() / f"{options.test}.{language}.gz")]
        command += ["--systems", "mtkit,ctranslate2", "--precision", options.precision]
        subprocess.run(command, check=True)


@dataclass(frozen=True)
class Point:
    """One way of translating: a model, an engine in a precision, and a search."""

    layers: str
    engine: str
    search: str
    speed: float
    bleu: float
    chrf: float
    megabytes: float

    def is_beaten_by(self, other: "Point") -> bool:
        """Whether another is at least as fast and as good, and better in one of both."""
        mine, theirs = (self.speed, self.bleu), (other.speed, other.bleu)
        return theirs != mine and theirs[0] >= mine[0] and theirs[1] >= mine[1]


def read_points(work: Path) -> list[Point]:
    found = []
    for search in SEARCHES:
        slug = "".join(each for each in search if each.isalnum())
        report = json.loads((work / f"{slug}.json").read_text("utf-8"))
        for number, model in enumerate(report["models"], start=1):
            for row in model["rows"]:
                folder = Path(model["name"])
                exported = work / slug / f"model-{number}" / f"export-{row['precision']}"
                found.append(
                    Point(
                        folder.parent.name,
                        row["contestant"],
                        search,
                        row["steady"]["sentences_per_second"],
                        row["bleu"],
                        row["chrf"],
                        measure_weights(exported if exported.is_dir() else folder) / 1e6,
                    )
                )
    return sorted(found, key=lambda point: -point.speed)


def measure_weights(folder: Path) -> int:
    """Returns the bytes of a model's weights."""
    names = ("model.safetensors", "ctranslate2/model.bin")
    return sum((folder / name).stat().st_size for name in names if (folder / name).is_file())


def list_front(points: Iterable[Point]) -> list[Point]:
    """Returns the Pareto-optimal ones, the fastest first."""
    given = list(points)
    return [one for one in given if not any(one.is_beaten_by(other) for other in given)]


def draw(options: argparse.Namespace) -> None:
    points = read_points(options.work)
    front = list_front(points)
    print("| layers | engine | search | sentences/s | BLEU | chrF2 | weights, MB | |")
    print("|---|---|---|---|---|---|---|---|")
    for point in points:
        cells = [point.layers, point.engine, point.search, f"{point.speed:,.0f}"]
        cells += [f"{point.bleu:.2f}", f"{point.chrf:.2f}", f"{point.megabytes:.1f}"]
        print(f"| {' | '.join(cells)} | {'unbeaten' if point in front else ''} |")
    if options.picture is not None:
        draw_picture(points, front, options)


def draw_picture(points: list[Point], front: list[Point], options: argparse.Namespace) -> None:
    # Not needed by the other commands.
    from matplotlib.figure import Figure  # noqa: PLC0415

    names = list(dict.fromkeys(point.layers for point in points))
    colors = dict(zip(names, cycle(COLORS), strict=False))
    markers = {"fp32": "o", "bf16": "s", "int8": "^", "float32": "o"}
    figure = Figure(figsize=(9, 5.6), dpi=110, layout="constrained")
    axes = figure.add_subplot()
    axes.plot([one.speed for one in front], [one.bleu for one in front], color="#bbbbbb", zorder=1)
    for point in points:
        is_ours = "CTranslate2" not in point.engine
        axes.scatter(
            point.speed,
            point.bleu,
            s=70,
            marker=markers[point.engine.rsplit(" ", 1)[1]],
            facecolors=colors[point.layers] if is_ours else "none",
            edgecolors=colors[point.layers],
            zorder=2,
        )
    for layers, color in colors.items():
        axes.scatter([], [], color=color, label=layers)
    for name, marker in (("fp32", "o"), ("bf16", "s"), ("int8", "^")):
        axes.scatter([], [], marker=marker, color="black", label=name)
    axes.scatter([], [], facecolors="none", edgecolors="black", label="CTranslate2 (hollow)")
    axes.plot([], [], color="#bbbbbb", label="unbeaten")
    axes.set_xscale("log")
    ticks = [50, 100, 200, 500, 1_000, 2_000, 5_000]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("sentences a second, one thread")
    axes.set_ylabel(f"BLEU, {options.name}")
    axes.grid(visible=True, color="#eeeeee")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.savefig(options.picture)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    for name, command in (("train", train), ("measure", measure), ("draw", draw)):
        each = commands.add_parser(name)
        each.set_defaults(command=command)
        if name != "draw":
            each.add_argument("data", type=Path)
        each.add_argument("work", type=Path)
        match name:
            case "train":
                each.add_argument("--minutes", type=float, default=10.0, help="of each network")
            case "measure":
                each.add_argument("--rounds", type=int, default=3)
                each.add_argument("--threads", type=int, default=1)
                each.add_argument("--test", default="multi30k/test_2016_flickr", help="of DATA")
                each.add_argument("--precision", default="fp32,bf16,int8")
            case _:
                each.add_argument("--picture", type=Path)
                each.add_argument("--name", default="Multi30k test2016", help="of the test set")
    options = parser.parse_args()
    options.command(options)


if __name__ == "__main__":
    main()
