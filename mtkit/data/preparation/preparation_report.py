"""What happened to the corpora, and in words what to look at."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any, Self, cast

from mtkit.data.batches.length_order import LengthOrder
from mtkit.data.batches.numbered_texts import TEXT_COLUMNS
from mtkit.data.batches.token_store import PAIR_COLUMNS
from mtkit.data.batches.updates import plan_epoch
from mtkit.data.cleaning.alignment import Misaligned, describe_misaligned
from mtkit.data.note_normalization import note_changed_targets
from mtkit.data.preparation.facts import (
    ColumnFacts,
    CorpusFacts,
    DevFacts,
    PreparedFacts,
    ReportedCorpus,
    ReportedSelection,
    SelectionFacts,
    SyntheticCorpus,
    TokenizedCorpus,
)
from mtkit.data.preparation.held_out import note_tags
from mtkit.data.preparation.note_languages import find_tagged_language
from mtkit.data.tokenizer_choice import TokenizerChoice
from mtkit.recipe.cleaning import Cleaning
from mtkit.recipe.corpora import Corpus, corpus_names, list_translated
from mtkit.recipe.data import Data
from mtkit.recipe.recipe import Recipe
from mtkit.recipe.training import Training
from mtkit.units import plural

_NOTABLE_UNKNOWN = 1e-3
"""Minimum share of unknown tokens for a warning."""
_NOTABLE_QUOTED = 0.5
"""Minimum share of a corpus's rows in quotation marks for a warning."""
_NOTABLE_STRANGE = 0.03
"""Minimum share of a corpus's rows with letters of no known language for a warning."""
_NOTABLE_DROP = 0.3
"""Minimum share of a corpus dropped by one filter for a warning."""


@dataclass(frozen=True)
class _Size:
    def multiply(self, factor: float) -> Self:
        """Returns the size of a pass over `factor` times the data."""
        sizes = {name: round(size * factor) for name, size in vars(self).items()}
        return replace(self, **{**sizes, "updates": ceil(vars(self)["updates"] * factor)})


@dataclass(frozen=True)
class EpochSize(_Size):
    """The size of one pass over the data: pairs by corpus weight, and tokens with `</s>`."""

    pairs: int
    source_tokens: int
    target_tokens: int
    updates: int

    def describe(self) -> str:
        """Returns its pairs and tokens in words."""
        return (
            f"{self.pairs:,} pairs, {self.source_tokens:,} source and "
            f"{self.target_tokens:,} target tokens"
        )


@dataclass(frozen=True)
class TextEpochSize(_Size):
    """The size of one pass over text: blocks by corpus weight, and tokens with `</s>`."""

    blocks: int
    tokens: int
    updates: int

    def describe(self) -> str:
        """Returns its blocks and tokens in words."""
        return f"{self.blocks:,} blocks, {self.tokens:,} tokens"


