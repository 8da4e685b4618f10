"""What label smoothing does to BLEU, perplexity and calibration, on real text.

    python benchmarks/label_smoothing.py DATA FOLDER [--seeds 1 2 3] [--jobs N]

DATA has the folders `multi30k`, `tatoeba_en_de` and `mixed_en_de`. Two corpora, raw Multi30k and
10,000 pairs of Tatoeba, each with smoothing 0.1 and 0, otherwise equal. On the test set: BLEU by
beam search; perplexity of the references, a piece; and how well a piece's probability tells whether
it is right, given the reference before it: the expected calibration error of the best piece in
15 bins of equal width (arXiv 1706.04599). Runs are in FOLDER, and finished ones aren't repeated.
"""

import argparse
import gzip
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from text_runs import Run, describe, finish, read_lines

from mtkit.data.batches.collate import lay_out
from mtkit.data.batches.ragged import Ragged
from mtkit.model.folder import load_model_folder

SMOOTHING = (0.0, 0.1)
NUM_BINS = 15
NUM_PAIRS = 10_000
AT_ONCE = 50


@dataclass(frozen=True)
class Corpus:
    """A corpus of the comparison.

    Attributes:
        files: Source and target of training, development and test, without the language.
        steps: Updates.
    """

    files: dict[str, Path]
    steps: int


def write_tatoeba(data: Path, folder: Path) -> Path:
    """Writes the first pairs of Tatoeba, spread over the corpus; returns the files' stem."""
    stem = folder / "tatoeba"
    if not Path(f"{stem}.de.gz").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        mixed = data / "mixed_en_de"
        domains = read_lines(mixed / "train.domain.gz")
        for language in ("en", "de"):
            lines = read_lines(mixed / f"train.{language}.gz")
            kept = [
                line for line, domain in zip(lines, domains, strict=True) if domain == "tatoeba"
            ]
            drawn = kept[:: len(kept) // NUM_PAIRS][:NUM_PAIRS]
            with gzip.open(f"{stem}.{language}.gz", "wt", encoding="utf-8", newline="\n") as stream:
                stream.writelines(f"{line}\n" for line in drawn)
    return stem


def train(corpus: Corpus, workspace: Path, smoothing: float, seed: int) -> Run:
    """Returns a run."""
    pairs = {
        name: f"source='{path.absolute()}.en.gz', target='{path.absolute()}.de.gz'"
        for name, path in corpus.files.items()
    }
    overrides = (
        f"data.train=[{{{pairs['train']}}}]",
        f"data.dev={{{pairs['dev']}}}",
        f"evaluation.test_sets=[{{name='test', {pairs['test']}}}]",
        f"seed={seed}",
        f"training.label_smoothing={smoothing}",
        f"training.max_steps={corpus.steps}",
        "training.batch_tokens=2048",
        f"training.checkpoint_every={corpus.steps // 4}",
        "training.averaging.num_checkpoints=2",
    )
    return Run(workspace, "multi30k-en-de", overrides)


@torch.inference_mode()
def calibrate(run: Run, test: Path) -> tuple[float, float, float]:
    """Returns the perplexity of references, the calibration error, and mean confidence - accuracy.

    The latter two are in percent.
    """
    loaded = load_model_folder(run.workspace / "model")
    model, tokenizer = loaded.translator, loaded.tokenizer
    sources, targets = (read_lines(Path(f"{test}.{language}.gz")) for language in ("en", "de"))
    encoded = tokenizer.encode_source(sources), tokenizer.encode_target(targets)
    log_probs, confidences, hits = [], [], []
    for first in range(0, len(sources), AT_ONCE):
        source, target = (Ragged.of(side[first : first + AT_ONCE]) for side in encoded)
        batch = lay_out(source, target, [len(source)])
        states = model(
            batch.source_tokens, batch.source_layout, batch.target_inputs, batch.target_layout
        )
        scores = model.project(batch.target_layout.select_tokens(states)).float().log_softmax(-1)
        log_probs.append(scores.gather(1, batch.target_outputs[:, None])[:, 0])
        best = scores.max(dim=1)
        confidences.append(best.values.exp())
        hits.append((best.indices == batch.target_outputs).float())
    confidence, hit = torch.cat(confidences), torch.cat(hits)
    bins = (confidence * NUM_BINS).long().clamp(max=NUM_BINS - 1)
    gaps = torch.zeros(NUM_BINS).index_add(0, bins, confidence - hit)
    error = gaps.abs().sum().item() / len(hit)
    perplexity = math.exp(-torch.cat(log_probs).double().mean().item())
    return perplexity, 100 * error, 100 * (confidence - hit).mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, a thread each")
    options = parser.parse_args()
    captions, everyday = options.data / "multi30k", options.data / "tatoeba_en_de"
    corpora = {
        "Multi30k": Corpus(
            {
                "train": captions / "train",
                "dev": captions / "val",
                "test": captions / "test_2016_flickr",
            },
            2_000,
        ),
        f"Tatoeba, {NUM_PAIRS:,} pairs": Corpus(
            {
                "train": write_tatoeba(options.data, options.folder),
                "dev": everyday / "dev",
                "test": everyday / "test",
            },
            1_500,
        ),
    }
    rows = {
        (name, smoothing): [
            train(corpus, options.folder / f"{name[:5]}-{smoothing}-{seed}", smoothing, seed)
            for seed in options.seeds
        ]
        for name, corpus in corpora.items()
        for smoothing in SMOOTHING
    }
    finish([run for runs in zip(*rows.values(), strict=True) for run in runs], options.jobs)
    header = "corpus|smoothing|BLEU|chrF2|perplexity|calibration error, %|confidence - accuracy, %"
    print(f"| {header.replace('|', ' | ')} |")
    print("|---" * 7 + "|")
    for (name, smoothing), runs in rows.items():
        scores = [run.read_scores() for run in runs]
        measured = [calibrate(run, corpora[name].files["test"]) for run in runs]
        cells = [
            describe([each[f"test {metric}"] for each in scores]) for metric in ("BLEU", "chrF2")
        ]
        cells += [describe(values) for values in zip(*measured, strict=True)]
        print(f"| {name} | {smoothing} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
