"""Compares training speed with other toolkits': real target tokens per second, alternately.

On the pieces of a prepared workspace, mtkit and each peer train the same model for some updates of
the same size, each in its own process, one after the other, for `--rounds` rounds. Between the
rounds it measures the machine's matrix-product peak. The peers' environments are made by
`benchmarks/peers/make_environments.sh`; each peer's settings are in its worker, in the same folder.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from peers.exported import export
from peers.machine import describe_machine, print_machine, run_worker
from peers.operations import count_operations

from mtkit.cpus import count_cpus
from mtkit.errors import MtkitError
from mtkit.recipe import load_recipe
from mtkit.training.distributed import ProcessGroup
from mtkit.training.precision import resolve_precision

PEERS = Path(__file__).parent / "peers"
MODELS = {
    "tiny": (4, 128, 256, 4),
    "base": (6, 512, 2048, 8),
    "big": (6, 1024, 4096, 16),
}
"""Layers of encoder and of decoder, d_model, d_ff, heads."""
NAMES = {
    "mtkit": "mtkit",
    "onmt": "OpenNMT-py",
    "joeynmt": "JoeyNMT",
    "marian": "MarianMT, Seq2SeqTrainer",
    "plain": "nn.Transformer, plain loop",
}
MIXED = {
    "mtkit": {"cpu": "bf16", "cuda": "bf16"},
    "onmt": {"cuda": "fp16"},
    "joeynmt": {"cuda": "fp16"},
    "marian": {"cpu": "bf16", "cuda": "bf16"},
    "plain": {"cpu": "bf16", "cuda": "bf16"},
}
"""Which 16-bit arithmetic each has, by device; all others compute in fp32."""


@dataclass
class System:
    """A toolkit in one precision, and what was measured of it.

    Attributes:
        name: A key of `NAMES`.
        precision: Arithmetic of its products.
        num_processes: How many share each update.
        rounds: What its worker printed in each round; None where it failed.
    """

    name: str
    precision: str
    num_processes: int = 1
    rounds: list[dict[str, Any] | None] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Name, precision and processes, as the table has them."""
        shared = f", {self.num_processes} processes" if self.num_processes > 1 else ""
        return f"{NAMES[self.name]}, {self.precision}{shared}"


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe")
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    parser.add_argument("--model", choices=[*MODELS, "recipe"], default="recipe")
    parser.add_argument("--peers", help="onmt,joeynmt,marian,plain; all of them with environments")
    parser.add_argument("--environments", type=Path, help="as make_environments.sh made them")
    parser.add_argument(
        "--precision",
        default="default",
        help="default (each system's own), fp32, mixed (16 bits, where a system has it on the "
        "device); more than one by commas",
    )
    parser.add_argument("--reference", choices=NAMES, default="onmt", help="what ratios are to")
    parser.add_argument(
        "--processes", type=int, default=1, help="mtkit also in this many, on a CPU"
    )
    parser.add_argument(
        "--neighbours", type=int, default=0, help="processes that keep a core busy meanwhile"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=10, help="updates before those measured")
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--batch-tokens", type=int, default=4096, help="a side and update")
    parser.add_argument("--pairs", type=int, default=200_000, help="for the peers, at most")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=0, help="0 leaves them to each system")
    parser.add_argument("--time-limit", type=float, default=1800.0, help="seconds of one run")
    parser.add_argument("--profile", action="store_true", help="of mtkit, by section and operator")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def plan_task(options: argparse.Namespace, data: Path) -> dict[str, Any]:
    """Returns all workers' settings.

    Raises:
        MtkitError: The recipe can't be read, or the workspace isn't prepared.
    """
    overrides = [
        f"training.batch_tokens={options.batch_tokens}",
        "training.micro_batch_tokens=auto",
        "training.label_smoothing=0.1",
        "~training.start_from",
    ]
    if options.model != "recipe":
        layers, d_model, d_ff, heads = MODELS[options.model]
        overrides.append(
            f"model={{num_encoder_layers={layers}, num_decoder_layers={layers}, d_model={d_model}, "
            f'd_ff={d_ff}, num_heads={heads}, norm="pre", dropout=0.1}}'
        )
    overrides += options.overrides
    recipe = load_recipe(options.recipe, overrides)
    if recipe.tokenizer.sampling is not None:
        raise MtkitError("the peers can't sample segmentations (tokenizer.sampling)")
    exported = export(options.workspace, data, options.pairs)
    device = torch.device(options.device)
    return {
        "recipe": options.recipe,
        "workspace": str(options.workspace),
        "overrides": overrides,
        "data": str(data),
        **exported,
        "model": recipe.model.model_dump(mode="json"),
        "batch_tokens": recipe.training.batch_tokens,
        "label_smoothing": recipe.training.label_smoothing,
        "mtkit_precision": resolve_precision(recipe.training.precision, ProcessGroup(0, 1, device)),
        "seed": recipe.seed,
        "warm_up": options.warm_up,
        "updates": options.updates,
        "device": options.device,
        "threads": options.threads,
    }


