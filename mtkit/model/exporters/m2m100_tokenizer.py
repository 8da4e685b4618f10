"""The tokenizers of M2M100 and NLLB as files of transformers.

`M2M100Tokenizer` has a SentencePiece model and vocab.json, and its languages by heart.
`NllbTokenizer` has tokenizer.json; older versions can read the SentencePiece model too, where a
piece's row is one behind its index.
"""

from collections.abc import Mapping
from pathlib import Path

from mtkit.model.config import ModelConfig
from mtkit.model.exporters.m2m100 import find_codes
from mtkit.model.exporters.written_translator import (
    TOKENIZER_CONFIG,
    WrittenTranslator,
    write_json,
)
from mtkit.text.arrange_pieces import list_merges, read_charsmap, restore_model
from mtkit.text.languages import find_language
from mtkit.text.token_ids import MASK_PIECE
from mtkit.text.tokenizer import SubwordTokenizer

_SPM = "sentencepiece.bpe.model"
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}


def write_m2m100_tokenizer(
    folder: Path,
    config: ModelConfig,
    tokenizer: SubwordTokenizer,
    written: WrittenTranslator,
    longest: int,
) -> None:
    """Writes the files of `M2M100Tokenizer` or `NllbTokenizer`."""
    languages, rows = tokenizer.languages, written.target.pieces
    assert languages is not None
    codes = tuple(languages.target)
    source, target = (
        find_language(code, codes) for code in (config.source_language, config.target_language)
    )
    named = {"bos": "<s>", "eos": "</s>", "sep": "</s>", "unk": "<unk>", "pad": "<pad>"}
    # Without one it is English, whether the model has that or not.
    default = source or find_language("en", codes) or codes[0]
    described: dict[str, object] = {
        "tokenizer_class": written.tokenizer_class,
        "src_lang": default,
        "tgt_lang": target or None,
        "model_max_length": longest,
        **{f"{name}_token": piece for name, piece in named.items()},
    }
    listed = sorted(languages.target.values(), key=rows.__getitem__)
    # Without this list they would be left in text that is written.
    described["additional_special_tokens"] = listed
    (folder / _SPM).write_bytes(restore_model(tokenizer.models[1]))
    if written.tokenizer_class == "M2M100Tokenizer":
        first = min(rows[piece] for piece in languages.target.values())
        pieces = {piece: row for piece, row in rows.items() if row < first}
        write_json(folder / "vocab.json", pieces)
        described["language_codes"] = find_codes(tokenizer)
        described["added_tokens_decoder"] = {
            str(rows[piece]): _describe_added(piece) for piece in (*_SPECIAL, *listed)
        }
        described["num_madeup_words"] = len(written.target.origins) - first - len(codes)
    else:
        described |= {
            "cls_token": "<s>",
            "mask_token": MASK_PIECE,
            "legacy_behaviour": languages.source_place == "behind",
        }
        spoken = languages.target[default]
        write_json(folder / "tokenizer.json", _describe_fast(tokenizer, rows, listed, spoken))
    write_json(folder / TOKENIZER_CONFIG, described)


def _describe_fast(
    tokenizer: SubwordTokenizer, rows: Mapping[str, int], languages: list[str], spoken: str
) -> dict[str, object]:
    """Returns the content of tokenizer.json.

    Args:
        tokenizer: The tokenizer.
        rows: The row of each piece.
        languages: Pieces of languages.
        spoken: The one that sources have at first.
    """
    known, model = tokenizer.languages, tokenizer.models[1]
    assert known is not None
    pieces = tokenizer.target_vocabulary.pieces
    unknown = {pieces[token] for token in tokenizer.unknown[1]}
    special = [piece for piece in (*_SPECIAL, *languages, MASK_PIECE) if piece in rows]
    normalizers: list[dict[str, object]] = [
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    ]
    if charsmap := read_charsmap(model):
        normalizers.insert(0, {"type": "Precompiled", "precompiled_charsmap": charsmap})
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": rows[piece], **_describe_added(piece)}
            for piece in sorted(special, key=rows.__getitem__)
        ],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": _METASPACE,
        "post_processor": _describe_marks(
            rows, spoken, stands_behind=known.source_place == "behind"
        ),
        "decoder": _METASPACE,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": False,
            "vocab": dict(rows),
            "merges": [list(pair) for pair in list_merges(model, unknown)],
        },
    }


def _describe_added(piece: str) -> dict[str, object]:
    """Returns what is told of a special piece."""
    return {
        "content": piece,
        "single_word": False,
        "lstrip": piece == MASK_PIECE,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }


def _describe_marks(
    rows: Mapping[str, int], language: str, *, stands_behind: bool
) -> dict[str, object]:
    """Returns how a source, or two, gets its language and its end."""
    end = "</s>"
    before, behind = ([], [end, language]) if stands_behind else ([language], [end])

    def describe(*sequences: str) -> list[Mapping[str, object]]:
        marks = {each: {"SpecialToken": {"id": each, "type_id": 0}} for each in (end, language)}
        texts = [{"Sequence": {"id": name, "type_id": 0}} for name in sequences]
        return [*(marks[each] for each in before), *texts, *(marks[each] for each in behind)]

    return {
        "type": "TemplateProcessing",
        "single": describe("A"),
        "pair": describe("A", "B"),
        "special_tokens": {
            each: {"id": each, "ids": [rows[each]], "tokens": [each]} for each in (end, language)
        },
    }
