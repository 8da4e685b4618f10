"""The whole recipe: one section per idea, and what must hold between them."""

from typing import Annotated, get_args

from pydantic import Field, model_validator

from mtkit.recipe.data import Data
from mtkit.recipe.evaluation import Evaluation
from mtkit.recipe.inference import Inference
from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.model import Model
from mtkit.recipe.section import Section
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.recipe.training import FrozenPart, Training


class Recipe(Section):
    """Everything about a run."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$"), Invalidates.NOTHING]
    """Name of the run; its workspace is `runs/<name>/`."""
    seed: Annotated[int, Field(ge=0, lt=2**32), Invalidates.DATA | Invalidates.RUN] = 1
    """Seed of everything random: the tokenizer's sample, weights, data order, dropout."""
    data: Annotated[Data, Invalidates.DATA]
    """Parallel text."""
    tokenizer: Annotated[Tokenizer, Invalidates.DATA | Invalidates.RUN] = Tokenizer()
    """Subword tokenizer."""
    model: Annotated[Model, Invalidates.RUN] = Model()
    """Network."""
    training: Training = Training()
    """Training."""
    inference: Annotated[Inference, Invalidates.SCORES | Invalidates.TRANSLATIONS] = Inference()
    """Decoding defaults."""
    evaluation: Annotated[Evaluation, Invalidates.RESULTS] = Evaluation()
    """Test sets and metrics."""

    @model_validator(mode="after")
    def _sections_agree(self) -> "Recipe":
        if self.model.tied_embeddings == "three-way" and not self.tokenizer.joint:
            raise ValueError(
                'model.tied_embeddings = "three-way" needs one vocabulary, but tokenizer.joint is '
                'false: set model.tied_embeddings to "decoder" or "none"'
            )
        start_from = self.training.start_from
        keeps_vocabulary = start_from is not None and start_from.vocabulary == "keep"
        if keeps_vocabulary and self.tokenizer.pretrained is not None:
            raise ValueError(
                "tokenizer.pretrained names a tokenizer, but training.start_from keeps that of its "
                'model: remove the former, or set training.start_from.vocabulary to "new"'
            )
        is_all_frozen = set(self.training.freeze) == set(get_args(FrozenPart))
        if is_all_frozen and self.model.tied_embeddings != "none":
            raise ValueError(
                "training.freeze names every part, so that nothing is left to learn: take one out"
            )
        if self.training.length_groups > self.training.batch_tokens:
            raise ValueError("training.length_groups is greater than training.batch_tokens")
        group = self.training.batch_tokens // self.training.length_groups
        if self.data.cleaning.max_tokens > group:
            raise ValueError(
                f"a sentence of data.cleaning.max_tokens = {self.data.cleaning.max_tokens} doesn't "
                f"fit in a group of {group} tokens (training.batch_tokens / "
                "training.length_groups): lower the former or raise the latter"
            )
        micro_batch_tokens = self.training.micro_batch_tokens
        if micro_batch_tokens != "auto" and self.data.cleaning.max_tokens > micro_batch_tokens:
            raise ValueError(
                f"a sentence of data.cleaning.max_tokens = {self.data.cleaning.max_tokens} doesn't "
                f"fit in training.micro_batch_tokens = {micro_batch_tokens}"
            )
        averaging, training = self.training.averaging, self.training
        kept = {"last": training.keep_last, "best": training.keep_best}.get(averaging.choose)
        if kept is not None and averaging.num_checkpoints > kept:
            raise ValueError(
                f"training.averaging takes the {averaging.choose} {averaging.num_checkpoints} "
                f"checkpoints, but training.keep_{averaging.choose} = {kept}: raise the latter"
            )
        learned = self.model.positions == "learned"
        if learned and self.data.cleaning.max_tokens > self.model.max_positions:
            raise ValueError(
                f"data.cleaning.max_tokens = {self.data.cleaning.max_tokens} reaches past "
                f"model.max_positions = {self.model.max_positions}"
            )
        return self
