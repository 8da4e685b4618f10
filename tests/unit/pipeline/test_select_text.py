"""The language models by which text is selected: against a direct computation; what isn't one."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mtkit.data.selection.language_models import check_models, choose_unit
from mtkit.errors import MtkitError
from mtkit.model.build import build
from mtkit.model.config import ModelConfig
from mtkit.model.folder import load_model_folder, save_model_folder
from mtkit.model.weights import pack_weights
from mtkit.network import PaddedLayout
from mtkit.pipeline.prepare import TorchLanguageModels
from mtkit.recipe import Recipe
from mtkit.recipe.loading import check_recipe
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.token_ids import BOS
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.train_tokenizer import train_tokenizer

LINES = [
    "the quick brown fox",
    "pack my box with five dozen liquor jugs " * 4,
    "a",
    "Wörter, die das Vokabular nicht kennt: 你好",
    "pack my box",
]
MAX_POSITIONS = 24
MODELS = TorchLanguageModels("cpu")


def make_recipe(objective: str, language: str = "en") -> Recipe:
    is_text = objective != "translation"
    data = {"language": language} if is_text else {"source_language": "en", "target_language": "de"}
    corpus = {"text": "a"} if is_text else {"source": "a", "target": "b"}
    tables = {
        "name": "tiny",
        "objective": objective,
        "data": {**data, "block_tokens": 16, "train": [corpus], "dev": corpus},
        "model": {
            "num_encoder_layers": 1,
            "num_decoder_layers": 2,
            "d_model": 16,
            "d_ff": 32,
            "num_heads": 2,
            "initial_std": 0.3,
        },
        "training": {"validation": {"metric": "loss"}},
    }
    if is_text:
        tables["model"] |= {"positions": "learned", "max_positions": MAX_POSITIONS}
    return check_recipe(tables, "test", Path())


def save_model(
    folder: Path,
    tokenizer: SubwordTokenizer,
    *,
    objective: str = "causal-lm",
    language: str = "en",
    seed: int = 2,
) -> Path:
    recipe = make_recipe(objective, language)
    torch.manual_seed(seed)
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
    return save_model(tmp_path_factory.mktemp("lm") / "model", tokenizer)


def measure_directly(folder: Path, line: str) -> tuple[float, int]:
    """Returns a line's log-probability by the network alone, piece by piece, and its tokens."""
    loaded = load_model_folder(folder)
    network = loaded.model.eval()
    [tokens] = loaded.tokenizer.encode_source([line])
    total = 0.0
    for first in range(0, len(tokens), MAX_POSITIONS):
        piece = tokens[first : first + MAX_POSITIONS]
        seen = torch.tensor([[BOS, *piece[:-1]]])
        with torch.no_grad():
            logits = network.project(network(seen, PaddedLayout.without_padding(seen)))
        chosen = torch.log_softmax(logits.double().view(len(piece), -1), dim=-1)
        total += float(chosen[range(len(piece)), piece].sum())
    return total, len(tokens)


def test_lines_are_measured_as_by_the_network_alone(folder: Path) -> None:
    log_probabilities, num_tokens = MODELS.open(folder)(LINES)
    expected = [measure_directly(folder, line) for line in LINES]
    assert max(num_tokens) > MAX_POSITIONS
    assert num_tokens.tolist() == [count for _, count in expected]
    np.testing.assert_allclose(log_probabilities, [total for total, _ in expected], rtol=1e-5)


def test_the_number_of_threads_stays(folder: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        MODELS.open(folder)(LINES)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_causal_language_model_passes(folder: Path, capsys) -> None:
    MODELS.check(folder, "en")
    MODELS.check(folder, "en-GB")
    assert capsys.readouterr().err == ""


def test_another_language_is_a_warning(folder: Path, tmp_path: Path, tokenizer, capsys) -> None:
    MODELS.check(folder, "de")
    said = " ".join(capsys.readouterr().err.split())
    assert "is a model of language en, and the text that it measures is de" in said
    MODELS.check(save_model(tmp_path / "model", tokenizer, language="mul"), "de")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("objective", "fault"),
    [("masked-lm", "a masked language model"), ("translation", "a translator")],
)
def test_another_kind_of_model_is_refused(
    tmp_path: Path, tokenizer, objective: str, fault: str
) -> None:
    model = save_model(tmp_path / "model", tokenizer, objective=objective)
    with pytest.raises(MtkitError, match=f"{fault}, but .* needs a causal language model"):
        MODELS.check(model, "en")


def test_what_is_no_model_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(MtkitError, match="nowhere: no such folder"):
        MODELS.check(tmp_path / "nowhere", "en")
    with pytest.raises(MtkitError, match="no model here"):
        MODELS.check(tmp_path, "en")
    weightless = tmp_path / "weightless"
    weightless.mkdir()
    for path in folder.iterdir():
        if path.suffix != ".safetensors":
            (weightless / path.name).write_bytes(path.read_bytes())
    with pytest.raises(MtkitError, match=r"model\.safetensors"):
        MODELS.check(weightless, "en")


def test_weights_that_are_nan_are_told_at_once(tmp_path: Path, tokenizer) -> None:
    recipe = make_recipe("causal-lm")
    network = build(ModelConfig.of(recipe, tokenizer))
    with torch.no_grad():
        for weights in network.parameters():
            weights.fill_(float("nan"))
    folder = tmp_path / "model"
    save_model_folder(
        folder, recipe=recipe, weights=pack_weights(network), tokenizer=tokenizer, origin="blank"
    )
    with pytest.raises(MtkitError, match="NaN"):
        MODELS.check(folder, "en")


def select_with(recipe: Recipe, in_domain: Path, general: Path) -> Recipe:
    tables = recipe.model_dump(mode="json", exclude_none=True)
    tables["data"]["cleaning"]["selection"] = {
        "in_domain": str(in_domain),
        "general": str(general),
        "keep": 0.5,
    }
    return check_recipe(tables, "test", Path())


def test_the_same_model_twice_is_refused(folder: Path, tmp_path: Path, tokenizer) -> None:
    copy = save_model(tmp_path / "copy", tokenizer)
    recipe = make_recipe("causal-lm")
    with pytest.raises(MtkitError, match="in_domain and general are the same model"):
        check_models(select_with(recipe, folder, copy).data, MODELS)
    other = save_model(tmp_path / "other", tokenizer, seed=3)
    check_models(select_with(recipe, folder, other).data, MODELS)


def test_a_digest_changes_with_the_files_that_count(tmp_path: Path, tokenizer) -> None:
    folder = save_model(tmp_path / "model", tokenizer)
    (folder / "adapter.safetensors").write_bytes(b"of an adapter")
    ignored = set()
    for path in sorted(folder.iterdir()):
        before, content = MODELS.digest(folder), path.read_bytes()
        path.write_bytes(content + b" ")
        ignored |= {path.name} if MODELS.digest(folder) == before else set()
        path.write_bytes(content)
    assert ignored == {"README.md", "inference.json"}


def test_other_vocabularies_are_compared_by_character(
    folder: Path, tmp_path: Path, tokenizer
) -> None:
    same = save_model(tmp_path / "same", tokenizer, seed=3)
    assert choose_unit({"text": (folder, same)}) == "token"
    own = train_tokenizer(Tokenizer(vocab_size=64), LINES * 5, [], seed=1)
    other = save_model(tmp_path / "other", own)
    assert choose_unit({"text": (folder, other)}) == "character"
    # One side is enough: both are summed.
    assert choose_unit({"source": (folder, same), "target": (folder, other)}) == "character"
