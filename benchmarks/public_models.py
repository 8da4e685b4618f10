"""Public translators imported, beside transformers itself: tokens, logits, outputs, time, memory.

    python benchmarks/public_models.py tokens DATA FOLDER [--lines 5000]
    python benchmarks/public_models.py shape DATA FOLDER [--lines 8]

DATA is the folder of corpora, FOLDER is where models are written. Weights are random, and pieces
are learned from DATA: what is measured is whether mtkit does the same as transformers, and how
fast, not how well such a model translates.

`tokens`: for each language, lines whose token ids differ from those of transformers' tokenizer.
`shape`: a model of OPUS-MT's full size: the time and memory of its import, the greatest difference
of logits, outputs that differ from `generate`'s by beams, and lines a second of both.
"""

import argparse
import gzip
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from transformers import GenerationConfig, MarianConfig, MarianMTModel, MarianTokenizer

from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.model.folder import LoadedModel, load_model_folder
from mtkit.network import PaddedLayout
from mtkit.pipeline.import_model import import_model
from mtkit.recipe.inference import Inference
from mtkit.text.token_ids import BOS

TEXTS = {
    "en": ("multi30k/train.en.gz", "mixed_en_de/train.en.gz", "tatoeba_en_fr/train.en.gz"),
    "de": ("multi30k/train.de.gz", "mixed_en_de/train.de.gz"),
    "fr": ("multi30k/train.fr.gz", "tatoeba_en_fr/train.fr.gz"),
    "zh": ("python_docs_en_zh/train.zh.gz", "flores200/devtest.zh.gz"),
    "ja": ("flores200/devtest.ja.gz",),
}
NASTY = (
    "",
    " ",
    "\u200b\u200d",
    "a\u0301 e\u0301",
    "½ ² ﬁ Ⅷ ①",
    "日本語、中文。한국어",
    "\U0001f600 emoji \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "<unk> <s> </s> <pad>",
    ">>deu<< tagged",
    "tab\tand  two   spaces ",
    "x" * 1000,
    "…—–''“”",
    "\ufeffBOM",
    "\u202eright to left",
    "&amp; <b>bold</b>",
)
NUM_PIECES = 16_000
BEAMS = (1, 4, 5)


def read_text(data: Path, language: str, num_lines: int) -> list[str]:
    """Returns the first lines of each of a language's corpora in turn."""
    files = [
        gzip.decompress((data / name).read_bytes()).decode("utf-8").splitlines()
        for name in TEXTS[language]
    ]
    mixed = itertools.chain.from_iterable(itertools.zip_longest(*files, fillvalue=""))
    return list(itertools.islice(filter(None, mixed), num_lines))


def make_model(data: Path, folder: Path, languages: tuple[str, str], keys: dict[str, Any]) -> Path:
    """Writes a Marian translator of two languages with random weights; returns its folder."""
    if (folder / "config.json").is_file():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    pieces: dict[str, None] = dict.fromkeys(("</s>", "<unk>"))
    for side, language in zip(("source", "target"), languages, strict=True):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(read_text(data, language, 20_000)),
            model_prefix=str(folder / side),
            vocab_size=NUM_PIECES,
            hard_vocab_limit=False,
            character_coverage=0.9995,
            minloglevel=2,
        )
        (folder / f"{side}.vocab").unlink()
        path = (folder / f"{side}.model").rename(folder / f"{side}.spm")
        processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
        for piece in range(processor.get_piece_size()):
            if not processor.is_control(piece):
                pieces[processor.id_to_piece(piece)] = None
    pieces |= dict.fromkeys((">>deu<<", "<pad>"))
    ids = {piece: token for token, piece in enumerate(pieces)}
    (folder / "vocab.json").write_text(json.dumps(ids), "utf-8")
    names = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")]
    tokenizer = MarianTokenizer(*names, source_lang=languages[0], target_lang=languages[1])
    tokenizer.save_pretrained(folder)
    pad = ids["<pad>"]
    config = MarianConfig(
        vocab_size=len(ids),
        decoder_vocab_size=len(ids),
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=None,
        scale_embedding=True,
        activation_function="swish",
        max_position_embeddings=512,
        **keys,
    )
    torch.manual_seed(1)
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" not in name:
                weight.normal_(std=0.08)
                weight.add_(1.0 if "norm.weight" in name else 0.0)
        model.final_logits_bias.normal_(std=0.5)
    model.generation_config = GenerationConfig(
        num_beams=4,
        max_length=48,
        bad_words_ids=[[pad]],
        pad_token_id=pad,
        eos_token_id=0,
        decoder_start_token_id=pad,
    )
    model.save_pretrained(folder)
    return folder


SMALL = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
}
OPUS = {
    "d_model": 512,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_ffn_dim": 2048,
    "decoder_ffn_dim": 2048,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
}


def compare_tokens(options: argparse.Namespace) -> None:
    print("| language | lines | lines that differ |\n|---|---|---|")
    for language in TEXTS:
        theirs = make_model(
            options.data, options.folder / f"tokens-{language}", (language, "en"), SMALL
        )
        loaded = load_imported(theirs)
        tokenizer = MarianTokenizer.from_pretrained(theirs)
        rows = list_rows(loaded, tokenizer)
        lines = read_text(options.data, language, options.lines)
        for name, text in ((language, lines), (f"{language}, nasty", list(NASTY))):
            differing = list(list_differing(loaded, tokenizer, rows, text))
            print(f"| {name} | {len(text):,} | {len(differing)} |", flush=True)
            for line in differing[:5]:
                print(f"  {line[:100]!r}", file=sys.stderr)