def check_model(model: dict[str, Any]) -> None:
    """Makes sure that the peers can have the recipe's model.

    Raises:
        MtkitError: They can't.
    """
    wanted = {
        "activation": "relu",
        "positions": "sinusoidal",
        "tied_embeddings": "three-way",
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "d_key": model["d_model"] // model["num_heads"],
        "d_value": model["d_model"] // model["num_heads"],
    }
    for key, value in wanted.items():
        if model[key] != value:
            raise MtkitError(
                f"not every peer knows model.{key} = {model[key]}",
                f"--model tiny, base or big; or --set model.{key}={value}",
            )


def plan_systems(options: argparse.Namespace, task: dict[str, Any]) -> list[System]:
    """Returns what is to be measured, each system once in each precision that it has.

    Raises:
        MtkitError: No such peer or precision, or a peer without an environment.
    """
    peers = "plain" if options.environments is None else ",".join([*NAMES][1:])
    names = ["mtkit", *(peers if options.peers is None else options.peers).split(",")]
    systems: dict[str, System] = {}
    for name in filter(None, names):
        if name not in NAMES:
            raise MtkitError(f"no such peer: {name}", f"there are {', '.join([*NAMES][1:])}")
        python_of(name, options.environments)
        own = task["mtkit_precision"] if name == "mtkit" else "fp32"
        choices = {"default": own, "fp32": "fp32", "mixed": MIXED[name].get(options.device)}
        for choice in options.precision.split(","):
            if choice not in choices:
                raise MtkitError(f"no such precision: {choice}", f"there are {', '.join(choices)}")
            precision = choices[choice]
            if precision is None:
                continue
            counts = {1, options.processes} if name == "mtkit" else {1}
            for system in [System(name, precision, count) for count in sorted(counts)]:
                systems.setdefault(system.label, system)
    return list(systems.values())


def python_of(name: str, environments: Path | None) -> str:
    """Returns the interpreter that a system runs with; plain needs nothing that mtkit hasn't.

    Raises:
        MtkitError: It needs an environment, and none is named.
    """
    if name in ("mtkit", "plain"):
        return sys.executable
    if environments is None:
        raise MtkitError(
            f"{NAMES[name]} needs an environment of its own",
            "make it with benchmarks/peers/make_environments.sh, and name the folder with "
            "--environments",
        )
    return str(environments.absolute() / name / "bin" / "python")


