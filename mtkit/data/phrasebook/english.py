"""English forms: the third person, past tenses, articles, comparison."""

import re

VOWELS = "aeiou"
BE_PRESENT = {"1s": "am", "2s": "are", "3s": "is", "1p": "are", "3p": "are"}
BE_PAST = {"1s": "was", "2s": "were", "3s": "was", "1p": "were", "3p": "were"}
IRREGULAR_COMPARISONS = {"good": ("better", "best")}
# Besides the short ones and those in -y, which take -er.
COMPARED_WITH_MORE = frozenset({"tired", "ill"})
COMPARED_WITH_ENDING = frozenset({"clever", "quiet", "polite"})


def choose_article(next_word: str) -> str:
    """Returns `an` before a vowel; none of our words begins with a silent h or a y sound."""
    return "an" if next_word[0].lower() in VOWELS else "a"


def add_s(word: str) -> str:
    """Returns a regular plural, or a third person: apples, boxes, carries."""
    if word.endswith(("s", "sh", "ch", "x", "to", "go", "do")):
        return word + "es"
    if word.endswith("y") and word[-2] not in VOWELS:
        return word[:-1] + "ies"
    return word + "s"


def inflect_third_person(verb: str) -> str:
    """Returns the form for he, she and it: looks for, carries, washes, has."""
    head, _, particle = verb.partition(" ")
    head = "has" if head == "have" else add_s(head)
    return f"{head} {particle}".rstrip()


def inflect_past(verb: str, irregular: str) -> str:
    """Returns the simple past; `irregular` is that of the first word, or empty."""
    head, _, particle = verb.partition(" ")
    if irregular:
        head = irregular
    elif head.endswith("e"):
        head += "d"
    elif head.endswith("y") and head[-2] not in VOWELS:
        head = head[:-1] + "ied"
    else:
        head += "ed"
    return f"{head} {particle}".rstrip()


def takes_ending(adjective: str) -> bool:
    """Checks that an adjective is compared with -er and not with `more`."""
    if adjective in COMPARED_WITH_MORE:
        return False
    num_vowel_groups = len(re.findall(f"[{VOWELS}]+", adjective.removesuffix("e")))
    is_short = num_vowel_groups == 1 and not adjective.endswith("ous")
    return is_short or adjective.endswith("y") or adjective in COMPARED_WITH_ENDING


def compare_adjective(adjective: str) -> tuple[str, str]:
    """Returns the comparative and the superlative."""
    if adjective in IRREGULAR_COMPARISONS:
        return IRREGULAR_COMPARISONS[adjective]
    if not takes_ending(adjective):
        return f"more {adjective}", f"most {adjective}"
    stem = adjective.removesuffix("e")
    if stem.endswith("y") and stem[-2] not in VOWELS:
        stem = stem[:-1] + "i"
    elif stem == adjective and stem[-1] in "dgnt" and stem[-2] in VOWELS and stem[-3] not in VOWELS:
        stem += stem[-1]
    return stem + "er", stem + "est"
