"""Translations of sentences longer than any in training, with each kind of positions.

    python benchmarks/longer_sentences.py DATA FOLDER [--seeds 1] [--jobs N]

DATA has the folders `mixed_en_de` and `tatoeba_en_de`. A small network, 4+4 layers of 128,
learns from the former's pairs of at most 20 pieces a side, with sinusoidal, learned and rotary
positions in turn, in equal updates. Each translates newstest2014, and sentences are scored by
the number of their source's pieces. Runs are in FOLDER, and finished ones aren't repeated.
"""

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

import sacrebleu
from text_runs import Run, describe, finish, read_lines

from mtkit.model.folder import load_model_folder

KINDS = {
    "sinusoidal": ["model.positions=sinusoidal"],
    "learned": ["model.positions=learned", "model.max_positions=256"],
    "rotary": ["model.positions=rotary"],
}
BOUNDS = [(1, 20), (21, 30), (31, 40), (41, 60), (61, 80)]
"""Pieces of a source, first and last."""
COMMON = [
    "data.cleaning.max_tokens=20",
    "tokenizer.vocab_size=4000",
    "model.num_encoder_layers=4",
    "model.num_decoder_layers=4",
    "model.d_model=128",
    "model.d_ff=512",
    "training.batch_tokens=2048",
    "training.length_groups=1",
    "training.max_steps=5000",
    "training.checkpoint_every=1000",
    "training.schedule={kind='linear', peak=3e-3, warmup_steps=400}",
    "training.averaging.num_checkpoints=2",
    "data.dev={source='../tatoeba_en_de/dev.en.gz', target='../tatoeba_en_de/dev.de.gz'}",
    "evaluation.test_sets=[]",
]


def train(data: Path, folder: Path, kind: str, seed: int) -> Run:
    """Returns the run of a kind of positions."""
    root = f"data.data_root={data.absolute() / 'mixed_en_de'}"
    overrides = (root, f"seed={seed}", *COMMON, *KINDS[kind])
    return Run(folder / f"{kind}-seed-{seed}", "mixed-en-de-small", overrides, is_scored=False)


def translate(run: Run, lines: list[str]) -> list[str]:
    """Returns the translations of lines, which are kept in the run's folder."""
    output = run.workspace / "newstest2014.de"
    if not output.is_file():
        command = [sys.executable, "-m", "mtkit", "translate"]
        command += ["--model", str(run.workspace / "model")]
        text = "".join(f"{line}\n" for line in lines)
        done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True)
        output.write_text(done.stdout, "utf-8")
    return read_lines(output)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, a thread each")
    options = parser.parse_args()
    sources, references = (
        read_lines(options.data / "mixed_en_de" / f"test.{language}.gz")
        for language in ("en", "de")
    )
    runs = {
        kind: [train(options.data, options.folder, kind, seed) for seed in options.seeds]
        for kind in KINDS
    }
    finish([run for of_seed in zip(*runs.values(), strict=True) for run in of_seed], options.jobs)
    tokenizer = load_model_folder(runs["rotary"][0].workspace / "model").tokenizer
    # The last of a sentence's tokens is `</s>`.
    lengths = [len(tokens) - 1 for tokens in tokenizer.encode_source(sources)]
    groups = {
        bounds: [index for index, length in enumerate(lengths) if bounds[0] <= length <= bounds[1]]
        for bounds in BOUNDS
    }
    print(
        "| source pieces | sentences | "
        + " | ".join(f"{kind} BLEU, chrF2, length" for kind in KINDS)
        + " |"
    )
    print("|---" * (2 + len(KINDS)) + "|")
    for (first, last), indices in groups.items():
        cells = []
        for of_kind in runs.values():
            scores = [score(translate(run, sources), references, indices) for run in of_kind]
            bleu, chrf = (describe(values) for values in list(zip(*scores, strict=True))[:2])
            ratio = statistics.mean(each[2] for each in scores)
            cells.append(f"{bleu}, {chrf}, {ratio:.2f}")
        print(f"| {first} to {last} | {len(indices)} | {' | '.join(cells)} |")


def score(
    hypotheses: list[str], references: list[str], indices: list[int]
) -> tuple[float, float, float]:
    """Returns BLEU, chrF2, and how long the translations are compared with the references."""
    ours, theirs = [hypotheses[each] for each in indices], [[references[each] for each in indices]]
    bleu = sacrebleu.corpus_bleu(ours, theirs)
    return bleu.score, sacrebleu.corpus_chrf(ours, theirs).score, bleu.sys_len / bleu.ref_len


if __name__ == "__main__":
    main()
