"""Measures translation speed of a model folder on stdin: sentences per second by beam size."""

import sys
import time

import torch

from mtkit import Translator
from mtkit.recipe.inference import Inference


def main() -> None:
    lines = sys.stdin.read().splitlines()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {len(lines)} sentences")
    for beam_size in (1, 4):
        translator = Translator(sys.argv[1], device="cpu", settings=Inference(beam_size=beam_size))
        list(translator.translate(lines[:64]))
        started_at = time.perf_counter()
        list(translator.translate(lines))
        elapsed_seconds = time.perf_counter() - started_at
        print(f"beam {beam_size}: {len(lines) / elapsed_seconds:,.1f} sentences per second")


if __name__ == "__main__":
    main()
