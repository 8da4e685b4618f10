"""Imports Marian's translators (all of OPUS-MT) from transformers' form, and Pegasus from mtkit's.

Marian is post-norm, Pegasus pre-norm. Both have positions with all sines first, and an output bias.
`<pad>` is the decoder's first input. Two SentencePiece models segment text, and one or two
vocabularies have the ids.
"""

import json
import re
from collections.abc import Container, Mapping

from mtkit.errors import MtkitError, shorten
from mtkit.model.config import ModelConfig
from mtkit.model.importers.source_folder import (
    SourceFolder,
    building_tokenizer,
    read_network,
    read_sentencepiece,
)
from mtkit.model.importers.translator_folder import ForeignTranslator, Generation
from mtkit.model.translator_config import BiasedConfig, MarianConfig, PegasusConfig
from mtkit.text.arrange_pieces import (
    ArrangedPieces,
    SpecialRows,
    arrange_pieces,
    check_ids,
    reorder_model,
)
from mtkit.text.languages import UNDETERMINED
from mtkit.text.token_ids import BOS, PAD, SPECIAL_PIECES
from mtkit.text.tokenizer import SubwordTokenizer

MAX_VOCABULARY_BYTES = 64 << 20
_MAX_CONFIG_BYTES = 1 << 20
TAG = re.compile(r">>[^<>\s]+<<")
"""A target language, written before a source."""
UNUSED_PIECE = "<unused>"
"""Padding of an exported mtkit model, whose `<pad>` is the decoder's first input."""
_NAME = re.compile(r"opus-mt-(?:tc-)?(?:big-|base-|tiny-)?([a-zA-Z_]+)-([a-zA-Z_]+)")


def read_marian(folder: SourceFolder, content: dict[str, object]) -> ForeignTranslator:
    """Returns a Marian translator without its weights; `content` is its config.json."""
    kind = PegasusConfig if content.get("model_type") == "pegasus" else MarianConfig
    theirs, model = read_network(kind, folder, content)
    settings = folder.read_json("tokenizer_config.json", max_bytes=_MAX_CONFIG_BYTES)
    if isinstance(theirs, PegasusConfig):
        _check_written_by_mtkit(folder, settings)
    paths = [folder.need(name) for name in ("source.spm", "target.spm")]
    spms = [read_sentencepiece(path) for path in paths]
    source, target, tags = _read_vocabularies(folder, theirs, settings, spms)
    with building_tokenizer(folder):
        models = [
            reorder_model(spms[0], source.pieces, symbols=tags, writes=False),
            reorder_model(spms[1], target.pieces, symbols=tags, writes=True),
        ]
        tokenizer = SubwordTokenizer(*models, tags=sorted(tags), looks_up_unknown=True)
        _ = tokenizer.source_vocabulary, tokenizer.target_vocabulary
    generation = Generation.read(folder, content)
    if generation.forced_bos_token_id is not None:
        raise MtkitError(
            f"{generation.origin}: forced_bos_token_id = {generation.forced_bos_token_id}, which "
            "mtkit supports only for M2M100 and NLLB",
            "remove it to use the model without it",
        )
    hidden = generation.find_hidden((target.rows[PAD], theirs.pad_token_id, theirs.start))
    source_language, target_language = _find_languages(folder, settings)
    config = ModelConfig(
        recipe=folder.name,
        source_language=source_language,
        target_language=target_language,
        source_vocab_size=len(source.pieces),
        target_vocab_size=len(target.pieces),
        model=model,
    )
    return ForeignTranslator(
        config=config,
        settings=generation.to_settings(theirs.max_position_embeddings),
        tokenizer=tokenizer,
        source=source,
        target=target,
        has_output_bias=True,
        hidden_rows=hidden,
    )


def _check_written_by_mtkit(folder: SourceFolder, settings: dict[str, object]) -> None:
    """Checks that a Pegasus has the tokenizer that mtkit writes for one."""
    named = settings.get("tokenizer_class")
    if named != "MarianTokenizer":
        raise MtkitError(
            f"{folder.origin}/tokenizer_config.json: tokenizer_class = "
            f'{shorten(json.dumps(named), 60)}, expected "MarianTokenizer"',
            "mtkit imports the Pegasus models that `mtkit export --format transformers` writes",
        )


