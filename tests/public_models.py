"""Public translators in small: transformers' own classes with random weights, and tokenizers."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
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

from mtkit.inference.translator import Translator
from mtkit.model.config import read_settings

ENGLISH = [
    "A man in a blue shirt is standing on a ladder cleaning a window.",
    "Two young girls are playing with a ball in the park.",
    "A dog runs through the snow.",
    "People are waiting for the train at the station.",
    "The old woman sells vegetables at the market.",
    "A child eats an apple.",
    "Three men play music on the street.",
    "A boat lies at the shore of the lake.",
]
GERMAN = [
    "Ein Mann in einem blauen Hemd steht auf einer Leiter und putzt ein Fenster.",
    "Zwei junge Mädchen spielen mit einem Ball im Park.",
    "Ein Hund läuft durch den Schnee.",
    "Leute warten am Bahnhof auf den Zug.",
    "Die alte Frau verkauft Gemüse auf dem Markt.",
    "Ein Kind isst einen Apfel.",
    "Drei Männer machen Musik auf der Straße.",
    "Ein Boot liegt am Ufer des Sees.",
]
FRENCH = [
    "Un homme en chemise bleue nettoie une fenêtre.",
    "Deux filles jouent au ballon dans le parc.",
    "Un chien court dans la neige.",
    "Des gens attendent le train à la gare.",
]
TAGS = (">>deu<<", ">>fra<<")


@dataclass(frozen=True)
class PublicModel:
    """A public model in a folder.

    Attributes:
        folder: The folder, as `save_pretrained` writes it.
        model: The network, in evaluation mode.
        tokenizer: Its tokenizer.
    """

    folder: Path
    model: Any
    tokenizer: Any


def train_sentencepiece(
    path: Path, lines: Sequence[str], *, num_pieces: int = 120, kind: str = "unigram"
) -> Path:
    """Writes a SentencePiece model of lines; returns its path."""
    prefix = path.with_suffix("")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(prefix),
        vocab_size=num_pieces,
        model_type=kind,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    prefix.with_suffix(".vocab").unlink()
    return prefix.with_suffix(".model").rename(path)


def list_pieces(path: Path) -> list[str]:
    """Returns the pieces of a SentencePiece model, without control symbols."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    ids = range(processor.get_piece_size())
    return [processor.id_to_piece(each) for each in ids if not processor.is_control(each)]


def randomize(model: Any, seed: int = 1, std: float = 0.3) -> None:
    """Draws weights that make outputs differ; those of transformers make all tokens equal."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" in name:
                continue
            weight.copy_(torch.randn(weight.shape, generator=generator) * std)
            if "norm.weight" in name:
                weight.add_(1.0)
        if hasattr(model, "final_logits_bias"):
            bias = model.final_logits_bias
            bias.copy_(torch.randn(bias.shape, generator=generator) * 0.5)


def make_marian(
    folder: Path,
    *,
    has_own_vocabularies: bool = False,
    kind: str = "unigram",
    seed: int = 1,
    generation: dict[str, Any] | None = None,
    **keys: Any,
) -> PublicModel:
    """Writes a Marian translator with random weights, as OPUS-MT's folders have it.

    Args:
        folder: Where to.
        has_own_vocabularies: Whether source and target have a list of pieces each.
        kind: Of the SentencePiece models: `unigram` or `bpe`.
        seed: Of the weights.
        generation: Keys of generation_config.json.
        keys: Keys of the config beside those of a small network.
    """
    folder.mkdir(parents=True)
    spms = [
        train_sentencepiece(folder / "source.spm", ENGLISH, kind=kind),
        train_sentencepiece(folder / "target.spm", GERMAN, kind=kind),
    ]
    pieces = [
        [*dict.fromkeys(("</s>", "<unk>", *list_pieces(path))), *TAGS, "<pad>"] for path in spms
    ]
    if not has_own_vocabularies:
        joined = dict.fromkeys((*pieces[0][:-1], *pieces[1][:-1], "<pad>"))
        pieces = [list(joined), list(joined)]
    else:
        # transformers has one number for the padding of both.
        longest = max(map(len, pieces))
        for each in pieces:
            each[-1:] = [*(f"unused{index}" for index in range(longest - len(each))), "<pad>"]
    paths = folder / "vocab.json", folder / "target_vocab.json"
    for path, each in zip(paths, pieces, strict=True):
        path.write_text(json.dumps({piece: token for token, piece in enumerate(each)}), "utf-8")
    if not has_own_vocabularies:
        paths[1].unlink()
    tokenizer = MarianTokenizer(
        *map(str, spms),
        str(paths[0]),
        target_vocab_file=str(paths[1]) if has_own_vocabularies else None,
        separate_vocabs=has_own_vocabularies,
        source_lang="en",
        target_lang="de",
    )
    tokenizer.save_pretrained(folder)
    pad = len(pieces[0]) - 1
    config = MarianConfig(
        **{
            "vocab_size": pad + 1,
            "decoder_vocab_size": len(pieces[1]),
            "pad_token_id": pad,
            "decoder_start_token_id": pad,
            "eos_token_id": 0,
            "forced_eos_token_id": None,
            "scale_embedding": True,
            "activation_function": "swish",
            "max_position_embeddings": 64,
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 3,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 48,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "share_encoder_decoder_embeddings": not has_own_vocabularies,
            **keys,
        }
    )
    model = MarianMTModel(config).eval()
    randomize(model, seed)
    model.generation_config = GenerationConfig(
        **{
            "num_beams": 4,
            "max_length": 24,
            "bad_words_ids": [[pad]],
            "pad_token_id": pad,
            "eos_token_id": 0,
            "decoder_start_token_id": pad,
            **(generation or {}),
        }
    )
    model.save_pretrained(folder)
    (folder / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n\n# A model\n", "utf-8")
    return PublicModel(folder, model, tokenizer)


NLLB_CODES = ("ace_Latn", "eng_Latn", "deu_Latn", "fra_Latn", "zho_Hans", "zho_Hant", "zul_Latn")
"""Some of NLLB-200's, which a small model lists as its own."""


