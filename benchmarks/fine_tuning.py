"""What each way of fine-tuning gives and costs, measured on real text.

    python benchmarks/fine_tuning.py domain DATA FOLDER [--seeds 1]
    python benchmarks/fine_tuning.py language DATA FOLDER [--seeds 1]

DATA has the folders `multi30k`, `mixed_en_de`, `tatoeba_en_de` and `tatoeba_en_fr`. Runs are `mtkit
run`, in one thread each, one after the other: about 35 minutes of a core in all. They are in
FOLDER, and finished ones aren't repeated, so a command may be stopped at any time.
The table goes to stdout.

`base`: a small network of OPUS-MT's kind (post-norm, SiLU, all sines first, output bias) is trained
on the captions of `multi30k`, exported for transformers and imported again. `domain`: it learns
everyday sentences of Tatoeba: all weights, with a frozen encoder, by LoRA, and from random weights.
`language`: it learns English to French: with its vocabulary and new pieces, with a new vocabulary,
and from random weights. (The 30,928 pairs of news in `mixed_en_de` are too few to start from: such
a model reached 0.4 BLEU on newstest2014.)
"""

import argparse
import gzip
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from text_runs import Run, describe, read_lines

RECIPE = """\
name = "{name}"
[data]
source_language = "en"
target_language = "{language}"
[[data.train]]
source = "{train}.en.gz"
target = "{train}.{language}.gz"
max_pairs = 30_000
[data.dev]
source = "{dev}.en.gz"
target = "{dev}.{language}.gz"
[tokenizer]
vocab_size = 4000
[model]
num_encoder_layers = 3
num_decoder_layers = 3
d_model = 128
d_ff = 512
num_heads = 4
activation = "silu"
sinusoids = "halves"
output_bias = true
dropout = 0.1
[training]
max_steps = {steps}
batch_tokens = {tokens}
length_groups = 1
micro_batch_tokens = 4096
schedule = {{ kind = "linear", peak = {peak}, warmup_steps = {warmup} }}
checkpoint_every = {every}
averaging = {{ choose = "last", num_checkpoints = 1 }}
processes = 1
[inference]
beam_size = 1
{tests}"""
TEST_SET = """\
[[evaluation.test_sets]]
name = "{name}"
source = "{path}.en.gz"
target = "{path}.{language}.gz"
"""
BASE_STEPS, TUNING_STEPS, FRENCH_STEPS = 1_000, 600, 600
"""Updates of each training."""
BASE_PEAK = 2e-3
MAX_TESTED = 500
"""Lines of each test and development set."""


@dataclass(frozen=True)
class Way:
    """One way of fine-tuning.

    Attributes:
        name: What it is, for the table.
        peak: Its highest learning rate.
        keys: For `--set`; `{start}` is the folder of the model.
    """

    name: str
    peak: float
    keys: tuple[str, ...] = ()


START = "training.start_from={model='{start}'}"
LORA = "training.lora={{rank=8, alpha=16.0, maps={maps}{more}}}"
EVERY_MAP = "['query', 'key', 'value', 'output', 'feed-forward']"
DOMAIN_WAYS = (
    Way("random weights", 2e-3),
    Way("all weights", 5e-4, (START,)),
    Way("encoder frozen", 5e-4, (START, "training.freeze=['encoder']")),
    Way(
        "LoRA, queries and values",
        3e-3,
        (START, LORA.format(maps="['query', 'value']", more=", release='adapter'")),
    ),
    Way(
        "LoRA, every map",
        3e-3,
        (START, LORA.format(maps=EVERY_MAP, more=", release='adapter'")),
    ),
)
EXTEND = "training.start_from={model='{start}', vocabulary='extend'}"
NEW = "training.start_from={model='{start}', vocabulary='new'}"
LANGUAGE_WAYS = (
    Way("random weights", 2e-3),
    Way("a new vocabulary", 1e-3, (NEW,)),
    Way("an extended vocabulary", 1e-3, (EXTEND,)),
    Way(
        "the same, LoRA and embeddings",
        3e-3,
        (EXTEND, LORA.format(maps=EVERY_MAP, more=", train_embeddings=true")),
    ),
)


def write_domain(data: Path, folder: Path, domain: str) -> Path:
    """Writes the pairs of a domain of `mixed_en_de`; returns their path less the language."""
    base = folder / f"train-{domain}"
    if not (folder / f"{base.name}.de.gz").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        mixed = data / "mixed_en_de"
        domains = read_lines(next(mixed.glob("train.domain*")))
        for language in ("en", "de"):
            lines = read_lines(mixed / f"train.{language}.gz")
            kept = (line for line, each in zip(lines, domains, strict=True) if each == domain)
            with gzip.open(f"{base}.{language}.gz", "wt", encoding="utf-8", newline="\n") as stream:
                stream.writelines(f"{line}\n" for line in kept)
    return base.absolute()


