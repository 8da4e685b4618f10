"""An imported Marian translator = the same in transformers: tokens, logits, outputs."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.translator import Translator
from mtkit.model.folder import load_model_folder
from mtkit.network import PaddedLayout
from mtkit.pipeline.import_model import import_model
from mtkit.recipe.inference import LengthPenalty
from mtkit.text.languages import NO_MARKS
from mtkit.text.token_ids import BOS, EOS, UNK
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.trim_vocabulary import trim_vocabulary

from ..public_models import (
    ENGLISH,
    GERMAN,
    TAGS,
    PublicModel,
    make_m2m100,
    make_marian,
    open_in_fp32,
)
from .half_trained import encoded

_NASTY = [
    "x",
    "  two  spaces ",
    "Zażółć gęślą jaźń",
    "日本語 and English",
    "\u200b",
    "¿Qué?\t tab",
    "ﬁ ligature and Ⅷ",
    "<pad",
    "a" * 300,
    "…–—“”",
]
_KINDS: dict[str, dict[str, Any]] = {
    "one vocabulary": {},
    "bpe": {"kind": "bpe"},
    "two vocabularies": {"has_own_vocabularies": True},
    "untied": {"has_own_vocabularies": True, "tie_word_embeddings": False},
    "relu, unscaled": {"activation_function": "relu", "scale_embedding": False},
}


@pytest.fixture(scope="module", params=_KINDS)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[PublicModel, Path]:
    """Returns a public model, and the model folder that was made of it."""
    folder = tmp_path_factory.mktemp("marian")
    theirs = make_marian(folder / "opus-mt-en-de", **_KINDS[request.param])
    import_model(str(theirs.folder), folder / "imported")
    return theirs, folder / "imported"


def test_same_tokens(pair):
    theirs, folder = pair
    tokenizer = load_model_folder(folder).tokenizer
    of_source = _list_rows(tokenizer.source_vocabulary.pieces, theirs, "source")
    of_target = _list_rows(tokenizer.target_vocabulary.pieces, theirs, "target")
    tagged = [f"{TAGS[0]} {line}" for line in ENGLISH]
    for line in (*ENGLISH, *GERMAN, *_NASTY, *tagged):
        ours = of_source[torch.tensor(tokenizer.encode_source([line])[0])].tolist()
        assert ours == theirs.tokenizer(line)["input_ids"], line
        if line not in tagged:
            ours = of_target[torch.tensor(tokenizer.encode_target([line])[0])].tolist()
            assert ours == theirs.tokenizer(text_target=line)["input_ids"], line


def _list_rows(pieces: tuple[str, ...], theirs: PublicModel, side: str) -> torch.Tensor:
    """Returns their id of each of our pieces, by their own vocabulary; that of <s> is <pad>'s."""
    encoder = theirs.tokenizer.encoder
    if side == "target" and theirs.tokenizer.separate_vocabs:
        encoder = theirs.tokenizer.target_encoder
    return torch.tensor([encoder[{"<s>": "<pad>"}.get(piece, piece)] for piece in pieces])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_same_logits(pair, dtype, tolerance):
    theirs, folder = pair
    loaded = load_model_folder(folder)
    ours, twin = copy.deepcopy(loaded.translator).to(dtype), copy.deepcopy(theirs.model).to(dtype)
    # Both tables of waves are made in 32 bits, and rounded a last digit apart.
    _share_waves(ours, twin, dtype)
    tokenizer = loaded.tokenizer
    of_source = _list_rows(tokenizer.source_vocabulary.pieces, theirs, "source")
    of_target = _list_rows(tokenizer.target_vocabulary.pieces, theirs, "target")
    for source, target in zip(
        tokenizer.encode_source(ENGLISH), tokenizer.encode_target(GERMAN), strict=True
    ):
        inputs, shifted = torch.tensor([source]), torch.tensor([[BOS, *target[:-1]]])
        with torch.no_grad():
            expected = twin(
                input_ids=of_source[inputs], decoder_input_ids=of_target[shifted]
            ).logits[..., of_target]
            states = ours(
                inputs,
                PaddedLayout.without_padding(inputs),
                shifted,
                PaddedLayout.without_padding(shifted),
            )
            found = ours.project(states)
        # All but <s>, which they don't have.
        for tokens in (slice(0, BOS), slice(BOS + 1, None)):
            torch.testing.assert_close(
                found[..., tokens], expected[..., tokens], rtol=0, atol=tolerance
            )
        assert found[..., BOS].exp().max() == 0.0


def _share_waves(ours: Any, twin: Any, dtype: torch.dtype) -> None:
    for side, name in (("encoder", "source_embedding"), ("decoder", "target_embedding")):
        table = getattr(twin.model, side).embed_positions.weight
        getattr(ours, name).positions.table = table.detach().clone().to(dtype)


