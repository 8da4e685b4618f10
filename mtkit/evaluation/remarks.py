"""What looks wrong with translations that are to be scored, before anybody believes the score.

Each check sees one fault that makes scores meaningless or beyond comparison, and says nothing where
the text doesn't show it. That hypotheses and references are exchanged, say, no text of two good
translations can show.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mtkit.errors import MtkitError
from mtkit.evaluation.side import UNSPACED, Side
from mtkit.evaluation.tokenizers import choose_tokenizer

_ESCAPE = re.compile(r"&(?:quot|apos|amp|lt|gt|#91|#93|#124);| @-@ ")
_PIECE = re.compile(r"\w@@(?: |$)|▁", re.MULTILINE)
_UNKNOWN = re.compile(r"<unk>|⁇")
_LAST_MARK = re.compile(r"[.!?。！？…।؟។၊།:;](?:[\"'”“’»)\]」』 ]|&(?:quot|apos);)*$")

_MIN_WORDS = 500
_NUM_FREQUENT = 30

_KANA = ("HIRAGANA", "KATAKANA")
_JAPANESE = ("CJK", *_KANA)
_SCRIPTS_CUT_BY = {
    "zh": ("CJK",),
    "ja-mecab": _JAPANESE,
    "ko-mecab": ("HANGUL",),
}


@dataclass(frozen=True)
class Remark:
    """Something that was seen in the text.

    Attributes:
        kind: One word for it, such as `tokenized`; for programs.
        text: What was seen, with numbers, what it may mean, and what to do.
    """

    kind: str
    text: str


def find_remarks(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    sources: Sequence[str] | None = None,
    tokenize: str,
    target_language: str = "",
    lowercase: bool = False,
) -> list[Remark]:
    """Returns what looks wrong, the gravest first.

    Args:
        hypotheses: One system's translations, one a sentence.
        references: Sets of references, as many lines each; the first alone is looked at.
        sources: What was translated, as many lines; some faults can't be seen without.
        tokenize: BLEU's tokeniser, or `auto`.
        target_language: The language that the text should be in; empty where unknown.
        lowercase: Case is not regarded anyway.

    Raises:
        MtkitError: Unequal counts.
    """
    if not hypotheses or not references:
        return []
    for name, lines in (("references", references[0]), ("sources", sources)):
        if lines is not None and len(lines) != len(hypotheses):
            raise MtkitError(
                f"{len(hypotheses):,} hypotheses, but {len(lines):,} {name}: they must pair line "
                "by line"
            )
    hypothesis, reference = Side(hypotheses), Side(references[0])
    source = None if sources is None else Side(sources)
    tokenizer = choose_tokenizer(tokenize, target_language)
    remarks = [
        *_find_copies(hypothesis, reference, source),
        *_find_other_language(hypothesis, reference, source, target_language),
        *_find_shift(hypothesis, reference),
        *_find_pieces(hypothesis, reference),
        *_find_exchange(hypothesis, reference),
        *_find_empty(hypothesis, reference),
        *_find_cuts(hypothesis, reference),
        *_find_tokenized(hypothesis, reference, tokenizer),
        *_find_unfit_tokenizer(reference, tokenizer),
        *_find_bytes(hypothesis, reference),
    ]
    if not lowercase:
        remarks += _find_lowercased(hypothesis, reference)
    return remarks


def _find_copies(hypothesis: Side, reference: Side, source: Side | None) -> Iterator[Remark]:
    with_text = [
        (ours, theirs)
        for ours, theirs in zip(hypothesis.lines, reference.lines, strict=True)
        if ours
    ]
    same = sum(ours == theirs for ours, theirs in with_text)
    if len(with_text) >= 10 and same >= 0.95 * len(with_text):
        yield Remark(
            "copied-reference",
            f"{_of(same, len(with_text))} hypotheses equal their reference. Unless the task is so "
            "easy, the references were scored in place of a system's output: check both files.",
        )
    if source is None:
        return
    copied, kept = (
        sum(bool(line) and line == original for line, original in pairs)
        for pairs in (
            zip(hypothesis.lines, source.lines, strict=True),
            zip(reference.lines, source.lines, strict=True),
        )
    )
    num_lines = len(source.lines)
    if copied - kept >= max(3, 0.1 * num_lines):
        yield Remark(
            "copied-source",
            f"{_of(copied, num_lines)} hypotheses equal their source sentence, of the references "
            f"{kept:,}. The system copies instead of translating, or the sources were scored: "
            "check the file, and the training data for untranslated pairs.",
        )
    if kept >= max(3, 0.5 * num_lines):
        yield Remark(
            "copied-source",
            f"{_of(kept, num_lines)} references equal their source sentence: name the "
            "translation, not the source, as the reference.",
        )


def _find_other_language(
    hypothesis: Side, reference: Side, source: Side | None, target_language: str
) -> Iterator[Remark]:
    expected = _SCRIPTS_CUT_BY.get(choose_tokenizer("auto", target_language))
    if expected and reference.num_letters >= _MIN_WORDS and reference.share_of(expected) < 0.05:
        yield Remark(
            "language",
            f"Only {reference.share_of(expected):.0%} of the references' letters are of a script "
            f"that {target_language} is written in: check which file is the reference.",
        )
    if min(hypothesis.num_letters, reference.num_letters) < _MIN_WORDS:
        return
    [(script, _)] = reference.letters.most_common(1)
    alike: Collection[str] = (script,)
    if script in _JAPANESE:
        alike = _JAPANESE
        kana = [side.share_of(_KANA) for side in (hypothesis, reference)]
        # Chinese and Japanese share ideographs; kana tells them apart.
        if hypothesis.share_of(_JAPANESE) >= 0.2 and max(kana) > 0.1 and min(kana) < 0.05:
            yield Remark(
                "language",
                f"{kana[0]:.0%} of the hypotheses' letters are kana, of the references' "
                f"{kana[1]:.0%}: one side is Japanese, the other Chinese. Check both files.",
            )
            return
    if reference.share_of(alike) > 0.5 and hypothesis.share_of(alike) < 0.2:
        yield Remark(
            "language",
            f"{reference.share_of(alike):.0%} of the references' letters are {script.title()}, of "
            f"the hypotheses' {hypothesis.share_of(alike):.0%}: they are in different languages. "
            "Check both files, and that the system translates into the right language.",
        )
    elif script not in UNSPACED:
        yield from _find_other_words(hypothesis, reference, source)


def _find_other_words(hypothesis: Side, reference: Side, source: Side | None) -> Iterator[Remark]:
    """Yields a remark where the references' most frequent words are none of the hypotheses'."""
    if min(hypothesis.words.total(), reference.words.total()) < _MIN_WORDS:
        return
    known, seen = (
        _share_of_frequent(reference, reference),
        _share_of_frequent(reference, hypothesis),
    )
    if known < 0.15 or seen > 0.35 * known:
        return
    whose = "one of the two files is in another language, or they don't belong together"
    if source is not None and source.words.total() >= _MIN_WORDS:
        of_source = _share_of_frequent(source, source)
        for side, name in ((hypothesis, "hypotheses"), (reference, "references")):
            if _share_of_frequent(source, side) > 0.7 * of_source:
                whose = f"the {name} are in the sources' language"
    yield Remark(
        "language",
        f"The {_NUM_FREQUENT} most frequent words of the references make up {known:.0%} of these, "
        f"but {seen:.0%} of the hypotheses: {whose}. Check the files.",
    )


def _share_of_frequent(frequent_in: Side, side: Side) -> float:
    """Returns the share of one side's words that are among the most frequent of another."""
    frequent = [word for word, _ in frequent_in.words.most_common(_NUM_FREQUENT)]
    return sum(side.words[word] for word in frequent) / max(1, side.words.total())


