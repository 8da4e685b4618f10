"""BLEU by beam size and length penalty on a development set, and the oracle of n-best lists.

python benchmarks/beam_table.py --model FOLDER [--model OTHER] --source FILE --reference FILE

Prints BLEU for beams of 1 to 16 and alphas of 0 to 1; the BLEU of the best hypothesis of each list
by sentence BLEU (the oracle); and, with two models, what each reaches alone and both as an
ensemble. BLEU is sacreBLEU's; --tokenize none is for text that is tokenised already.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import sacrebleu

from mtkit import Translation, Translator
from mtkit.model.config import read_settings
from mtkit.recipe.inference import Inference, LengthPenalty

BEAM_SIZES = (1, 2, 4, 5, 8, 16)
ALPHAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", action="append", required=True, dest="models")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--tokenize", default="13a")
    parser.add_argument("--kind", choices=("gnmt", "power"), default="gnmt")
    options = parser.parse_args()
    sources = options.source.read_text("utf-8").splitlines()
    references = options.reference.read_text("utf-8").splitlines()
    defaults = read_settings(Path(options.models[0]))

    def search(
        models: Sequence[str], beam_size: int, alpha: float, n_best: int = 1
    ) -> list[Translation]:
        penalty = LengthPenalty(kind=options.kind, alpha=alpha)
        changes = {"beam_size": beam_size, "n_best": n_best, "length_penalty": penalty}
        settings = Inference(**{**dict(defaults), **changes})
        return Translator(models, settings=settings).search(sources)

    def bleu(hypotheses: Sequence[str]) -> float:
        tokenize = options.tokenize
        return sacrebleu.corpus_bleu(hypotheses, [references], tokenize=tokenize).score

    first = options.models[:1]
    print(f"BLEU of {len(sources):,} sentences, {options.kind} penalty, alpha across")
    print("beam  " + "  ".join(f"{alpha:5.1f}" for alpha in ALPHAS))
    for beam_size in BEAM_SIZES:
        row = [bleu([found.text for found in search(first, beam_size, alpha)]) for alpha in ALPHAS]
        print(f"{beam_size:4}  " + "  ".join(f"{value:5.2f}" for value in row), flush=True)
    for beam_size in BEAM_SIZES[2:]:
        lists = search(first, beam_size, defaults.length_penalty.alpha, beam_size)
        print(f"oracle of {beam_size:2}: {bleu(choose_best(lists, references)):.2f}", flush=True)
    if len(options.models) > 1:
        groups = [[model] for model in options.models] + [options.models]
        for models in groups:
            found = search(models, defaults.beam_size, defaults.length_penalty.alpha)
            print(f"{' + '.join(models)}: {bleu([each.text for each in found]):.2f}", flush=True)


def choose_best(lists: Sequence[Translation], references: Sequence[str]) -> list[str]:
    """Returns the text of each list that is most like the reference, by sentence BLEU."""
    return [
        max(
            (candidate.text for candidate in found.candidates),
            key=lambda text, reference=reference: sacrebleu.sentence_bleu(text, [reference]).score,
        )
        for found, reference in zip(lists, references, strict=True)
    ]


if __name__ == "__main__":
    main()
