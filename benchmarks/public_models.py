"""Imported public translators and transformers: tokens, logits, outputs, time, memory.

    python benchmarks/public_models.py tokens DATA FOLDER [--lines 5000]
    python benchmarks/public_models.py shape DATA FOLDER [--lines 8]
    python benchmarks/public_models.py m2m-tokens DATA FOLDER [--lines 5000]
    python benchmarks/public_models.py nllb-shape DATA FOLDER [--lines 8] [--tiny]
    python benchmarks/public_models.py nllb-times DATA FOLDER [--lines 8] [--tiny]

DATA is the folder of corpora, FOLDER is where models are written. Weights are random, and pieces
are learned from DATA: what is measured is whether mtkit does the same as transformers, and how
fast, not how well such a model translates.

`tokens`: for each language, lines whose token ids differ from those of transformers' tokenizer.
`shape`: a model of OPUS-MT's full size: the time and memory of its import, the greatest difference
of logits, outputs that differ from `generate`'s by beams, and lines a second of both.
`m2m-tokens`: `tokens` for M2M100's and NLLB's tokenizers.
`nllb-shape`: `shape` for NLLB-200's distilled 600M; then the time of a sentence by
transformers, and by mtkit's two engines in fp32, bf16 and int8; and the memory and time of updates
by LoRA. It takes 12 GB of memory and disk; with `--tiny` the network is a small one, to try it.
`nllb-times`: only the time of a sentence.
"""

import argparse
import gzip
import itertools
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from transformers import (
    GenerationConfig,
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
    NllbTokenizer,
)

from mtkit.inference.ctranslate2_client import CTranslate2Client
from mtkit.inference.engines.engine import EncodedSource, Engine
from mtkit.inference.engines.open_torch_engine import make_ready
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.model.exporters.ctranslate2 import write_ctranslate2
from mtkit.model.folder import LoadedModel, load_model_folder
from mtkit.model.importers.m2m100 import NLLB
from mtkit.network import PaddedLayout
from mtkit.pipeline.import_model import import_model
from mtkit.recipe.inference import Inference, LengthPenalty
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
        # A tag isn't part of a target's text.
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


NLLB_600M = {
    "d_model": 1024,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
}
NLLB_ROWS = 256_206


def make_m2m(
    data: Path, folder: Path, kind: str, keys: dict[str, Any], num_rows: int = 0
) -> tuple[Path, Any]:
    """Writes M2M100 or NLLB with random weights; returns its folder and tokenizer.

    Args:
        data: Folder of corpora, of which one SentencePiece model is learned for all languages.
        folder: Where to.
        kind: `m2m100` or `nllb`.
        keys: Of the network.
        num_rows: Rows of the embedding; as few as can be where it is 0.
    """
    classes = {"m2m100": M2M100Tokenizer, "nllb": NllbTokenizer}
    if not (folder / "config.json").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        lines = [line for language in TEXTS for line in read_text(data, language, 4_000)]
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_prefix=str(folder / "bpe"),
            vocab_size=NUM_PIECES,
            model_type="bpe",
            character_coverage=0.9995,
            minloglevel=2,
        )
        (folder / "bpe.vocab").unlink()
        spm = (folder / "bpe.model").rename(folder / "sentencepiece.bpe.model")
        processor = sentencepiece.SentencePieceProcessor(model_file=str(spm))
        ordinary = map(processor.id_to_piece, range(3, processor.get_piece_size()))
        ids = {piece: row for row, piece in enumerate(("<s>", "<pad>", "</s>", "<unk>", *ordinary))}
        settings = {"tokenizer_class": classes[kind].__name__}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
        if kind == "m2m100":
            (folder / "vocab.json").write_text(json.dumps(ids), "utf-8")
            tokenizer = M2M100Tokenizer.from_pretrained(folder)
            tokenizer.save_pretrained(folder)
        else:
            tokenizer = NllbTokenizer.from_pretrained(folder, extra_special_tokens=list(NLLB))
            tokenizer.save_pretrained(folder)
        config = M2M100Config(vocab_size=num_rows or len(ids) + 300, **keys)
        torch.manual_seed(1)
        model = M2M100ForConditionalGeneration(config).eval()
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.normal_(std=0.05)
                weight.add_(1.0 if "norm.weight" in name else 0.0)
            model.model.shared.weight[1] = 0.0
        model.generation_config = GenerationConfig(
            num_beams=5, max_length=48, decoder_start_token_id=2, pad_token_id=1, eos_token_id=2
        )
        model.save_pretrained(folder)
    return folder, classes[kind].from_pretrained(folder)


