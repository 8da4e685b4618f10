"""How many placeholders, numbers and addresses of real text each `inference.protect` way keeps.

python benchmarks/placeholders.py train DATA WORK      models: without augmentation,
                                                       with symbols, with terms, and with terms
                                                       half of which are left out
python benchmarks/placeholders.py measure DATA WORK    lines whose pieces are all kept, BLEU, time;
                                                       --model measures another model folder

DATA holds multi30k/ and mixed_en_de/. The strings are those of the German .mo files of installed
packages: those without a placeholder are training text together with Multi30k; up to 5,000 with
one are the test set. A second test set has the lines of newstest2014 with a number or an address, a
third plain captions of test2016. Time is CPU time, without loading the model.
"""

import argparse
import gettext
import gzip
import random
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import sacrebleu

from mtkit import Request, Translation, Translator
from mtkit.recipe.protection import Protect, ProtectionWay
from mtkit.text.protected import PieceFinder

LOCALES = Path("/usr/share/locale/de/LC_MESSAGES")
MAX_TEST_LINES = 5_000
MAX_STEPS = 7_000
Ways = tuple[ProtectionWay, ...]
WAYS: tuple[Ways | None, ...] = (
    None,
    ("masked",),
    ("constrained",),
    ("n_best",),
    ("masked", "constrained", "n_best"),
    ("constrained", "masked", "n_best"),
    ("n_best", "masked", "constrained"),
)
"""None: nothing is protected."""
RECIPE = """\
name = "{name}"
[data]
source_language = "en"
target_language = "de"
word_aligner = true
[[data.train]]
source = "{data}/multi30k/train.en.gz"
target = "{data}/multi30k/train.de.gz"
[[data.train]]
source = "strings.en"
target = "strings.de"
[data.dev]
source = "{data}/multi30k/val.en.gz"
target = "{data}/multi30k/val.de.gz"
{augment}
[tokenizer]
kind = "bpe"
vocab_size = 6000
[model]
num_encoder_layers = 4
num_decoder_layers = 4
d_model = 128
d_ff = 256
num_heads = 4
norm = "pre"
dropout = 0.1
[training]
max_steps = {max_steps}
batch_tokens = 2048
length_groups = 1
micro_batch_tokens = 4096
checkpoint_every = 500
schedule = {{ kind = "linear", peak = 3e-3, warmup_steps = 400 }}
"""
RUNS = {
    "plain": "",
    "placeholders": "[data.augment]\nplaceholders = { rate = 0.2 }",
    "terms": "[data.augment]\nterms = { rate = 0.5 }",
    "masked": "[data.augment]\nterms = { rate = 0.5, masked = 0.5 }",
    "invented": "[data.augment]\nterms = { rate = 0.5, masked = 0.5, invented = 0.5 }",
}


def read_strings() -> dict[str, str]:
    pairs = {}
    for path in sorted(LOCALES.glob("*.mo")):
        try:
            with path.open("rb") as stream:
                catalogue = gettext.GNUTranslations(stream)._catalog
        except (OSError, UnicodeDecodeError, ValueError, struct.error):
            continue
        for source, target in catalogue.items():
            # Without plural forms, contexts and texts of several lines.
            if (
                isinstance(source, str)
                and 10 <= len(source) <= 200
                and target
                and not any(sign in source + target for sign in "\n\x04")
            ):
                pairs[source] = target
    return pairs


def split_strings() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Returns pairs without a placeholder, and some with one."""
    finder = PieceFinder(Protect(numbers=False, urls=False, emails=False))
    free, held = [], []
    for source, target in sorted(read_strings().items()):
        has_any = finder.find(source).pieces or finder.find(target).pieces
        (held if has_any else free).append((source, target))
    random.Random(1).shuffle(held)
    return free, held[:MAX_TEST_LINES]


def train(data: Path, work: Path, names: list[str], changes: list[str]) -> None:
    free, held = split_strings()
    print(f"{len(free):,} strings without a placeholder, {len(held):,} with one", file=sys.stderr)
    for name in names:
        augment = RUNS[name]
        folder = work / name
        folder.mkdir(parents=True, exist_ok=True)
        for language, lines in zip(("en", "de"), zip(*free, strict=True), strict=True):
            (folder / f"strings.{language}").write_text("".join(f"{line}\n" for line in lines))
        recipe = RECIPE.format(name=name, data=data, augment=augment, max_steps=MAX_STEPS)
        (folder / "mtkit.toml").write_text(recipe)
        for command in ("prepare", "train", "average"):
            started_at = time.monotonic()
            settings = [part for change in changes for part in ("--set", change)]
            subprocess.run(
                [sys.executable, "-m", "mtkit", command, *settings], cwd=folder, check=True
            )
            print(f"{name} {command}: {time.monotonic() - started_at:.0f} s", file=sys.stderr)


def translate(translator: Translator, lines: list[str], ways: Ways | None) -> list[Translation]:
    """Returns translations by some ways of protection; unchecked ones where that's None."""
    protect = None if ways is None else Protect(ways=ways)
    settings = translator.settings.model_copy(update={"protect": protect})
    return translator.search([Request(line, settings=settings) for line in lines], warns=False)