def _read_vocabularies(
    folder: SourceFolder, theirs: BiasedConfig, settings: dict[str, object], spms: list[bytes]
) -> tuple[ArrangedPieces, ArrangedPieces, set[str]]:
    """Returns both sides' pieces, and the tags that may precede a source."""
    ids = _rename_own(read_ids(folder, "vocab.json", theirs.vocab_size))
    tags = {piece for piece in ids if TAG.fullmatch(piece)}
    check_added(folder, settings, ids)
    special = _find_special(folder, ids, theirs)
    if theirs.share_encoder_decoder_embeddings and not settings.get("separate_vocabs"):
        both = arrange_pieces(ids, theirs.vocab_size, special, models=spms)
        return both, both, tags
    target_ids = _rename_own(read_ids(folder, "target_vocab.json", theirs.target_vocab_size))
    source = arrange_pieces(ids, theirs.vocab_size, special, models=spms[:1])
    target = arrange_pieces(
        target_ids,
        theirs.target_vocab_size,
        _find_special(folder, target_ids, theirs),
        models=spms[1:],
    )
    return source, target, tags


def _rename_own(ids: dict[str, int]) -> dict[str, int]:
    """Returns a vocabulary in which the padding of an exported mtkit model is padding again."""
    if UNUSED_PIECE not in ids:
        return ids
    names = {UNUSED_PIECE: SPECIAL_PIECES[PAD], SPECIAL_PIECES[PAD]: SPECIAL_PIECES[BOS]}
    return {names.get(piece, piece): row for piece, row in ids.items()}


def _find_special(folder: SourceFolder, ids: dict[str, int], theirs: BiasedConfig) -> SpecialRows:
    for piece in ("<unk>", "</s>"):
        if piece not in ids:
            raise MtkitError(f"{folder.origin}: the vocabulary has no {piece}")
    if ids["</s>"] != theirs.eos_token_id:
        raise MtkitError(
            f"{folder.origin}/config.json: eos_token_id = {theirs.eos_token_id}, but </s> has id "
            f"{ids['</s>']} in the vocabulary"
        )
    pad = ids.get("<pad>", theirs.pad_token_id)
    return SpecialRows(pad=pad, unk=ids["<unk>"], start=theirs.start, eos=ids["</s>"])


def read_added(folder: SourceFolder, settings: Mapping[str, object]) -> dict[str, int]:
    """Returns the ids of the pieces that were added to a tokenizer, if files have them."""
    ids = folder.read_json("added_tokens.json", max_bytes=_MAX_CONFIG_BYTES).copy()
    decoder = settings.get("added_tokens_decoder")
    for row, token in (decoder if isinstance(decoder, dict) else {}).items():
        piece = token.get("content") if isinstance(token, dict) else None
        if isinstance(piece, str) and row.isdecimal() and len(row) < 10:
            ids[piece] = int(row)
    return check_whole(ids, f"{folder.origin}/tokenizer_config.json")


def check_added(
    folder: SourceFolder, settings: Mapping[str, object], known: Container[str]
) -> None:
    """Checks that no ordinary words were added to a tokenizer: mtkit would segment them."""
    own = (*SPECIAL_PIECES, UNUSED_PIECE)
    words = [
        piece
        for piece in read_added(folder, settings)
        if piece not in known and piece not in own and not piece.startswith("madeupword")
    ]
    if words:
        names = ", ".join(shorten(word, 20) for word in words[:3])
        raise MtkitError(
            f"{folder.origin}: its tokenizer has added tokens ({names}), which mtkit would read as "
            "several",
            "import the model that it was made of, and train it with tokenizer.user_symbols",
        )


def check_whole(ids: Mapping[str, object], origin: str) -> dict[str, int]:
    """Returns the ids of pieces, which must be whole numbers."""
    found: dict[str, int] = {}
    for piece, row in ids.items():
        if not isinstance(row, int) or isinstance(row, bool):
            raise MtkitError(
                f"{origin}: piece '{shorten(piece, 40)}' has id {shorten(str(row), 40)}, expected "
                "a whole number"
            )
        found[piece] = row
    return found


def read_ids(folder: SourceFolder, name: str, num_rows: int) -> dict[str, int]:
    """Returns the id of each piece in a list of pieces."""
    folder.need(name)
    content = folder.read_json(name, max_bytes=MAX_VOCABULARY_BYTES)
    ids = check_whole(content, f"{folder.origin}/{name}")
    check_ids(ids, num_rows, f"{folder.origin}/{name}")
    return ids


def _find_languages(folder: SourceFolder, settings: dict[str, object]) -> tuple[str, str]:
    """Returns the languages in a tokenizer's settings, or in the folder's name."""
    told = [settings.get(key) for key in ("source_lang", "target_lang")]
    named = _NAME.search(folder.origin)
    for index in (0, 1):
        if not isinstance(told[index], str) or not told[index]:
            told[index] = named[index + 1] if named else UNDETERMINED
    return shorten(str(told[0]), 40), shorten(str(told[1]), 40)
