"""Folders that mtkit exports for transformers, through CTranslate2's own converter.

    python benchmarks/ctranslate2_converter.py DATA FOLDER CONVERTER... [--lines 100]

CONVERTER is a `ct2-transformers-converter`, of each environment that is to be tried. A small model
of each form with random weights is exported twice: for transformers, and for CTranslate2. What the
converter makes of the first is compared with the second: how many lines of DATA's English get the
same tokens by beams of 4, and the greatest difference of their scores. Tokens of `bad_words_ids`,
which the converter leaves out, are suppressed in both.
"""

import argparse
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Literal

import ctranslate2
import torch
from public_models import SMALL, make_m2m, make_model, read_text
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from mtkit.inference.ctranslate2_client import CTranslate2Client
from mtkit.inference.engines.engine import EncodedSource
from mtkit.model.build import build
from mtkit.model.config import ModelConfig, OpenedFolder
from mtkit.model.exporters.ctranslate2 import write_ctranslate2
from mtkit.model.exporters.transformers_rows import WrittenTranslator
from mtkit.model.exporters.transformers_translator import write_translator
from mtkit.model.folder import LoadedModel, load_model_folder, write_model_folder
from mtkit.model.weights import pack_weights
from mtkit.pipeline.import_model import import_model
from mtkit.recipe.inference import Inference, LengthPenalty
from mtkit.recipe.model import Model

NAMES = ("own, pre-norm", "nllb", "m2m100", "marian", "own, post-norm")
MAX_TOKENS = 40


def make_folder(name: str, data: Path, folder: Path) -> Path:
    """Writes a model of a form, unless it is there; returns its folder."""
    model = folder / name.replace(", ", "-") / "model"
    if model.is_dir():
        return model
    match name:
        case "marian":
            import_model(str(make_opus(data, folder / "opus-mt-en-de")), model)
        case "own, post-norm":
            write_own(model, make_folder("marian", data, folder), "post")
        case "own, pre-norm":
            write_own(model, make_folder("marian", data, folder), "pre")
        case _:
            import_model(str(make_m2m(data, folder / f"public-{name}", name, SMALL)[0]), model)
    return model


def make_opus(data: Path, folder: Path) -> Path:
    """Writes a Marian translator as OPUS-MT's are: `<pad>`'s vector is zero, and it is hidden."""
    made = make_model(data, folder, ("en", "de"), SMALL)
    path, config = made / "model.safetensors", json.loads((made / "config.json").read_text("utf-8"))
    tensors = load_file(path)
    tensors["model.shared.weight"][config["pad_token_id"]] = 0.0
    save_file(tensors, path, metadata={"format": "pt"})
    generation = made / "generation_config.json"
    content = json.loads(generation.read_text("utf-8")) | {"renormalize_logits": True}
    generation.write_text(json.dumps(content), "utf-8")
    return made


def write_own(folder: Path, like: Path, norm: Literal["pre", "post"]) -> None:
    """Writes a model as mtkit's own are, with random weights and the source pieces of another."""
    tokenizer = load_model_folder(like).tokenizer
    tokenizer = tokenizer.with_models(tokenizer.models[0], tokenizer.models[0])
    num_pieces = tokenizer.source_vocab_size
    model = Model(
        num_encoder_layers=1, num_decoder_layers=1, d_model=32, d_ff=32, num_heads=2, norm=norm
    )
    config = ModelConfig(
        recipe=f"own-{norm}",
        source_language="en",
        target_language="de",
        source_vocab_size=num_pieces,
        target_vocab_size=num_pieces,
        model=model,
    )
    torch.manual_seed(1)
    weights = {
        name: torch.randn(weight.shape) * 0.1 + (1.0 if "norm.weight" in name else 0.0)
        for name, weight in pack_weights(build(config)).items()
    }
    settings = Inference(length_penalty=LengthPenalty(kind="power", alpha=1.0))
    opened = OpenedFolder(tokenizer, settings, config)
    write_model_folder(folder, opened, weights=weights, card="# own\n")


