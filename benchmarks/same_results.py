"""Digests of what mtkit makes, to show that a change of its code changes no result.

    python benchmarks/same_results.py --data DATA --keep before --tree OLD > before.txt
    python benchmarks/same_results.py --data DATA --keep after > after.txt
    diff before.txt after.txt

Each line is a name and a digest; `--keep` keeps the digested files. The tree's commands make
everything in their own processes, with one thread: prepared data and weights of four
recipes (translation with cleaning, BPE-dropout and a word aligner; a causal, a masked and a
denoising language model), translations of captions in several settings, documents of
each format, and the answers of a server. DATA is a folder with `multi30k`; `--documents` names one
whose files are translated as documents.
"""

import argparse
import gzip
import hashlib
import html
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import safetensors.numpy

_COMMON = """
[training]
max_steps = {steps}
batch_tokens = 1024
length_groups = 2
micro_batch_tokens = 1024
checkpoint_every = {steps}
log_every = 50
precision = "{precision}"
schedule = {{ kind = "linear", peak = 3e-3, warmup_steps = 50 }}
"""
_TRANSLATION = (
    """
name = "translation"
[data]
source_language = "en"
target_language = "de"
word_aligner = true
[[data.train]]
source = "train.en"
target = "train.de"
[data.dev]
source = "dev.en"
target = "dev.de"
[data.cleaning]
max_tokens = 60
[data.augment.terms]
[data.augment.placeholders]
[data.augment.casing]
[tokenizer]
kind = "bpe"
vocab_size = 2000
sampling = {{ alpha = 0.1 }}
[model]
num_encoder_layers = 2
num_decoder_layers = 2
d_model = 64
d_ff = 128
num_heads = 4
dropout = 0.1
[[evaluation.test_sets]]
name = "test"
source = "dev.en"
target = "dev.de"
"""
    + _COMMON
)
_TEXT = """
name = "{name}"
objective = "{name}"
[data]
language = "en"
block_tokens = 64
[[data.train]]
text = "train.en"
documents = "lines"
[data.dev]
text = "dev.en"
documents = "lines"
[tokenizer]
vocab_size = 1000
[model]
{layers}
d_model = 64
d_ff = 128
num_heads = 4
positions = "learned"
max_positions = 64
activation = "gelu"
dropout = 0.1
"""
_LAYERS = {
    "causal-lm": "num_decoder_layers = 2",
    "masked-lm": "num_encoder_layers = 2\nembedding_norm = true",
    "denoising": "num_encoder_layers = 2\nnum_decoder_layers = 1\nembedding_norm = true",
}
_NUM_LINES = 1_000
_SEARCHES = {
    "greedy": ["inference.beam_size=1"],
    "beam": ["inference.beam_size=4"],
    "n-best": ["inference.beam_size=4", "inference.n_best=4", "inference.flags={}"],
    "aligned": ["inference.beam_size=2", "inference.alignments=true"],
    "terms": ["inference.beam_size=2", 'inference.glossary.path="terms.tsv"'],
    "protected": ["inference.beam_size=2", "inference.protect={}", "inference.paragraphs={}"],
    "sampled": ["inference.sampling={seed=3}"],
}
_FORMATS = (
    *(".html", ".xml", ".md", ".po", ".json", ".yml", ".xlf", ".tmx", ".srt", ".vtt"),
    *(".docx", ".pptx", ".odt"),
)
_REQUESTS: dict[str, tuple[str, Any]] = {
    "languages": ("/languages", None),
    "settings": ("/frontend/settings", None),
    "libretranslate": ("/translate", {"q": "A man sleeps.", "source": "en", "target": "de"}),
    "several": (
        "/translate",
        {
            "q": ["A man sleeps.", "Two dogs run. A cat sits.\n\nIt is late."],
            "source": "en",
            "target": "de",
            "alternatives": 2,
        },
    ),
    "markup": (
        "/translate",
        {"q": "<p>A <b>man</b> sleeps.</p>", "source": "en", "target": "de", "format": "html"},
    ),
    "detected": (
        "/translate",
        {"q": "A man sleeps on the green grass.", "source": "auto", "target": "de"},
    ),
    "detect": ("/detect", {"q": "A man sleeps on the green grass."}),
    "no-text": ("/translate", {"source": "en", "target": "de"}),
    "no-language": ("/translate", {"q": "A man.", "source": "en", "target": "fr"}),
    "v1": ("/v1/translate", {"lines": ["A man sleeps.", "Two dogs run. A cat sits."]}),
    "v1-all": (
        "/v1/translate",
        {
            "lines": [
                "A man sleeps at 10 o'clock on http://a.b.",
                "",
                "Two dogs run. A cat sits.",
                {"text": "A man.", "prefix": "Ein"},
            ],
            "source": "auto",
            "target": "de",
            "settings": {"n_best": 2, "beam_size": 2, "paragraphs": True},
            "glossary": [{"source": "dogs", "target": "Hunde"}],
        },
    ),
    "v1-score": ("/v1/score", {"pairs": [["A man sleeps.", "Ein Mann."]]}),
    "v1-unknown-key": ("/v1/translate", {"lines": ["A man."], "beams": 2}),
    "v1-models": ("/v1/models", None),
}


