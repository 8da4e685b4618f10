"""Compares translation speed with CTranslate2 and OpenNMT-py: sentences per second, alternately.

All have the same weights, sentences and search: mtkit; CTranslate2's own client on what mtkit
exported; OpenNMT-py's own translator on a checkpoint made from the same weights. Each translates in
its own process, one after the other, for `--rounds` rounds: from the start of its process to the
end, warm in memory, and one line from a cold start. Each peer's settings are in its worker, in
`peers/`.
"""

import argparse
import gzip
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from peers.contestants import Contestant, Plan, list_contestants, make_ready, measure
from peers.machine import describe_machine, print_machine
from peers.random_model import SHAPES, make_random_model
from peers.translation_report import print_report, summarize

from mtkit.cpus import count_cpus
from mtkit.errors import MtkitError
from mtkit.files import read_json
from mtkit.model.config import CONFIG_FILE, read_config, read_settings
from mtkit.recipe.inference import Inference
from mtkit.recipe.override_section import override_section
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.tokenizer_files import SETTINGS_FILE

SYSTEMS = ("mtkit", "ctranslate2", "onmt")
MEASURES = ("first", "whole", "steady")
TEST_SET = "multi30k/test_2016_flickr"


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--model", type=Path, action="append", default=[], help="a model folder; may be repeated")
    add("--random", choices=SHAPES, action="append", default=[], help="a model with random weights")
    add("--tokenizer", type=Path, help="folder with --random's tokenizer; default: first --model's")
    add("--random-tokens", type=int, default=15, help="of every output of --random")
    add("--source", type=Path, help=f"text, may be .gz; $MTKIT_TEST_DATA/{TEST_SET}.en.gz without")
    add("--reference", type=Path, help="what --source is to be translated to")
    add("--lines", type=int, default=1000)
    add("--systems", default=",".join(SYSTEMS), help="by commas; onmt needs --environments")
    add("--precision", default="auto", help="of mtkit's engine: auto, fp32, bf16, by commas")
    add("--quantization", default="float32,int8", help="types to export to, by commas")
    add("--environments", type=Path, help="as make_environments.sh made them")
    add("--ctranslate2-python", default=sys.executable, help="has ctranslate2 and sentencepiece")
    add("--beam", type=int, default=4, help="0: each model's own")
    add("--set", action="append", default=[], dest="overrides", metavar="inference.KEY=VALUE")
    add("--threads", type=int, default=0, help="0: as many as there are CPUs for it")
    add("--rounds", type=int, default=3)
    add("--measure", default=",".join(MEASURES), help="first line, whole run, steady state")
    add("--warm-up", type=int, default=300, help="lines before the steady state is timed")
    add("--tuning-lines", type=int, default=400, help="lines by which peers' batches are chosen")
    add("--time-limit", type=float, default=1800.0, help="seconds of one run")
    add("--work", type=Path, help="keeps exports, checkpoints and translations here")
    add("--json", type=Path)
    return parser.parse_args()


