"""All checks, the most serious first."""

from collections.abc import Collection, Iterator, Sequence

from mtkit.evaluation.remarks.pairing import (
    find_bytes,
    find_copies,
    find_cuts,
    find_empty,
    find_lowercased,
    find_pieces,
    find_shift,
    find_swap,
    find_tokenized,
)
from mtkit.evaluation.remarks.side import UNSPACED, Remark, Side
from mtkit.evaluation.tokenizers import choose_tokenizer

_MIN_WORDS = 500
_NUM_FREQUENT = 30

_KANA = ("HIRAGANA", "KATAKANA")
_JAPANESE = ("CJK", *_KANA)
_SCRIPTS_CUT_BY = {
    "zh": ("CJK",),
    "ja-mecab": _JAPANESE,
    "ko-mecab": ("HANGUL",),
}


def find_other_language(
    hypothesis: Side, reference: Side, source: Side | None, target_language: str
) -> Iterator[Remark]:
    """Yields a remark if a side is in another language than expected."""
    expected = _SCRIPTS_CUT_BY.get(choose_tokenizer("auto", target_language))
    if expected and reference.num_letters >= _MIN_WORDS and reference.share_of(expected) < 0.05:
        yield Remark(
            "language",
            f"Only {reference.share_of(expected):.0%} of the references' letters are in a script "
            f"that {target_language} is written in: check which file is the reference.",
        )
    if min(hypothesis.num_letters, reference.num_letters) < _MIN_WORDS:
        return
    [(script, _)] = reference.letters.most_common(1)
    alike: Collection[str] = (script,)
    if script in _JAPANESE:
        alike = _JAPANESE
        kana = [side.share_of(_KANA) for side in (hypothesis, reference)]
        # Chinese and Japanese share ideographs; only Japanese has kana.
        if hypothesis.share_of(_JAPANESE) >= 0.2 and max(kana) > 0.1 and min(kana) < 0.05:
            yield Remark(
                "language",
                f"{kana[0]:.0%} of the hypotheses' letters are kana, but {kana[1]:.0%} of the "
                f"references': one side is Japanese, the other Chinese. Check both files.",
            )
            return
    if reference.share_of(alike) > 0.5 and hypothesis.share_of(alike) < 0.2:
        yield Remark(
            "language",
            f"{reference.share_of(alike):.0%} of the references' letters are {script.title()}, but "
            f"{hypothesis.share_of(alike):.0%} of the hypotheses': they are in different "
            "languages. Check both files, and that the system translates into the right language.",
        )
    elif script not in UNSPACED:
        yield from _find_other_words(hypothesis, reference, source)


def _find_other_words(hypothesis: Side, reference: Side, source: Side | None) -> Iterator[Remark]:
    """Yields a remark if the hypotheses lack the references' most frequent words."""
    if min(hypothesis.words.total(), reference.words.total()) < _MIN_WORDS:
        return
    known, seen = (_share_of_frequent(reference, side) for side in (reference, hypothesis))
    if known < 0.15 or seen > 0.35 * known:
        return
    whose = "one file is in another language, or the files don't belong together"
    if source is not None and source.words.total() >= _MIN_WORDS:
        of_source = _share_of_frequent(source, source)
        for side in (hypothesis, reference):
            if _share_of_frequent(source, side) > 0.7 * of_source:
                whose = f"the {side.name} are in the sources' language"
    yield Remark(
        "language",
        f"The {_NUM_FREQUENT} most frequent words of the references make up {known:.0%} of them, "
        f"but {seen:.0%} of the hypotheses: {whose}. Check the files.",
    )


def _share_of_frequent(frequent_in: Side, side: Side) -> float:
    """Returns the share of one side's words that are among the most frequent of another."""
    frequent = [word for word, _ in frequent_in.words.most_common(_NUM_FREQUENT)]
    return sum(side.words[word] for word in frequent) / max(1, side.words.total())


def find_unfit_tokenizer(reference: Side, tokenizer: str) -> Iterator[Remark]:
    """Yields a remark if BLEU's tokeniser is made for another script."""
    if reference.num_letters < 20:
        return
    unspaced = {script: reference.letters[script] for script in UNSPACED}
    share = reference.share_of(UNSPACED)
    # Japanese text always has kana; Chinese has some only in foreign names and quotations.
    kana = reference.share_of(_KANA)
    best = "ja-mecab" if kana > 0.1 * share else UNSPACED[max(unspaced, key=unspaced.__getitem__)]
    if tokenizer in ("13a", "intl"):
        if share > 0.3:
            yield Remark(
                "tokenizer",
                f"{share:.0%} of the references' letters are in scripts without spaces between "
                f"words, where '{tokenizer}' finds almost no words. Score with "
                f"--set evaluation.tokenize={best}.",
            )
    elif tokenizer == "char":
        if share < 0.3:
            yield Remark(
                "tokenizer",
                "BLEU is computed on characters here, which about doubles it: 'char' is for "
                "scripts without spaces between words. Score with --set evaluation.tokenize=13a.",
            )
    elif tokenizer in _SCRIPTS_CUT_BY:
        own = reference.share_of(_SCRIPTS_CUT_BY[tokenizer])
        if own < 0.05:
            yield Remark(
                "tokenizer",
                f"'{tokenizer}' is for another script: only {own:.0%} of the references' letters "
                "are in its script. Score with --set evaluation.tokenize="
                f"{best if share > 0.3 else '13a'}.",
            )
        elif share > 0.3 and {tokenizer, best} == {"zh", "ja-mecab"}:
            yield Remark(
                "tokenizer",
                f"{kana:.0%} of the references' letters are kana, so they are Japanese, not "
                f"Chinese. Score with --set evaluation.tokenize={best}, not '{tokenizer}'.",
            )


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
        hypotheses: One system's translations, one per sentence.
        references: Sets of references, as many lines each; only the first is checked.
        sources: The source sentences, as many lines; some checks need them.
        tokenize: BLEU's tokeniser, or `auto`.
        target_language: The expected language; empty if unknown.
        lowercase: Whether case is ignored anyway.
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
        *find_swap(hypothesis, reference),
        *find_empty(hypothesis, reference),
        *find_cuts(hypothesis, reference),
        *find_tokenized(hypothesis, reference, tokenizer),
        *find_unfit_tokenizer(reference, tokenizer),
        *find_bytes(hypothesis, reference),
    ]
    if not lowercase:
        remarks += find_lowercased(hypothesis, reference)
    return remarks
