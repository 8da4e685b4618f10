"""Imports M2M100 and NLLB-200 from transformers' form.

They are pre-norm, with fairseq's sinusoids from position 2. `</s>` is the decoder's first input,
and the output begins with its language's piece. Sources are `LANGUAGE text </s>`, or in an older
form of NLLB `text </s> LANGUAGE`.

Folders of M2M100 list no language ids: languages follow `vocab.json`'s pieces in the order below.
The same holds for folders of NLLB-200 without `tokenizer.json`.
"""

import re
from collections.abc import Mapping
from typing import Any

from mtkit.errors import MtkitError, shorten
from mtkit.model.config import ModelConfig
from mtkit.model.importers.marian import (
    MAX_VOCABULARY_BYTES,
    check_added,
    check_whole,
    read_added,
    read_ids,
)
from mtkit.model.importers.source_folder import (
    SourceFolder,
    building_tokenizer,
    read_network,
    read_sentencepiece,
)
from mtkit.model.importers.translator_folder import ForeignTranslator, Generation
from mtkit.model.translator_config import M2M100Config
from mtkit.text.arrange_pieces import (
    SpecialRows,
    arrange_pieces,
    check_ids,
    list_ordinary_pieces,
    make_bpe_model,
    reorder_model,
)
from mtkit.text.languages import SEVERAL, ModelLanguages, SourcePlace
from mtkit.text.tokenizer import SubwordTokenizer

_M2M100 = """
    af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl
    gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn
    mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn
    tr uk ur uz vi wo xh yi yo zh zu
"""
M2M100 = tuple(_M2M100.split())
"""Of arXiv 2010.11125: ISO 639-1 if possible."""
WMT21 = ("en", "ha", "is", "ja", "cs", "ru", "zh", "de")
"""Of the WMT21 models (arXiv 2108.03265)."""
_NLLB = """
    ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi apc_Arab
    arb_Arab ars_Arab ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn
    bak_Cyrl bam_Latn ban_Latn bel_Cyrl bem_Latn ben_Beng bho_Deva bjn_Arab bjn_Latn bod_Tibt
    bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn cjk_Latn ckb_Arab crh_Latn cym_Latn
    dan_Latn deu_Latn dik_Latn dyu_Latn dzo_Tibt ell_Grek eng_Latn epo_Latn est_Latn eus_Latn
    ewe_Latn fao_Latn pes_Arab fij_Latn fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn
    gle_Latn glg_Latn grn_Latn guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn
    hun_Latn hye_Armn ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn
    kac_Latn kam_Latn kan_Knda kas_Arab kas_Deva kat_Geor knc_Arab knc_Latn kaz_Cyrl kbp_Latn
    kea_Latn khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn kon_Latn kor_Hang kmr_Latn lao_Laoo
    lvs_Latn lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn lua_Latn lug_Latn
    luo_Latn lus_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn mkd_Cyrl plt_Latn mlt_Latn
    mni_Beng khk_Cyrl mos_Latn mri_Latn zsm_Latn mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva
    nso_Latn nus_Latn nya_Latn oci_Latn gaz_Latn ory_Orya pag_Latn pan_Guru pap_Latn pol_Latn
    por_Latn prs_Arab pbt_Arab quy_Latn ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Beng
    scn_Latn shn_Mymr sin_Sinh slk_Latn slv_Latn smo_Latn sna_Latn snd_Arab som_Latn sot_Latn
    spa_Latn als_Latn srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn szl_Latn tam_Taml
    tat_Cyrl tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi taq_Latn taq_Tfng tpi_Latn tsn_Latn
    tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn urd_Arab
    uzn_Latn vec_Latn vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr yor_Latn yue_Hant zho_Hans
    zho_Hant zul_Latn
"""
NLLB = tuple(_NLLB.split())
"""Of NLLB-200 (arXiv 2207.04672): ISO 639-3 with the script."""


_SPM = "sentencepiece.bpe.model"
_FAST = "tokenizer.json"
_VOCABULARY = "vocab.json"
_SETTINGS = "tokenizer_config.json"
_SPECIAL_MAP = "special_tokens_map.json"
_MAX_CONFIG_BYTES = 4 << 20
_SPECIAL_IDS = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
_MASK = "<mask>"
_OF_M2M100 = re.compile(r"__([A-Za-z]{2,3}(?:_[A-Za-z]+)?)__")
_OF_NLLB = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
_TokenizerParts = tuple[bytes, dict[str, int], dict[str, str]]
"""The SentencePiece model, the id of each piece, and the piece of each language by its code."""