def make_m2m100(folder: Path, *, seed: int = 1, **keys: Any) -> PublicModel:
    """Writes an M2M100 translator with random weights.

    Args:
        folder: Where to.
        seed: Of the weights.
        keys: Keys of generation_config.json.
    """
    spm = _train_bpe(folder)
    pieces = list(dict.fromkeys(("<s>", "<pad>", "</s>", "<unk>", *list_pieces(spm))))
    vocabulary = folder / "vocab.json"
    vocabulary.write_text(json.dumps({piece: row for row, piece in enumerate(pieces)}), "utf-8")
    tokenizer = M2M100Tokenizer(str(vocabulary), str(spm), src_lang="en", tgt_lang="de")
    tokenizer.save_pretrained(folder)
    # A hundred languages, and rows that fairseq made up.
    return _make_m2m(folder, tokenizer, len(pieces) + 100 + 8, "en", seed, keys)


def make_nllb(
    folder: Path, *, legacy: bool = False, keeps: str = "both", seed: int = 1, **keys: Any
) -> PublicModel:
    """Writes an NLLB translator with random weights, as the hub's folders have it.

    Args:
        folder: Where to.
        legacy: Whether sources are closed by their language.
        keeps: Which files of the tokenizer stay: `spm`, `fast` (tokenizer.json), or `both`.
        seed: Of the weights.
        keys: Keys of generation_config.json.
    """
    _train_bpe(folder)
    settings = {"tokenizer_class": "NllbTokenizer", "legacy_behaviour": legacy}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    special = {"additional_special_tokens": list(NLLB_CODES)}
    (folder / "special_tokens_map.json").write_text(json.dumps(special), "utf-8")
    tokenizer = NllbTokenizer.from_pretrained(
        folder, src_lang="eng_Latn", tgt_lang="deu_Latn", extra_special_tokens=list(NLLB_CODES)
    )
    if keeps != "spm":
        tokenizer.save_pretrained(folder)
    if keeps == "fast":
        (folder / "sentencepiece.bpe.model").unlink()
    return _make_m2m(folder, tokenizer, len(tokenizer) + 2, "eng_Latn", seed, keys)


def _train_bpe(folder: Path) -> Path:
    folder.mkdir(parents=True)
    lines = [*ENGLISH, *GERMAN, *FRENCH]
    spm = train_sentencepiece(folder / "bpe.spm", lines, num_pieces=240, kind="bpe")
    return spm.rename(folder / "sentencepiece.bpe.model")


def _make_m2m(
    folder: Path, tokenizer: Any, num_rows: int, language: str, seed: int, keys: dict[str, Any]
) -> PublicModel:
    """Writes a network for a tokenizer, and the card of NLLB's licence."""
    config = M2M100Config(
        vocab_size=num_rows,
        max_position_embeddings=64,
        d_model=32,
        encoder_layers=2,
        decoder_layers=3,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
    )
    model = M2M100ForConditionalGeneration(config).eval()
    randomize(model, seed)
    with torch.no_grad():
        # As in every trained model, padding's vector is zero; here it is never written, too.
        model.model.shared.weight[1] = 0.0
    of_special = {"pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 0}
    model.generation_config = GenerationConfig(
        **{
            "num_beams": 5,
            "max_length": 24,
            "decoder_start_token_id": 2,
            **of_special,
            **keys,
        }
    )
    model.save_pretrained(folder)
    (folder / "README.md").write_text("---\nlicense: cc-by-nc-4.0\n---\n\n# A model\n", "utf-8")
    tokenizer.src_lang = language
    return PublicModel(folder, model, tokenizer)


def open_in_fp32(folder: Path) -> Translator:
    """Returns a translator in the precision of the model that it is compared with."""
    settings = read_settings(folder).model_copy(update={"precision": "fp32"})
    return Translator(folder, settings=settings)