def count_kept(sources: list[str], outputs: list[str], *kinds: str) -> tuple[int, int]:
    """Returns how many lines have pieces of some kinds, and how many of these keep all of them."""
    names = ("placeholders", "numbers", "urls", "emails")
    finder = PieceFinder(Protect(**{name: name in kinds for name in names}))
    found = [(finder.find(source), output) for source, output in zip(sources, outputs, strict=True)]
    having = [(source, output) for source, output in found if source.pieces]
    return len(having), sum(not finder.find_lost(source, output) for source, output in having)


def read_news(data: Path) -> list[tuple[str, str]]:
    """Returns pairs of newstest2014 whose source has something to protect."""
    sources, targets = (
        gzip.decompress((data / f"mixed_en_de/test.{language}.gz").read_bytes())
        .decode()
        .split("\n")[:-1]
        for language in ("en", "de")
    )
    finder = PieceFinder(Protect())
    pairs = zip(sources, targets, strict=True)
    return [(source, target) for source, target in pairs if finder.find(source).pieces]


def read_captions(data: Path) -> list[tuple[str, str]]:
    """Returns the pairs of Multi30k's test2016, which is plain text."""
    sides = (
        gzip.decompress((data / f"multi30k/test_2016_flickr.{language}.gz").read_bytes())
        for language in ("en", "de")
    )
    return list(zip(*(side.decode().split("\n")[:-1] for side in sides), strict=True))


def measure(
    data: Path, models: dict[str, Path], num_lines: int, chosen: Sequence[Ways | None]
) -> None:
    tests = {
        "strings": split_strings()[1],
        "news": read_news(data),
        "captions": read_captions(data),
    }
    tests = {test: pairs[:num_lines] for test, pairs in tests.items()}
    print(
        "| model | text | ways | placeholders kept | numbers and addresses kept "
        "| plain, masked, constrained, n-best, lost | BLEU | CPU seconds |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for model, folder in models.items():
        translator = Translator(folder, device="cpu")
        for test, pairs in tests.items():
            sources, references = map(list, zip(*pairs, strict=True))
            translate(translator, sources[:8], None)
            for ways in chosen:
                started_at = time.process_time()
                found = translate(translator, sources, ways)
                seconds = time.process_time() - started_at
                outputs = [each.text for each in found]
                kept = [
                    count_kept(sources, outputs, *kinds)
                    for kinds in (("placeholders",), ("numbers", "urls", "emails"))
                ]
                shares = [f"{good:,} of {total:,}" for total, good in kept]
                counts = Counter(each.protection and each.protection.way for each in found)
                kinds = ("plain", "masked", "constrained", "n_best", None)
                told = "" if ways is None else ", ".join(str(counts[way]) for way in kinds)
                bleu = sacrebleu.corpus_bleu(outputs, [references]).score
                name = "off" if ways is None else ", ".join(ways)
                print(
                    f"| {model} | {test} | {name} | {shares[0]} | {shares[1]} | {told} | "
                    f"{bleu:.1f} | {seconds:.1f} |",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("step", choices=("train", "measure"))
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--only", choices=RUNS, action="append", help="of the models")
    parser.add_argument("--model", type=Path, action="append", help="measure this instead")
    parser.add_argument("--set", action="append", default=[], help="of the recipe, for train")
    parser.add_argument("--lines", type=int, default=MAX_TEST_LINES, help="of each test, at most")
    parser.add_argument("--ways", action="append", help="as masked,constrained, or off")
    options = parser.parse_args()
    data, work, names = options.data.resolve(), options.work.resolve(), options.only or list(RUNS)
    if options.step == "train":
        train(data, work, names, options.set)
        return
    models = {name: work / name / "runs" / name / "model" for name in names}
    if options.model:
        models = {str(model): model for model in options.model}
    chosen = [
        None if each == "off" else Protect(ways=tuple(each.split(","))).ways
        for each in options.ways or ()
    ]
    measure(data, models, options.lines, chosen or WAYS)


if __name__ == "__main__":
    main()
