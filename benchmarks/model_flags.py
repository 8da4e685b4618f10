"""Thresholds of the flags that a model decides: `unlikely` and `poorly covered`.

    python benchmarks/model_flags.py DATA MODEL [--lines N] [--pair NAME]

MODEL is a folder of an English-German translator with an alignment head. Good lines are references
of a test set; faults are planted in them. What the model itself translates is measured, too: by the
mean chrF of the lines that are flagged, and of the others. Each threshold is chosen on every second
line, so that a stated share of the references, or of the model's own translations, is flagged, and
measured on the others. The outputs of WMT17's systems are of no use here: their English source
isn't among those files, and a model has to read it.
"""

import argparse
import random
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import sacrebleu
from flags import double, loop, read

from mtkit import Request, Translator
from mtkit.inference.translation import Translation
from mtkit.recipe.flags import Flags

_TEST_SETS = {
    "multi30k": ("multi30k/test_2016_flickr.en.gz", "multi30k/test_2016_flickr.de.gz"),
    "tatoeba": ("tatoeba_en_de/test.en.gz", "tatoeba_en_de/test.de.gz"),
    "newstest2014": ("mixed_en_de/test.en.gz", "mixed_en_de/test.de.gz"),
}
_ALL = Flags(names=("unlikely", "poorly covered"), min_log_probability=0.0, min_coverage=1.0)
"""Thresholds that flag each line, with what was found."""
_OWN = "own translation"
_CHOICES = (("reference", 0.01), ("reference", 0.02), (_OWN, 0.01), (_OWN, 0.02))
"""Which good lines are flagged, and what share of them."""

Values = list[tuple[float, float]]
"""Mean log-probability and coverage of each line."""


def measure(found: Sequence[Translation]) -> Values:
    """Returns the mean log-probability and coverage of each translation."""
    values = []
    for translation in found:
        of_line = {flag.name: flag.found for flag in translation.flags or ()}
        # One that isn't flagged is at the end of the scale.
        values.append((of_line.get("unlikely", 0.0), of_line.get("poorly covered", 1.0)))
    return values


def plant(sources: list[str], targets: list[str]) -> dict[str, list[tuple[str, str]]]:
    """Returns pairs with each fault, of the lines that can have it."""
    generator = random.Random(1)
    pairs = list(zip(sources, targets, strict=True))
    following = [*targets[1:], targets[0]]
    faults: dict[str, list[str | None]] = {
        "another line's": list(following),
        "cut to half": [" ".join(text.split()[: len(text.split()) // 2]) for text in targets],
        "half of the source left out": [
            " ".join(text.split()[len(text.split()) // 2 :]) for text in targets
        ],
        "second half doubled": [double(text) for text in targets],
        "a word five times": [loop(text) for text in targets],
        "words shuffled": [_shuffle(text, generator) for text in targets],
        "three words of another line": [
            _mix(text, other) for text, other in zip(targets, following, strict=True)
        ],
        "the source copied": list(sources),
    }
    return {
        name: [
            (source, text)
            for (source, _), text in zip(pairs, texts, strict=True)
            if text is not None and text.strip()
        ]
        for name, texts in faults.items()
    }


def _shuffle(text: str, generator: random.Random) -> str:
    words = text.split()
    generator.shuffle(words)
    return " ".join(words)


def _mix(text: str, other: str) -> str | None:
    words, others = text.split(), other.split()
    middle = len(words) // 2
    if len(words) < 8 or len(others) < 8:
        return None
    return " ".join([*words[: middle - 1], *others[2:5], *words[middle + 2 :]])


def choose(values: Sequence[float], share: float) -> float:
    """Returns a threshold with this share of the values below it, rounded down."""
    return sorted(values)[int(share * len(values))]


def share_below(values: Sequence[float], threshold: float) -> float:
    return 100.0 * sum(value < threshold for value in values) / max(1, len(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--pair", choices=_TEST_SETS, default="multi30k")
    parser.add_argument("--lines", type=int, default=1_000)
    options = parser.parse_args()
    sources, targets = (
        read(options.data / name)[: options.lines] for name in _TEST_SETS[options.pair]
    )
    saved = Translator(options.model, device="cpu").settings
    settings = saved.model_copy(update={"flags": _ALL, "alignments": True})
    translator = Translator(options.model, device="cpu", settings=settings)
    kinds = {"reference": list(zip(sources, targets, strict=True)), **plant(sources, targets)}
    values = {name: measure(translator.score(pairs)) for name, pairs in kinds.items()}
    own = translator.search([Request(source) for source in sources], warns=False)
    values[_OWN] = measure(own)
    qualities = [
        sacrebleu.sentence_chrf(each.text, [target]).score
        for each, target in zip(own, targets, strict=True)
    ]
    for index, name in enumerate(("mean log-probability", "coverage")):
        thresholds = [
            choose([value[index] for value in values[kind][::2]], share) for kind, share in _CHOICES
        ]
        default = (Flags().min_log_probability, Flags().min_coverage)[index]
        heads = [
            f"{share:.0%} of {kind}s: {at:.2f}"
            for (kind, share), at in zip(_CHOICES, thresholds, strict=True)
        ]
        thresholds.append(default)
        print(f"\n| {name} | quartiles | {' | '.join(heads)} | default: {default} |")
        print("|---" * (len(thresholds) + 2) + "|")
        for kind, of_kind in values.items():
            held_out = [value[index] for value in of_kind[1::2]]
            ordered = sorted(held_out)
            quartiles = ", ".join(f"{ordered[len(ordered) * part // 4]:.2f}" for part in (1, 2, 3))
            shares = [share_below(held_out, at) for at in thresholds]
            print(
                f"| {kind} | {quartiles} | " + " | ".join(f"{each:.1f}" for each in shares) + " |"
            )
        rows = list(zip(values[_OWN], qualities, strict=True))[1::2]
        cells = []
        for at in thresholds:
            flagged = [quality for value, quality in rows if value[index] < at]
            others = [quality for value, quality in rows if value[index] >= at]
            means = [f"{fmean(each):.0f}" if each else "-" for each in (flagged, others)]
            cells.append(" / ".join(means))
        print("| chrF of own translations, flagged / others | | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
