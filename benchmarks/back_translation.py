"""BLEU and chrF of back-translation for few pairs: beam, samples, stages, tags, filters, rounds.

Each row is a recipe that `mtkit run` does; the table has its test scores with their intervals.

    python benchmarks/back_translation.py --data DATA --folder runs/back-translation \
        --corpus multi30k --pairs 3000 --text domain --rows pairs,beam,sampled,filtered,rounds
"""

import argparse
import gzip
import json
import random
import subprocess
import sys
from pathlib import Path

RECIPE = """\
name = "{name}"
seed = {seed}
[data]
source_language = "{source}"
target_language = "{target}"
data_root = "{root}"
[[data.train]]
name = "real"
source = "pairs.{source}"
target = "pairs.{target}"
weight = {weight}
{text}
[data.dev]
source = "dev.{source}"
target = "dev.{target}"
[tokenizer]
kind = "bpe"
vocab_size = {vocab_size}
[model]
num_encoder_layers = 3
num_decoder_layers = 3
d_model = 128
d_ff = 256
num_heads = 4
norm = "pre"
dropout = 0.3
[training]
max_steps = {steps}
batch_tokens = 2048
length_groups = 1
checkpoint_every = 500
processes = 1
schedule = {{ kind = "linear", peak = 3e-3, warmup_steps = 400 }}
[[evaluation.test_sets]]
name = "test"
source = "test.{source}"
target = "test.{target}"
"""
BACK = """\
[[data.train]]
name = "back"
target = "text.{target}"
{keys}
"""
ROWS = {
    "pairs": "",
    "beam": 'translated_by = "{reverse}"',
    "sampled": 'translated_by = "{reverse}"\nsynthesis = {{ sampling = {{ temperature = 1.0 }} }}',
    "staged": 'translated_by = "{reverse}"\nsynthesis = {{ sampling = {{ temperature = 1.0 }} }}\n'
    "[[training.stages]]\nsteps = 3000\nweights = {{ back = 1 }}\n"
    "[[training.stages]]\nweights = {{ back = 0 }}",
    "tagged": 'translated_by = "{reverse}"\ntag = "<BT>"',
    "filtered": 'translated_by = "{reverse}"\n'
    'synthesis = {{ checked_by = "{pairs}", keep = {keep}, drop_flagged = true }}',
    "rounds": 'translated_by = "reverse"\nsynthesis = {{ rounds = 2 }}\n'
    '[[data.train]]\nname = "forward"\nsource = "text.{source}"\ntranslated_by = "pairs"\n'
    "weight = 0.001",
}
"""What each row adds to the recipe."""
CORPORA = {"multi30k": ("en", "de"), "tatoeba": ("en", "de"), "hsb": ("de", "hsb")}
"""Each corpus' languages."""
_METRICS = ("BLEU", "chrF2")


def read(path: Path) -> list[str]:
    """Returns the lines of a compressed file."""
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as stream:
        return stream.read().split("\n")[:-1]


def write(path: Path, lines: list[str]) -> None:
    """Writes lines."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def read_corpus(data: Path, corpus: str) -> dict[str, list[tuple[str, str]]]:
    """Returns a corpus' pairs: all that may be trained on, a development set and a test set."""
    if corpus == "hsb":
        unique = dict(line.split("\t") for line in read(data / "mozilla_de_hsb" / "all.tsv.gz"))
        pairs = list(unique.items())
        random.Random(1).shuffle(pairs)
        return {"train": pairs[2000:], "dev": pairs[:1000], "test": pairs[1000:2000]}
    if corpus == "tatoeba":
        folder = data / "tatoeba_en_de"
        mixed = read_pairs(data / "mixed_en_de" / "train")
        domains = read(data / "mixed_en_de" / "train.domain.gz")
        train = [pair for pair, of in zip(mixed, domains, strict=True) if of == "tatoeba"]
        return {"train": train, **{part: read_pairs(folder / part) for part in ("dev", "test")}}
    files = {"train": "train", "dev": "val", "test": "test_2016_flickr"}
    return {part: read_pairs(data / "multi30k" / file) for part, file in files.items()}


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """Returns the pairs of two files."""
    sides = (read(path.with_name(f"{path.name}.{language}.gz")) for language in ("en", "de"))
    return list(zip(*sides, strict=True))