def read_text(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Returns source and reference lines, without the blank ones, as many as asked for.

    Raises:
        MtkitError: There are none, or they don't pair.
    """
    source, reference = options.source, options.reference
    if source is None:
        data = os.environ.get("MTKIT_TEST_DATA")
        if data is None:
            raise MtkitError("no text to translate", "name some with --source and --reference")
        source, reference = (Path(data) / f"{TEST_SET}.{side}.gz" for side in ("en", "de"))
    if reference is None:
        raise MtkitError("no reference to measure BLEU by", "name one with --reference")
    sides = [read_lines(path) for path in (source, reference)]
    if len(sides[0]) != len(sides[1]):
        raise MtkitError(f"{source} has {len(sides[0])} lines, {reference} {len(sides[1])}")
    pairs = [pair for pair in zip(*sides, strict=True) if pair[0].strip()][: options.lines]
    if not pairs:
        raise MtkitError(f"{source} has no lines")
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def read_lines(path: Path) -> list[str]:
    r"""Returns the lines of a file, which `\n` alone ends.

    Raises:
        MtkitError: There is no such file.
    """
    if not path.is_file():
        raise MtkitError(f"{path}: no such file")
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
    return text.removesuffix("\n").split("\n")


def resolve_search(model: Path, options: argparse.Namespace) -> tuple[Inference, list[str]]:
    """Returns how all search, and what is to be set for that in mtkit.

    Raises:
        MtkitError: Something that not every contestant has.
    """
    overrides = [
        *([f"inference.beam_size={options.beam}"] if options.beam else []),
        # The one form of it that all have.
        "inference.length_penalty.kind=power",
        *options.overrides,
    ]
    settings = override_section(read_settings(model), "inference", overrides)
    wanted = Inference(
        beam_size=settings.beam_size,
        length_penalty=settings.length_penalty,
        min_length=settings.min_length,
        max_extra_tokens=settings.max_extra_tokens,
        max_source_tokens=settings.max_source_tokens,
        batch_tokens=settings.batch_tokens,
        engine=settings.engine,
        precision=settings.precision,
    )
    if settings != wanted or settings.length_penalty.kind != "power":
        raise MtkitError(
            "not every contestant has all of these: "
            f"{settings.model_dump_json(exclude_defaults=True)}",
            "all have beam_size, min_length, max_extra_tokens and length_penalty.alpha",
        )
    return settings, overrides


def plan(model: Path, folder: Path, source: list[str], options: argparse.Namespace) -> Plan:
    """Returns a model's facts that all contestants get.

    Raises:
        MtkitError: There is no model, or its text isn't cut by SentencePiece alone.
    """
    settings, overrides = resolve_search(model, options)
    tokenizer = SubwordTokenizer.load(model)
    has_settings = (model / SETTINGS_FILE).is_file()
    tagging = read_json(model / SETTINGS_FILE) if has_settings else {}
    if any(each and any(each) if isinstance(each, list) else each for each in tagging.values()):
        raise MtkitError(f"the peers have no tags and no rules for punctuation: {tagging}")
    longest = max(len(tokens) for tokens in tokenizer.encode_source(source))
    if longest > settings.max_source_tokens:
        raise MtkitError(
            f"a line has {longest} tokens, and mtkit alone would cut it into sentences",
            "leave it out, or raise it: --set inference.max_source_tokens=...",
        )
    path = folder / "source.txt"
    path.write_text("".join(f"{line}\n" for line in source), "utf-8")
    return Plan(
        model=model,
        folder=folder,
        overrides=overrides,
        search={
            "beam_size": settings.beam_size,
            "alpha": settings.length_penalty.alpha,
            "min_length": settings.min_length,
            "max_length": longest + settings.max_extra_tokens,
        },
        lines={
            "source": str(path),
            "warm_up": options.warm_up,
            "tuning_lines": options.tuning_lines,
        },
        num_lines=len(source),
        threads=options.threads,
        time_limit=options.time_limit,
    )


def list_models(options: argparse.Namespace, folder: Path) -> dict[str, Path]:
    """Returns the model folders by name; makes the random ones.

    Raises:
        MtkitError: There is none, or no tokenizer for a random one.
    """
    models = {str(model): model for model in options.model}
    for shape in options.random:
        pieces = options.tokenizer or next(iter(options.model), None)
        if pieces is None:
            raise MtkitError("--random needs a tokenizer", "name a folder of one with --tokenizer")
        model = folder / f"random-{shape}"
        make_random_model(model, shape, pieces, options.random_tokens)
        models[f"{shape}, random weights"] = model
    if not models:
        raise MtkitError("no model to translate with", "name one with --model or --random")
    for model in options.model:
        if not (model / CONFIG_FILE).is_file():
            raise MtkitError(f"{model}: no model here (no {CONFIG_FILE})")
    return models


def print_head(name: str, given: Plan, options: argparse.Namespace) -> None:
    config = read_config(given.model)
    shape = config.model
    print(
        f"\n## {name}\n{shape.num_encoder_layers}+{shape.num_decoder_layers} layers, "
        f"{shape.d_model}, {shape.d_ff}, {shape.num_heads} heads, {shape.norm}-norm, "
        f"{config.target_vocab_size:,} pieces; {given.num_lines:,} sentences, beam "
        f"{given.search['beam_size']}, log-probability / length^{given.search['alpha']}, "
        f"{given.search['min_length']} to {given.search['max_length']} tokens; "
        f"{given.threads} threads, {options.rounds} rounds"
    )


def compare(name: str, model: Path, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Returns what was measured of all contestants with one model.

    Raises:
        MtkitError: There is no such model, or its search can't be everyone's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    source, reference = read_text(options)
    given = plan(model, folder, source, options)
    print_head(name, given, options)
    contestants = [
        contestant
        for contestant in list_contestants(given, options)
        if make_ready(contestant, given)
    ]
    if not contestants:
        raise MtkitError(f"{model}: no system can translate with it")
    measures = options.measure.split(",")
    for number in range(1, options.rounds + 1):
        for contestant in contestants:
            measured = {what: measure(contestant, given, what) for what in measures}
            contestant.rounds.append(measured)
            show_progress(number, contestant)
    report = summarize(contestants, reference)
    print_report(report, options.rounds)
    return {
        "name": name,
        "search": given.search,
        **report,
        "raw": {contestant.label: contestant.rounds for contestant in contestants},
    }


def show_progress(number: int, contestant: Contestant) -> None:
    seconds = ", ".join(
        f"{what} {measured['seconds']:.2f} s"
        for what, measured in contestant.rounds[-1].items()
        if measured is not None
    )
    print(f"round {number}: {contestant.label}: {seconds}", file=sys.stderr)


def main() -> None:
    options = parse_options()
    for word, known in ((options.systems, SYSTEMS), (options.measure, MEASURES)):
        unknown = set(word.split(",")) - set(known)
        if unknown:
            raise MtkitError(f"no such thing: {', '.join(unknown)}", f"there are {known}")
    if not options.threads:
        options.threads = count_cpus()
    if options.work is not None and options.work.is_dir() and any(options.work.iterdir()):
        raise MtkitError(f"{options.work} isn't empty", "name a new folder with --work")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if options.work is None else options.work.absolute()
        models = list_models(options, folder)
        machine = describe_machine()
        print_machine(machine)
        reports = [
            compare(name, model, folder / f"model-{number}", options)
            for number, (name, model) in enumerate(models.items(), start=1)
        ]
    if options.json is not None:
        report = {"machine": machine, "models": reports}
        options.json.write_text(json.dumps(report, indent=2), "utf-8")


if __name__ == "__main__":
    try:
        main()
    except MtkitError as error:
        sys.exit(f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))
