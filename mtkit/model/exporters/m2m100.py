"""A model with language pieces as `M2M100ForConditionalGeneration`: M2M100, or NLLB.

transformers' network has no output bias. In mtkit a bias suppresses what the model never outputs,
such as `<s>`, the decoder's first input; in transformers `renormalize_logits` with `bad_words_ids`
does.

`M2M100Tokenizer` has a SentencePiece model, vocab.json and a built-in list of languages.
`NllbTokenizer` has tokenizer.json; older versions can read the SentencePiece model too, where a
piece's row is its index + 1.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from torch import Tensor

from mtkit.errors import MtkitError, shorten
from mtkit.model.config import ModelConfig
from mtkit.model.exporters.transformers_rows import (
    TOKENIZER_CONFIG,
    TokenRows,
    WrittenTranslator,
    describe_network,
    list_misfits,
    write_json,
)
from mtkit.model.importers.m2m100 import M2M100, WMT21
from mtkit.model.importers.translator_folder import HIDDEN_BIAS
from mtkit.model.transformers_names import (
    SHARED,
    convert_to_transformers,
    list_translator_counterparts,
)
from mtkit.model.translator_config import FIRST_POSITION
from mtkit.recipe.model import Model
from mtkit.text.arrange_pieces import (
    is_bpe,
    list_merges,
    list_symbols,
    read_charsmap,
    read_piece_of_row,
    restore_model,
)
from mtkit.text.languages import find_language
from mtkit.text.token_ids import BOS, EOS, MASK_PIECE, PAD, SPECIAL_PIECES, UNK
from mtkit.text.tokenizer import SubwordTokenizer

_SHOWN = 3
_FIXED = {"m2m100": M2M100, "wmt21": WMT21}
"""The languages of `M2M100Tokenizer`, by its `language_codes`."""
_SPM = "sentencepiece.bpe.model"
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}


def list_m2m100_faults(model: Model, tokenizer: SubwordTokenizer) -> Iterator[str]:
    """Yields a translator's features that M2M100 lacks."""
    yield from list_misfits(model)
    if (model.sinusoids, model.first_position) != ("tensor2tensor", FIRST_POSITION):
        yield (
            f'sinusoids = "{model.sinusoids}" from position {model.first_position}, but M2M100 has '
            f'"tensor2tensor" from {FIRST_POSITION}'
        )
    if model.norm != "pre":
        yield f'model.norm = "{model.norm}", and M2M100 is pre-norm'
    if model.tied_embeddings != "three-way":
        yield f'model.tied_embeddings = "{model.tied_embeddings}", and M2M100 has one matrix'
    if not model.output_bias:
        yield "model.output_bias = false, but M2M100 never outputs <s>"
    if tokenizer.punctuation is not None:
        yield "tokenizer.punctuation, which transformers leaves to the caller"
    if tokenizer.tags:
        yield f"the tag {tokenizer.tags[0]}, but M2M100 only has language pieces"
    if not tokenizer.is_joint:
        yield "a vocabulary for each side"
        return
    if has_underscored_languages(tokenizer):
        if find_codes(tokenizer) is None:
            yield _describe_languages(tokenizer)
    else:
        if not is_bpe(tokenizer.models[1]):
            yield 'tokenizer.kind = "unigram", and NllbTokenizer merges pieces (BPE)'
        if symbols := list_symbols(tokenizer.models[1]):
            yield f"the symbol {shorten(symbols[0], 40)}, which NllbTokenizer would split"


def _describe_languages(tokenizer: SubwordTokenizer) -> str:
    found = list(_list_codes(tokenizer))
    added = [code for code in found if code not in M2M100]
    if added:
        return f"the language {added[0]}, which isn't in M2M100Tokenizer's fixed list"
    return f"{len(found)} languages in another order than M2M100Tokenizer's"


def has_underscored_languages(tokenizer: SubwordTokenizer) -> bool:
    """Returns whether languages are pieces like `__en__`, as in M2M100Tokenizer."""
    languages = tokenizer.languages
    assert languages is not None
    return all(piece == f"__{code}__" for code, piece in languages.target.items())