def list_differing(
    loaded: LoadedModel, tokenizer: Any, rows: list[int], lines: list[str]
) -> Iterator[str]:
    """Yields the lines whose source tokens, or target tokens, are others."""
    ours = [
        ([rows[token] for token in source], [rows[token] for token in target])
        for source, target in zip(
            loaded.tokenizer.encode_source(lines),
            loaded.tokenizer.encode_target(lines),
            strict=True,
        )
    ]
    for line, (source, target) in zip(lines, ours, strict=True):
        expected = tokenizer(line)["input_ids"], tokenizer(text_target=line)["input_ids"]
        # A tag is no text of a target's.
        if source != expected[0] or (target != expected[1] and not line.startswith(">>")):
            yield line


def list_rows(loaded: LoadedModel, tokenizer: Any) -> list[int]:
    """Returns their id of each of our pieces; that of <s> is <pad>'s."""
    pieces = loaded.tokenizer.target_vocabulary.pieces
    unknown = tokenizer.encoder["<unk>"]
    return [tokenizer.encoder.get({"<s>": "<pad>"}.get(piece, piece), unknown) for piece in pieces]


def load_imported(theirs: Path) -> LoadedModel:
    ours = theirs.with_name(f"{theirs.name}-imported")
    if not ours.is_dir():
        import_model(str(theirs), ours)
    return load_model_folder(ours)


def compare_shape(options: argparse.Namespace) -> None:
    theirs = make_model(options.data, options.folder / "opus", ("en", "de"), OPUS)
    ours = options.folder / "opus-again"
    measure_import(theirs, ours)
    loaded = load_imported(theirs)
    tokenizer = MarianTokenizer.from_pretrained(theirs)
    model = MarianMTModel.from_pretrained(theirs).eval()
    rows = list_rows(loaded, tokenizer)
    sources = loaded.tokenizer.encode_source(read_text(options.data, "en", options.lines))
    targets = loaded.tokenizer.encode_target(read_text(options.data, "de", options.lines))
    network = loaded.translator
    for dtype in (torch.float64, torch.float32):
        greatest = max(
            measure_logits(network.to(dtype), model.to(dtype), rows, *pair)
            for pair in zip(sources, targets, strict=True)
        )
        print(f"greatest difference of logits, {dtype}: {greatest:.1e}", flush=True)
    for beam in BEAMS:
        compare_outputs(loaded, model, rows, sources, beam)


def measure_import(theirs: Path, ours: Path) -> None:
    """Prints what an import takes, beyond a process that imports the libraries alone."""
    size = (theirs / "model.safetensors").stat().st_size
    program = "import re, sys, time; started = time.perf_counter(); {}; " + (
        "peak = re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]; "
        "print(time.perf_counter() - started, peak, file=sys.stderr)"
    )
    found = []
    for work in (
        "import mtkit.pipeline.import_model, torch",
        f"from mtkit.pipeline.import_model import import_model; from pathlib import Path; "
        f"import_model({str(theirs)!r}, Path({str(ours)!r}))",
    ):
        done = subprocess.run(
            [sys.executable, "-c", program.format(work)], capture_output=True, text=True, check=True
        )
        seconds, kibibytes = done.stderr.splitlines()[-1].split()
        found.append((float(seconds), float(kibibytes) * 1024))
    (of_start, base), (seconds, peak) = found
    print(
        f"import: {seconds - of_start:.1f} s; memory beyond the libraries' own "
        f"{(peak - base) / size:.2f} times the file of {size / 1e6:,.0f} MB",
        flush=True,
    )


def measure_logits(
    network: Any, model: Any, rows: list[int], source: list[int], target: list[int]
) -> float:
    """Returns the greatest difference of a pair's logits, those of <s> left out."""
    of_ours = torch.tensor(rows)
    inputs, shifted = torch.tensor([source]), torch.tensor([[BOS, *target[:-1]]])
    layouts = [PaddedLayout.without_padding(each) for each in (inputs, shifted)]
    with torch.no_grad():
        expected = model(input_ids=of_ours[inputs], decoder_input_ids=of_ours[shifted]).logits
        found = network.project(network(inputs, layouts[0], shifted, layouts[1]))
    difference = (found - expected[..., of_ours]).abs()
    difference[..., BOS] = 0.0
    return float(difference.max())


def compare_outputs(
    loaded: LoadedModel, model: Any, rows: list[int], sources: list[list[int]], beam: int
) -> None:
    settings: Inference = loaded.settings.model_copy(
        update={"beam_size": beam, "precision": "fp32", "processes": 1}
    )
    engine = TorchEngine(loaded.translator, "cpu")
    encoded = [EncodedSource(source) for source in sources]
    engine.search(encoded[:1], settings)
    started = time.perf_counter()
    outputs = engine.search(encoded, settings)
    ours = time.perf_counter() - started
    started = time.perf_counter()
    same = 0
    for source, (best, *_) in zip(sources, outputs, strict=True):
        found = model.generate(
            input_ids=torch.tensor([[rows[token] for token in source]]), num_beams=beam
        )
        same += found[0].tolist()[1:] == [rows[token] for token in best.token_ids]
    theirs = time.perf_counter() - started
    print(
        f"beam {beam}: {same} of {len(sources)} outputs equal; {len(sources) / ours:.2f} lines a "
        f"second, transformers one by one {len(sources) / theirs:.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["tokens", "shape"])
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lines", type=int, default=0)
    options = parser.parse_args()
    options.lines = options.lines or (5_000 if options.what == "tokens" else 8)
    (compare_tokens if options.what == "tokens" else compare_shape)(options)


if __name__ == "__main__":
    main()