@dataclass(frozen=True)
class PreparationReport:
    """The findings of a preparation, in a form that JSON allows.

    Attributes:
        languages: Source and target language, or that of the text alone.
        names: The corpora's names, in the recipe's order.
        tokens: Facts by column.
        epoch: One pass over the data; None before there are tokens.
        max_steps: Updates that the recipe trains for.
        seconds: CPU time of the cleaning, by filter.
        notes: What to look at, a sentence each.
        selection: The ranking by `data.cleaning.selection`, if any.
        translated: What became of the corpora that name a translator, by their names, if any do.
    """

    recipe: str
    languages: tuple[str, ...]
    names: list[str]
    corpora: list[ReportedCorpus]
    tokens: dict[str, ColumnFacts]
    dev: DevFacts
    epoch: EpochSize | TextEpochSize | None
    max_steps: int
    seconds: dict[str, float]
    notes: list[str]
    selection: ReportedSelection | None = None
    translated: dict[str, SyntheticCorpus] | None = None

    @property
    def unit(self) -> str:
        """What a row of a corpus is: a pair or a line."""
        return "pair" if len(self.languages) > 1 else "line"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of text."""
        return PAIR_COLUMNS if len(self.languages) > 1 else TEXT_COLUMNS

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        choice: TokenizerChoice,
        facts: PreparedFacts,
        *,
        epoch: EpochSize | TextEpochSize | None,
        dev_lines: Sequence[str],
        is_sample: bool = False,
    ) -> "PreparationReport":
        """Returns the report on a preparation.

        A check's `facts` are those of the stages that it finished; corpora that it couldn't read
        are left out. `dev_lines` are the development set's targets, or its text, if known.
        """
        data, names = choice.data, corpus_names(choice.data.train)
        text, train = facts["text"], facts.get("train")
        corpora = [
            _merge(
                name,
                corpus,
                cleaned,
                None if train is None else train["corpora"][index],
                selects="selection" in facts,
            )
            for index, (name, corpus, cleaned) in enumerate(
                zip(names, data.train, text["corpora"], strict=True)
            )
            if cleaned["read"] or not is_sample
        ]
        tokens: dict[str, ColumnFacts] = {}
        if train is not None:
            columns = TEXT_COLUMNS if data.is_text else PAIR_COLUMNS
            tokens = {column: cast("dict[str, ColumnFacts]", train)[column] for column in columns}
        dev = facts.get("dev", DevFacts(read=0)).copy()
        dev.pop("digest", None)
        # Missing for text in one language.
        length_ratio = text.get("length_ratio")
        return cls(
            recipe=recipe.name,
            languages=data.column_languages,
            names=list(names),
            corpora=corpora,
            tokens=tokens,
            dev=dev,
            epoch=epoch,
            max_steps=recipe.training.max_steps,
            seconds=text["seconds"],
            notes=[
                *text["notes"],
                *note_tags(recipe),
                *note_corpora(corpora, length_ratio),
                *note_tokens(tokens, is_reused=choice.reused_folder is not None),
                *(note_changed_targets(choice, dev_lines) if dev_lines else []),
                *note_epoch(data.train, recipe.training.batch_tokens, epoch),
            ],
            selection=_describe_selection(facts["selection"], names, is_estimate=is_sample)
            if "selection" in facts
            else None,
            translated={
                names[int(index)]: each for index, each in facts["synthetic"]["corpora"].items()
            }
            if "synthetic" in facts
            else None,
        )

    def summary(self) -> dict[str, Any]:
        """Returns the numbers that the manifest keeps."""
        return {
            "train": {
                "read": sum(corpus["read"] for corpus in self.corpora),
                "kept": sum(corpus["kept"] for corpus in self.corpora),
                "dropped": self.total_dropped(),
                **({"augmented": augmented} if (augmented := self.total_augmented()) else {}),
                **{f"{column}_tokens": self.tokens[column]["tokens"] for column in self.columns},
            },
            "dev": self.dev,
        }

    def total_augmented(self) -> dict[str, int]:
        """Returns the augmented examples of each kind, over all corpora."""
        total: Counter[str] = Counter()
        for corpus in self.corpora:
            total.update(corpus.get("augmented", {}))
        return dict(sorted(total.items()))

    def total_dropped(self) -> dict[str, int]:
        """Returns the pairs that each filter dropped, over all corpora."""
        filters = dict.fromkeys(name for corpus in self.corpora for name in corpus["dropped"])
        return {
            name: sum(corpus["dropped"].get(name, 0) for corpus in self.corpora) for name in filters
        }


def _describe_selection(
    facts: SelectionFacts, names: Sequence[str], *, is_estimate: bool
) -> ReportedSelection:
    """Returns what a report shows of a ranking."""
    return {
        "unit": facts["unit"],
        "scored": facts["scored"],
        "kept": facts["kept"],
        "limit": facts["limit"],
        "quantiles": facts["quantiles"],
        "corpora": dict(zip(names, facts["corpora"], strict=False)),
        "samples": {
            where: [{**row, "corpus": names[row["corpus"]]} for row in rows]
            for where, rows in facts["samples"].items()
        },
        "is_estimate": is_estimate,
    }


def _merge(
    name: str,
    corpus: Corpus,
    cleaned: CorpusFacts,
    tokenized: TokenizedCorpus | None,
    *,
    selects: bool,
) -> ReportedCorpus:
    """Returns the merged facts of a corpus's stages."""
    merged: ReportedCorpus = {**cleaned, "weight": corpus.weight}
    merged["name"] = name
    if list_translated([corpus]):
        # A weak translator's lines only look misaligned: each translates its own source line.
        merged["misaligned"] = []
    if find_tagged_language(corpus):
        # Its languages need not be the recipe's.
        merged["strange_rows"] = {}
    if tokenized is None:
        return merged
    samples = dict(cleaned["samples"])
    if tokenized["samples"]:
        samples["max_tokens"] = tokenized["samples"]
    merged["samples"] = samples
    merged["kept"] = tokenized["kept"]
    dropped = dict(cleaned["dropped"])
    if selects:
        dropped["selection"] = cleaned["kept"] - tokenized["kept"] - tokenized["too_long"]
        merged["dropped"] = dropped
    if "augmented" in tokenized:
        merged["augmented"] = tokenized["augmented"]
    if "blocks" in tokenized:
        # Nothing is too long for a block, because it is cut.
        merged["documents"], merged["blocks"] = tokenized["documents"], tokenized["blocks"]
    else:
        merged["dropped"] = {**dropped, "max_tokens": tokenized["too_long"]}
    return merged