def convert(name: str, model: Path, converter: str, lines: list[str]) -> str:
    """Returns how a converter's folder does compared with mtkit's export, or why there is none."""
    loaded = load_model_folder(model)
    theirs, converted, ours = (model.parent / each for each in ("theirs", "converted", "ours"))
    for each in (theirs, converted, ours):
        shutil.rmtree(each, ignore_errors=True)
    theirs.mkdir()
    ours.mkdir()
    power = LengthPenalty(kind="power", alpha=1.0)
    settings = loaded.settings.model_copy(
        update={"beam_size": 4, "length_penalty": power, "max_output_tokens": MAX_TOKENS}
    )
    written = write_translator(loaded, theirs, settings)
    tokenizer = loaded.tokenizer
    pieces = tokenizer.source_vocabulary.pieces, tokenizer.target_vocabulary.pieces
    write_ctranslate2(
        loaded.translator, ours, pieces=pieces, max_tokens=512, quantization="float32"
    )
    command = [converter, "--model", str(theirs), "--output_dir", str(converted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"none: {done.stderr.splitlines()[-1]}"
    return compare(loaded, written, (theirs, converted, ours), lines, settings)


def compare(
    loaded: LoadedModel,
    written: WrittenTranslator,
    folders: tuple[Path, Path, Path],
    lines: list[str],
    settings: Inference,
) -> str:
    """Returns how many lines get the same tokens, and the greatest difference of scores."""
    theirs, converted, ours = folders
    tokenizer = AutoTokenizer.from_pretrained(theirs)
    languages = loaded.tokenizer.languages
    codes = (
        ("en", "de") if written.tokenizer_class == "M2M100Tokenizer" else ("eng_Latn", "deu_Latn")
    )
    has_pieces = languages is not None and languages.begins_output
    marks = loaded.tokenizer.mark_languages(*codes) if has_pieces else None
    options: dict[str, Any] = {}
    if marks is not None:
        tokenizer.src_lang = codes[0]
        begin = [written.target.rows[token] for token in marks.begin]
        options["target_prefix"] = [tokenizer.convert_ids_to_tokens(begin)] * len(lines)
    generation = json.loads((theirs / "generation_config.json").read_text("utf-8"))
    bad = [tokenizer.convert_ids_to_tokens(word) for word in generation["bad_words_ids"]]
    names = set(json.loads((converted / "shared_vocabulary.json").read_text("utf-8")))
    found = ctranslate2.Translator(str(converted)).translate_batch(
        [tokenizer.convert_ids_to_tokens(tokenizer(line)["input_ids"]) for line in lines],
        beam_size=4,
        length_penalty=1.0,
        max_decoding_length=MAX_TOKENS,
        return_scores=True,
        suppress_sequences=[word for word in bad if set(word) <= names],
        **options,
    )
    begins = () if marks is None else marks.begin
    before = () if marks is None else marks.before
    sources = [
        EncodedSource([*before, *tokens], begin=begins)
        for tokens in loaded.tokenizer.encode_source(lines)
    ]
    expected = CTranslate2Client(ours).search(sources, settings)
    num_same, gap = 0, 0.0
    for result, (best, *_) in zip(found, expected, strict=True):
        rows = tokenizer.convert_tokens_to_ids(result.hypotheses[0])[len(begins) :]
        wanted = [written.target.rows[token] for token in best.token_ids if token != 3]
        num_same += rows == wanted
        gap = max(gap, abs(result.scores[0] - best.score))
    return f"{num_same} of {len(lines)} lines alike; scores differ by {gap:.1e} at most"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("converters", nargs="+")
    parser.add_argument("--lines", type=int, default=100)
    options = parser.parse_args()
    lines = read_text(options.data, "en", options.lines)
    print("| model | converter | |\n|---|---|---|")
    for name in NAMES:
        model = make_folder(name, options.data, options.folder)
        for converter in options.converters:
            print(
                f"| {name} | {converter} | {convert(name, model, converter, lines)} |", flush=True
            )


if __name__ == "__main__":
    main()