def run(
    command: list[str],
    options: argparse.Namespace,
    *,
    num_processes: int = 1,
    is_tool: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Returns what a worker printed; several that train together, one after the other."""
    threads = options.threads
    if num_processes > 1:
        threads = max(1, (threads or count_cpus()) // num_processes)
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
        command = [command[0], *torchrun, str(num_processes), *command[1:]]
    return run_worker(
        command,
        threads=threads,
        time_limit=options.time_limit,
        device=options.device,
        is_tool=is_tool,
    )


def measure(
    system: System, task: dict[str, Any], options: argparse.Namespace, folder: Path
) -> dict[str, Any] | None:
    """Returns what a system's worker measured; None, and says why, where it failed."""
    threads = -(-options.threads // system.num_processes)
    given = {**task, "precision": system.precision, "threads": threads}
    if system.name == "mtkit":
        given["overrides"] = [*task["overrides"], f"training.precision={system.precision}"]
    path = folder / "task.json"
    path.write_text(json.dumps(given), "utf-8")
    worker = PEERS / f"{system.name}_worker.py"
    command = [python_of(system.name, options.environments), str(worker), str(path)]
    with neighbours(options.neighbours):
        done = run(command, options, num_processes=system.num_processes)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"target_tokens"')]
    if not lines:
        print(f"{system.label}: failed ({done.returncode})", file=sys.stderr)
        print("\n".join(done.stderr.splitlines()[-15:]), file=sys.stderr)
        return None
    measured: dict[str, Any] = json.loads(lines[-1])
    measured["peak_bytes"] = sum(json.loads(line)["peak_bytes"] for line in lines)
    return measured


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Keeps so many cores busy with other programs while the block runs."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def measure_peak(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Returns the best rate of a matrix product by precision."""
    worker = PEERS / "peak.py"
    done = run([sys.executable, str(worker), options.device, str(options.threads)], options)
    if done.returncode:
        raise MtkitError(f"the matrix products failed:\n{done.stderr}")
    peaks: dict[str, dict[str, float]] = json.loads(done.stdout)
    return peaks


def speed(measured: dict[str, Any]) -> float:
    """Returns real target tokens per second."""
    return float(measured["target_tokens"] / measured["seconds"])


def shares(
    system: System, task: dict[str, Any], peaks: list[dict[str, dict[str, float]]]
) -> tuple[float, float]:
    """Returns the share of the peak that a system's products reach, without and with attention's.

    A round's peak is the better one of those before and after it, in the system's own width.
    """
    width = "fp32" if system.precision == "fp32" else "bf16"
    without, together = [], []
    for number, measured in enumerate(system.rounds):
        if measured is not None:
            around = peaks[number : number + 2]
            peak = max(one[width]["operations_per_second"] for one in around)
            operations = count_operations(task["model"], task["vocab_size"], measured)
            possible = peak * measured["seconds"]
            without.append(operations.products / possible)
            together.append((operations.products + operations.attention) / possible)
    return statistics.median(without), statistics.median(together)


def ratio(system: System, reference: System | None) -> float | None:
    """Returns the median over rounds of the speed over the reference's of the same round."""
    if reference is None:
        return None
    ratios = [
        speed(ours) / speed(theirs)
        for ours, theirs in zip(system.rounds, reference.rounds, strict=True)
        if ours is not None and theirs is not None
    ]
    return statistics.median(ratios) if ratios else None


def summarize(
    systems: list[System],
    task: dict[str, Any],
    peaks: list[dict[str, dict[str, float]]],
    reference_name: str,
) -> list[dict[str, Any]]:
    """Returns a row of the table for each system that ran."""
    found = [s for s in systems if s.name == reference_name and any(s.rounds)]
    reference = found[0] if found else None
    rows = []
    for system in systems:
        rounds = [measured for measured in system.rounds if measured is not None]
        if not rounds:
            continue
        speeds = [speed(measured) for measured in rounds]
        without, together = shares(system, task, peaks)
        last = rounds[-1]
        num_tokens = sum(one["source_tokens"] + one["target_tokens"] for one in rounds)
        rows.append(
            {
                "system": system.label,
                "tokens_per_second": statistics.median(speeds),
                "min": min(speeds),
                "max": max(speeds),
                "ratio": ratio(system, reference),
                "tokens_an_update": last["target_tokens"] / last["updates"],
                "padding": 1 - num_tokens / sum(one["slots"] for one in rounds),
                "peak_bytes": max(one["peak_bytes"] for one in rounds),
                "share": without,
                "share_with_attention": together,
                "rounds": len(rounds),
                "threads": last["threads"],
                "versions": last["versions"],
            }
        )
    return rows


def print_table(rows: list[dict[str, Any]], reference_name: str, num_rounds: int) -> None:
    print(
        f"\n| system | target tokens/s, median of {num_rounds} | min to max | ratio to "
        f"{NAMES[reference_name]} | target tokens an update | padding | peak memory | share of "
        "peak | with attention's products |\n|---|---|---|---|---|---|---|---|---|"
    )
    for row in rows:
        times = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        print(
            f"| {row['system']} | {row['tokens_per_second']:,.0f} | {row['min']:,.0f} to "
            f"{row['max']:,.0f} | {times} | {row['tokens_an_update']:,.0f} | "
            f"{100 * row['padding']:.1f} % | {row['peak_bytes'] / 2**20:,.0f} MiB | "
            f"{100 * row['share']:.1f} % | {100 * row['share_with_attention']:.1f} % |"
        )
    print()
    for row in rows:
        versions = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
        short = "" if row["rounds"] == num_rounds else f"; {row['rounds']} of {num_rounds} rounds"
        print(f"* {row['system']}: {row['threads']} threads a process, {versions}{short}")


def print_head(machine: dict[str, Any], task: dict[str, Any], options: argparse.Namespace) -> None:
    print_machine(machine, options.device)
    model = task["model"]
    print(
        f"model: {model['num_encoder_layers']}+{model['num_decoder_layers']} layers, "
        f"{model['d_model']}, {model['d_ff']}, {model['num_heads']} heads, {model['norm']}-norm, "
        f"{task['vocab_size']:,} pieces; {task['batch_tokens']:,} tokens a side and update; "
        f"{task['updates']} updates after {task['warm_up']}; {options.neighbours} busy neighbours"
    )


def print_peaks(peaks: list[dict[str, dict[str, float]]]) -> None:
    for width in peaks[0]:
        rates = [one[width]["operations_per_second"] / 1e12 for one in peaks]
        sizes = sorted({int(one[width]["size"]) for one in peaks})
        print(
            f"* largest rate of a {width} product: {min(rates):.4g} to {max(rates):.4g} TFLOP/s, "
            f"sizes {sizes}"
        )


def measure_rounds(
    systems: list[System], task: dict[str, Any], options: argparse.Namespace, folder: Path
) -> list[dict[str, dict[str, float]]]:
    """Stores every system's rounds in it; returns the peaks before, between and after them."""
    peaks = [measure_peak(options)]
    for number in range(1, options.rounds + 1):
        for system in systems:
            measured = measure(system, task, options, folder)
            system.rounds.append(measured)
            if measured is not None:
                report = f"{speed(measured):,.0f} target tokens/s"
                print(f"round {number}: {system.label}: {report}", file=sys.stderr)
        peaks.append(measure_peak(options))
    return peaks


def main() -> None:
    options = parse_options()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        task = plan_task(options, folder)
        if options.profile:
            path = folder / "task.json"
            path.write_text(json.dumps(task), "utf-8")
            worker = PEERS / "mtkit_profile.py"
            sys.exit(
                run([sys.executable, str(worker), str(path)], options, is_tool=True).returncode
            )
        systems = plan_systems(options, task)
        if len({system.name for system in systems}) > 1:
            check_model(task["model"])
        machine = describe_machine(options.device)
        print_head(machine, task, options)
        peaks = measure_rounds(systems, task, options, folder)
    rows = summarize(systems, task, peaks, options.reference)
    print_table(rows, options.reference, options.rounds)
    print_peaks(peaks)
    if options.json is not None:
        raw = {system.label: system.rounds for system in systems}
        report = {"machine": machine, "task": task, "rows": rows, "peaks": peaks, "rounds": raw}
        options.json.write_text(json.dumps(report, indent=2), "utf-8")


if __name__ == "__main__":
    try:
        main()
    except MtkitError as error:
        sys.exit(f"error: {error.message}\nhint: {error.hint}")