def _list_codes(tokenizer: SubwordTokenizer) -> list[str]:
    """Returns the codes of a model's languages, in the order of their pieces."""
    languages, ids = tokenizer.languages, tokenizer.target_vocabulary.ids
    assert languages is not None
    return sorted(languages.target, key=lambda code: ids[languages.target[code]])


def find_codes(tokenizer: SubwordTokenizer) -> str | None:
    """Returns the name of M2M100Tokenizer's list that equals a model's languages, or None."""
    found = tuple(_list_codes(tokenizer))
    return next((name for name, codes in _FIXED.items() if codes == found), None)


def check_bias(
    config: ModelConfig, tokenizer: SubwordTokenizer, weights: Mapping[str, Tensor]
) -> None:
    """Checks that the output bias only hides pieces: training may have changed it."""
    bias = weights["output_bias"]
    changed = ((bias != 0.0) & (bias > HIDDEN_BIAS / 2)).nonzero().flatten().tolist()
    if not changed:
        return
    pieces = tokenizer.target_vocabulary.pieces
    shown = ", ".join(f"{pieces[token]} {bias[token]:+.2g}" for token in changed[:_SHOWN])
    more = f" and {len(changed) - _SHOWN:,} more" if len(changed) > _SHOWN else ""
    raise MtkitError(
        f"{config.recipe}: training changed output_bias ({shown}{more}), but M2M100 in "
        "transformers has no output bias",
        "train again from the imported model: its bias is now frozen. Or export for "
        "CTranslate2 (--format ctranslate2)",
    )


def arrange_m2m100(
    config: ModelConfig, tokenizer: SubwordTokenizer, weights: Mapping[str, Tensor]
) -> WrittenTranslator:
    """Returns the rows of a translator's tokens in the form of M2M100 and NLLB.

    Special pieces come first, then ordinary ones, languages and `<mask>`, then rows without a
    piece, as in fairseq. Pieces added to an imported model come after those of their kind, and
    imported pieces keep their order, so that an unchanged model is exported as it was.
    """
    pieces, languages = tokenizer.target_vocabulary.pieces, tokenizer.languages
    assert languages is not None
    closing = {*languages.target.values(), MASK_PIECE}
    order, shared = _order_tokens(tokenizer, weights["source_embedding.tokens.weight"], closing)
    rows = {token: row for row, token in enumerate(order)}
    rows |= {token: rows[first] for token, first in shared.items()}
    is_hidden = (weights["output_bias"] <= HIDDEN_BIAS / 2).tolist()
    hidden = tuple(row for row, token in enumerate(order) if is_hidden[token])
    found = TokenRows(
        rows=tuple(rows[token] for token in range(len(pieces))),
        origins=tuple(order),
        pieces=_name_rows([pieces[token] for token in order], closing),
        pad=rows[PAD],
        start=rows[BOS],
        # Padding that isn't hidden gets some probability in transformers too.
        forbidden=hidden or (rows[PAD],),
    )
    target = find_language(config.target_language, tuple(languages.target))
    return WrittenTranslator(
        architecture="M2M100ForConditionalGeneration",
        tokenizer_class="M2M100Tokenizer"
        if has_underscored_languages(tokenizer)
        else "NllbTokenizer",
        source=found,
        target=found,
        renormalizes=bool(hidden),
        forced_row=found.pieces[languages.target[target]] if target else None,
    )


