"""A language model's folder: saved, loaded, its card; what only a translator can do is refused."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import torch

from mtkit.errors import MtkitError
from mtkit.inference.export import export
from mtkit.model.build import build
from mtkit.model.config import ModelConfig, read_config
from mtkit.model.digest import digest_model
from mtkit.model.folder import load_model_folder, save_model_folder
from mtkit.model.weights import pack_weights
from mtkit.network import CausalLanguageModel, MaskedLanguageModel
from mtkit.recipe import Recipe
from mtkit.recipe.corpora import TextTrainingCorpus
from mtkit.recipe.data import Data
from mtkit.recipe.masking import Masking
from mtkit.recipe.model import Model
from mtkit.recipe.text_corpora import TextCorpus
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.recipe.training import Training, Validation
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.train_tokenizer import train_tokenizer

from ... import warm

NETWORKS = {"causal-lm": CausalLanguageModel, "masked-lm": MaskedLanguageModel}
with_both = pytest.mark.parametrize("objective", NETWORKS)


@pytest.fixture(scope="module")
def tokenizer() -> SubwordTokenizer:
    sentences = ["the quick brown fox jumps over the lazy dog", "A sentence. Pack my box"]
    settings = Tokenizer(vocab_size=60, user_symbols=("<mask>",))
    return train_tokenizer(settings, sentences, sentences, seed=1)


def _make_recipe(objective: str, *, next_sentence: bool = True) -> Recipe:
    masking = Masking(next_sentence=next_sentence) if objective == "masked-lm" else None
    return Recipe(
        name="tiny-text",
        objective=objective,
        data=Data(
            language="en",
            train=(TextTrainingCorpus(text=Path("train.en")),),
            dev=TextCorpus(text=Path("dev.en")),
            block_tokens=8,
        ),
        model=Model(num_encoder_layers=3, num_decoder_layers=2, d_model=16, d_ff=64, num_heads=2),
        training=Training(masking=masking, validation=Validation(metric="loss")),
    )


def _save(folder: Path, recipe: Recipe, tokenizer: SubwordTokenizer) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    weights = pack_weights(build(ModelConfig.of(recipe, tokenizer)))
    save_model_folder(
        folder,
        recipe=recipe,
        weights=weights,
        tokenizer=tokenizer,
        origin="checkpoint of step 7",
        training_facts={"documents": "40,000"},
    )
    return weights


@with_both
def test_it_comes_back_as_it_went(
    objective: str, tmp_path: Path, tokenizer: SubwordTokenizer
) -> None:
    weights = _save(tmp_path / "model", _make_recipe(objective), tokenizer)
    loaded = load_model_folder(tmp_path / "model")
    assert isinstance(loaded.model, NETWORKS[objective])
    assert not loaded.model.training
    found = pack_weights(loaded.model)
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[name], weight) for name, weight in weights.items())
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["objective"] == loaded.config.objective == objective
    assert (config["source_language"], config["target_language"]) == ("en", "en")
    # Another model is another digest.
    digest = digest_model(tmp_path / "model")
    _save(tmp_path / "other", _make_recipe(objective).model_copy(update={"name": "b"}), tokenizer)
    assert digest_model(tmp_path / "other") != digest


def test_whether_it_tells_pairs_is_kept(tmp_path: Path, tokenizer: SubwordTokenizer) -> None:
    recipe = _make_recipe("masked-lm", next_sentence=False)
    _save(tmp_path / "model", recipe, tokenizer)
    assert not read_config(tmp_path / "model").next_sentence
    loaded = load_model_folder(tmp_path / "model")
    assert isinstance(loaded.model, MaskedLanguageModel)
    assert loaded.model.next_sentence is None


@pytest.mark.parametrize(
    ("objective", "title", "task", "num_layers", "printed"),
    [
        ("causal-lm", "a causal language model of en", "text-generation", 2, "log-probability: -"),
        ("masked-lm", "a masked language model of en", "fill-mask", 3, "masked: ['"),
    ],
)
def test_its_card_says_what_it_is_and_what_it_says_works(
    objective: str,
    title: str,
    task: str,
    num_layers: int,
    printed: str,
    tmp_path: Path,
    tokenizer: SubwordTokenizer,
) -> None:
    weights = _save(tmp_path / "model", _make_recipe(objective), tokenizer)
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"# tiny-text: {title}\n" in card
    assert f"language:\n- en\nlibrary_name: mtkit\npipeline_tag: {task}\n" in card
    assert f"- layers: {num_layers}\n" in card
    assert f"- parameters: {sum(weight.numel() for weight in weights.values()):,}\n" in card
    assert "- vocabulary: 60 pieces\n" in card
    assert "- weights: checkpoint of step 7\n- documents: 40,000\n" in card
    assert card.endswith("## Scores\n\nNot scored yet; `mtkit score` fills this in.\n")
    (program,) = re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [warm.python(), "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path / "model",
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.stdout.startswith(printed)


@with_both
def test_ctranslate2_takes_translators_alone(
    objective: str, tmp_path: Path, tokenizer: SubwordTokenizer
) -> None:
    _save(tmp_path / "model", _make_recipe(objective), tokenizer)
    fault = rf'\(objective = "{objective}"\), and export to CTranslate2 is only for translators'
    with pytest.raises(MtkitError, match=fault):
        export(tmp_path / "model", tmp_path / "export", lines=["a fox"], quantization="float32")
    assert not (tmp_path / "export").exists()