def note_corpora(corpora: Sequence[CorpusFacts], length_ratio: float | None) -> list[str]:
    """Returns what to look at in the corpora, a sentence each; no length ratio means text."""
    unit = "line" if length_ratio is None else "pair"
    notes = []
    for corpus in corpora:
        name, read = corpus["name"], corpus["read"]
        if corpus["skipped"]:
            notes.append(
                f"{name}: {corpus['skipped']:,} entries without both languages were skipped"
            )
        notes += [_note_misaligned(name, stretch) for stretch in corpus["misaligned"]]
        if corpus["quoted"] > _NOTABLE_QUOTED * read:
            notes.append(
                f"{name}: {corpus['quoted']:,} of {plural(read, unit)} are in quotation marks, "
                "which are trained on as text; if a spreadsheet wrote the file, name it .csv, "
                "whose quotes are read"
            )
        for column, count in corpus["strange_rows"].items():
            if count > _NOTABLE_STRANGE * read:
                letters = " ".join(list(corpus["strange_letters"][column])[:10])
                notes.append(
                    f"{name}: {count / read:.0%} of the {unit}s have letters on the {column} side "
                    f"that are neither its language's nor the development set's ({letters}): is "
                    "it the wrong file or side, was it converted from the wrong encoding, or is "
                    "its translator too weak?"
                )
        for filter_name, count in corpus["dropped"].items():
            # The recipe sets how much a selection keeps.
            if count > _NOTABLE_DROP * read and filter_name != "selection":
                measure = (
                    f" (compared with the development set, which has {length_ratio:.2f} target "
                    "characters per source character)"
                    if filter_name == "length_ratio"
                    else ""
                )
                advice = "; if those are good, tune or turn off that filter"
                notes.append(
                    f"{name}: {filter_name} drops {count / read:.0%} of all {unit}s{measure}"
                    # A blank side can't be kept.
                    + (advice if filter_name in Cleaning.model_fields else "")
                )
        if not corpus["kept"]:
            notes.append(f"{name}: no {unit}s left")
    return notes


def measure_epoch(
    store: Path, data: Data, training: Training, *, seed: int
) -> EpochSize | TextEpochSize:
    """Returns the size of one pass over the tokens in a folder."""
    epoch = plan_epoch(
        LengthOrder(store, TEXT_COLUMNS if data.is_text else PAIR_COLUMNS),
        weights=[corpus.weight for corpus in data.train],
        batch_tokens=training.batch_tokens,
        length_groups=training.length_groups,
        seed=seed,
        epoch=0,
    )
    if data.is_text:
        return TextEpochSize(epoch.num_pairs, epoch.num_target_tokens, len(epoch))
    return EpochSize(
        pairs=epoch.num_pairs,
        source_tokens=epoch.num_source_tokens,
        target_tokens=epoch.num_target_tokens,
        updates=len(epoch),
    )


def note_epoch(
    train: Sequence[Corpus], wanted: int, epoch: EpochSize | TextEpochSize | None
) -> list[str]:
    """Returns a warning if low weights make an epoch smaller than an update.

    An update ends with its epoch, so every update would be that small.
    """
    is_low = any(corpus.weight < 1.0 for corpus in train)
    if epoch is None or not is_low:
        return []
    if isinstance(epoch, TextEpochSize):
        num_tokens, size = epoch.tokens, plural(epoch.blocks, "block")
    else:
        num_tokens = max(epoch.source_tokens, epoch.target_tokens)
        size = plural(epoch.pairs, "pair")
    if num_tokens >= wanted:
        return []
    return [
        f"with these weights an epoch has {size}, too "
        f"few to fill an update of training.batch_tokens = {wanted:,}, and no update spans two "
        "epochs: multiply all weights of data.train by the same number"
    ]


def _note_misaligned(name: str, stretch: Misaligned) -> str:
    first, last = stretch["first"], stretch["last"]
    return (
        f"{describe_misaligned(name, stretch)}; repair the file near line {first:,}, or leave the "
        f'lines out: skip = "{first}-{last}"'
    )


def note_tokens(tokens: Mapping[str, ColumnFacts], *, is_reused: bool) -> list[str]:
    """Returns what to look at in the tokens, a sentence each."""
    remedy = (
        "the vocabulary of the model that training starts from lacks them: add some with "
        'tokenizer.user_symbols, or set training.start_from.vocabulary = "new"'
        if is_reused
        else "set tokenizer.byte_fallback = true, or raise tokenizer.character_coverage"
    )
    notes = []
    for side, facts in tokens.items():
        share = facts["unknown_tokens"] / max(1, facts["tokens"])
        if share > _NOTABLE_UNKNOWN:
            unknown = " ".join(list(facts["unknown_pieces"])[:10])
            notes.append(f"{side}: {share:.2%} of the tokens are unknown ({unknown}): {remedy}")
    return notes
