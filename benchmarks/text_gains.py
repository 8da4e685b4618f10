"""What a translator gains from text in one language, measured on real text.

    python benchmarks/text_gains.py start DATA FOLDER [--sizes 3000 10000 29000] [--seeds 1 2 3]
    python benchmarks/text_gains.py decoder-only DATA FOLDER [--seeds 1 2 3]
    python benchmarks/text_gains.py fusion DATA FOLDER
    python benchmarks/text_gains.py selection DATA FOLDER

DATA has the folders `multi30k` and `mixed_en_de`. Runs are `mtkit run`, in one thread each,
`--jobs` of them at a time. They are in FOLDER, and finished ones aren't repeated, so a command may
be stopped at any time. The table of all finished runs goes to stdout.

`start`: the recipe `multi30k-en-de` with fewer pairs and updates, from random weights; from a
denoising model of the pairs' own text; and from one of the text of `mixed_en_de` that isn't of
Multi30k. `decoder-only`: an encoder-decoder and a decoder alone, of equal parameters, in equal
updates. `fusion`: that recipe's translator alone, and with a language model of German text, whose
weight is chosen on the development set. `selection`: `mixed-en-de-small` on all text, on the fifth
that is most like captions or news, and on a random fifth.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from text_runs import (
    DENOISING_STEPS,
    LANGUAGE_MODEL,
    STEPS,
    Run,
    denoise,
    finish,
    name_corpora,
    print_rows,
    read_lines,
    translate_captions,
    write_other_text,
)


def compare_starts(options: argparse.Namespace) -> None:
    data, folder = options.data, options.folder / "start"
    captions = [data / "multi30k" / f"train.{language}.gz" for language in ("en", "de")]
    dev = data / "multi30k" / "val.de.gz"
    mixed = denoise(
        folder,
        "denoising-mixed",
        name_corpora(write_other_text(data, folder)),
        dev,
        DENOISING_STEPS["mixed"],
    )
    own = {
        size: denoise(
            folder,
            f"denoising-own-{size}",
            name_corpora(captions, max_pairs=size),
            dev,
            DENOISING_STEPS["own"],
        )
        for size in options.sizes
    }
    finish([mixed, *own.values()], options.jobs)
    rows: dict[str, list[Run]] = {}
    for size in options.sizes:
        models = {"random": None, "own text": own[size], "other text": mixed}
        for start, model in models.items():
            path = None if model is None else (model.workspace / "model").absolute()
            overrides = [] if path is None else [f"training.start_from={{model='{path}'}}"]
            rows[f"{size:,} pairs, {start}"] = [
                translate_captions(
                    data,
                    folder / f"{size}-{start.replace(' ', '-')}-seed-{seed}",
                    seed,
                    size,
                    *overrides,
                )
                for seed in options.seeds
            ]
    finish(_by_seed(rows), options.jobs)
    print_rows(rows, ["test2016 BLEU", "test2016 chrF2"])


def compare_architectures(options: argparse.Namespace) -> None:
    # A decoder's layer has 132,480 parameters here, an encoder-decoder's layers 132,480 + 198,784.
    alone = ["model.architecture=decoder-only", "model.num_decoder_layers=10"]
    size = options.sizes[-1]
    # The encoder-decoder's runs are those of `start` from random weights.
    kinds = {"encoder-decoder": ("start", []), "decoder-only": ("decoder-only", alone)}
    rows = {
        name: [
            translate_captions(
                options.data,
                options.folder / folder / f"{size}-random-seed-{seed}",
                seed,
                size,
                *keys,
            )
            for seed in options.seeds
        ]
        for name, (folder, keys) in kinds.items()
    }
    finish(_by_seed(rows), options.jobs)
    print_rows(rows, ["test2016 BLEU", "test2016 chrF2"])


def _by_seed(rows: dict[str, list[Run]]) -> Iterator[Run]:
    """Yields the first seed's runs of all rows, then the second's."""
    for runs in zip(*rows.values(), strict=True):
        yield from runs


FUSION_WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.3)


def measure_fusion(options: argparse.Namespace) -> None:
    data, folder = options.data, options.folder / "fusion"
    _, other = write_other_text(data, options.folder / "start")
    captions = data / "multi30k" / "train.de.gz"
    print("| | weight | development BLEU | test2016 |\n|---|---|---|---|")
    for size in options.sizes:
        translator = translate_captions(
            data, options.folder / "start" / f"{size}-random-seed-1", 1, size
        )
        finish([translator], 1)
        recipe = folder / f"german-{size}.toml"
        recipe.parent.mkdir(parents=True, exist_ok=True)
        vocabulary = (translator.workspace / "model" / "joint.spm").absolute()
        text = LANGUAGE_MODEL.format(
            corpora=name_corpora([captions, other]),
            dev=(data / "multi30k" / "val.de.gz").absolute(),
            vocabulary=vocabulary,
            steps=DENOISING_STEPS["mixed"],
        )
        recipe.write_text(text, "utf-8")
        model = Run(folder / f"german-{size}", str(recipe), is_scored=False)
        finish([model], 1)
        sources = [data / "multi30k" / f"{split}.en.gz" for split in ("val", "test_2016_flickr")]
        files = {
            weight: [
                translate_with(translator, model, weight, source, folder / f"{size}-{weight}")
                for source in sources
            ]
            for weight in FUSION_WEIGHTS
        }
        for weight, (dev, test) in files.items():
            scores = [score(path, data, split) for path, split in ((dev, "val"), (test, None))]
            print(f"| {size:,} pairs | {weight} | {scores[0]} | {scores[1]} |")
        best = max(FUSION_WEIGHTS, key=lambda weight: float(score(files[weight][0], data, "val")))
        print(
            f"\n{size:,} pairs: {best} is best on the development set; test2016, with p-values:\n"
        )
        print(compare(files[0.0][1], files[best][1], data))


def translate_with(translator: Run, model: Run, weight: float, source: Path, folder: Path) -> Path:
    """Translates a file with a language model's weight, unless it is done; returns the output."""
    split = source.name.removesuffix(".en.gz")
    output = folder / f"{split}.de"
    if output.is_file():
        return output
    command = [sys.executable, "-m", "mtkit", "translate"]
    command += ["--model", str(translator.workspace / "model")]
    if weight:
        path = (model.workspace / "model").absolute()
        command += ["--set", f"inference.fusion={{model='{path}', weight={weight}}}"]
    lines = read_lines(source)
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True)
    folder.mkdir(parents=True, exist_ok=True)
    output.write_text(done.stdout, "utf-8")
    return output


