"""A run to be trained or averaged: its recipe, its workspace and its prepared data."""

from dataclasses import dataclass
from typing import Any

from mtkit.data.prepared import PreparedData, open_prepared
from mtkit.model.config import ModelConfig
from mtkit.recipe import Recipe
from mtkit.workspace import Workspace


@dataclass(frozen=True)
class TrainingRun:
    """What is known of a run before anything is learned.

    Attributes:
        recipe: The run's recipe.
        workspace: The run's folder.
        data: The prepared data.
    """

    recipe: Recipe
    workspace: Workspace
    data: PreparedData

    @classmethod
    def open(cls, recipe: Recipe, workspace: Workspace) -> "TrainingRun":
        """Returns a run whose data are prepared.

        Raises:
            MtkitError: No data, or those of another recipe.
        """
        return cls(recipe, workspace, open_prepared(recipe, workspace))

    @property
    def model_config(self) -> ModelConfig:
        """All that the model is built from."""
        return ModelConfig.of(self.recipe, self.data.tokenizer, self.data.labels)

    @property
    def tables(self) -> dict[str, Any]:
        """The recipe as plain tables, as checkpoints hold it."""
        return self.recipe.model_dump(mode="json", exclude_none=True)