def _find_shift(hypothesis: Side, reference: Side) -> Iterator[Remark]:
    """Yields a remark on the longest stretch of lines that fit a neighbouring line far better."""
    num_lines = len(hypothesis.lines)
    if num_lines < 12:
        return
    ours, theirs = hypothesis.sets, reference.sets
    unmoved = np.array([_overlap(*pair) for pair in zip(ours, theirs, strict=True)])
    for step, word in ((1, "next"), (-1, "previous")):
        moved = np.zeros(num_lines)
        inner = range(max(0, -step), num_lines - max(0, step))
        moved[inner.start : inner.stop] = [_overlap(ours[i], theirs[i + step]) for i in inner]
        # The stretch of the greatest sum of gains: where the running sum rises most.
        sums = np.concatenate([[0.0], np.cumsum(moved - unmoved)])
        rises = sums - np.minimum.accumulate(sums)
        end = int(rises.argmax())
        start = int(sums[: end + 1].argmin())
        if end - start < 10:
            continue
        at_home, away = unmoved[start:end].mean(), moved[start:end].mean()
        if away > at_home + 0.1 and away > 2 * at_home:
            yield Remark(
                "shifted",
                f"Hypotheses {start + 1:,} to {end:,} share {away:.0%} of their words with the "
                f"{word} line's reference, {at_home:.0%} with their own: a line is missing or too "
                f"many on one side, near line {start + 1:,}. Pair the lines anew.",
            )


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return 2 * len(one & other) / ((len(one) + len(other)) or 1)