def compare_m2m_tokens(options: argparse.Namespace) -> None:
    print("| tokenizer | language | lines | lines that differ |\n|---|---|---|---|")
    for kind, english, german in (("m2m100", "en", "de"), ("nllb", "eng_Latn", "deu_Latn")):
        theirs, tokenizer = make_m2m(options.data, options.folder / f"tokens-{kind}", kind, SMALL)
        loaded = load_imported(theirs)
        rows = list_m2m_rows(loaded)
        marks = loaded.tokenizer.mark_languages(english, german)
        tokenizer.src_lang, tokenizer.tgt_lang = english, german
        for language in TEXTS:
            lines = read_text(options.data, language, options.lines)
            for name, text in ((language, lines), (f"{language}, nasty", list(NASTY))):
                differing = []
                for line, source, target in zip(
                    text,
                    loaded.tokenizer.encode_source(text),
                    loaded.tokenizer.encode_target(text),
                    strict=True,
                ):
                    ours = (
                        [rows[token] for token in (*marks.before, *source, *marks.behind)],
                        [rows[token] for token in (*marks.begin, *target)],
                    )
                    expected = (
                        tokenizer(line)["input_ids"],
                        tokenizer(text_target=line)["input_ids"],
                    )
                    if ours != expected:
                        differing.append(line)
                print(f"| {kind} | {name} | {len(text):,} | {len(differing)} |", flush=True)
                for line in differing[:8]:
                    print(f"  {line[:100]!r}", file=sys.stderr)


def list_m2m_rows(loaded: LoadedModel) -> list[int]:
    """Returns their id of each of our tokens; that of <s> is </s>'s."""
    special = [1, 3, 2, 2]
    num_rows = len(loaded.tokenizer.target_vocabulary) - 1
    return [*special, *(row for row in range(num_rows) if row not in special)]


def compare_nllb(options: argparse.Namespace) -> None:
    keys, num_rows = (SMALL, 0) if options.tiny else (NLLB_600M, NLLB_ROWS)
    folder = options.folder / ("nllb-tiny" if options.tiny else "nllb-600M")
    theirs, _ = make_m2m(options.data, folder / "public", "nllb", keys, num_rows)
    if options.what == "nllb-shape":
        again = folder / "again"
        measure_import(theirs, again)
        measure_lora(options.data, again, folder)
        shutil.rmtree(again)
    loaded = load_imported(theirs)
    rows = list_m2m_rows(loaded)
    model = M2M100ForConditionalGeneration.from_pretrained(theirs).eval()
    marks = loaded.tokenizer.mark_languages("eng_Latn", "deu_Latn")
    lines = read_text(options.data, "en", options.lines)
    sources = [
        EncodedSource([*marks.before, *tokens], begin=marks.begin)
        for tokens in loaded.tokenizer.encode_source(lines)
    ]
    forced = rows[marks.begin[0]]
    if options.what == "nllb-shape":
        targets = loaded.tokenizer.encode_target(read_text(options.data, "de", options.lines))
        greatest = max(
            measure_logits(
                loaded.translator, model, rows, list(source.tokens), [*marks.begin, *target]
            )
            for source, target in zip(sources, targets, strict=True)
        )
        print(f"greatest difference of logits, torch.float32: {greatest:.1e}", flush=True)
        compare_nllb_outputs(loaded, model, rows, sources, forced=forced)
    del loaded
    time_engines(folder, theirs, model, rows, sources, forced=forced)


def compare_nllb_outputs(
    loaded: LoadedModel, model: Any, rows: list[int], sources: list[EncodedSource], *, forced: int
) -> None:
    """Prints how many outputs are those of `generate`, by beam."""
    for beam in BEAMS:
        settings = loaded.settings.model_copy(
            update={"beam_size": beam, "precision": "fp32", "processes": 1}
        )
        outputs = TorchEngine(loaded.translator, "cpu").search(sources, settings)
        same = 0
        for source, (best, *_) in zip(sources, outputs, strict=True):
            found = model.generate(
                input_ids=torch.tensor([[rows[token] for token in source.tokens]]),
                num_beams=beam,
                forced_bos_token_id=forced,
            )
            same += found[0].tolist()[2:] == [rows[token] for token in best.token_ids]
        print(f"beam {beam}: {same} of {len(sources)} outputs equal", flush=True)


LORA_RECIPE = """\
name = "lora"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
source = "{data}/multi30k/train.en.gz"
target = "{data}/multi30k/train.de.gz"
max_pairs = 2_000
[data.dev]
source = "dev.en"
target = "dev.de"
[model]
num_encoder_layers = {layers}
num_decoder_layers = {layers}
d_model = {width}
d_ff = {inner}
num_heads = {heads}
norm = "pre"
sinusoids = "tensor2tensor"
first_position = 2
output_bias = true
[training]
max_steps = 4
batch_tokens = 512
length_groups = 1
micro_batch_tokens = 512
checkpoint_every = 4
log_every = 4
processes = 1
schedule = {{ kind = "linear", peak = 1e-4, warmup_steps = 2 }}
validation = {{ metric = "loss" }}
averaging = {{ choose = "last", num_checkpoints = 1 }}
[training.start_from]
model = "{model}"
[training.lora]
rank = 8
release = "adapter"
"""


