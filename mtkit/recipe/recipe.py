"""The whole recipe: one section per idea, and what must hold between them."""

from typing import Annotated, get_args

from pydantic import Field, model_validator

from mtkit.errors import suggest
from mtkit.recipe.cluster import Cluster
from mtkit.recipe.corpora import corpus_names
from mtkit.recipe.data import Data
from mtkit.recipe.evaluation import Evaluation
from mtkit.recipe.inference import Inference
from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.model import Model
from mtkit.recipe.objective import ENCODER_DECODERS, LANGUAGE_MODELS, Objective
from mtkit.recipe.parsing import TreeCorpus
from mtkit.recipe.section import Section
from mtkit.recipe.text_corpora import ClassifierCorpus, TextCorpus, TextTableCorpus
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.recipe.training import Classification, FrozenPart, Training
from mtkit.recipe.training_stages import WeightedUpdates, list_stages

_OBJECTIVES = {
    "masking": "masked-lm",
    "denoising": "denoising",
    "classification": "classification",
}
"""The objective that each section of `training` is for."""


class Recipe(Section):
    """Everything about a run."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$"), Invalidates.NOTHING]
    """Name of the run; its workspace is `runs/<name>/`."""
    seed: Annotated[int, Field(ge=0, lt=2**32), Invalidates.DATA | Invalidates.RUN] = 1
    """Seed of everything random: the tokenizer's sample, initial weights, data order, dropout."""
    objective: Annotated[Objective, Invalidates.DATA | Invalidates.RUN] = "translation"
    """What is learned: `translation` of a source; `causal-lm`, the next token of a text (GPT);
    `masked-lm`, masked tokens of a text (BERT, arXiv 1810.04805); `denoising`, a text whose spans
    were masked (BART, arXiv 1910.13461), by an encoder and a decoder; `classification`, the label
    of a text or of a pair of texts, by a language model that is trained on
    (`training.start_from`)."""
    data: Annotated[Data, Invalidates.DATA]
    """Parallel text, text in one language, or trees."""
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
    cluster: Annotated[Cluster | None, Invalidates.NOTHING] = None
    """Machines that share the work; default: this one alone."""

    @property
    def classification(self) -> Classification:
        """How a classifier is made; of BERT's kind where the recipe doesn't say."""
        return self.training.classification or Classification()

    @property
    def stages(self) -> list[WeightedUpdates]:
        """The updates of the training, in stages; one if the recipe has none."""
        return list_stages(self.training.stages, self.data.train)

    @model_validator(mode="after")
    def _stages_suit_the_corpora(self) -> "Recipe":
        names = corpus_names(self.data.train)
        for number, stage in enumerate(self.training.stages or ()):
            key = f"training.stages.{number}.weights"
            if unknown := [name for name in stage.weights if name not in names]:
                raise ValueError(
                    f"{key}: data.train has no corpus '{unknown[0]}'"
                    + suggest(unknown[0], names)
                    + f"; its corpora are {', '.join(names)}"
                )
            if not any(self.stages[number].weights):
                raise ValueError(f"{key}: every corpus has weight 0, so there is nothing to read")
        if self.training.stages and self.training.masked.short_tokens is not None:
            raise ValueError(
                "training.stages and training.masking.short_tokens both say what the first updates "
                "read: remove one of the two"
            )
        return self

    @model_validator(mode="after")
    def _labels_suit_the_objective(self) -> "Recipe":
        corpora = (*self.data.train, self.data.dev, *self.evaluation.test_sets)
        labelled = [corpus for corpus in corpora if isinstance(corpus, ClassifierCorpus)]
        if self.objective != "classification":
            if labelled:
                raise ValueError(
                    '`label_column` and `planted_faults` are for objective = "classification"'
                )
            return self
        if not self.data.is_text:
            raise ValueError(
                'objective = "classification" needs data.language instead of source_language and '
                'target_language; "mul" is several'
            )
        if len(labelled) < len(corpora):
            raise ValueError(
                'objective = "classification" needs corpora with `path`, `text_column` and '
                "`label_column`; or with `source`, `target` and `planted_faults`"
            )
        if len({bool(corpus.second_column) for corpus in labelled}) > 1:
            raise ValueError(
                "second_column must be given for each corpus and test set, or for none"
            )
        if self.data.cleaning.selection is not None:
            raise ValueError("data.cleaning.selection chooses text without labels")
        if self.training.lora is not None:
            raise ValueError(
                "training.lora would freeze a new classifier's own weights: objective = "
                '"classification" can\'t have it'
            )
        return self

    @model_validator(mode="after")
    def _data_suit_the_objective(self) -> "Recipe":
        if self.objective == "classification":
            return self
        wants_text = self.objective in LANGUAGE_MODELS
        if wants_text != self.data.is_text:
            raise ValueError(
                f'objective = "{self.objective}" learns from text in one language: give '
                "data.language instead of source_language and target_language"
                if wants_text
                else "data.language is for language models: translation needs data.source_language "
                "and data.target_language"
            )
        corpora = (*self.data.train, self.data.dev, *self.evaluation.test_sets)
        for corpus in corpora:
            if isinstance(corpus, TextCorpus | TextTableCorpus) != wants_text:
                raise ValueError(
                    f'objective = "{self.objective}" needs corpora with `text` or `text_column`'
                    if wants_text
                    else "translation needs parallel corpora, without `text` or `text_column`"
                )
        if self.model.architecture == "decoder-only":
            self._check_decoder_only()
        return self

    @model_validator(mode="after")
    def _sections_suit_the_objective(self) -> "Recipe":
        for key, objective in _OBJECTIVES.items():
            if getattr(self.training, key) is not None and self.objective != objective:
                raise ValueError(f'training.{key} is for objective = "{objective}"')
        short_tokens = self.training.masked.short_tokens
        if short_tokens is not None and short_tokens >= self.data.block_tokens:
            raise ValueError(
                f"training.masking.short_tokens = {short_tokens} isn't less than "
                f"data.block_tokens = {self.data.block_tokens}"
            )
        return self

    @model_validator(mode="after")
    def _settings_suit_the_objective(self) -> "Recipe":
        metric = self.training.validation.metric
        is_of_labels = metric in ("accuracy", "macro_f1")
        if self.objective == "classification":
            if not is_of_labels and metric != "loss":
                raise ValueError(
                    f'training.validation.metric = "{metric}" scores translations: classification '
                    'needs "accuracy", "macro_f1" or "loss"'
                )
        elif is_of_labels:
            raise ValueError(f'training.validation.metric = "{metric}" is for classification')
        if self.objective == "translation":
            return self
        if self.inference.flags is not None:
            raise ValueError('inference.flags is for objective = "translation": remove it')
        if self.objective in LANGUAGE_MODELS and metric != "loss":
            raise ValueError(
                f'training.validation.metric = "{metric}" scores translations: a language model '
                'needs training.validation.metric = "loss"'
            )
        if self.objective == "denoising" and self.evaluation.test_sets:
            raise ValueError(
                'evaluation.test_sets: objective = "denoising" has no score but the loss on '
                "data.dev: remove them"
            )
        if self.tokenizer.sampling is not None:
            raise ValueError("tokenizer.sampling is for translation")
        start_from = self.training.start_from
        has_parts = start_from is not None and start_from.model is None
        if has_parts and self.objective not in ENCODER_DECODERS:
            raise ValueError(
                "training.start_from.encoder and training.start_from.decoder are for objectives "
                f'with both an encoder and a decoder: a "{self.objective}" model starts from '
                "training.start_from.model"
            )
        if not self.tokenizer.joint:
            raise ValueError(
                "tokenizer.joint = false trains a tokenizer for each of two languages, but a "
                "language model has one: remove it"
            )
        return self

    @model_validator(mode="after")
    def _settings_suit_trees(self) -> "Recipe":
        is_trees, metric = self.data.is_trees, self.training.validation.metric
        for test_set in self.evaluation.test_sets:
            if isinstance(test_set, TreeCorpus) != is_trees:
                raise ValueError(
                    f"evaluation.test_sets: {test_set.name} must "
                    + (
                        "name `trees`, as data.train does"
                        if is_trees
                        else "not name `trees`, as data.train doesn't"
                    )
                )
        pretrained = self.tokenizer.pretrained
        if pretrained is not None and not self.tokenizer.joint:
            if is_trees and pretrained.target is not None:
                raise ValueError(
                    "tokenizer.pretrained.target is given, but trees have a vocabulary of their "
                    "own: remove it"
                )
            if not is_trees and pretrained.target is None:
                raise ValueError(
                    "tokenizer.pretrained.target is missing: joint = false needs a model for each "
                    "side"
                )
        if not is_trees:
            if metric == "f1":
                raise ValueError('training.validation.metric = "f1" is for corpora with `trees`')
            return self
        if not self.evaluation.is_of_trees:
            raise ValueError(
                'evaluation.metrics must be ["parseval"] where data.train names `trees`'
            )
        if self.objective != "translation":
            raise ValueError(f'objective = "{self.objective}" has no use for `trees`: remove it')
        unsuited = [key for key in ("flags", "rerank") if getattr(self.inference, key) is not None]
        if unsuited:
            raise ValueError(f"inference.{unsuited[0]} doesn't apply to trees: remove it")
        if metric not in ("f1", "loss"):
            raise ValueError(
                f'training.validation.metric = "{metric}" scores text: trees need "f1" or "loss"'
            )
        if self.tokenizer.joint:
            raise ValueError(
                "sentences and trees have a vocabulary each: set tokenizer.joint to false"
            )
        return self

    @model_validator(mode="after")
    def _guided_alignment_has_a_head(self) -> "Recipe":
        guided = self.training.guided_alignment
        if guided is None:
            if any(self.data.names_alignments) and not self.data.aligns_terms:
                number = self.data.names_alignments.index(True)
                raise ValueError(
                    f"data.train.{number}.alignments is for [training.guided_alignment], or for "
                    "[data.augment.terms] without a dictionary, which are absent: add one of the "
                    "sections or remove the key"
                )
            return self
        key = "training.guided_alignment"
        if self.objective != "translation" or self.data.is_trees:
            raise ValueError(f"{key} is for translation of text: remove it")
        if self.model.architecture == "decoder-only":
            raise ValueError(
                f'{key} needs an encoder: model.architecture = "decoder-only" has none'
            )
        if self.tokenizer.sampling is not None:
            raise ValueError(
                f"{key} aligns the pieces that `mtkit prepare` writes, and tokenizer.sampling "
                "draws others: remove one of the two"
            )
        model = self.model
        if guided.choose_layer(model.num_decoder_layers) > model.num_decoder_layers:
            raise ValueError(
                f"{key}.layer = {guided.layer}, but the decoder has {model.num_decoder_layers} "
                "layers"
            )
        if guided.head > model.num_heads:
            raise ValueError(f"{key}.head = {guided.head}, but layers have {model.num_heads} heads")
        return self

    @model_validator(mode="after")
    def _r_drop_has_dropout(self) -> "Recipe":
        if self.training.r_drop is None:
            return self
        if self.objective in ("masked-lm", "classification"):
            raise ValueError(
                'training.r_drop is for objective = "translation", "denoising" or "causal-lm": '
                "remove it"
            )
        model, lora = self.model, self.training.lora
        rates = model.dropout, model.attention_dropout, model.activation_dropout
        if not any(rates) and (lora is None or not lora.dropout):
            raise ValueError(
                "training.r_drop compares two passes with different dropout, and the recipe has "
                "none: set model.dropout above 0, or remove training.r_drop"
            )
        return self

    def _check_decoder_only(self) -> None:
        key = 'model.architecture = "decoder-only"'
        if self.objective != "translation":
            raise ValueError(f"{key} is for translation: language models have one stack anyway")
        if not self.tokenizer.joint:
            raise ValueError(f"{key} needs one vocabulary: set tokenizer.joint to true")
        needed = 2 * self.data.max_tokens
        if self.model.positions == "learned" and needed > self.model.max_positions:
            raise ValueError(
                f"{key} reads source and target as one text of up to {needed} tokens, but "
                f"model.max_positions = {self.model.max_positions}"
            )

    @model_validator(mode="after")
    def _sections_agree(self) -> "Recipe":
        if self.model.tied_embeddings == "three-way" and not self.tokenizer.joint:
            raise ValueError(
                'model.tied_embeddings = "three-way" needs one vocabulary, but tokenizer.joint is '
                'false: set model.tied_embeddings to "decoder" or "none"'
            )
        start_from = self.training.start_from
        keeps_vocabulary = start_from is not None and start_from.vocabulary != "new"
        if keeps_vocabulary and self.tokenizer.pretrained is not None:
            raise ValueError(
                "tokenizer.pretrained names a tokenizer, but training.start_from reuses that of "
                'its model: remove the former, or set training.start_from.vocabulary to "new"'
            )
        if start_from is not None and start_from.vocabulary == "extend" and self.data.is_trees:
            raise ValueError(
                'training.start_from.vocabulary = "extend" is for text: trees have symbols'
            )
        is_all_frozen = set(self.training.freeze) == set(get_args(FrozenPart))
        if is_all_frozen and self.model.tied_embeddings != "none":
            raise ValueError(
                "training.freeze lists every part, so there is nothing left to train: remove one"
            )
        group = self.training.batch_tokens // self.training.length_groups
        key = self.data.max_tokens_key
        if self.data.max_tokens > group:
            raise ValueError(
                f"a sentence of {key} = {self.data.max_tokens} doesn't "
                f"fit in a group of {group} tokens (training.batch_tokens / "
                "training.length_groups): lower the former or raise the latter"
            )
        micro_batch_tokens = self.training.micro_batch_tokens
        if micro_batch_tokens != "auto" and self.data.max_tokens > micro_batch_tokens:
            raise ValueError(
                f"a sentence of {key} = {self.data.max_tokens} doesn't "
                f"fit in training.micro_batch_tokens = {micro_batch_tokens}"
            )
        learned = self.model.positions == "learned"
        if learned and self.data.max_tokens > self.model.max_positions:
            raise ValueError(
                f"{key} = {self.data.max_tokens} is greater than "
                f"model.max_positions = {self.model.max_positions}"
            )
        return self
