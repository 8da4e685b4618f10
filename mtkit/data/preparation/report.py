"""What became of the corpora, and in words what a reader should look at."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mtkit.data.normalization import note_changed_targets
from mtkit.data.preparation.facts import (
    ColumnFacts,
    CorpusFacts,
    DevFacts,
    PreparedFacts,
    ReportedCorpus,
    ShownPair,
    TokenizedCorpus,
)
from mtkit.data.preparation.notes import EpochSize, note_corpora, note_epoch, note_tokens
from mtkit.data.tokenizer_choice import reused_folder
from mtkit.recipe import Recipe
from mtkit.recipe.data import corpus_names


@dataclass(frozen=True)
class Report:
    """The findings of a preparation, as JSON can express it.

    Attributes:
        recipe: The recipe's name.
        languages: Source and target language.
        corpora: For each training corpus: name, weight, pairs read and kept, pairs dropped by
            filter, lines repaired by kind, samples of both, the longest pairs, stretches that look
            misaligned.
        tokens: For each side: tokens, lengths, pieces of the vocabulary, unknown pieces.
        dev: The development set.
        epoch: One pass over the data; None before there are tokens.
        max_steps: Updates that the recipe trains for.
        seconds: Processor time of the cleaning, by filter.
        notes: What a reader should look at.
    """

    recipe: str
    languages: tuple[str, str]
    corpora: list[ReportedCorpus]
    tokens: dict[str, ColumnFacts]
    dev: DevFacts
    epoch: EpochSize | None
    max_steps: int
    seconds: dict[str, float]
    notes: list[str]

    @classmethod
    def of(
        cls, recipe: Recipe, facts: PreparedFacts, epoch: EpochSize, dev_targets: Sequence[str]
    ) -> "Report":
        """Returns the report on a finished preparation.

        Args:
            recipe: What was prepared.
            facts: The facts of each stage.
            epoch: One pass over the data.
            dev_targets: Targets of the development set.
        """
        corpora = [
            _merge(name, corpus.weight, cleaned, tokenized)
            for name, corpus, cleaned, tokenized in zip(
                corpus_names(recipe.data.train),
                recipe.data.train,
                facts["text"]["corpora"],
                facts["train"]["corpora"],
                strict=True,
            )
        ]
        tokens = {"source": facts["train"]["source"], "target": facts["train"]["target"]}
        dev = facts["dev"].copy()
        del dev["digest"]
        text = facts["text"]
        # Data of before have the ratio by its earlier name.
        length_ratio = text["length_ratio"] if "length_ratio" in text else text["balance"]
        return cls(
            recipe=recipe.name,
            languages=(recipe.data.source_language, recipe.data.target_language),
            corpora=corpora,
            tokens=tokens,
            dev=dev,
            epoch=epoch,
            max_steps=recipe.training.max_steps,
            seconds=text["seconds"],
            notes=[
                *text["notes"],
                *note_corpora(corpora, length_ratio),
                *note_tokens(tokens, is_reused=reused_folder(recipe) is not None),
                *note_changed_targets(recipe, dev_targets),
                *note_epoch(recipe, epoch),
            ],
        )

    def summary(self) -> dict[str, Any]:
        """Returns the numbers that the manifest keeps."""
        return {
            "train": {
                "read": sum(corpus["read"] for corpus in self.corpora),
                "kept": sum(corpus["kept"] for corpus in self.corpora),
                "dropped": self.total_dropped(),
                "source_tokens": self.tokens["source"]["tokens"],
                "target_tokens": self.tokens["target"]["tokens"],
            },
            "dev": self.dev,
        }

    def total_dropped(self) -> dict[str, int]:
        """Returns the pairs that each filter dropped, over all corpora."""
        filters = dict.fromkeys(name for corpus in self.corpora for name in corpus["dropped"])
        return {
            name: sum(corpus["dropped"].get(name, 0) for corpus in self.corpora) for name in filters
        }


def _merge(
    name: str, weight: float, cleaned: CorpusFacts, tokenized: TokenizedCorpus
) -> ReportedCorpus:
    """Returns what became of a corpus, its stages' facts put together."""
    samples = dict(cleaned["samples"])
    if tokenized["samples"]:
        samples["max_tokens"] = [
            ShownPair(line=0, source=source, target=target)
            for source, target in tokenized["samples"]
        ]
    merged: ReportedCorpus = {**cleaned, "weight": weight}
    merged["name"] = name
    merged["dropped"] = {**cleaned["dropped"], "max_tokens": tokenized["too_long"]}
    merged["samples"] = samples
    merged["kept"] = tokenized["kept"]
    return merged