@pytest.mark.parametrize(
    ("num_beams", "length_penalty"),
    [
        *((1, 1.0), (4, 0.6), (5, 1.0)),
        *(pytest.param(n, p, marks=pytest.mark.patient) for n, p in ((1, 0.6), (4, 1.0), (5, 0.6))),
    ],
)
def test_same_outputs(pair, num_beams, length_penalty):
    theirs, folder = pair
    loaded = load_model_folder(folder)
    settings = loaded.settings.model_copy(
        update={
            "beam_size": num_beams,
            "length_penalty": LengthPenalty(kind="power", alpha=length_penalty),
            "precision": "fp32",
        }
    )
    of_target = _list_rows(loaded.tokenizer.target_vocabulary.pieces, theirs, "target")
    sources = loaded.tokenizer.encode_source(ENGLISH)
    found = TorchEngine(loaded.translator, "cpu").search(encoded(sources), settings)
    near_ties = 0
    for line, (best, *_) in zip(ENGLISH, found, strict=True):
        expected = theirs.model.generate(
            **theirs.tokenizer([line], return_tensors="pt"),
            num_beams=num_beams,
            length_penalty=length_penalty,
            return_dict_in_generate=True,
            output_scores=True,
        )
        output = expected.sequences[0].tolist()[1:]
        ours = of_target[torch.tensor(best.token_ids)].tolist()
        if ours != output:
            # Another output is as good, but for rounding.
            assert num_beams > 1
            assert best.score == pytest.approx(expected.sequences_scores.item(), abs=1e-4)
            near_ties += 1
    print(f"{near_ties} near-ties")
    assert near_ties <= 1


def test_same_text(pair):
    theirs, folder = pair
    translator = open_in_fp32(folder)
    for line in ENGLISH[:3]:
        output = theirs.model.generate(**theirs.tokenizer([line], return_tensors="pt"))
        expected = theirs.tokenizer.batch_decode(output, skip_special_tokens=True)[0]
        found = translator.translate(line)
        assert found.replace(" ⁇ ", "").split() == expected.replace(" ⁇ ", "").split()


def test_renormalized_probabilities_leave_padding_out(tmp_path):
    theirs = make_marian(tmp_path / "theirs", generation={"renormalize_logits": True})
    import_model(str(theirs.folder), tmp_path / "ours")
    loaded = load_model_folder(tmp_path / "ours")
    source = loaded.tokenizer.encode_source(ENGLISH[:1])
    settings = loaded.settings.model_copy(update={"precision": "fp32"})
    best = TorchEngine(loaded.translator, "cpu").search(encoded(source), settings)[0][0]
    expected = theirs.model.generate(
        **theirs.tokenizer(ENGLISH[:1], return_tensors="pt"),
        return_dict_in_generate=True,
        output_scores=True,
    )
    assert best.score == pytest.approx(expected.sequences_scores.item(), abs=1e-4)
    assert best.token_ids[-1] == EOS or len(best.token_ids) == 23


@pytest.mark.parametrize("make", [make_marian, make_m2m100])
def test_a_piece_that_the_list_lacks_is_unknown(make, tmp_path):
    """transformers gives such a piece the id of <unk>; so a line with it trains as any other."""
    public = tmp_path / "public"
    theirs = make(public)
    path, line = public / "vocab.json", GERMAN[1]
    # Rows stay where they are: the piece alone goes, from a row behind which none is counted.
    ids = json.loads(path.read_text("utf-8"))
    cut = sentencepiece.SentencePieceProcessor(
        model_file=str(next(public.glob("target.spm"), public / "sentencepiece.bpe.model"))
    ).encode(line, out_type=str)
    piece = next(piece for piece in cut if len(piece) > 1)
    ids = {f"other{row}" if name == piece else name: row for name, row in ids.items()}
    path.write_text(json.dumps(ids), "utf-8")
    tokenizer = type(theirs.tokenizer).from_pretrained(public, src_lang="en", tgt_lang="de")
    expected = tokenizer(text_target=line)["input_ids"]
    assert tokenizer.unk_token_id in expected
    import_model(str(public), tmp_path / "imported")
    loaded = load_model_folder(tmp_path / "imported")
    ours = loaded.tokenizer.encode_target([line])[0]
    assert ours.count(UNK) == expected.count(tokenizer.unk_token_id)
    marks = loaded.tokenizer.mark_languages("en", "de") if make is make_m2m100 else NO_MARKS
    source = [*marks.before, *loaded.tokenizer.encode_source([ENGLISH[1]])[0]]
    found = TorchEngine(loaded.translator, "cpu").score([source], [[*marks.begin, *ours]])[0]
    with torch.no_grad():
        loss = theirs.model(
            **tokenizer([ENGLISH[1]], return_tensors="pt"), labels=torch.tensor([expected])
        ).loss
    assert -sum(found) / len(expected) == pytest.approx(float(loss), abs=1e-4)
    # Where the vocabulary is cut, it stays unknown.
    cut_model = trim_vocabulary(loaded.tokenizer, [*ENGLISH, *GERMAN]).tokenizer
    assert cut_model.encode_target([line])[0].count(UNK) == ours.count(UNK)
    cut_model.save(tmp_path / "cut")
    assert SubwordTokenizer.load(tmp_path / "cut").encode_target([line])[0].count(UNK) > 0


def test_a_mistyped_tag_is_reported(pair):
    _, folder = pair
    lines = [">>deu<< A dog runs.", ">>dea<< A dog runs.", "A >>dea<< dog runs."]
    found = Translator(folder).search(lines, warns=False)
    [warning] = [each for one in found for each in one.warnings if each.kind == "unknown tag"]
    assert (warning.fault, warning.line) == (
        "the model has no tag >>dea<< (did you mean '>>deu<<'?), so it is translated as text",
        2,
    )
