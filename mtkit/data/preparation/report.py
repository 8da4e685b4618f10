"""What became of the corpora, and in words what a reader should look at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtkit.data.normalization import note_changed_targets
from mtkit.data.preparation.facts import (
    ColumnFacts,
    CorpusFacts,
    DevFacts,
    Misaligned,
    PreparedFacts,
    ReportedCorpus,
    ShownPair,
    TokenizedCorpus,
)
from mtkit.data.tokenizer_choice import reused_folder
from mtkit.recipe import Recipe
from mtkit.recipe.data import corpus_names
from mtkit.units import plural

_NOTABLE_UNKNOWN = 1e-3
"""Share of unknown tokens from which a report warns."""
_NOTABLE_DROP = 0.3
"""Share of a corpus that is left out from which a report warns."""


@dataclass(frozen=True)
class EpochSize:
    """The size of one pass over the data.

    Attributes:
        pairs: Sentence pairs, as often as their corpus's weight says.
        source_tokens: Source tokens, `</s>` counted.
        target_tokens: Target tokens, `</s>` counted.
        updates: Updates of the weights.
    """

    pairs: int
    source_tokens: int
    target_tokens: int
    updates: int


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
            languages=recipe.data.languages,
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


def note_corpora(corpora: Sequence[CorpusFacts], length_ratio: float) -> list[str]:
    """Returns what a reader should look at in the corpora, a sentence each.

    Args:
        corpora: What became of each.
        length_ratio: Target characters per source character in the development set.
    """
    notes = []
    for corpus in corpora:
        name, read = corpus["name"], corpus["read"]
        if corpus["skipped"]:
            notes.append(
                f"{name}: {corpus['skipped']:,} entries without both languages are passed over"
            )
        notes += [_note_misaligned(name, stretch) for stretch in corpus["misaligned"]]
        for filter_name, count in corpus["dropped"].items():
            if count > _NOTABLE_DROP * read:
                measure = (
                    f" (by the development set, which has {length_ratio:.2f} target characters per "
                    "source character)"
                    if filter_name == "length_ratio"
                    else ""
                )
                notes.append(
                    f"{name}: {filter_name} drops {count / read:.0%} of all pairs{measure}; if "
                    "these are good, tune or turn off that filter"
                )
        if num_overlapping := corpus["dropped"].get("overlap"):
            notes.append(
                f"{name}: {num_overlapping:,} pairs are left out that stand in the development or "
                "test sets"
            )
        if not corpus["kept"]:
            notes.append(f"{name}: nothing of it is left")
    return notes


def note_epoch(recipe: Recipe, epoch: EpochSize | None) -> list[str]:
    """Returns what a reader should look at where low weights leave less than an update of an epoch.

    An update ends with its epoch, so that each would be as small.
    """
    wanted = recipe.training.batch_tokens
    is_low = any(corpus.weight < 1.0 for corpus in recipe.data.train)
    if epoch is None or not is_low or max(epoch.source_tokens, epoch.target_tokens) >= wanted:
        return []
    return [
        f"with these weights an epoch has {plural(epoch.pairs, 'pair')}, fewer "
        f"than make an update of training.batch_tokens = {wanted:,}, and none is larger than its "
        "epoch: multiply the weights of data.train by one number"
    ]


def _note_misaligned(name: str, stretch: Misaligned) -> str:
    shift = stretch["shift"]
    lines = plural(abs(shift), "line")
    how = f"the target is {lines} {'late' if shift > 0 else 'early'}" if shift else "no shift helps"
    return (
        f"{name}: lines {stretch['first']:,} to {stretch['last']:,} look misaligned ({how}): the "
        f"lengths of their two sides correlate by {stretch['correlation']:.2f}"
    )


def note_tokens(tokens: Mapping[str, ColumnFacts], *, is_reused: bool) -> list[str]:
    """Returns what a reader should look at in the tokens, a sentence each.

    Args:
        tokens: Counts by column.
        is_reused: Whether the vocabulary is that of another model.
    """
    mend = (
        "the model that training starts from never saw them: tokenizer.user_symbols adds some, "
        'training.start_from.vocabulary = "new" trains pieces for all'
        if is_reused
        else "tokenizer.byte_fallback = true spells them, or raise tokenizer.character_coverage"
    )
    notes = []
    for side, facts in tokens.items():
        share = facts["unknown_tokens"] / max(1, facts["tokens"])
        if share > _NOTABLE_UNKNOWN:
            unknown = " ".join(list(facts["unknown_pieces"])[:10])
            notes.append(f"{side}: {share:.2%} of the tokens are unknown ({unknown}): {mend}")
    return notes
