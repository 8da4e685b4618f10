"""What a reader of a report should look at, a sentence each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mtkit.data.preparation.facts import ColumnFacts, CorpusFacts, Misaligned
from mtkit.recipe import Recipe
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
