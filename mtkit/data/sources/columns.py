"""Which columns hold the two sides, and what is said where there are none."""

from collections.abc import Collection
from dataclasses import dataclass

from mtkit.data.sources.blocks import ReadSettings
from mtkit.errors import MtkitError, suggest
from mtkit.recipe.corpora import HubCorpus, PairedFileCorpus

TRANSLATION = "translation"
"""Column in which data sets on the hub keep a sentence in several languages, by code."""

_MAX_LISTED = 20


@dataclass(frozen=True)
class Columns:
    """Which columns are asked for.

    Attributes:
        source: Column of the source; empty where it is found by language.
        target: Column of the target, likewise.
        languages: Codes of source and target.
    """

    source: str
    target: str
    languages: tuple[str, str]

    @classmethod
    def of(cls, corpus: PairedFileCorpus | HubCorpus, reading: ReadSettings) -> "Columns":
        """Returns what a corpus of the recipe asks for."""
        return cls(str(corpus.source_column), str(corpus.target_column), reading.languages)

    def find(
        self, names: Collection[str], inside: Collection[str], where: str
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Returns the way to each side: a column, or a column and a field in it.

        Args:
            names: The columns there are.
            inside: The fields inside the `translation` column; none where it isn't there.
            where: What they are columns of, for messages.

        Raises:
            MtkitError: There are no such columns.
        """
        source, target = self.languages
        if not self.source and source in inside and target in inside:
            return (TRANSLATION, source), (TRANSLATION, target)
        if self.source:
            source, target = self.source, self.target
        if source in names and target in names:
            return (source,), (target,)
        wanted = f"columns '{source}' and '{target}'"
        if self.source:
            guess = suggest(source if source not in names else target, names)
            raise MtkitError(
                f"{where}: expected {wanted}, found columns {list_names(names)}{guess}",
                "correct source_column and target_column",
            )
        raise MtkitError(
            f"{where}: expected a `{TRANSLATION}` column with '{source}' and '{target}', or "
            f"{wanted}, found columns {list_names(names)}"
            + (f", `translation` with {list_names(inside)}" if inside else ""),
            "name the columns: source_column = ..., target_column = ...",
        )


def list_names(names: Collection[str]) -> str:
    """Returns the first of some names, sorted, as a message lists them."""
    quoted = [f"'{name}'" for name in sorted(names)]
    listed = ", ".join(quoted[:_MAX_LISTED])
    num_more = max(0, len(quoted) - _MAX_LISTED)
    return listed + (f" and {num_more:,} more" if num_more else "")
