"""Imported M2M100 and NLLB = the same in transformers: tokens, logits, outputs."""

import copy
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.request import Request
from mtkit.model.folder import LoadedModel, load_model_folder
from mtkit.network import PaddedLayout
from mtkit.pipeline.import_model import import_model
from mtkit.recipe.inference import LengthPenalty
from mtkit.text.languages import TranslatorLanguages
from mtkit.text.token_ids import BOS

from ..public_models import (
    ENGLISH,
    FRENCH,
    GERMAN,
    NLLB_CODES,
    PublicModel,
    make_m2m100,
    make_nllb,
    open_in_fp32,
)

_NASTY = [
    "x",
    "Zażółć gęślą jaźń",
    "日本語 and English",
    "¿Qué?\t tab",
    "ﬁ ligature and Ⅷ",
    "<pad",
    "a" * 300,
    "…–—“”",
]
_KINDS: dict[str, Any] = {
    "m2m100": make_m2m100,
    "nllb": make_nllb,
    "nllb, legacy": lambda folder: make_nllb(folder, legacy=True),
    "nllb, tokenizer.json alone": lambda folder: make_nllb(folder, keeps="fast"),
}
_PAIRS = [("eng_Latn", "deu_Latn", ENGLISH[:4]), ("fra_Latn", "eng_Latn", FRENCH[:2])]


@pytest.fixture(scope="module", params=_KINDS)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[PublicModel, Path]:
    """Returns a public model, and the model folder that was made of it."""
    folder = tmp_path_factory.mktemp("m2m")
    theirs = _KINDS[request.param](folder / "public")
    import_model(str(theirs.folder), folder / "imported")
    return theirs, folder / "imported"


def _code(theirs: PublicModel, code: str) -> str:
    """Returns a language by their code: M2M100 has `en` for `eng_Latn`."""
    is_m2m100 = type(theirs.tokenizer).__name__ == "M2M100Tokenizer"
    return {"eng_Latn": "en", "deu_Latn": "de", "fra_Latn": "fr"}[code] if is_m2m100 else code


def _row(theirs: PublicModel, code: str) -> int:
    tokenizer = theirs.tokenizer
    if hasattr(tokenizer, "get_lang_id"):
        return int(tokenizer.get_lang_id(code))
    return int(tokenizer.convert_tokens_to_ids(code))


def _rows(loaded: LoadedModel) -> torch.Tensor:
    """Returns their id of each of our tokens: `<s>` is the decoder's first input, `</s>`."""
    special = [1, 3, 2, 2]
    # One row serves two of ours.
    num_rows = len(loaded.tokenizer.target_vocabulary) - 1
    others = [row for row in range(num_rows) if row not in special]
    return torch.tensor([*special, *others])


def _mark(loaded: LoadedModel, theirs: PublicModel, source: str, target: str) -> Any:
    codes = _code(theirs, source), _code(theirs, target)
    return loaded.tokenizer.mark_languages(*codes)


def _encode(loaded: LoadedModel, marks: Any, lines: list[str]) -> list[EncodedSource]:
    return [
        EncodedSource([*marks.before, *tokens, *marks.behind], begin=marks.begin)
        for tokens in loaded.tokenizer.encode_source(lines)
    ]


@pytest.mark.parametrize(("source", "target", "lines"), _PAIRS)
def test_same_tokens(pair, source, target, lines):
    theirs, folder = pair
    loaded = load_model_folder(folder)
    rows, tokenizer = _rows(loaded), theirs.tokenizer
    tokenizer.src_lang, tokenizer.tgt_lang = _code(theirs, source), _code(theirs, target)
    marks = _mark(loaded, theirs, source, target)
    for line, encoded in zip(
        (*lines, *_NASTY), _encode(loaded, marks, [*lines, *_NASTY]), strict=True
    ):
        assert rows[torch.tensor(encoded.tokens)].tolist() == tokenizer(line)["input_ids"], line
        ours = rows[torch.tensor([*encoded.begin, *loaded.tokenizer.encode_target([line])[0]])]
        expected = tokenizer(text_target=line)["input_ids"]
        if getattr(tokenizer, "legacy_behaviour", False):
            # The old form of targets, which no model was trained with, has the language last.
            expected = [expected[-1], *expected[:-1]]
        assert ours.tolist() == expected, line


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_same_logits(pair, dtype, tolerance):
    theirs, folder = pair
    loaded = load_model_folder(folder)
    rows = _rows(loaded)
    ours, twin = copy.deepcopy(loaded.translator).to(dtype), copy.deepcopy(theirs.model).to(dtype)
    # Both tables of waves are made in 32 bits, and rounded a last digit apart.
    for side, name in (("encoder", "source_embedding"), ("decoder", "target_embedding")):
        table = getattr(twin.model, side).embed_positions.weights.detach().clone()
        getattr(ours, name).positions.table = table.to(dtype)
    marks = _mark(loaded, theirs, "eng_Latn", "deu_Latn")
    sources = _encode(loaded, marks, ENGLISH)
    for source, target in zip(sources, loaded.tokenizer.encode_target(GERMAN), strict=True):
        inputs = torch.tensor([source.tokens])
        shifted = torch.tensor([[BOS, *source.begin, *target[:-1]]])
        layouts = [PaddedLayout.without_padding(each) for each in (inputs, shifted)]
        with torch.no_grad():
            expected = twin(input_ids=rows[inputs], decoder_input_ids=rows[shifted]).logits
            found = ours.project(ours(inputs, layouts[0], shifted, layouts[1]))
        expected = expected[..., rows]
        for tokens in (slice(0, BOS), slice(BOS + 1, None)):
            torch.testing.assert_close(
                found[..., tokens], expected[..., tokens], rtol=0, atol=tolerance
            )
        assert found[..., BOS].exp().max() == 0.0


