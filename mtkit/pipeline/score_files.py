"""A file of translations scored against references: no recipe, no workspace, no torch."""

from collections.abc import Sequence
from pathlib import Path

from mtkit.data.sources.lines import read_lines
from mtkit.errors import MtkitError
from mtkit.evaluation.report import ScoreRow, list_rows
from mtkit.evaluation.scores import score_corpus
from mtkit.recipe.evaluation import Evaluation


def score_files(
    hypothesis: Path, references: Sequence[Path], settings: Evaluation
) -> list[ScoreRow]:
    """Returns the scores of a file of translations.

    Args:
        hypothesis: One translation a line.
        references: Files that each hold one reference a line.
        settings: Metrics, and how they see text.

    Raises:
        MtkitError: A file that can't be read, or files of unequal length.
    """
    hypotheses = list(read_lines(hypothesis))
    reference_sets = []
    for path in references:
        lines = list(read_lines(path))
        if len(lines) != len(hypotheses):
            raise MtkitError(
                f"{hypothesis} has {len(hypotheses):,} lines, but {path} has {len(lines):,}: "
                "the two must pair line by line",
                "a translation has one line for each line of its source, blank ones included",
            )
        reference_sets.append(lines)
    if not hypotheses:
        raise MtkitError(f"{hypothesis}: no lines in it", "is the file complete?")
    scores = score_corpus(hypotheses, reference_sets, settings)
    return list_rows(str(hypothesis), scores, len(hypotheses))
