"""What a translator does with a causal language model: it continues lines."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mtkit.errors import MtkitError
from mtkit.inference.request import LineError, Request
from mtkit.inference.translator import Translator
from mtkit.model.build import build
from mtkit.model.config import ModelConfig, read_settings
from mtkit.model.folder import save_model_folder
from mtkit.model.weights import pack_weights
from mtkit.recipe import Recipe
from mtkit.recipe.corpora import TextTrainingCorpus
from mtkit.recipe.data import Data
from mtkit.recipe.inference import Fusion, Inference, Sampling
from mtkit.recipe.model import Model
from mtkit.recipe.objective import Objective
from mtkit.recipe.text_corpora import TextCorpus
from mtkit.recipe.training import Training, Validation

LINES = ["the quick brown fox", "", "pack my box with five dozen", "a", "  \n"]
MAX_POSITIONS = 40


def save_language_model(
    folder: Path, tokenizer, objective: Objective = "causal-lm", **inference
) -> Path:
    recipe = Recipe(
        name="tiny-lm",
        objective=objective,
        data=Data(
            language="en",
            block_tokens=32,
            train=(TextTrainingCorpus(text=Path("mono.en")),),
            dev=TextCorpus(text=Path("dev.en")),
        ),
        model=Model(
            num_encoder_layers=1,
            num_decoder_layers=2,
            d_model=16,
            d_ff=32,
            num_heads=2,
            positions="learned",
            max_positions=MAX_POSITIONS,
            initial_std=0.3,
        ),
        training=Training(validation=Validation(metric="loss")),
        inference=Inference(**{"max_extra_tokens": 6, "beam_size": 2, **inference}),
    )
    torch.manual_seed(2)
    save_model_folder(
        folder,
        recipe=recipe,
        weights=pack_weights(build(ModelConfig.of(recipe, tokenizer))),
        tokenizer=tokenizer,
        origin="random weights",
    )
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tokenizer) -> Path:
    return save_language_model(tmp_path_factory.mktemp("lm") / "model", tokenizer)


@pytest.mark.parametrize(
    "settings",
    [
        Inference(beam_size=1, max_extra_tokens=6),
        Inference(beam_size=3, n_best=2, max_extra_tokens=6),
        Inference(sampling=Sampling(seed=3), max_extra_tokens=6),
        Inference(beam_size=2, max_extra_tokens=5, no_repeat_ngram=1, min_length=3),
    ],
    ids=["greedy", "beam", "sampling", "rules"],
)
def test_lines_are_continued_whatever_the_search(folder: Path, settings: Inference) -> None:
    translator = Translator(folder, settings=settings)
    together = translator.translate(LINES)
    assert [
        translator.search([line], first_line=1 + i)[0].text for i, line in enumerate(LINES)
    ] == (together)
    for line, continued in zip(LINES, together, strict=True):
        assert continued.startswith(line.strip())
        assert bool(continued) == bool(line.strip())
    assert any(len(continued) > len(line) for line, continued in zip(LINES, together, strict=True))


def test_tokens_and_scores_are_those_of_what_follows_the_line(folder: Path, tokenizer) -> None:
    found = Translator(folder).search([LINES[0]])[0].candidates[0]
    assert len(found.token_ids) <= 6
    assert len(found.tokens) == len(found.token_ids)
    begun = tokenizer.encode_target([LINES[0]])[0][:-1]
    assert found.text == tokenizer.decode_target([*begun, *found.token_ids])
    assert found.log_probability == pytest.approx(sum(found.token_log_probabilities), abs=1e-6)


def test_what_cannot_be_continued_is_named_by_its_line(folder: Path) -> None:
    translator = Translator(folder)
    with pytest.raises(LineError, match=r"input line 2: .* the model reads 40 at most"):
        translator.translate(["a", "the quick brown fox " * 20])
    with pytest.raises(LineError, match="a prefix was given"):
        translator.search([Request("the", prefix="quick")])


def test_a_line_as_long_as_the_positions_gets_what_room_is_left(folder: Path, tokenizer) -> None:
    line = "a" * (MAX_POSITIONS - 3)
    num_tokens = len(tokenizer.encode_target([line])[0]) - 1
    while num_tokens >= MAX_POSITIONS:
        line = line[:-1]
        num_tokens = len(tokenizer.encode_target([line])[0]) - 1
    found = Translator(folder).search([line])[0].candidates[0]
    assert 1 <= len(found.token_ids) <= MAX_POSITIONS - num_tokens


def test_settings_that_need_a_source_are_refused(folder: Path) -> None:
    settings = Inference(coverage_penalty=0.2)
    with pytest.raises(MtkitError, match="which a decoder-only model lacks"):
        Translator(folder, settings=settings).translate("a")
    fused = Inference(fusion=Fusion(model=folder))
    with pytest.raises(MtkitError, match="a language model itself"):
        Translator(folder, settings=fused)


def test_a_masked_model_emits_nothing(tmp_path: Path, tokenizer) -> None:
    folder = save_language_model(tmp_path / "model", tokenizer, "masked-lm")
    with pytest.raises(MtkitError, match="masked language model, which doesn't generate text"):
        Translator(folder)


@pytest.mark.parametrize("weight", [0.0, 1.5])
def test_fusion_by_a_folder(
    folder: Path, tmp_path: Path, make_folder: Callable[[Path], Path], weight: float
) -> None:
    translator = make_folder(tmp_path / "translator")
    fused = Inference(beam_size=3, max_extra_tokens=4, fusion=Fusion(model=folder, weight=weight))
    alone = Translator(translator, settings=fused.model_copy(update={"fusion": None}))
    together = Translator(translator, settings=fused)
    found = together.search(LINES)
    if weight == 0.0:
        assert [each.text for each in found] == [each.text for each in alone.search(LINES)]
    best = found[0].candidates[0]
    assert best.fused_log_probability is not None
    told = json.loads(json.dumps(found[0].as_json(LINES[0])))
    assert told["language_model_log_probability"] == best.fused_log_probability
    assert "language_model_log_probability" not in alone.search(LINES)[0].as_json(LINES[0])
    # What the translator alone says of the same output.
    (scored,) = alone.score([(LINES[0], best.text)])
    if scored.candidates[0].token_ids == best.token_ids:
        assert best.log_probability == pytest.approx(scored.candidates[0].log_probability, abs=1e-4)


def test_fusion_needs_the_same_vocabulary(
    tmp_path: Path, make_folder: Callable[[Path], Path], two_vocabularies
) -> None:
    other = two_vocabularies
    stranger = tmp_path / "stranger"
    language_model = save_language_model(stranger, type(other)(*[other.models[1]] * 2))
    settings = Inference(fusion=Fusion(model=language_model))
    with pytest.raises(MtkitError, match="vocabulary differs from the translator's target"):
        Translator(make_folder(tmp_path / "translator"), settings=settings)


def test_a_folder_names_no_other_model(tmp_path: Path, tokenizer) -> None:
    folder = save_language_model(
        tmp_path / "model", tokenizer, fusion=Fusion(model=tmp_path / "elsewhere", weight=0.5)
    )
    assert read_settings(folder).fusion is None


def test_a_line_comes_out_as_it_was_given(folder: Path) -> None:
    """Pieces lack some characters and all spaces but one."""
    lines = ["the \u6f22\u5b57  quick\u3000\u201cfox\u201d", "a box \t"]
    for line, text in zip(lines, Translator(folder).translate(lines), strict=True):
        assert text.startswith(line.rstrip())
