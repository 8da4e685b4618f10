"""The BLEU that "Attention Is All You Need" (arXiv 1706.03762) and its successors report.

Papers on newstest2014 score text tokenised by Moses' tokenizer.perl, with multi-bleu.perl. For
German they also split compounds at hyphens, like tensor2tensor's utils/get_ende_bleu.sh and
fairseq's scripts/compound_split_bleu.sh, and Google's own reference had ASCII quotes. Each step
changes the value, together by a point or more: no such value is comparable with sacreBLEU's.
"""

import html
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

from mtkit.errors import MtkitError
from mtkit.evaluation.results import SystemScore
from mtkit.evaluation.scores import check_pairs
from mtkit.programs import import_extra

_TWO_LETTER_CODES = {"deu": "de", "ger": "de", "eng": "en", "fra": "fr", "fre": "fr"}
_PLAIN_QUOTES = str.maketrans(dict.fromkeys("„“”‟«»", '"') | dict.fromkeys("‚‘’‛‹›", "'"))

_WIDE_SPACES = "\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_WIDE_SPACES_AS_LETTERS = str.maketrans(
    {space: chr(0xF0000 + number) for number, space in enumerate(_WIDE_SPACES)}
)
"""multi-bleu.perl reads bytes and splits words at ASCII spaces; sacreBLEU, at Unicode's too."""


def paper_bleu(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    language: str,
    lowercase: bool = False,
    tokenized: bool = False,
) -> list[SystemScore]:
    """Returns tokenised BLEU and, for German, its variants with split compounds and plain quotes.

    Compounds of other languages are never split in papers, so there the list has one entry. The
    signatures describe each value and its differences from sacreBLEU's.

    Args:
        hypotheses: Translations, one per sentence, detokenised.
        references: Sets of references, each with one per sentence.
        language: The translations' language, for Moses' tokeniser.
        lowercase: As multi-bleu.perl's `-lc`: only A to Z, no accented letter.
        tokenized: Whether both sides are already tokenised.
    """
    check_pairs(hypotheses, references)
    name = _TWO_LETTER_CODES.get(code := re.split("[-_]", language)[0].lower(), code)
    if not tokenized and len(name) != 2:
        raise MtkitError(
            "evaluation.paper_bleu: Moses' tokeniser needs a language code, but "
            + (f"'{language}' is not one" if language else "the language isn't known"),
            "give it, for example --set evaluation.language=de",
        )
    texts = [hypotheses, *references]
    tokenize: Callable[[Sequence[str]], list[str]]
    tokenize = list if tokenized else _moses_tokenizer(name)
    cut = "already tokenised" if tokenized else f"both sides tokenised by Moses ({name})"
    case = "A to Z lowercased, " if lowercase else ""
    folded = ", A-Z lowercased" if lowercase else ""
    counted = f"{case}n-grams of space-separated tokens as in multi-bleu.perl"
    apart = "unlike sacreBLEU, which tokenises by its own rules (13a)"

    words = [tokenize(lines) for lines in texts]
    scores = [
        SystemScore(
            f"tokenised BLEU{folded}", _multi_bleu(words, lowercase), f"{cut}, {counted}, {apart}"
        )
    ]
    if name == "de":
        split = "compounds split at hyphens"
        scores.append(
            SystemScore(
                f"tokenised BLEU, compounds split{folded}",
                _multi_bleu([split_compounds(lines) for lines in words], lowercase),
                f"{cut}, {split} as in fairseq's compound_split_bleu.sh (Ott et al. 2018), "
                f"{counted}, {apart} and doesn't split compounds",
            )
        )
        plain = make_punctuation_plain(_unescape(texts) if tokenized else texts)
        scores.append(
            SystemScore(
                f"tokenised BLEU, compounds split, quotes plain{folded}",
                _multi_bleu([split_compounds(tokenize(lines)) for lines in plain], lowercase),
                f"quotes and Unicode punctuation mapped to ASCII, {cut}, {split} as "
                "in tensor2tensor's get_ende_bleu.sh with Google's reference, "
                f"{counted}, {apart}, doesn't split compounds and keeps quotes",
            )
        )
    return scores


def split_compounds(lines: Sequence[str]) -> list[str]:
    r"""Returns the lines with each hyphen inside a word as a separate word, `##AT##-##AT##`.

    Like `perl -ple 's{(\S)-(\S)}{$1 ##AT##-##AT## $2}g'`: matched text isn't matched again, and
    Perl sees bytes. So `a-b-c` is split once, `a-ß-c` twice.
    """
    return [
        re.sub(rb"(\S)-(\S)", rb"\1 ##AT##-##AT## \2", line.encode()).decode() for line in lines
    ]


def make_punctuation_plain(texts: Sequence[Sequence[str]]) -> list[list[str]]:
    """Returns the texts with ASCII quotes and punctuation instead of Unicode's."""
    # get_ende_bleu.sh applies Moses' replace-unicode-punctuation.perl, which keeps low and pointed
    # quotes; in Google's reference they were plain too (tensor2tensor's issue 317).
    normalizer = _import_sacremoses().MosesPunctNormalizer()
    return [
        [normalizer.replace_unicode_punct(line.translate(_PLAIN_QUOTES)) for line in lines]
        for lines in texts
    ]


def _import_sacremoses() -> Any:
    fault = "tokenised BLEU, as papers report it, needs the package sacremoses"
    return import_extra("sacremoses", fault, "punctuation")


@cache
def _moses_tokenizer(language: str) -> Callable[[Sequence[str]], list[str]]:
    tokenizer = _import_sacremoses().MosesTokenizer(lang=language)

    # A line takes a millisecond, and most recur: references for each system, and lines without
    # quotes.
    @lru_cache(maxsize=2**16)
    def tokenize(line: str) -> str:
        return str(tokenizer.tokenize(line, return_str=True))

    return lambda lines: list(map(tokenize, lines))


def _unescape(texts: Sequence[Sequence[str]]) -> list[list[str]]:
    """Returns tokenised texts without Moses' `&quot;`, which plain quotes would not match."""
    return [[html.unescape(line) for line in lines] for lines in texts]


def _multi_bleu(texts: Sequence[Sequence[str]], lowercase: bool) -> float:
    """Returns multi-bleu.perl's score of hypotheses, which come first, and reference sets."""
    # sacreBLEU takes a while to load.
    from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415

    hypotheses, *references = [
        [
            (line.encode().lower().decode() if lowercase else line).translate(
                _WIDE_SPACES_AS_LETTERS
            )
            for line in lines
        ]
        for lines in texts
    ]
    bleu = BLEU(tokenize="none", smooth_method="none", force=True)
    return float(bleu.corpus_score(hypotheses, references).score)
