"""Perplexity of a trained causal language model, compared with KenLM on the same lines and pieces.

    python benchmarks/language_model_peers.py WORKSPACE --environments E --data DATA [--json FILE]

WORKSPACE is a run of `recipes/gpt/gpt-small.toml` with its model; E/kenlm is made by
`benchmarks/peers/make_environments.sh E kenlm`; DATA has the folders `mixed_en_de`,
`tatoeba_en_de` and `multi30k`. `--text NAME=FILE`, which may be repeated, names other texts, one
sentence a line.

KenLM's `lmplz` estimates an unpruned 5-gram with modified Kneser-Ney smoothing from the text that
the model learned from: its cleaned lines, as the run's own pieces. Both then score the same lines,
each alone, and the functions of `mtkit score` compute the figures of both: perplexity per
piece, a line's end counted as one, and bits per character, the end counted as one, too. An unknown
piece of mtkit's is a word like others to both. A piece that the training text lacks has KenLM's
probability of any unknown word, which flatters KenLM if there are several: the table counts them.
Lines that also occur in the training text are counted, and left out of a second row.
"""

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peers.machine import describe_machine, print_machine

from mtkit.data.preparation.text_store import TextStore
from mtkit.data.prepared import open_prepared
from mtkit.data.selection.select_rows import LEFT_OUT_FILE
from mtkit.data.sources.corpora import read_corpus_text
from mtkit.errors import MtkitError
from mtkit.evaluation.perplexity import PredictedText, measure_text
from mtkit.inference.engines.open_torch_engine import open_torch_engine
from mtkit.inference.predict_text import predict_text
from mtkit.model.config import WEIGHTS_FILE, open_model_folder
from mtkit.model.weight_files import read_shapes
from mtkit.recipe import Recipe, load_recipe
from mtkit.recipe.text_corpora import TextCorpus
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.workspace import Workspace

TEXTS = {
    "newstest2014": "mixed_en_de/test.{}.gz",
    "Tatoeba": "tatoeba_en_de/test.{}.gz",
    "Multi30k 2016": "multi30k/test_2016_flickr.{}.gz",
}
_SENTENCE = re.compile(r"Total: (\S+) OOV: (\d+)$")
_NO_DISCOUNT = "--discount_fallback"
"""The option that lmplz names where the counts of counts give it no discount."""
Predict = Callable[[Sequence[str], NDArray[np.int64]], PredictedText]


@dataclass(frozen=True)
class NgramModel:
    """A model that KenLM has estimated.

    Attributes:
        query: KenLM's program that scores lines.
        file: The model as KenLM's `build_binary` stores it.
        facts: How it was made.
    """

    query: Path
    file: Path
    facts: dict[str, Any]

    @classmethod
    def estimate(cls, programs: Path, order: int, text: Path, memory: str) -> "NgramModel":
        """Returns a model without pruning, of a text whose words are separated by spaces.

        Discounts that the text's counts don't give are those of lmplz's `--discount_fallback`, and
        the facts say so.
        """
        arpa, file = text.with_suffix(".arpa"), text.with_suffix(".kenlm")
        command = [str(programs / "lmplz"), "-o", str(order), "-S", memory]
        command += ["-T", f"{text.parent}/", "--text", str(text), "--arpa", str(arpa)]
        begun = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        falls_back = done.returncode != 0 and _NO_DISCOUNT in done.stderr
        if falls_back:
            command.append(_NO_DISCOUNT)
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - begun
        if done.returncode:
            raise MtkitError(f"lmplz failed ({done.returncode}):\n{done.stderr[-2000:]}")
        stores = [str(programs / "build_binary"), str(arpa), str(file)]
        subprocess.run(stores, capture_output=True, check=True)
        version = programs.parent / "version.txt"
        facts = {
            "version": version.read_text("utf-8").strip() if version.is_file() else "unknown",
            "order": order,
            "ngrams": read_counts(arpa),
            "discount_fallback": falls_back,
            "seconds": seconds,
            "bytes": file.stat().st_size,
        }
        arpa.unlink()
        return cls(programs / "query", file, facts)

    def score(self, lines: Iterable[str]) -> tuple[NDArray[np.float64], int]:
        """Returns each line's natural log-probability, its end included, and all unknown words.

        Raises:
            MtkitError: KenLM has printed something else than a result for each line.
        """
        given = "".join(f"{line}\n" for line in lines)
        done = subprocess.run(
            [self.query, "-v", "sentence", self.file],
            input=given,
            capture_output=True,
            text=True,
            check=True,
        )
        found = [
            match for match in map(_SENTENCE.search, done.stdout.splitlines()) if match is not None
        ]
        if len(found) != given.count("\n"):
            raise MtkitError(f"KenLM scored {len(found)} of {given.count(chr(10))} lines")
        of_lines = np.array([float(match[1]) for match in found])
        return of_lines * math.log(10.0), sum(int(match[2]) for match in found)


