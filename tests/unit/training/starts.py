"""Starts a recipe's model from what the recipe names."""

from mtkit.model.config import ModelConfig
from mtkit.network import Network
from mtkit.recipe import Recipe
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.training.start_from import start_from


def start_model(recipe: Recipe, model: Network, tokenizer: SubwordTokenizer) -> None:
    config = ModelConfig.of(recipe, tokenizer, labels=("de", "en"))
    start_from(recipe.training, config, model, tokenizer)