def _find_pieces(hypothesis: Side, reference: Side) -> Iterator[Remark]:
    for side, name in ((hypothesis, "hypotheses"), (reference, "references")):
        found = side.count(_PIECE)
        if found >= max(1, 0.01 * len(side.lines)):
            yield Remark(
                "pieces",
                f"{_of(found, len(side.lines))} {name} hold the tokenizer's pieces ('@@' or '▁'), "
                "not words. Join them first: sed -r 's/(@@ )|(@@ ?$)//g' for BPE, spm_decode for "
                "SentencePiece.",
            )


def _find_exchange(hypothesis: Side, reference: Side) -> Iterator[Remark]:
    """Yields a remark where the references hold marks that machines alone leave."""
    if hypothesis.count(_UNKNOWN) or hypothesis.count(_PIECE):
        return
    found = reference.count(_UNKNOWN) + reference.count(_PIECE)
    if found:
        yield Remark(
            "exchanged",
            f"{_of(found, len(reference.lines))} references, but no hypothesis, hold what machines "
            "alone write, such as '<unk>' or '@@': hypotheses and references may be exchanged. "
            "Check the order of the files.",
        )


def _find_empty(hypothesis: Side, reference: Side) -> Iterator[Remark]:
    for side, other, name, opposite in (
        (hypothesis, reference, "hypotheses", "references"),
        (reference, hypothesis, "references", "hypotheses"),
    ):
        empty = [
            number
            for number, pair in enumerate(zip(side.lines, other.lines, strict=True), start=1)
            if not pair[0] and pair[1]
        ]
        if empty:
            yield Remark(
                "empty",
                f"{_of(len(empty), len(side.lines))} {name} are empty where the {opposite} have "
                f"text, the first in line {empty[0]:,}. Find out where their text was lost.",
            )


def _find_cuts(hypothesis: Side, reference: Side) -> Iterator[Remark]:
    num_lines = len(hypothesis.lines)
    ratio = len(hypothesis.text) / max(1, len(reference.text))
    if num_lines >= 10 and not 0.7 < ratio < 1.5:
        meaning, cure = (
            ("translations break off or leave out a part", "raise the limit on output length")
            if ratio < 1
            else ("translations may repeat themselves", "look at the longest lines")
        )
        yield Remark(
            "length",
            f"The hypotheses have {ratio:.0%} of the references' characters: {meaning}. Look at "
            f"some, and {cure}.",
        )
    complete = [
        ours
        for ours, theirs in zip(hypothesis.lines, reference.lines, strict=True)
        if ours and _LAST_MARK.search(theirs)
    ]
    open_ended = sum(not _LAST_MARK.search(line) for line in complete)
    if open_ended >= max(5, 0.1 * len(complete)):
        yield Remark(
            "open-ended",
            f"{_of(open_ended, len(complete))} hypotheses end without a full stop or the like "
            "where the reference has one: they may be cut off. Look at the longest, and raise the "
            "limit on output length if they are.",
        )
    for unit, lengths in (
        ("characters", Counter(map(len, hypothesis.lines))),
        ("words", Counter(len(line.split()) for line in hypothesis.lines)),
    ):
        longest = max(lengths)
        # Lengths thin out towards the longest, unless something cuts there.
        before = lengths[longest - 1] + lengths[longest - 2] + lengths[longest - 3]
        if longest > 10 and lengths[longest] >= max(5, 0.01 * num_lines, 2 * before):
            yield Remark(
                "cut",
                f"{_of(lengths[longest], num_lines)} hypotheses are exactly {longest:,} {unit} "
                "long, and none is longer: something cuts them there. Raise that limit.",
            )
            return


