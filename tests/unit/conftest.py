import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from mtkit.model.build import build
from mtkit.model.config import ModelConfig
from mtkit.model.folder import save_model_folder
from mtkit.model.weights import pack_weights
from mtkit.network import EncoderDecoder
from mtkit.recipe import Recipe
from mtkit.recipe.cleaning import Cleaning
from mtkit.recipe.corpora import HeldOutPhrasebook, PhrasebookTrainingCorpus
from mtkit.recipe.data import Data
from mtkit.recipe.inference import Inference
from mtkit.recipe.model import Model
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.train_tokenizer import train_tokenizer

_VOCAB_SIZE = 48
_SENTENCES = [
    "the quick brown fox jumps over the lazy dog",
    "pack my box with five dozen jugs",
    "how quickly daft jumping zebras vex",
]


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """What a test logs; it may change the root logger's level."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    level = logging.root.level
    logging.root.addHandler(handler)
    yield records
    logging.root.removeHandler(handler)
    logging.root.setLevel(level)


@pytest.fixture(scope="session")
def tokenizer() -> SubwordTokenizer:
    return train_tokenizer(Tokenizer(vocab_size=_VOCAB_SIZE), _SENTENCES, _SENTENCES, seed=1)


@pytest.fixture(scope="session")
def two_vocabularies() -> SubwordTokenizer:
    settings = Tokenizer(vocab_size=_VOCAB_SIZE, joint=False)
    return train_tokenizer(settings, _SENTENCES, reversed(_SENTENCES[:2]), seed=1)


@pytest.fixture(scope="session")
def make_recipe() -> Callable[..., Recipe]:
    """A function that returns a tiny recipe; its arguments change the model section."""

    def make(**model: object) -> Recipe:
        shape = {"num_encoder_layers": 1, "num_decoder_layers": 1, "d_model": 16, "d_ff": 32}
        shape |= {"num_heads": 2, **model}
        return Recipe(
            name="tiny",
            data=Data(
                source_language="en",
                target_language="de",
                train=(PhrasebookTrainingCorpus(builtin="phrasebook"),),
                dev=HeldOutPhrasebook(builtin="phrasebook"),
                cleaning=Cleaning(max_tokens=2),
            ),
            tokenizer=Tokenizer(
                vocab_size=_VOCAB_SIZE,
                joint=model.get("tied_embeddings", "three-way") == "three-way",
            ),
            model=Model(**shape),
            inference=Inference(beam_size=2, max_extra_tokens=4),
        )

    return make


@pytest.fixture(scope="session")
def make_model(tokenizer) -> Callable[[Recipe], EncoderDecoder]:
    """A function that returns a recipe's network with random weights."""

    def make(recipe: Recipe, seed: int = 1) -> EncoderDecoder:
        torch.manual_seed(seed)
        return build(ModelConfig.of(recipe, tokenizer))

    return make


@pytest.fixture(scope="session")
def make_folder(make_recipe, make_model, tokenizer) -> Callable[[Path], Path]:
    """A function that leaves a model folder and returns it."""

    def make(folder: Path) -> Path:
        recipe = make_recipe()
        save_model_folder(
            folder,
            recipe=recipe,
            weights=pack_weights(make_model(recipe)),
            tokenizer=tokenizer,
            origin="checkpoint of step 7",
            training_facts={"sentence pairs": "40,000"},
        )
        return folder

    return make


@pytest.fixture
def folder(tmp_path: Path, make_folder) -> Path:
    """A model folder."""
    return make_folder(tmp_path / "model")