def write_recipe(
    path: Path,
    *,
    train: Path,
    dev: Path,
    tests: dict[str, Path],
    steps: int,
    peak: float,
    tokens: int,
    language: str = "de",
) -> str:
    """Writes a recipe; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sets = (
        TEST_SET.format(name=name, path=test.absolute(), language=language)
        for name, test in tests.items()
    )
    content = RECIPE.format(
        name=path.stem,
        language=language,
        train=train.absolute(),
        dev=dev.absolute(),
        tests="".join(sets),
        steps=steps,
        tokens=tokens,
        peak=peak,
        warmup=max(steps // 10, 50),
        every=steps // 3,
    )
    path.write_text(content, "utf-8")
    return str(path)


def train_base(options: argparse.Namespace) -> Run:
    """Returns the run of a translator of captions, done."""
    data, folder = options.data, options.folder
    recipe = write_recipe(
        folder / "captions.toml",
        train=data / "multi30k" / "train",
        dev=cut(data / "multi30k" / "val", folder, "de"),
        tests=_list_tests(data, folder),
        steps=BASE_STEPS,
        peak=BASE_PEAK,
        tokens=2_048,
    )
    run = Run(folder / "captions", recipe)
    finish(run)
    return run


def send_out_and_in(run: Run) -> Path:
    """Exports a run's model for transformers, and imports that; returns the model's folder."""
    public, back = (run.workspace.parent / name for name in ("public", "imported"))
    if not back.is_dir():
        for command in (
            ("export", "--model", run.workspace / "model", "--format", "transformers"),
            ("import", public),
        ):
            output = public if command[0] == "export" else back
            subprocess.run(
                [sys.executable, "-m", "mtkit", *map(str, command), "--output", str(output)],
                check=True,
                stdout=sys.stderr,
            )
    return back


def cut(path: Path, folder: Path, language: str) -> Path:
    """Writes the first lines of a set of pairs; returns their path less the language."""
    base = folder / f"{path.parent.name}-{path.name}"
    folder.mkdir(parents=True, exist_ok=True)
    for side in ("en", language):
        lines = read_lines(Path(f"{path}.{side}.gz"))[:MAX_TESTED]
        with gzip.open(f"{base}.{side}.gz", "wt", encoding="utf-8", newline="\n") as stream:
            stream.writelines(f"{line}\n" for line in lines)
    return base


def _list_tests(data: Path, folder: Path) -> dict[str, Path]:
    return {
        "everyday": cut(data / "tatoeba_en_de" / "test", folder, "de"),
        "captions": cut(data / "multi30k" / "test_2016_flickr", folder, "de"),
    }


def finish(run: Run) -> None:
    """Finishes a run, and records its CPU time and memory.

    The memory is that of the largest process so far, which training's own log has exactly.
    """
    if run.is_done:
        return
    began_at, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    run.finish()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    facts = {"cpu_seconds": seconds, "elapsed_seconds": time.monotonic() - began_at}
    Path(f"{run.workspace}.costs.json").write_text(json.dumps(facts), "utf-8")


def compare(
    options: argparse.Namespace,
    kind: str,
    ways: tuple[Way, ...],
    start: Path,
    before: Sequence[Run] = (),
    *,
    train: Path,
    dev: Path,
    tests: dict[str, Path],
    steps: int,
    language: str = "de",
) -> None:
    """Runs all ways of fine-tuning a model on the same pairs, and prints their table.

    The run `before` is that of the model, where it has the same test sets.
    """
    names = [f"{name} {metric}" for name in tests for metric in ("BLEU", "chrF2")]
    heads = [*names, "minutes of training", "seconds an update", "memory", "learned", "on disk"]
    rows = [("before", list(before))] if before else []
    for way in ways:
        slug = "".join(each if each.isalnum() else "-" for each in way.name)
        runs = []
        for seed in options.seeds:
            workspace = options.folder / kind / f"{slug}-{seed}"
            recipe = write_recipe(
                workspace.with_suffix(".toml"),
                train=train,
                dev=dev,
                tests=tests,
                steps=steps,
                peak=way.peak,
                tokens=2_048,
                language=language,
            )
            keys = [
                f"seed={seed}",
                *(key.replace("{start}", str(start.absolute())) for key in way.keys),
            ]
            runs.append(Run(workspace, recipe, keys))
            finish(runs[-1])
        rows.append((way.name, runs))
    print("| | " + " | ".join(heads) + " |")
    print("|---" * (len(heads) + 1) + "|")
    for name, runs in rows:
        cells = [describe([run.read_scores()[key] for run in runs]) for key in names]
        print(f"| {name} | {' | '.join([*cells, *read_costs(runs[0])])} |")


def read_costs(run: Run) -> list[str]:
    """Returns what a training took: time, memory, weights that learn, the model's size."""
    lines = map(json.loads, (run.workspace / "metrics.jsonl").read_text("utf-8").splitlines())
    logged = [line for line in lines if line["kind"] == "train"]
    seconds = logged[-1]["elapsed_seconds"]
    size = sum(path.stat().st_size for path in (run.workspace / "model").iterdir())
    checkpoint = max(run.workspace.glob("checkpoints/step-*"))
    # Adam's two moments, and little else.
    learned = (checkpoint / "optimizer.safetensors").stat().st_size / 8
    return [
        f"{seconds / 60:.1f}",
        f"{seconds / logged[-1]['step']:.2f}",
        f"{logged[-1]['memory_bytes'] / 1e6:,.0f} MB",
        f"{learned / 1e3:,.0f} k",
        f"{size / 1e6:.1f} MB",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["base", "domain", "language"])
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    options = parser.parse_args()
    data = options.data
    match options.what:
        case "base":
            send_out_and_in(train_base(options))
        case "domain":
            base = train_base(options)
            compare(
                options,
                "domain",
                DOMAIN_WAYS,
                send_out_and_in(base),
                [base],
                train=write_domain(data, options.folder, "tatoeba"),
                dev=cut(data / "tatoeba_en_de" / "dev", options.folder, "de"),
                tests=_list_tests(data, options.folder),
                steps=TUNING_STEPS,
            )
        case _:
            french = data / "tatoeba_en_fr"
            compare(
                options,
                "language",
                LANGUAGE_WAYS,
                send_out_and_in(train_base(options)),
                train=french / "train",
                dev=cut(french / "dev", options.folder, "fr"),
                tests={"everyday": cut(french / "test", options.folder, "fr")},
                steps=FRENCH_STEPS,
                language="fr",
            )


if __name__ == "__main__":
    main()
