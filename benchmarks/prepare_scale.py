"""Measures `mtkit prepare` at scale: memory of all its processes, time by stage, cost by filter."""

import argparse
import gzip
import json
import re
import resource
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from threading import Thread

import psutil
import sentencepiece

from mtkit.data.preparation.stage import Preparation, read_record
from mtkit.data.preparation.text_store import TextStore
from mtkit.data.preparation.tokenize_text import tokenize_text
from mtkit.executor import LocalExecutor
from mtkit.folders import remove_folder
from mtkit.recipe import load_recipe

_RECIPE = """\
name = "scale"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
source = "train.en"
target = "train.de"
[data.dev]
source = "dev.en"
target = "dev.de"
[tokenizer]
vocab_size = {vocab_size}
[[evaluation.test_sets]]
name = "test"
source = "test.en"
target = "test.de"
"""
_ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path, help="folder with {train,dev,test}.{en,de}.gz")
    parser.add_argument("folder", type=Path, help="where to work; gigabytes")
    parser.add_argument("--pairs", type=int, default=4_500_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--vocab-size", type=int, default=16_000)
    parser.add_argument("--skip-encoding", action="store_true", help="measure `prepare` alone")
    options = parser.parse_args()
    folder = options.folder / f"{options.pairs}"
    if not (folder / "scale.toml").is_file():
        write_corpus(options.corpus, folder, options.pairs)
        (folder / "scale.toml").write_text(_RECIPE.format(vocab_size=options.vocab_size))
    remove_folder(folder / "run")
    measure_command(folder, options.workers)
    show_filters(folder, options.pairs)
    if not options.skip_encoding:
        compare_encoding(folder, options.workers)


def write_corpus(corpus: Path, folder: Path, num_pairs: int) -> None:
    """Writes the corpus repeated to a number of pairs, each made distinct by its round's number."""
    folder.mkdir(parents=True, exist_ok=True)
    for language in ("en", "de"):
        for split in ("dev", "test"):
            text = gzip.decompress((corpus / f"{split}.{language}.gz").read_bytes())
            (folder / f"{split}.{language}").write_bytes(text)
        lines = gzip.decompress((corpus / f"train.{language}.gz").read_bytes()).split(b"\n")[:-1]
        with (folder / f"train.{language}").open("wb") as stream:
            for first in range(0, num_pairs, len(lines)):
                mark = b" %d\n" % (first // len(lines))
                stream.write(mark.join([*lines[: num_pairs - first], b""]))


def measure_command(folder: Path, num_workers: int) -> None:
    command = [sys.executable, "-m", "mtkit", "prepare", "--recipe", str(folder / "scale.toml")]
    command += ["--workspace", str(folder / "run"), "--workers", str(num_workers)]
    started_at = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    ended: list[str] = []
    thread = Thread(target=follow, args=(process, ended))
    thread.start()
    peaks: dict[int, dict[str, float]] = {}
    while process.poll() is None:
        of_stage = peaks.setdefault(len(ended), {"resident": 0.0, "proportional": 0.0})
        for kind, megabytes in measure_memory(psutil.Process(process.pid)).items():
            of_stage[kind] = max(of_stage[kind], megabytes)
        time.sleep(0.1)
    thread.join()
    if process.returncode:
        raise SystemExit(process.returncode)
    print(f"prepare, {num_workers} workers: {time.perf_counter() - started_at:.1f} s")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"  CPU time of all processes: {used.ru_utime + used.ru_stime:,.1f} s")
    for number, of_stage in peaks.items():
        stage = [*ended, "report"][number]
        listed = ", ".join(f"{kind} {each:,.0f} MiB" for kind, each in of_stage.items())
        print(f"  peak memory of all processes, {stage}: {listed}")


def follow(process: "subprocess.Popen[str]", ended: list[str]) -> None:
    """Prints what a command says, and lists the stages that have ended."""
    assert process.stderr is not None
    for line in process.stderr:
        print(line, end="", file=sys.stderr)
        if stage := re.match(r"(\w+): [\d.,]+ s$", line.strip()):
            ended.append(stage[1])


def measure_memory(parent: psutil.Process) -> dict[str, float]:
    """Returns the memory of a process and all below it, in MiB.

    Proportional memory divides a page among the processes that share it.
    """
    sums = {"resident": 0.0, "proportional": 0.0}
    try:
        for process in (parent, *parent.children(recursive=True)):
            memory = process.memory_full_info()
            sums["resident"] += memory.rss / 2**20
            sums["proportional"] += memory.pss / 2**20
    except psutil.Error:
        # A process that has just ended.
        return {}
    return sums


def show_filters(folder: Path, num_pairs: int) -> None:
    report = json.loads((folder / "run" / "data" / "report.json").read_text("utf-8"))
    print("CPU time of the cleaning:")
    for name, seconds in sorted(report["seconds"].items(), key=lambda entry: -entry[1]):
        print(f"  {name:20} {seconds:8.1f} s {seconds / num_pairs * 1e6:8.2f} us a pair")
    print(f"  {'all':20} {sum(report['seconds'].values()):8.1f} s")


def compare_encoding(folder: Path, num_workers: int) -> None:
    """Prints the speed of tokenising and storing compared with SentencePiece's bare encoding."""
    data = folder / "run" / "data"
    recipe = load_recipe(str(folder / "scale.toml"), [])
    preparation = Preparation(recipe, data, LocalExecutor(num_workers))
    record = read_record(data / "text")
    assert record is not None
    preparation.facts["text"] = record["facts"]
    model = str(data / "tokenizer" / "joint.spm")
    speeds: dict[str, list[float]] = {"mtkit": [], "processes": [], "threads": []}
    num_pairs = record["facts"]["kept"]
    draft = folder / "draft"
    for _ in range(_ROUNDS):
        remove_folder(draft)
        draft.mkdir()
        started_at = time.perf_counter()
        tokenize_text(preparation, draft)
        speeds["mtkit"].append(num_pairs / (time.perf_counter() - started_at))
        with ProcessPoolExecutor(num_workers) as pool:
            halves = [(data / "text", model, index, num_workers) for index in range(num_workers)]
            seconds = max(pool.map(encode_share, *zip(*halves, strict=True)))
        speeds["processes"].append(num_pairs / seconds)
        speeds["threads"].append(num_pairs / encode_in_threads(data / "text", model, num_workers))
    for name, values in speeds.items():
        listed = " ".join(f"{value:,.0f}" for value in values)
        print(f"pairs a second, {name:10} median {median(values):,.0f} ({listed})")
    bare = max(median(speeds["processes"]), median(speeds["threads"]))
    print(f"tokenise and store / bare encoding: {median(speeds['mtkit']) / bare:.2f}")


def encode_share(text: Path, model: str, index: int, count: int) -> float:
    """Returns the seconds that encoding every count-th part takes, reading it left out."""
    processor = sentencepiece.SentencePieceProcessor(model_file=model)
    store, spent = TextStore(text), 0.0
    for number in range(index, store.num_parts, count):
        for side in store.read_part(number):
            lines = side.to_pylist()
            started_at = time.perf_counter()
            processor.encode(lines)
            spent += time.perf_counter() - started_at
    return spent


def encode_in_threads(text: Path, model: str, num_threads: int) -> float:
    """Returns the seconds that encoding all parts in one process's threads takes."""
    processor = sentencepiece.SentencePieceProcessor(model_file=model)
    store, spent = TextStore(text), 0.0
    for number in range(store.num_parts):
        for side in store.read_part(number):
            lines = side.to_pylist()
            started_at = time.perf_counter()
            processor.encode(lines, num_threads=num_threads)
            spent += time.perf_counter() - started_at
    return spent


if __name__ == "__main__":
    main()