def _find_tokenized(hypothesis: Side, reference: Side, tokenizer: str) -> Iterator[Remark]:
    sides = {"hypotheses": hypothesis.is_tokenized, "references": reference.is_tokenized}
    if set(sides.values()) == {True, False}:
        one, other = sorted(sides, key=lambda name: not sides[name])
        yield Remark(
            "one-side-tokenized",
            f"The {one} look tokenised, with spaces before commas and full stops, but the {other} "
            f"don't. Detokenise the {one}, or take the {one} as they were before.",
        )
    elif set(sides.values()) == {True} and tokenizer != "none":
        yield Remark(
            "tokenized",
            "Hypotheses and references look tokenised, with spaces before commas and full stops, "
            f"and '{tokenizer}' would tokenise them again. Score plain text, or take them as they "
            "are with --set evaluation.tokenize=none.",
        )
    elif set(sides.values()) == {False} and tokenizer == "none":
        yield Remark(
            "plain",
            "Hypotheses and references look like plain text, with commas and full stops stuck to "
            "the words before, but none are cut off. Score with --set evaluation.tokenize=auto.",
        )
    escaped, escaped_there = hypothesis.count(_ESCAPE), reference.count(_ESCAPE)
    if True not in sides.values() and abs(escaped - escaped_there) >= 0.01 * len(hypothesis.lines):
        one, count = max(
            ("hypotheses", escaped), ("references", escaped_there), key=lambda pair: pair[1]
        )
        yield Remark(
            "escaped",
            f"{_of(count, len(hypothesis.lines))} {one} hold what a tokeniser leaves, such as "
            "'&quot;' or '@-@', and the other side doesn't. Detokenise them fully.",
        )


def _find_unfit_tokenizer(reference: Side, tokenizer: str) -> Iterator[Remark]:
    if reference.num_letters < 20:
        return
    unspaced = {script: reference.letters[script] for script in UNSPACED}
    share = reference.share_of(UNSPACED)
    # Japanese has no text without kana; of Chinese, foreign names and quotations alone have some.
    kana = reference.share_of(_KANA)
    best = "ja-mecab" if kana > 0.1 * share else UNSPACED[max(unspaced, key=unspaced.__getitem__)]
    if tokenizer in ("13a", "intl"):
        if share > 0.3:
            yield Remark(
                "tokenizer",
                f"{share:.0%} of the references' letters are of scripts without spaces between "
                f"words, where '{tokenizer}' finds next to none. Score with "
                f"--set evaluation.tokenize={best}.",
            )
    elif tokenizer == "char":
        if share < 0.3:
            yield Remark(
                "tokenizer",
                "BLEU counts characters here, which about doubles it: 'char' is for scripts "
                "without spaces between words. Score with --set evaluation.tokenize=13a.",
            )
    elif tokenizer in _SCRIPTS_CUT_BY:
        own = reference.share_of(_SCRIPTS_CUT_BY[tokenizer])
        if own < 0.05:
            yield Remark(
                "tokenizer",
                f"'{tokenizer}' is made for another script: {own:.0%} of the references' letters "
                "are of it. Score with --set evaluation.tokenize="
                f"{best if share > 0.3 else '13a'}.",
            )
        elif share > 0.3 and {tokenizer, best} == {"zh", "ja-mecab"}:
            yield Remark(
                "tokenizer",
                f"{kana:.0%} of the references' letters are kana, which tells Japanese from "
                f"Chinese. Score with --set evaluation.tokenize={best}, not '{tokenizer}'.",
            )


def _find_bytes(hypothesis: Side, reference: Side) -> Iterator[Remark]:
    for side, name in ((hypothesis, "hypotheses"), (reference, "references")):
        if side.raw[0].startswith("\ufeff"):
            yield Remark(
                "byte-order-mark",
                f"The {name} begin with a byte order mark, which counts as part of the first word. "
                "Take it away: sed -i '1s/^\\xEF\\xBB\\xBF//'.",
            )
        returns = sum(line.endswith("\r") for line in side.raw)
        if returns > 0.5 * len(side.raw):
            yield Remark(
                "carriage-return",
                f"{_of(returns, len(side.raw))} {name} end in a carriage return, as files from "
                "Windows do; scores don't change by it. Take them away: sed -i 's/\\r$//'.",
            )


def _find_lowercased(hypothesis: Side, reference: Side) -> Iterator[Remark]:
    shares = {
        name: sum(line != line.lower() for line in side.lines) / len(side.lines)
        for name, side in (("hypotheses", hypothesis), ("references", reference))
    }
    lower, upper = sorted(shares, key=shares.__getitem__)
    if len(hypothesis.lines) >= 10 and shares[lower] < 0.02 and shares[upper] > 0.5:
        yield Remark(
            "lowercased",
            f"{shares[upper]:.0%} of the {upper} have a capital, of the {lower} "
            f"{shares[lower]:.0%}. Restore their case, or score without regard to it: "
            "--set evaluation.lowercase=true.",
        )


def _of(count: int, total: int) -> str:
    return f"{count:,} of {total:,}"