def read_counts(arpa: Path) -> list[int]:
    """Returns the number of n-grams of each order, from a model's head."""
    counts = []
    with arpa.open(encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("\\1-grams"):
                break
            if line.startswith("ngram "):
                counts.append(int(line.split("=")[1]))
    return counts


def iterate_training_text(recipe: Recipe, workspace: Workspace) -> Iterator[list[str]]:
    """Yields the lines that the run's model learned from, cleaned and without repeats."""
    selects = recipe.data.cleaning.selection is not None
    left_out = workspace.data / "selection" / LEFT_OUT_FILE if selects else None
    for part in TextStore(workspace.data / "text", left_out=left_out).iterate_unique():
        yield part.column("text").to_pylist()


def spell(tokens: Iterable[Sequence[int]]) -> Iterator[str]:
    """Yields lines for KenLM: each token's number is a word; KenLM has a line's end of its own."""
    for line in tokens:
        yield " ".join(map(str, line[:-1]))


def write_training_text(
    recipe: Recipe, workspace: Workspace, tokenizer: SubwordTokenizer, path: Path
) -> tuple[dict[str, int], set[int]]:
    """Writes the training text as pieces, one line a line.

    Returns:
        Numbers of its lines and pieces; and a hash of each line, to find it again.

    Raises:
        MtkitError: The blocks that the model learned from have another number of pieces.
    """
    counts, hashes = {"lines": 0, "pieces": 0}, set[int]()
    with path.open("w", encoding="utf-8") as file:
        for lines in iterate_training_text(recipe, workspace):
            tokens = tokenizer.tokenize("source", lines)
            file.writelines(f"{line}\n" for line in spell(tokens))
            counts["lines"] += len(lines)
            counts["pieces"] += sum(map(len, tokens))
            hashes.update(map(hash, lines))
    store = open_prepared(recipe, workspace).train
    in_blocks = int(store.lengths(np.arange(len(store)))["text"].sum())
    if in_blocks != counts["pieces"]:
        raise MtkitError(f"{counts['pieces']:,} pieces of text, but {in_blocks:,} in blocks")
    return counts, hashes


def open_predictor(recipe: Recipe, folder: Path) -> tuple[Predict, dict[str, int]]:
    """Returns what `mtkit score` measures lines with, and the model's size."""
    engine = open_torch_engine([folder], recipe.inference, "cpu")
    predict = partial(
        predict_text,
        engine,
        open_model_folder(folder).tokenizer,
        context_tokens=recipe.data.block_tokens,
        batch_tokens=recipe.inference.batch_tokens,
    )
    weights = sum(math.prod(shape) for shape in read_shapes(folder / WEIGHTS_FILE).values())
    return predict, {"weights": weights, "context": recipe.data.block_tokens}


def measure(text: PredictedText) -> dict[str, float]:
    """Returns the figures of one model on one text, under the names of `mtkit score`."""
    return {each.name: each.value for each in measure_text(text)}


def choose(text: PredictedText, is_wanted: NDArray[np.bool_]) -> PredictedText:
    """Returns some lines of a text."""
    return replace(
        text,
        lines=[line for line, wanted in zip(text.lines, is_wanted, strict=True) if wanted],
        log_probabilities=text.log_probabilities[is_wanted],
        num_tokens=text.num_tokens[is_wanted],
    )


@dataclass(frozen=True)
class Row:
    """The figures of both on one text.

    Attributes:
        text: Its name.
        lines: Number of lines.
        pieces: Number of pieces, line ends counted.
        unknown_to_kenlm: Pieces among them that the training text lacks, in the whole text.
        cut_lines: Lines longer than mtkit's context, whose context it loses after a cut.
        kenlm: KenLM's figures.
        mtkit: mtkit's.
    """

    text: str
    lines: int
    pieces: int
    unknown_to_kenlm: int
    cut_lines: int
    kenlm: dict[str, float]
    mtkit: dict[str, float]


def compare(
    name: str,
    path: Path,
    *,
    predict: Predict,
    ngrams: NgramModel,
    tokenizer: SubwordTokenizer,
    trained_on: set[int],
) -> list[Row]:
    """Returns the figures on a text; and without lines of the training text, where it has any."""
    lines, documents = read_corpus_text(TextCorpus(text=path, documents="lines"))
    if not lines:
        raise MtkitError(f"{path} has no lines")
    ours = predict(lines, documents)
    log_probabilities, num_unknown = ngrams.score(spell(tokenizer.encode_target(lines)))
    theirs = replace(ours, log_probabilities=log_probabilities)
    is_new = np.array([hash(line) not in trained_on for line in lines])
    choices = {name: np.ones_like(is_new)}
    if is_new.any() and not is_new.all():
        choices[f"{name}, {(~is_new).sum():,} lines of the training text left out"] = is_new
    return [
        Row(
            text=label,
            lines=int(is_wanted.sum()),
            pieces=int(ours.num_tokens[is_wanted].sum()),
            unknown_to_kenlm=num_unknown,
            cut_lines=int((ours.num_tokens[is_wanted] > ours.context_tokens).sum()),
            kenlm=measure(choose(theirs, is_wanted)),
            mtkit=measure(choose(ours, is_wanted)),
        )
        for label, is_wanted in choices.items()
    ]


def print_table(rows: Sequence[Row], order: int) -> None:
    kenlm = f"KenLM's {order}-gram"
    print(
        f"\n| text | lines | pieces | unknown to KenLM | perplexity per piece, {kenlm} | mtkit | "
        f"bits per character, {kenlm} | mtkit | mtkit's to KenLM's |\n|---|---|---|---|---|---|---|"
        "---|---|"
    )
    for row in rows:
        perplexity, bits = "perplexity per token", "bits per character"
        print(
            f"| {row.text} | {row.lines:,} | {row.pieces:,} | {row.unknown_to_kenlm:,} | "
            f"{row.kenlm[perplexity]:.2f} | {row.mtkit[perplexity]:.2f} | {row.kenlm[bits]:.3f} | "
            f"{row.mtkit[bits]:.3f} | {row.mtkit[bits] / row.kenlm[bits]:.3f} |"
        )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--environments", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="the folder of the three data sets")
    parser.add_argument("--text", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--order", type=int, default=5, help="of KenLM's n-grams")
    parser.add_argument("--memory", default="4G", help="lmplz's, as it spells it")
    parser.add_argument("--work", type=Path, help="for KenLM's files, which take some GB")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.data is None and not options.text:
        parser.error("name --data or --text")
    return options


def list_texts(options: argparse.Namespace) -> dict[str, Path]:
    """Returns the files by name."""
    texts = {}
    if options.data is not None:
        for name, path in TEXTS.items():
            for language in ("de", "en"):
                texts[f"{name}, {language}"] = options.data / path.format(language)
    return texts | {
        name: Path(path) for name, _, path in (text.partition("=") for text in options.text)
    }


def main() -> None:
    options = parse_options()
    machine = describe_machine()
    workspace = Workspace(options.workspace)
    recipe = load_recipe(str(workspace.recipe_file))
    if recipe.objective != "causal-lm":
        raise MtkitError(f"{workspace.root} isn't a run of a causal language model")
    programs = options.environments / "kenlm" / "bin"
    if not (programs / "lmplz").is_file():
        raise MtkitError(f"{programs} has no lmplz: benchmarks/peers/make_environments.sh makes it")
    tokenizer = open_prepared(recipe, workspace).tokenizer
    predict, model = open_predictor(recipe, workspace.model)
    with tempfile.TemporaryDirectory(dir=options.work) as name:
        text = Path(name) / "text.txt"
        counts, trained_on = write_training_text(recipe, workspace, tokenizer, text)
        print(f"{counts['lines']:,} lines, {counts['pieces']:,} pieces", file=sys.stderr)
        ngrams = NgramModel.estimate(programs, options.order, text, options.memory)
        rows: list[Row] = []
        for label, path in list_texts(options).items():
            rows += compare(
                label,
                path,
                predict=predict,
                ngrams=ngrams,
                tokenizer=tokenizer,
                trained_on=trained_on,
            )
            print(f"{label}: done", file=sys.stderr)
    print_machine(machine)
    print(f"training text: {counts['lines']:,} lines, {counts['pieces']:,} pieces with line ends")
    for name, facts in {"KenLM": ngrams.facts, "mtkit": model}.items():
        print(f"{name}: {', '.join(f'{key} {value}' for key, value in facts.items())}")
    print_table(rows, options.order)
    if options.json is not None:
        report = {
            "machine": machine,
            "text": counts,
            "kenlm": ngrams.facts,
            "mtkit": {**model, "manifest": workspace.read_manifest()},
            "rows": [asdict(row) for row in rows],
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    try:
        main()
    except MtkitError as error:
        sys.exit(f"error: {error.message}")