@pytest.mark.parametrize(("num_beams", "length_penalty"), [(1, 1.0), (4, 0.6), (5, 1.0)])
def test_same_outputs(pair, num_beams, length_penalty):
    theirs, folder = pair
    loaded = load_model_folder(folder)
    rows = _rows(loaded)
    settings = loaded.settings.model_copy(
        update={
            "beam_size": num_beams,
            "length_penalty": LengthPenalty(kind="power", alpha=length_penalty),
            "precision": "fp32",
        }
    )
    near_ties = 0
    # Sources of both pairs in one batch.
    batch = [
        (line, _code(theirs, source), _code(theirs, target), encoded)
        for source, target, lines in _PAIRS
        for line, encoded in zip(
            lines, _encode(loaded, _mark(loaded, theirs, source, target), lines), strict=True
        )
    ]
    found = TorchEngine(loaded.translator, "cpu").search([each[3] for each in batch], settings)
    for (line, source, target, _), (best, *_) in zip(batch, found, strict=True):
        theirs.tokenizer.src_lang = source
        expected = theirs.model.generate(
            **theirs.tokenizer([line], return_tensors="pt"),
            forced_bos_token_id=_row(theirs, target),
            num_beams=num_beams,
            length_penalty=length_penalty,
            return_dict_in_generate=True,
            output_scores=True,
        )
        # Behind `</s>`, the decoder's first input, and the language.
        output = expected.sequences[0].tolist()[2:]
        if num_beams > 1:
            assert best.score == pytest.approx(expected.sequences_scores.item(), abs=1e-4)
        if rows[torch.tensor(best.token_ids)].tolist() != output:
            # Another output is as good, but for rounding.
            assert num_beams > 1
            near_ties += 1
    print(f"{near_ties} near-ties")
    assert near_ties <= 1


def test_scores_are_those_of_the_search(pair):
    theirs, folder = pair
    translator = open_in_fp32(folder)
    source, target = _code(theirs, "eng_Latn"), _code(theirs, "deu_Latn")
    requests = [
        Request(line, source_language=source, target_language=target) for line in ENGLISH[:4]
    ]
    loaded = load_model_folder(folder)
    marks = loaded.tokenizer.mark_languages(source, target)
    for translation in translator.search(requests):
        best = translation.candidates[0]
        assert len(best.tokens) == len(best.token_ids)
        assert marks.begin[0] not in best.token_ids
        divisor = (len(best.token_ids) + 1) ** translator.settings.length_penalty.alpha
        assert best.log_probability / divisor == pytest.approx(best.score, abs=1e-5)
    [given] = translator.score(
        [Request(ENGLISH[0], prefix=GERMAN[0], source_language=source, target_language=target)]
    )
    [encoded] = _encode(loaded, marks, ENGLISH[:1])
    tokens = loaded.tokenizer.encode_target(GERMAN[:1])[0]
    rows = _rows(loaded)
    with torch.no_grad():
        logits = theirs.model(
            input_ids=rows[torch.tensor([encoded.tokens])],
            decoder_input_ids=rows[torch.tensor([[BOS, *marks.begin, *tokens[:-1]]])],
        ).logits[0, 1:]
    expected = logits.log_softmax(dim=-1).gather(1, rows[torch.tensor(tokens)][:, None]).sum()
    assert given.candidates[0].log_probability == pytest.approx(expected.item(), abs=1e-3)


def test_all_of_its_languages(pair):
    theirs, folder = pair
    tokenizer = load_model_folder(folder).tokenizer
    known = TranslatorLanguages.of(tokenizer.languages, "mul", "mul")
    assert known.resolve("en", "deu") == (_code(theirs, "eng_Latn"), _code(theirs, "deu_Latn"))
    rows = _rows(load_model_folder(folder))
    for code in known.target:
        [token] = tokenizer.mark_languages(code, code).begin
        assert rows[token] == _row(theirs, code)


def test_without_tokenizer_json_ids_are_fairseqs(tmp_path):
    # fairseq's offset of one for <pad>; then the languages in their order, then <mask>: as on the
    # hub. (transformers 5.23 puts <mask> first where it has the SentencePiece model alone.)
    theirs = make_nllb(tmp_path / "public", keeps="spm")
    import_model(str(theirs.folder), tmp_path / "imported")
    tokenizer = load_model_folder(tmp_path / "imported").tokenizer
    model = sentencepiece.SentencePieceProcessor(
        model_file=str(theirs.folder / "sentencepiece.bpe.model")
    )
    rows = _rows(load_model_folder(tmp_path / "imported"))
    for line in ENGLISH:
        ours = rows[torch.tensor(tokenizer.encode_source([line])[0])].tolist()
        assert ours == [*(piece + 1 for piece in model.encode(line)), 2]
    for index, code in enumerate(NLLB_CODES):
        [token] = tokenizer.mark_languages(code, code).begin
        assert rows[token] == model.get_piece_size() + 1 + index
