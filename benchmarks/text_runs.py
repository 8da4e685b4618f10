"""Runs of `mtkit` that a benchmark needs: done once, scored, put in a table; recipes of text."""

import gzip
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

STEPS = {3_000: 600, 10_000: 1_200, 29_000: 2_000}
"""Updates of translation by the number of pairs."""
DENOISING_STEPS = {"own": 1_000, "mixed": 2_000}
DENOISING = """\
name = "denoising"
objective = "denoising"
[data]
language = "mul"
block_tokens = 256
{corpora}
[data.dev]
text = "{dev}"
documents = "lines"
[tokenizer]
kind = "bpe"
vocab_size = 4000
[model]
num_encoder_layers = 4
num_decoder_layers = 4
d_model = 128
d_ff = 256
num_heads = 4
norm = "pre"
dropout = 0.1
[training]
max_steps = {steps}
batch_tokens = 4096
length_groups = 1
micro_batch_tokens = 4096
label_smoothing = 0.0
checkpoint_every = 500
schedule = {{ kind = "linear", peak = 3e-3, warmup_steps = 400 }}
validation = {{ metric = "loss" }}
averaging = {{ choose = "last", num_checkpoints = 1 }}
"""
LANGUAGE_MODEL = """\
name = "language-model"
objective = "causal-lm"
[data]
language = "de"
block_tokens = 128
{corpora}
[data.dev]
text = "{dev}"
documents = "lines"
[tokenizer]
vocab_size = 4000
pretrained.source = "{vocabulary}"
[model]
num_decoder_layers = 4
d_model = 256
d_ff = 1024
num_heads = 4
norm = "pre"
activation = "gelu_tanh"
positions = "learned"
max_positions = 256
scale_embeddings = false
initial_std = 0.02
dropout = 0.1
[training]
max_steps = {steps}
batch_tokens = 4096
length_groups = 1
micro_batch_tokens = 4096
label_smoothing = 0.0
checkpoint_every = 500
schedule = {{ kind = "cosine", peak = 1e-3, warmup_steps = 200, final = 0.0 }}
validation = {{ metric = "loss" }}
averaging = {{ choose = "last", num_checkpoints = 1 }}
"""


@dataclass(frozen=True)
class Run:
    """A run of `mtkit`.

    Attributes:
        workspace: Its folder.
        recipe: A shipped recipe's name, or a file.
        overrides: For `--set`.
        is_scored: Whether it has test sets; else it is done when there is a model.
    """

    workspace: Path
    recipe: str
    overrides: Sequence[str] = field(default=())
    is_scored: bool = True

    @property
    def is_done(self) -> bool:
        """Whether there is a result."""
        wanted = self.workspace / ("scores.json" if self.is_scored else "model/config.json")
        return wanted.is_file()

    def finish(self) -> None:
        """Finishes it, unless it is done."""
        if self.is_done:
            return
        self.workspace.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "mtkit", "run", "--recipe", self.recipe]
        command += ["--workspace", str(self.workspace)]
        for override in self.overrides:
            command += ["--set", override]
        with Path(f"{self.workspace}.log").open("w", encoding="utf-8") as log:
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            code = subprocess.run(
                command, stdout=log, stderr=log, env=environment, check=False
            ).returncode
        print(f"{self.workspace}: {code or self.read_scores()}", file=sys.stderr)

    def read_scores(self) -> dict[str, float]:
        """Returns the score of each test set and metric; none where it isn't scored."""
        path = self.workspace / "scores.json"
        if not path.is_file():
            return {}
        scores = json.loads(path.read_text("utf-8"))["scores"]
        return {f"{each['test_set']} {each['metric']}": each["value"] for each in scores}

    def read_dev(self) -> list[tuple[int, float]]:
        """Returns development BLEU by step."""
        path = self.workspace / "metrics.jsonl"
        lines = map(json.loads, path.read_text("utf-8").splitlines()) if path.is_file() else ()
        return [
            (line["step"], line["bleu"])
            for line in lines
            if line["kind"] == "dev" and "bleu" in line
        ]


def finish(runs: Iterable[Run], jobs: int) -> None:
    """Runs all that aren't done, `jobs` at a time."""
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(Run.finish, runs))


def describe(values: Sequence[float]) -> str:
    """Returns mean and, of several, standard deviation."""
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}"


def print_rows(rows: dict[str, list[Run]], keys: Sequence[str]) -> None:
    """Prints a table with a line for the runs of each row that are done."""
    print("| | seeds | " + " | ".join(keys) + " | development BLEU by update, first seed |")
    print("|---" * (len(keys) + 3) + "|")
    for name, runs in rows.items():
        found = [run.read_scores() for run in runs if run.is_done]
        if not found:
            continue
        cells = [describe([each[key] for each in found]) for key in keys]
        curve = ", ".join(f"{step:,}: {bleu:.1f}" for step, bleu in runs[0].read_dev())
        print(f"| {name} | {len(found)} | {' | '.join(cells)} | {curve} |")


def translate_captions(
    data: Path, workspace: Path, seed: int, num_pairs: int, *overrides: str
) -> Run:
    """Returns the run of a translator of captions."""
    steps = STEPS[num_pairs]
    return Run(
        workspace,
        "multi30k-en-de",
        (
            f"data.data_root={data.absolute() / 'multi30k'}",
            f"data.train.0.max_pairs={num_pairs}",
            f"seed={seed}",
            f"training.max_steps={steps}",
            "training.batch_tokens=2048",
            f"training.checkpoint_every={steps // 5}",
            "training.averaging.num_checkpoints=2",
            *overrides,
        ),
    )


def write_other_text(data: Path, folder: Path) -> tuple[Path, Path]:
    """Writes the sides of `mixed_en_de` without its Multi30k domain; returns their paths."""
    paths = folder / "other.en.gz", folder / "other.de.gz"
    if not paths[1].is_file():
        folder.mkdir(parents=True, exist_ok=True)
        mixed = data / "mixed_en_de"
        domains = read_lines(next(mixed.glob("train.domain*")))
        for path, language in zip(paths, ("en", "de"), strict=True):
            lines = read_lines(mixed / f"train.{language}.gz")
            kept = (
                line
                for line, domain in zip(lines, domains, strict=True)
                if "multi30k" not in domain.lower()
            )
            with gzip.open(path, "wt", encoding="utf-8", newline="\n") as stream:
                stream.writelines(f"{line}\n" for line in kept)
    return paths


def read_lines(path: Path) -> list[str]:
    """Returns the lines of a file, compressed or not."""
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as stream:
            return stream.read().removesuffix("\n").split("\n")
    return path.read_text("utf-8").removesuffix("\n").split("\n")


def name_corpora(paths: Iterable[Path], **keys: object) -> str:
    """Returns the `[[data.train]]` tables of text files."""
    more = "".join(f"{key} = {value}\n" for key, value in keys.items())
    return "".join(
        f'[[data.train]]\ntext = "{path.absolute()}"\ndocuments = "lines"\n{more}' for path in paths
    )


def denoise(folder: Path, name: str, corpora: str, dev: Path, steps: int) -> Run:
    """Returns the run of a denoising model, whose recipe it writes."""
    recipe = folder / f"{name}.toml"
    folder.mkdir(parents=True, exist_ok=True)
    recipe.write_text(DENOISING.format(corpora=corpora, dev=dev.absolute(), steps=steps), "utf-8")
    return Run(folder / name, str(recipe), is_scored=False)