def read_m2m100(folder: SourceFolder, content: dict[str, object]) -> ForeignTranslator:
    """Returns an M2M100 or NLLB translator without its weights; `content` is its config.json."""
    theirs, model = read_network(M2M100Config, folder, content)
    settings = folder.read_json(_SETTINGS, max_bytes=_MAX_CONFIG_BYTES)
    named = settings.get("tokenizer_class")
    is_m2m100 = named == "M2M100Tokenizer" or folder.find(_VOCABULARY) is not None
    spm, ids, languages = (_read_m2m100 if is_m2m100 else _read_nllb)(folder, theirs, settings)
    special = _find_special(folder, ids, theirs)
    check_added(folder, settings, {*list_ordinary_pieces(spm), *languages.values(), _MASK})
    place: SourcePlace = "behind" if settings.get("legacy_behaviour") else "before"
    with building_tokenizer(folder):
        arranged = arrange_pieces(ids, theirs.vocab_size, special, models=[spm])
        symbols = {*languages.values(), _MASK}
        ours = reorder_model(spm, arranged.pieces, symbols=symbols, writes=True)
        tokenizer = SubwordTokenizer(
            ours,
            ours,
            looks_up_unknown=is_m2m100,
            languages=ModelLanguages.of_pieces(languages, place),
        )
        _ = tokenizer.source_vocabulary
    generation = Generation.read(folder, content)
    hidden = generation.find_hidden((theirs.pad_token_id, theirs.decoder_start_token_id))
    config = ModelConfig(
        recipe=folder.name,
        source_language=_find_source(generation, settings, languages),
        target_language=_find_target(generation, ids, languages),
        source_vocab_size=len(arranged.pieces),
        target_vocab_size=len(arranged.pieces),
        model=model,
    )
    return ForeignTranslator(
        config=config,
        settings=generation.to_settings(theirs.max_position_embeddings),
        tokenizer=tokenizer,
        source=arranged,
        target=arranged,
        has_output_bias=False,
        hidden_rows=hidden,
    )


def _read_m2m100(
    folder: SourceFolder, theirs: M2M100Config, settings: dict[str, object]
) -> _TokenizerParts:
    spm = read_sentencepiece(folder.need(_SPM))
    ids = read_ids(folder, _VOCABULARY, theirs.vocab_size)
    named = settings.get("language_codes", "m2m100")
    codes = {"m2m100": M2M100, "wmt21": WMT21}.get(str(named))
    if codes is None:
        raise MtkitError(
            f"{folder.origin}/{_SETTINGS}: language_codes = {shorten(str(named), 40)}, expected "
            "m2m100 or wmt21"
        )
    # The settings list ids of added languages; the others follow the pieces.
    added = {
        piece: row
        for piece, row in read_added(folder, settings).items()
        if _OF_M2M100.fullmatch(piece)
    }
    first = len(ids)
    language_ids = {f"__{code}__": first + index for index, code in enumerate(codes)} | added
    if max(language_ids.values()) >= theirs.vocab_size:
        raise MtkitError(
            f"{folder.origin}: {first:,} pieces in {_VOCABULARY} and {len(language_ids)} "
            f"languages, but the model has {theirs.vocab_size:,} pieces",
            "copy the complete folder again from where it came from",
        )
    ids = {**language_ids, **ids}
    check_ids(ids, theirs.vocab_size, folder.origin)
    found = ((match[1], piece) for piece in language_ids if (match := _OF_M2M100.fullmatch(piece)))
    return spm, ids, dict(found)


def _read_nllb(
    folder: SourceFolder, theirs: M2M100Config, settings: dict[str, object]
) -> _TokenizerParts:
    fast = folder.read_json(_FAST, max_bytes=MAX_VOCABULARY_BYTES)
    path = folder.find(_SPM)
    if path is None and not fast:
        folder.need(_SPM, f"an NLLB-200 folder needs {_SPM} or {_FAST}")
    spm = read_sentencepiece(path) if path is not None else b""
    if fast:
        ids = _read_fast(folder, fast)
        if not spm:
            spm = _make_model(folder, fast)
    else:
        # fairseq's `<pad>` is a special piece that the model lacks.
        ordinary = list_ordinary_pieces(spm)
        ids = _SPECIAL_IDS | {
            piece: len(_SPECIAL_IDS) + index for index, piece in enumerate(ordinary)
        }
    added = read_added(folder, settings)
    listed = _list_special(folder, settings)
    if not any(map(_OF_NLLB.fullmatch, (*ids, *added))):
        codes = [piece for piece in listed if _OF_NLLB.fullmatch(piece)] or NLLB
        first = len(ids)
        ids |= {code: first + index for index, code in enumerate(codes)}
        ids.setdefault(_MASK, first + len(codes))
    ids = {**ids, **added}
    check_ids(ids, theirs.vocab_size, folder.origin)
    # A listed piece may be a language in another form, added by a user.
    languages = {
        piece: piece
        for piece in ids
        if _OF_NLLB.fullmatch(piece) or (piece in listed and piece not in (*_SPECIAL_IDS, _MASK))
    }
    return spm, ids, languages


