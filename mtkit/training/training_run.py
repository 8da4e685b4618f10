"""A run to be trained or averaged."""

from dataclasses import dataclass
from typing import Any

from mtkit.data.prepared import PreparedData, open_prepared
from mtkit.model.config import ModelConfig
from mtkit.recipe import Recipe
from mtkit.training.checkpoint import describe_recipe
from mtkit.training.whole_weights import WholeWeights
from mtkit.workspace import Workspace


@dataclass(frozen=True)
class TrainingRun:
    """The recipe, workspace and prepared data of a run."""

    recipe: Recipe
    workspace: Workspace
    data: PreparedData

    @classmethod
    def open(cls, recipe: Recipe, workspace: Workspace) -> "TrainingRun":
        """Returns a run whose data are prepared."""
        return cls(recipe, workspace, open_prepared(recipe, workspace))

    @property
    def model_config(self) -> ModelConfig:
        """Everything that the model is built from."""
        return ModelConfig.of(self.recipe, self.data.tokenizer, self.data.labels)

    @property
    def whole_weights(self) -> WholeWeights:
        """What completes the weights of its checkpoints."""
        training, seed = self.recipe.training, self.recipe.seed
        return WholeWeights(self.model_config, training, self.data.tokenizer, seed=seed)

    @property
    def tables(self) -> dict[str, Any]:
        """The recipe as plain tables, as in checkpoints."""
        return describe_recipe(self.recipe)