def score(hypothesis: Path, data: Path, split: str | None) -> str:
    """Returns the BLEU of a translation; of test2016 chrF2 as well."""
    reference = data / "multi30k" / f"{split or 'test_2016_flickr'}.de.gz"
    command = [sys.executable, "-m", "mtkit", "score", "--json", "--hypothesis", str(hypothesis)]
    command += ["--reference", str(reference)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = {each["metric"]: each["value"] for each in json.loads(done.stdout)}
    return f"{found['BLEU']:.2f}" + ("" if split else f" BLEU, {found['chrF2']:.2f} chrF2")


def compare(baseline: Path, other: Path, data: Path) -> str:
    """Returns the table of `mtkit score` of two translations of test2016."""
    reference = data / "multi30k" / "test_2016_flickr.de.gz"
    command = [sys.executable, "-m", "mtkit", "score", "--reference", str(reference)]
    command += ["--hypothesis", str(baseline), "--hypothesis", str(other)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


SELECTION_STEPS = 1_200
IN_DOMAIN = {
    "captions": ("multi30k/val", "test_2016_flickr", "../multi30k/test_2016_flickr"),
    "news": ("mixed_en_de/dev", "newstest2014", "test"),
}
"""Text in the domain; name and file of the test set, from the folder `mixed_en_de`."""
NUM_GENERAL = 3_000
KEEP = 0.2


def measure_selection(options: argparse.Namespace) -> None:
    data, folder = options.data, options.folder / "selection"
    mixed = data / "mixed_en_de"
    folder.mkdir(parents=True, exist_ok=True)
    general = {}
    for language in ("en", "de"):
        lines = read_lines(mixed / f"train.{language}.gz")
        general[language] = folder / f"general.{language}"
        drawn = lines[:: len(lines) // NUM_GENERAL][:NUM_GENERAL]
        general[language].write_text("".join(f"{line}\n" for line in drawn), "utf-8")
    models: list[Run] = []
    for language in ("en", "de"):
        every = {"general": general[language]}
        every |= {name: data / f"{path}.{language}.gz" for name, (path, *_) in IN_DOMAIN.items()}
        for name, path in every.items():
            recipe = folder / f"{name}-{language}.toml"
            text = LANGUAGE_MODEL.format(
                corpora=name_corpora([path]),
                dev=(data / "tatoeba_en_de" / f"dev.{language}.gz").absolute(),
                vocabulary=(folder / f"general-{language}" / "data/tokenizer/joint.spm").absolute(),
                steps=400,
            ).replace('language = "de"', f'language = "{language}"')
            if name == "general":
                text = text.replace("pretrained.source", "# pretrained.source")
            for key, value in (("d_model = 256", "d_model = 128"), ("d_ff = 1024", "d_ff = 512")):
                text = text.replace(key, value)
            recipe.write_text(text, "utf-8")
            models.append(Run(folder / f"{name}-{language}", str(recipe), is_scored=False))
    finish([model for model in models if "general" in model.workspace.name], options.jobs)
    finish(models, options.jobs)
    rows = {"all": ["data.cleaning.max_tokens=128"], "a fifth by chance": []}
    for name in IN_DOMAIN:
        paths = {
            f"{kind}_{side}": (folder / f"{which}-{language}" / "model").absolute()
            for kind, which in (("in_domain", name), ("general", "general"))
            for side, language in (("source", "en"), ("target", "de"))
        }
        keys = ", ".join(f"{key}='{path}'" for key, path in paths.items())
        rows[f"the fifth most like {name}"] = [f"data.cleaning.selection={{{keys}, keep={KEEP}}}"]
    thin = write_thinned(mixed, folder)
    rows["a fifth by chance"] = [
        f"data.train.0={{source='{thin[0].absolute()}', target='{thin[1].absolute()}'}}"
    ]
    tests = ", ".join(
        f"{{name='{name}', source='{path}.en.gz', target='{path}.de.gz'}}"
        for _, name, path in IN_DOMAIN.values()
    )
    runs = {
        name: [
            Run(
                folder / "".join(letter if letter.isalnum() else "-" for letter in name),
                "mixed-en-de-small",
                (
                    f"data.data_root={mixed.absolute()}",
                    f"training.max_steps={SELECTION_STEPS}",
                    f"evaluation.test_sets=[{tests}]",
                    *overrides,
                ),
            )
        ]
        for name, overrides in rows.items()
    }
    finish(_by_seed(runs), options.jobs)
    names = [name for _, name, _ in IN_DOMAIN.values()]
    print_rows(runs, [f"{name} {metric}" for name in names for metric in ("BLEU", "chrF2")])


def write_thinned(mixed: Path, folder: Path) -> tuple[Path, Path]:
    """Writes every fifth pair; returns the paths of both sides."""
    paths = folder / "fifth.en", folder / "fifth.de"
    for path, language in zip(paths, ("en", "de"), strict=True):
        lines = read_lines(mixed / f"train.{language}.gz")
        path.write_text("".join(f"{line}\n" for line in lines[:: round(1 / KEEP)]), "utf-8")
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["start", "decoder-only", "fusion", "selection"])
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, a thread each")
    options = parser.parse_args()
    match options.what:
        case "start":
            compare_starts(options)
        case "decoder-only":
            compare_architectures(options)
        case "fusion":
            measure_fusion(options)
        case _:
            measure_selection(options)


if __name__ == "__main__":
    main()