def measure_lora(data: Path, model: Path, folder: Path) -> None:
    """Prints the memory and time of updates of 512 tokens by LoRA, in processes of their own."""
    shape = load_recipe_shape(model)
    recipe = folder / "lora.toml"
    for language in ("en", "de"):
        # Their text doesn't matter: the loss on them is measured once.
        lines = "".join(f"{line}\n" for line in read_text(data, language, 8))
        (folder / f"dev.{language}").write_text(lines, "utf-8")
    recipe.write_text(LORA_RECIPE.format(data=data.absolute(), model=model.absolute(), **shape))
    workspace = folder / "lora"
    shutil.rmtree(workspace, ignore_errors=True)
    for name in ("prepare", "train"):
        command = [sys.executable, "-m", "mtkit", name, "--recipe", str(recipe)]
        subprocess.run([*command, "--workspace", str(workspace)], check=True)
    logged = map(json.loads, (workspace / "metrics.jsonl").read_text("utf-8").splitlines())
    last = [line for line in logged if line["kind"] == "train"][-1]
    print(
        f"LoRA, rank 8, 512 tokens an update: {last['memory_bytes'] / 1e9:.2f} GB, "
        f"{last['elapsed_seconds'] / last['step']:.1f} s an update",
        flush=True,
    )


def load_recipe_shape(model: Path) -> dict[str, int]:
    """Returns the numbers of a model that the recipe needs."""
    found = json.loads((model / "config.json").read_text("utf-8"))["model"]
    return {
        "layers": found["num_encoder_layers"],
        "width": found["d_model"],
        "inner": found["d_ff"],
        "heads": found["num_heads"],
    }


def time_engines(
    folder: Path,
    theirs: Path,
    model: Any,
    rows: list[int],
    sources: list[EncodedSource],
    *,
    forced: int,
) -> None:
    """Prints the seconds that a sentence takes alone, by each engine in turn: medians.

    All are in memory at once, some 15 GB, so that each translates a sentence in the same minute.
    """
    searches = list(list_searches(folder, theirs, model, rows, forced=forced))
    seconds: dict[str, list[float]] = {}
    for number, source in enumerate((sources[0], *sources)):
        for name, search in searches:
            started = time.perf_counter()
            search(source)
            # The first is there to warm up.
            if number:
                seconds.setdefault(name, []).append(time.perf_counter() - started)
    print("| | seconds of a sentence | times transformers fp32 | bf16 |\n|---|---|---|---|")
    for name, found in seconds.items():
        ratios = [
            statistics.median(
                theirs / ours for theirs, ours in zip(seconds[other], found, strict=True)
            )
            for other in ("transformers, fp32", "transformers, bf16")
        ]
        cells = [f"{statistics.median(found):.2f}", *(f"{ratio:.2f}" for ratio in ratios)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def list_searches(
    folder: Path, theirs: Path, model: Any, rows: list[int], *, forced: int
) -> Iterator[tuple[str, Callable[[EncodedSource], object]]]:
    """Yields each engine in each precision: its name, and what searches by beams of 4."""
    loaded = load_imported(theirs)
    settings = loaded.settings.model_copy(
        update={"beam_size": 4, "length_penalty": LengthPenalty(kind="power", alpha=1.0)}
    )

    def generate(model: Any, source: EncodedSource) -> object:
        return model.generate(
            input_ids=torch.tensor([[rows[token] for token in source.tokens]]),
            num_beams=4,
            forced_bos_token_id=forced,
        )

    half = M2M100ForConditionalGeneration.from_pretrained(theirs, dtype=torch.bfloat16).eval()
    yield "transformers, fp32", partial(generate, model)
    yield "transformers, bf16", partial(generate, half)
    pieces = loaded.tokenizer.target_vocabulary.pieces
    for quantization in ("float32", "int8"):
        exported = folder / quantization
        if not exported.is_dir():
            exported.mkdir()
            write_ctranslate2(
                loaded.translator.float(),
                exported,
                pieces=(pieces, pieces),
                max_tokens=1_024,
                quantization=quantization,
            )
        engine = CTranslate2Client(exported)
        yield f"ctranslate2, {quantization}", partial(_search, engine, settings)
    del loaded
    for precision in ("fp32", "bf16", "int8"):
        chosen = settings.model_copy(update={"precision": precision})
        # Read again: a loaded one is laid out for its precision, and can't be copied.
        ready = make_ready(load_imported(theirs).translator, chosen, torch.device("cpu"))
        yield f"torch, {precision}", partial(_search, TorchEngine(ready, "cpu"), chosen)


def _search(engine: Engine, settings: Inference, source: EncodedSource) -> object:
    return engine.search([source], settings)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what", choices=["tokens", "shape", "m2m-tokens", "nllb-shape", "nllb-times"]
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lines", type=int, default=0)
    parser.add_argument("--tiny", action="store_true", help="nllb-shape with a small network")
    options = parser.parse_args()
    options.lines = options.lines or (5_000 if options.what.endswith("tokens") else 8)
    runs = {
        "tokens": compare_tokens,
        "shape": compare_shape,
        "m2m-tokens": compare_m2m_tokens,
        "nllb-shape": compare_nllb,
        "nllb-times": compare_nllb,
    }
    runs[options.what](options)


if __name__ == "__main__":
    main()
