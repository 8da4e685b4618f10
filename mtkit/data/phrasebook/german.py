"""German forms: declension after the Duden grammar's tables, and the verb's persons.

Cases are `nominative`, `accusative`, `dative` and `genitive`; a column is 0 masculine, 1 feminine,
2 neuter and 3 plural; persons are `1s 2s 3s 1p 3p` (the phrasebook's `you` is always du).
"""

import re

from mtkit.data.phrasebook.lexicon import (
    CONTRACTIONS,
    ENDINGS,
    IRREGULAR_VERBS,
    Noun,
    Verb,
    drop_unstressed_e,
)

CASES = ("nominative", "accusative", "dative", "genitive")
PLURAL = 3

PERSONS = ("1s", "2s", "3s", "1p", "3p")


def decline_noun(noun: Noun, case: str, *, plural: bool) -> str:
    """Returns the noun in a case."""
    if plural:
        takes_n = case == "dative" and not noun.german_plural.endswith(("n", "s"))
        return noun.german_plural + ("n" if takes_n else "")
    if case == "nominative" or noun.gender == 1:
        return noun.german
    if noun.flag == "weak":
        return noun.german_plural
    if case != "genitive":
        return noun.german
    if noun.german_plural == noun.german + "se":
        return noun.german + "ses"
    return noun.german + ("es" if takes_long_genitive(noun.german) else "s")


def takes_long_genitive(noun: str) -> bool:
    """Checks that the genitive is in -es: after s and similar, and in one-syllable words."""
    num_syllables = len(re.findall("[aeiouyäöü]+", noun.lower()))
    return noun.endswith(("s", "ß", "z", "x")) or (num_syllables == 1 and noun[-1] not in "aeiou")


def decline_adjective(stem: str, declension: str, case: str, column: int) -> str:
    """Returns an adjective (or a comparative or superlative stem) with its ending."""
    return drop_unstressed_e(stem) + ENDINGS[declension][case][column]


def contract(preposition: str, phrase: str) -> str:
    """Returns preposition and phrase, contracted with the article if necessary: im Garten."""
    article, _, rest = phrase.partition(" ")
    contracted = CONTRACTIONS.get(f"{preposition} {article}")
    return f"{contracted} {rest}" if contracted else f"{preposition} {phrase}"


def conjugate(infinitive: str, third_person: str, person: str) -> str:
    """Returns the present tense; `third_person` is empty unless the stem changes."""
    if infinitive in IRREGULAR_VERBS:
        return IRREGULAR_VERBS[infinitive][PERSONS.index(person)]
    if person in ("1p", "3p"):
        return infinitive
    stem = find_stem(infinitive)
    if person == "1s":
        return stem[:-2] + "le" if stem.endswith("el") else stem + "e"
    if third_person:
        changed_stem = third_person.removesuffix("t")
        return third_person if person == "3s" else add_st(changed_stem)
    if needs_linking_e(stem):
        return stem + ("et" if person == "3s" else "est")
    return stem + "t" if person == "3s" else add_st(stem)


def add_st(stem: str) -> str:
    """Returns the form for du, where a stem in s or z takes only t: du liest, du putzt."""
    return stem + ("t" if stem.endswith(("s", "ß", "z", "x")) else "st")


def find_stem(infinitive: str) -> str:
    """Returns the infinitive without -en or -n: kauf-, lächel-, fütter-."""
    return infinitive[:-1] if infinitive.endswith(("eln", "ern")) else infinitive[:-2]


def needs_linking_e(stem: str) -> bool:
    """Checks that -st and -t need an e: du wartest, er öffnet, sie zeichnet."""
    is_hard_cluster = stem.endswith("chn") or (stem[-1] in "mn" and stem[-2] not in "aeiouäöülrmnh")
    return stem.endswith(("t", "d")) or is_hard_cluster


def command(verb: Verb) -> str:
    """Returns the imperative for du: lies, öffne, fahr."""
    stem = find_stem(verb.german)
    if needs_linking_e(stem) or stem.endswith(("el", "er")):
        return stem[:-2] + "le" if stem.endswith("el") else stem + "e"
    changed_stem = verb.third_person.removesuffix("t")
    # e becomes i (gib, lies), but a does not become ä (fahr).
    return changed_stem if changed_stem and "ä" not in changed_stem else stem


def build_zu_infinitive(verb: Verb) -> str:
    """Returns the infinitive with zu: zu lesen, aufzuräumen."""
    return f"{verb.prefix}zu{verb.german}" if verb.prefix else f"zu {verb.german}"