class Maker:
    """Makes results by the commands of a tree, in a folder, and yields their digests.

    Args:
        tree: The tree.
        folder: Where results are kept.
    """

    def __init__(self, tree: Path, folder: Path) -> None:
        self._folder = folder
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(tree),
            "PYTHONSAFEPATH": "1",
            "OMP_NUM_THREADS": "1",
        }

    def run(self, *arguments: str, stdin: Path | None = None, output: Path | None = None) -> None:
        """Runs a command; its failure ends the whole."""
        with (
            open(stdin or os.devnull, "rb") as given,  # noqa: PTH123
            open(output or os.devnull, "wb") as out,  # noqa: PTH123
        ):
            done = subprocess.run(
                [sys.executable, "-m", "mtkit", *arguments],
                cwd=self._folder,
                env=self._environment,
                stdin=given,
                stdout=out,
                stderr=subprocess.PIPE,
                check=False,
            )
        if done.returncode:
            sys.exit(f"mtkit {' '.join(arguments)}: {done.stderr.decode()}")

    def train(self, name: str, recipe: str) -> Iterator[tuple[str, str]]:
        """Yields digests of a recipe's prepared data and of its weights."""
        (self._folder / f"{name}.toml").write_text(recipe)
        options = ("-r", f"{name}.toml", "-w", name)
        self.run("prepare", *options, "--workers", "1")
        for file in sorted((self._folder / name / "data").rglob("*")):
            if file.suffix in (".arrow", ".model", ".vocab", ".safetensors", ".txt"):
                yield f"prepared {file.relative_to(self._folder)}", digest_file(file)
        self.run("train", *options, "--processes", "1")
        self.run("average", *options)
        for kind in ("model",):
            for file in sorted((self._folder / name / kind).rglob("*.safetensors")):
                yield f"weights {file.relative_to(self._folder)}", digest_tensors(file)

    def translate(self, search: str) -> Iterator[tuple[str, str]]:
        """Yields the digest of captions' translations."""
        name = f"captions {search}"
        settings = [f"--set={each}" for each in _SEARCHES[search]]
        output = self._folder / f"{name.replace(' ', '-')}.jsonl"
        self.run(
            *("translate", "--model", "translation/model", "--device", "cpu"),
            *("--json", *settings),
            stdin=self._folder / "captions.en",
            output=output,
        )
        yield name, digest_file(output)

    def translate_document(self, source: Path, number: int) -> Iterator[tuple[str, str]]:
        """Yields the digest of a document's translation, or of what is said instead."""
        output = self._folder / "documents" / f"{number:03}-{source.name}"
        # A path would be part of a message.
        name = str(source.relative_to(self._folder))
        command = [sys.executable, "-m", "mtkit", "translate", name, "-o", str(output)]
        command += ["--model", "translation/model", "--device", "cpu"]
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            check=False,
        )
        found = output.read_bytes() if output.exists() else done.stderr
        yield f"document {number:03} {source.name}", digest(found)

    def serve(self) -> Iterator[tuple[str, str]]:
        """Yields digests of a server's answers."""
        command = [sys.executable, "-m", "mtkit", "serve", "--model", "translation/model"]
        command += ["--port", "0", "--device", "cpu"]
        server = subprocess.Popen(
            command,
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stderr is not None
            address = ""
            for line in server.stderr:
                if found := re.search(r"http://[\d.]+:\d+", line):
                    address = found[0]
                    break
            for name, (path, body) in _REQUESTS.items():
                answer = ask(address + path, body)
                kept = self._folder / "answers" / f"{name}.json"
                kept.parent.mkdir(exist_ok=True)
                kept.write_text(answer)
                yield f"answer {name}", digest(answer.encode())
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate()


def ask(address: str, body: Any) -> str:
    """Returns the status and the body of an answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as found:
            return f"{found.status}\n{found.read().decode()}"
    except urllib.error.HTTPError as error:
        return f"{error.code}\n{error.read().decode()}"


def digest(content: bytes) -> str:
    """Returns the digest of bytes."""
    return hashlib.sha256(content).hexdigest()[:16]


def digest_file(path: Path) -> str:
    """Returns the digest of a file."""
    return digest(path.read_bytes())


def digest_tensors(path: Path) -> str:
    """Returns the digest of a file's tensors, whatever else stands in it."""
    tensors = safetensors.numpy.load_file(path)
    parts = [f"{name}{each.dtype}{each.shape}".encode() for name, each in sorted(tensors.items())]
    return digest(b"".join(parts) + b"".join(tensors[name].tobytes() for name in sorted(tensors)))


def write_corpora(data: Path, folder: Path) -> None:
    """Writes captions into the folder of results."""
    lengths = {"train": 10_000, "val": 200, "test_2016_flickr": _NUM_LINES}
    names = {"train": "train", "val": "dev", "test_2016_flickr": "captions"}
    for name, num_lines in lengths.items():
        for side in ("en", "de"):
            with gzip.open(data / "multi30k" / f"{name}.{side}.gz", "rt") as lines:
                text = "".join(line for line, _ in zip(lines, range(num_lines), strict=False))
            (folder / f"{names[name]}.{side}").write_text(text)
    (folder / "terms.tsv").write_text("man\tMann\nblue shirt\tblaues Hemd\ndog\tTier\n")


def write_documents(folder: Path) -> None:
    """Writes ten documents of captions in each of some formats of text."""
    draw = random.Random(1)
    captions = (folder.parent / "captions.en").read_text().splitlines()
    for number in range(10):
        lines = [html.escape(each) for each in draw.sample(captions, 12)]
        marked = [_mark(line, draw) for line in lines]
        written = {
            "html": "".join(f"<p class=x>{a} {b}</p>\n<ul><li>{a}</ul>" for a, b in pair(marked)),
            "xml": f"<d>{''.join(f'<p>{each}</p>' for each in marked)}</d>\n",
            "md": "".join(f"# {a}\n\n* {b} *{a}*\n  [{b}](http://a.b)\n\n" for a, b in pair(lines)),
            "po": "".join(f'msgid "{each}"\nmsgstr ""\n\n' for each in dict.fromkeys(lines)),
            "json": json.dumps(dict(enumerate(marked)), indent=1),
            "yml": "".join(f"k{n}: {json.dumps(each)}\n" for n, each in enumerate(lines)),
            "srt": "".join(
                f"{n}\n00:00:{n:02},000 --> 00:00:{n:02},900\n<i>{a}</i>\n{b}\n\n"
                for n, (a, b) in enumerate(pair(lines))
            ),
        }
        for kind, text in written.items():
            (folder / f"{number}.{kind}").write_text(text)


def pair(lines: list[str]) -> list[tuple[str, str]]:
    """Returns neighbours of a list, two by two."""
    return list(zip(lines[::2], lines[1::2], strict=True))


def _mark(line: str, draw: random.Random) -> str:
    words = line.split()
    words[draw.randrange(len(words))] = f"<b>{draw.choice(words)}</b>"
    return " ".join(words)


def make_all(maker: Maker, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yields names and digests of everything."""
    steps = {"steps": options.steps, "precision": options.precision}
    yield from maker.train("translation", _TRANSLATION.format(**steps))
    for name, layers in _LAYERS.items():
        recipe = _TEXT.format(name=name, layers=layers) + _COMMON.format(**steps)
        if name != "denoising":
            recipe += "label_smoothing = 0.0\n"
        if name == "masked-lm":
            recipe += "masking = { next_sentence = false }\n"
        yield from maker.train(name, recipe)
    for search in _SEARCHES:
        yield from maker.translate(search)
    (options.keep / "documents").mkdir()
    sources = options.keep / "sources"
    if options.documents is None:
        sources.mkdir()
    else:
        shutil.copytree(options.documents, sources)
    write_documents(sources)
    for suffix in _FORMATS:
        for number, source in enumerate(sorted(sources.rglob(f"*{suffix}"))):
            yield from maker.translate_document(source, number)
    yield from maker.serve()


def main() -> None:
    """Prints names and digests, a line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documents", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        options.keep = folder = folder.resolve()
        write_corpora(options.data, folder)
        for name, found in make_all(Maker(options.tree.resolve(), folder), options):
            print(f"{name}\t{found}", flush=True)


if __name__ == "__main__":
    main()