def make_corpus(options: argparse.Namespace, root: Path) -> None:
    """Writes pairs, text of each language, and the development and test sets."""
    root.mkdir(parents=True, exist_ok=True)
    parts = read_corpus(options.data, options.corpus)
    pairs, rest = parts["train"][: options.pairs], parts["train"][options.pairs :]
    if options.text != "domain":
        rest = read_pairs(options.data / "mixed_en_de" / "train")
        if options.text == "other":
            own = set(parts["train"])
            rest = [pair for pair in rest if pair not in own]
    for side, language in enumerate(CORPORA[options.corpus]):
        used = {pair[side] for pair in pairs} | {pair[side] for pair in parts["test"]}
        text = [pair[side] for pair in rest if pair[side] not in used][: options.max_lines]
        write(root / f"text.{language}", text)
        write(root / f"pairs.{language}", [pair[side] for pair in pairs])
        for name in ("dev", "test"):
            write(root / f"{name}.{language}", [pair[side] for pair in parts[name]])


def main() -> None:
    """Runs the rows and prints their scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--corpus", choices=CORPORA, default="multi30k")
    parser.add_argument("--pairs", type=int, default=3_000)
    parser.add_argument("--text", choices=["domain", "mixed", "other"], default="domain")
    parser.add_argument("--max-lines", type=int, default=200_000, help="of the text")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--steps", type=int, default=4_000)
    parser.add_argument("--vocab-size", type=int, default=2_000)
    parser.add_argument("--weight", type=float, default=1.0, help="of the pairs, relative to text")
    parser.add_argument("--keep", type=float, default=0.7, help="of the text, where filtered")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    folder = options.folder.absolute()
    root = folder / f"corpus-{options.pairs}-{options.text}"
    make_corpus(options, root)
    print("| row | seed | BLEU | interval | chrF2 |\n|---|---:|---:|---|---:|", flush=True)
    for row in options.rows.split(","):
        for seed in range(1, options.seeds + 1):
            reverse = folder / f"reverse-{options.pairs}"
            pairs = folder / f"pairs-{options.pairs}-1"
            run_row(options, row, seed, root, {"reverse": reverse, "pairs": pairs})


def run_row(
    options: argparse.Namespace, row: str, seed: int, root: Path, models: dict[str, Path]
) -> None:
    """Runs a row, and the translators that it needs, and prints its scores."""
    source, target = CORPORA[options.corpus]
    common = {"vocab_size": options.vocab_size, "steps": options.steps, "root": root, "seed": seed}
    keys = ROWS[row].format(
        source=source,
        target=target,
        keep=options.keep,
        **{name: path / "model" for name, path in models.items()},
    )
    if "model" in keys and not (models["reverse"] / "model").is_dir():
        recipe = RECIPE.format(
            name="reverse",
            source=target,
            target=source,
            text="",
            weight=1.0,
            **{**common, "seed": 1},
        )
        run(models["reverse"], recipe)
    kind = f"-{options.text}" if keys else ""
    text = BACK.format(target=target, keys=keys) if keys else ""
    recipe = RECIPE.format(
        name=row,
        source=source,
        target=target,
        text=text,
        weight=options.weight if keys else 1.0,
        **common,
    )
    workspace = root.parent / f"{row}-{options.pairs}{kind}-{seed}"
    run(workspace, recipe)
    scores = json.loads((workspace / "scores.json").read_text(encoding="utf-8"))["scores"]
    bleu, chrf = (next(each for each in scores if each["metric"] == name) for name in _METRICS)
    low, high = (bleu["interval"][end] for end in ("low", "high"))
    print(
        f"| {row} | {seed} | {bleu['value']:.2f} | {low:.2f} to {high:.2f} | {chrf['value']:.2f} |",
        flush=True,
    )


def run(workspace: Path, recipe: str) -> None:
    """Runs a recipe in a workspace; its messages go to a file next to it."""
    path = workspace.with_suffix(".toml")
    path.write_text(recipe, encoding="utf-8")
    command = ["mtkit", "run", "--recipe", str(path), "--workspace", str(workspace)]
    with workspace.with_suffix(".log").open("ab") as log:
        subprocess.run(
            [sys.executable, "-m", *command], check=True, stdout=subprocess.DEVNULL, stderr=log
        )


if __name__ == "__main__":
    main()
