"""All checks, the most serious first."""

from collections.abc import Sequence

from mtkit.evaluation.remarks.language import find_other_language, find_unfit_tokenizer
from mtkit.evaluation.remarks.pairing import (
    find_bytes,
    find_copies,
    find_cuts,
    find_empty,
    find_exchange,
    find_lowercased,
    find_pieces,
    find_shift,
    find_tokenized,
)
from mtkit.evaluation.remarks.side import Remark, Side
from mtkit.evaluation.tokenizers import choose_tokenizer


def find_remarks(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    sources: Sequence[str] | None = None,
    tokenize: str,
    target_language: str = "",
    lowercase: bool = False,
) -> list[Remark]:
    """Returns remarks on problems, the most serious first.

    Args:
        hypotheses: One system's translations, one a sentence.
        references: Sets of references, as many lines each; the first alone is looked at.
        sources: The source sentences, as many lines; some problems can't be found without.
        tokenize: BLEU's tokeniser, or `auto`.
        target_language: The language that the text should be in; empty where unknown.
        lowercase: Whether case is ignored anyway.

    Raises:
        ValueError: Unequal counts.
    """
    if not hypotheses or not references:
        return []
    hypothesis, reference = Side("hypotheses", hypotheses), Side("references", references[0])
    source = None if sources is None else Side("sources", sources)
    tokenizer = choose_tokenizer(tokenize, target_language)
    remarks = [
        *find_copies(hypothesis, reference, source),
        *find_other_language(hypothesis, reference, source, target_language),
        *find_shift(hypothesis, reference),
        *find_pieces(hypothesis, reference),
        *find_exchange(hypothesis, reference),
        *find_empty(hypothesis, reference),
        *find_cuts(hypothesis, reference),
        *find_tokenized(hypothesis, reference, tokenizer),
        *find_unfit_tokenizer(reference, tokenizer),
        *find_bytes(hypothesis, reference),
    ]
    if not lowercase:
        remarks += find_lowercased(hypothesis, reference)
    return remarks
