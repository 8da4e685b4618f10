r"""Times mtkit's COMET and unbabel-comet's at XLM-R-large's shape, both in fp32, in one run.

    python -m venv comet && comet/bin/pip install unbabel-comet
    python benchmarks/comet_speed.py FOLDER --python comet/bin/python --source FILE \
        --hypothesis FILE --reference FILE [--lines 200] [--rounds 3] [--kind regression|kiwi]

Weights are random (1.3 GB in FOLDER, twice); the tokenizer is learned from the three files, and the
embedding has a row for each of its pieces. Both sides load once per round, score a few rows to warm
up, then all, alternately; the table has medians of sentences per second, and the largest difference
of their scores.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from comet_parity import write_encoder, write_metric

LARGE = (1024, 24, 16, 4096, 514)


def read_rows(options: argparse.Namespace) -> list[dict[str, str]]:
    """Returns the first lines of the three files."""
    paths = (options.source, options.hypothesis, options.reference)
    columns = [path.read_text("utf-8").split("\n")[: options.lines] for path in paths]
    return [dict(zip(("src", "mt", "ref"), row, strict=True)) for row in zip(*columns, strict=True)]


def write(options: argparse.Namespace) -> None:
    """Writes the published folder, with unbabel-comet."""
    lines = [text for row in read_rows(options) for text in row.values() if text]
    encoder = options.folder / "published" / "encoder"
    write_encoder(encoder, LARGE, lines, num_pieces=2_000)
    write_metric(options.folder / "published", options.kind, hidden_sizes=[3072, 1024])


def time_theirs(options: argparse.Namespace) -> tuple[float, list[float]]:
    """Returns the seconds and scores of unbabel-comet."""
    from comet.models import load_from_checkpoint  # noqa: PLC0415

    rows, path = read_rows(options), options.folder / "published" / "checkpoints" / "model.ckpt"
    metric = load_from_checkpoint(str(path), local_files_only=True)
    metric.predict(rows[:16], gpus=0, progress_bar=False)
    began_at = time.monotonic()
    scores = metric.predict(rows, gpus=0, progress_bar=False).scores
    return time.monotonic() - began_at, scores


def time_ours(options: argparse.Namespace) -> tuple[float, list[float]]:
    """Returns the seconds and scores of mtkit."""
    from mtkit.inference.learned_metric import open_metric  # noqa: PLC0415

    rows = [(row["src"], row["mt"], row["ref"]) for row in read_rows(options)]
    metric = open_metric(str(options.folder / "imported"), "fp32", "cpu")
    metric.score(rows[:16])
    began_at = time.monotonic()
    scores = metric.score(rows).tolist()
    return time.monotonic() - began_at, scores


def compare(options: argparse.Namespace) -> None:
    def run(python: str, job: str) -> str:
        command = [python, *sys.argv, "--job", job]
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return ended.stdout.splitlines()[-1] if ended.stdout else ""

    from mtkit.pipeline.import_model import import_model  # noqa: PLC0415

    published, imported = options.folder / "published", options.folder / "imported"
    if not published.exists():
        run(options.python, "write")
    if not imported.exists():
        import_model(str(published), imported, encoder=str(published / "encoder"))
    found: dict[str, list[tuple[float, list[float]]]] = {"unbabel-comet": [], "mtkit": []}
    for _ in range(options.rounds):
        found["unbabel-comet"].append(json.loads(run(options.python, "theirs")))
        found["mtkit"].append(json.loads(run(sys.executable, "ours")))
    print("| | sentences per second |\n|---|---:|")
    for name, rounds in found.items():
        speeds = [len(scores) / seconds for seconds, scores in rounds]
        print(f"| {name} | {statistics.median(speeds):.2f} |")
    pairs = zip(found["unbabel-comet"][0][1], found["mtkit"][0][1], strict=True)
    print(f"largest difference: {max(abs(one - other) for one, other in pairs):.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for name in ("source", "hypothesis", "reference"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kind", default="regression", choices=("regression", "kiwi"))
    parser.add_argument("--job", choices=("write", "theirs", "ours"))
    options = parser.parse_args()
    match options.job:
        case "write":
            write(options)
        case "theirs":
            print("\n" + json.dumps(time_theirs(options)))
        case "ours":
            print("\n" + json.dumps(time_ours(options)))
        case _:
            compare(options)


if __name__ == "__main__":
    main()