def _read_fast(folder: SourceFolder, content: Mapping[str, Any]) -> dict[str, int]:
    """Returns the id of each piece in a `tokenizer.json`."""
    model = content.get("model")
    kind = model.get("type") if isinstance(model, dict) else None
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if kind != "BPE" or not isinstance(vocabulary, dict) or not vocabulary:
        raise MtkitError(
            f"{folder.origin}/{_FAST}: a model of type {shorten(str(kind), 40)}, expected BPE "
            "with its pieces",
            "mtkit reads the tokenizer of NLLB-200",
        )
    added = content.get("added_tokens")
    ids: dict[str, object] = dict(vocabulary)
    for token in added if isinstance(added, list) else []:
        if isinstance(token, dict) and isinstance(token.get("content"), str):
            ids[token["content"]] = token.get("id")
    return check_whole(ids, f"{folder.origin}/{_FAST}")


def _make_model(folder: SourceFolder, content: Mapping[str, Any]) -> bytes:
    """Returns a SentencePiece model with the merges of a `tokenizer.json`."""
    merges = content["model"].get("merges")
    pairs = [
        each.split(" ") if isinstance(each, str) else each
        for each in (merges if isinstance(merges, list) else [])
    ]
    if not pairs or any(
        not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(p, str) for p in pair)
        for pair in pairs
    ):
        raise MtkitError(f"{folder.origin}/{_FAST}: damaged: no merges of two pieces each")
    charsmap = ""
    normalizer = content.get("normalizer")
    listed = normalizer.get("normalizers") if isinstance(normalizer, dict) else None
    for each in listed if isinstance(listed, list) else [normalizer]:
        if isinstance(each, dict) and each.get("type") == "Precompiled":
            charsmap = str(each.get("precompiled_charsmap", ""))
    try:
        return make_bpe_model(content["model"]["vocab"], pairs, charsmap)
    except ValueError as error:
        raise MtkitError(f"{folder.origin}/{_FAST}: damaged: {error}") from error


def _list_special(folder: SourceFolder, settings: dict[str, object]) -> list[str]:
    """Returns the additional special pieces in files, in their order."""
    found = folder.read_json(_SPECIAL_MAP, max_bytes=_MAX_CONFIG_BYTES)
    for source in (found, settings):
        for key in ("additional_special_tokens", "extra_special_tokens"):
            listed = source.get(key)
            if isinstance(listed, list) and listed:
                named = (each.get("content") if isinstance(each, dict) else each for each in listed)
                return [each for each in named if isinstance(each, str)]
    return []


def _find_special(
    folder: SourceFolder, ids: Mapping[str, int], theirs: M2M100Config
) -> SpecialRows:
    for piece in ("<unk>", "</s>", "<pad>"):
        if piece not in ids:
            raise MtkitError(f"{folder.origin}: the vocabulary has no {piece}")
    for key, piece, told in (
        ("eos_token_id", "</s>", theirs.eos_token_id),
        ("pad_token_id", "<pad>", theirs.pad_token_id),
    ):
        if ids[piece] != told:
            raise MtkitError(
                f"{folder.origin}/config.json: {key} = {told}, but {piece} has id {ids[piece]} in "
                "the vocabulary"
            )
    start = theirs.decoder_start_token_id
    return SpecialRows(pad=ids["<pad>"], unk=ids["<unk>"], start=start, eos=ids["</s>"])


def _find_source(
    generation: Generation, settings: Mapping[str, object], languages: Mapping[str, str]
) -> str:
    """Returns the default language of sources, which a model with a default target may have."""
    code = str(settings.get("src_lang"))
    has_default = generation.forced_bos_token_id is not None and code in languages
    return code if has_default else SEVERAL


def _find_target(
    generation: Generation, ids: Mapping[str, int], languages: Mapping[str, str]
) -> str:
    """Returns the default language of outputs."""
    forced = generation.forced_bos_token_id
    if forced is None:
        return SEVERAL
    found = next((code for code, piece in languages.items() if ids[piece] == forced), "")
    if not found:
        raise MtkitError(
            f"{generation.origin}: forced_bos_token_id = {forced} isn't a language of this model"
        )
    return found
