"""Terms that a model has never seen: what a glossary makes of their translations.

    python benchmarks/terms.py FOLDER [--steps 1000]

The phrasebook's pairs without every ninth noun are what five small models learn, four of them with
annotated examples (`data.augment.terms`): by a dictionary of the other nouns, by alignments of the
pairs, by alignments with half of the annotated words left out (`masked`), and with invented stems,
too. They translate pairs that hold one of the nouns left out: the first with no glossary, and by
constraints; the others by annotation. The glossary gives each noun's base form for its singular and
its plural; the grammar inflects, so the references have the right forms. A right form is one that
the reference has. Runs are in FOLDER, and finished ones aren't repeated.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import sacrebleu

from mtkit.data.phrasebook import generate_pairs
from mtkit.data.phrasebook.lexicon import NOUNS, Noun
from mtkit.text.glossary import Glossary, read_glossary
from mtkit.text.term_forms import find_uses

_NUM_TESTED = 400
_WAYS = (
    ("plain", ""),
    ("plain", "constraints"),
    ("dictionary", ""),
    ("dictionary", "annotation"),
    ("aligned", ""),
    ("aligned", "constraints"),
    ("aligned", "annotation"),
    ("masked", ""),
    ("masked", "annotation"),
    ("invented", ""),
    ("invented", "constraints"),
    ("invented", "annotation"),
    ("invented", "both"),
)
"""Which model, and how terms get into its translations."""
_TERMS = {
    "dictionary": "{dictionary='dictionary.tsv', rate=0.5}",
    "aligned": "{rate=0.5}",
    "masked": "{rate=0.5, masked=0.5}",
    "invented": "{rate=0.5, masked=0.5, invented=0.5}",
}
"""How a model's examples are annotated; others have none."""


def write_terms(path: Path, nouns: list[Noun]) -> None:
    """Writes the base form of each noun for its singular and its plural."""
    terms = {
        english: noun.german
        for noun in nouns
        for english in (noun.english, noun.english_plural)
        if noun.german != "-"
    }
    path.write_text("".join(f"{each}\t{terms[each]}\n" for each in terms), encoding="utf-8")


def write_corpora(folder: Path) -> None:
    """Writes training pairs without some nouns, a development set, and pairs to test with them."""
    nouns = [noun for noun in NOUNS if noun.flag != "mass"][::9]
    write_terms(folder / "terms.tsv", nouns)
    write_terms(folder / "dictionary.tsv", [noun for noun in NOUNS if noun not in nouns])
    words = {word for noun in nouns for word in (noun.english, noun.english_plural)}
    german = {noun.german.lower()[:5] for noun in nouns}

    def has_noun(english: str) -> bool:
        return not words.isdisjoint(re.findall(r"\w+", english.lower()))

    def is_free(pair: tuple[str, str]) -> bool:
        # Compounds of German nouns, and whatever else begins like one, are left out, too.
        return not has_noun(pair[0]) and not any(
            word.startswith(tuple(german)) for word in pair[1].lower().split()
        )

    train = [pair for pair in generate_pairs("train", 90_000) if is_free(pair)]
    dev = [pair for pair in generate_pairs("dev", 400) if is_free(pair)][:200]
    test = [pair for pair in generate_pairs("test", 20_000) if has_noun(pair[0])][:_NUM_TESTED]
    for name, pairs in (("train", train), ("dev", dev), ("test", test)):
        for language, side in (("en", 0), ("de", 1)):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{name}.{language}").write_text(text, encoding="utf-8")


def train(folder: Path, name: str, steps: int) -> None:
    """Trains a model, unless it is there."""
    command = [sys.executable, "-m", "mtkit", "run", "-r", "phrasebook-en-de"]
    command += ["-w", str(folder / name), "-s", f"data.data_root={folder}"]
    if name in _TERMS:
        command += ["-s", f"data.augment.terms={_TERMS[name]}"]
    for part in ("train", "dev"):
        files = f"{{source='{part}.en', target='{part}.de'}}"
        command += ["-s", f"data.{part}={f'[{files}]' if part == 'train' else files}"]
    command += ["-s", "evaluation.test_sets=[]", "-s", f"training.max_steps={steps}"]
    subprocess.run(command, check=True)


def translate(folder: Path, name: str, way: str) -> tuple[list[dict], float]:
    """Returns each test line's translation as JSON, and the seconds that it took."""
    command = [sys.executable, "-m", "mtkit", "translate", "--json"]
    command += ["--model", str(folder / name / "model"), "-s", "inference.processes=1"]
    if way:
        command += ["--glossary", str(folder / "terms.tsv"), "-s", f"inference.glossary.way={way}"]
    text = (folder / "test.en").read_bytes()
    started_at = time.perf_counter()
    found = subprocess.run(command, input=text, capture_output=True, check=True)
    seconds = time.perf_counter() - started_at
    return [json.loads(line) for line in found.stdout.decode().splitlines()], seconds


def count_forms(folder: Path, texts: list[str]) -> list[str]:
    """Returns the shares of terms that are used, inflected, missed, and in the right form."""
    glossary = Glossary(read_glossary(folder / "terms.tsv").terms)
    counts: Counter[str] = Counter()
    sources = (folder / "test.en").read_text(encoding="utf-8").splitlines()
    references = (folder / "test.de").read_text(encoding="utf-8").splitlines()
    for source, text, reference in zip(sources, texts, references, strict=True):
        targets = [(found.terms[0].target, False) for found in glossary.find(source)]
        right = Counter(re.findall(r"\w+", reference))
        for use in find_uses(text, targets):
            counts[use.form] += 1
            counts["right"] += use.span is not None and right[text[slice(*use.span)]] > 0
    total = counts["used"] + counts["inflected"] + counts["missed"]
    return [f"{counts[form] / total:.1%}" for form in ("used", "inflected", "missed", "right")]


def main() -> None:
    """Prints a table: a line for each model, without a glossary and with it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--only", choices=("plain", *_TERMS), action="append", help="models")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    write_corpora(folder)
    ways = [each for each in _WAYS if not arguments.only or each[0] in arguments.only]
    for name in dict.fromkeys(name for name, _ in ways):
        train(folder, name, arguments.steps)
    references = (folder / "test.de").read_text(encoding="utf-8").splitlines()
    print("| model | way | used | inflected | missed | right form | BLEU | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for name, way in ways:
        answers, seconds = translate(folder, name, way)
        texts = [answer["text"] for answer in answers]
        bleu = sacrebleu.corpus_bleu(texts, [references]).score
        row = [name, way or "none", *count_forms(folder, texts), f"{bleu:.1f}", f"{seconds:.1f}"]
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