def _order_tokens(
    tokenizer: SubwordTokenizer, vectors: Tensor, closing: Collection[str]
) -> tuple[list[int], dict[int, int]]:
    """Returns the token of each row, and for tokens without a row the one whose row they share.

    `vectors` are by token; `closing` are the pieces after all ordinary ones.
    """
    pieces, foreign = tokenizer.target_vocabulary.pieces, tokenizer.foreign_rows
    shared = dict.fromkeys(tokenizer.unknown[1], UNK)
    if foreign is None:
        order, num_placed = [BOS, PAD, EOS, UNK], len(SPECIAL_PIECES)
        if vectors[BOS].equal(vectors[EOS]):
            # As in the public models, where row 0 is an unused `<s>` too.
            shared[BOS] = EOS
    else:
        row_by_token = foreign.list_rows("target")
        num_placed = len(row_by_token)
        first: dict[int, int] = {}
        # `<s>` comes last: a row that it shares belongs to the other token.
        ordinary = (token for token in range(EOS, num_placed) if token not in shared)
        for token in (PAD, UNK, *ordinary, BOS):
            if first.setdefault(row_by_token[token], token) != token:
                shared[token] = first[row_by_token[token]]
        order = [first[row] for row in sorted(first)]
        if BOS in shared and not vectors[BOS].equal(vectors[shared[BOS]]):
            order = _give_row(order, pieces)
            del shared[BOS]
    added = [token for token in range(num_placed, len(pieces)) if token not in shared]
    return _insert(order, added, pieces, closing), shared


def _give_row(order: Sequence[int], pieces: Sequence[str]) -> list[int]:
    """Returns an order in which mtkit's `<s>`, whose vector was trained, has a row of its own."""
    # It takes the row of the public model's `<s>`, which no text has; the old entry goes to the
    # end.
    old = order[0]
    if read_piece_of_row(pieces[old]) == SPECIAL_PIECES[BOS]:
        return [BOS, *order[1:], old]
    return [*order, BOS]


def _insert(
    order: Sequence[int], added: Sequence[int], pieces: Sequence[str], closing: Collection[str]
) -> list[int]:
    """Returns an order with more tokens: each after those of its kind."""
    places = [row for row, token in enumerate(order) if pieces[token] in closing]
    start, end = (places[0], places[-1] + 1) if places else (len(order), len(order))
    # Placeholders of imported rows come last.
    nameless = [token for token in added if read_piece_of_row(pieces[token]) != pieces[token]]
    named = [token for token in added if token not in set(nameless)]
    return [
        *order[:start],
        *(token for token in named if pieces[token] not in closing),
        *order[start:end],
        *(token for token in named if pieces[token] in closing),
        *order[end:],
        *nameless,
    ]


def _name_rows(pieces: Sequence[str], closing: Collection[str]) -> dict[str, int]:
    """Returns the row of each piece; rows without one get a name if a later row has one."""
    # `pieces` is mtkit's piece of each row; `closing` are the pieces after all ordinary ones.
    names = [read_piece_of_row(piece) for piece in pieces]
    # Another `<s>` is the one that had row 0, or mtkit's besides it.
    names[1:] = ["" if name == SPECIAL_PIECES[BOS] else name for name in names[1:]]
    last = max(row for row, name in enumerate(names) if name)
    return {name or f"<row {row}>": row for row, name in enumerate(names[: last + 1])}


def describe_m2m100(model: Model, written: WrittenTranslator, longest: int) -> dict[str, object]:
    """Returns the content of config.json."""
    return describe_network(model, written, "m2m_100", longest) | {
        "bos_token_id": 0,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
    }


def rename_m2m100(
    config: ModelConfig, weights: Mapping[str, Tensor], written: WrittenTranslator
) -> dict[str, Tensor]:
    """Returns weights by transformers' names."""
    found = convert_to_transformers(weights, list_translator_counterparts(config))
    found[SHARED] = written.target.arrange(weights["source_embedding.tokens.weight"])
    return found


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
    # The tokenizer's own default is English, even for a model without it.
    default = source or find_language("en", codes) or codes[0]
    described: dict[str, object] = {
        "tokenizer_class": written.tokenizer_class,
        "src_lang": default,
        "tgt_lang": target or None,
        "model_max_length": longest,
        **{f"{name}_token": piece for name, piece in named.items()},
    }
    listed = sorted(languages.target.values(), key=rows.__getitem__)
    # Without this list they would stay in decoded text.
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
    """Returns the content of tokenizer.json."""
    # `rows` are by piece; `spoken` is the piece of the default source language.
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
    """Returns the entry of a special piece."""
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
    """Returns the post-processor that adds the language and `</s>` to one source or two."""
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
