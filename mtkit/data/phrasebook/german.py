"""German forms: declension after the Duden grammar's tables, and the verb's persons.

Cases are `nominative`, `accusative`, `dative` and `genitive`; a column is 0 masculine, 1 feminine,
2 neuter and 3 plural; persons are `1s 2s 3s 1p 3p` (the phrasebook's `you` is always du).
"""

from mtkit.data.phrasebook.lexicon import Noun, Verb, drop_unstressed_e

CASES = ("nominative", "accusative", "dative", "genitive")
PLURAL = 3

DEFINITE_ARTICLE = {
    "nominative": ("der", "die", "das", "die"),
    "accusative": ("den", "die", "das", "die"),
    "dative": ("dem", "der", "dem", "den"),
    "genitive": ("des", "der", "des", "der"),
}
# dieser, jeder, welcher, alle
DER_WORD_ENDINGS = {
    "nominative": ("er", "e", "es", "e"),
    "accusative": ("en", "e", "es", "e"),
    "dative": ("em", "er", "em", "en"),
    "genitive": ("es", "er", "es", "er"),
}
# ein, kein, mein
EIN_WORD_ENDINGS = {
    "nominative": ("", "e", "", "e"),
    "accusative": ("en", "e", "", "e"),
    "dative": ("em", "er", "em", "en"),
    "genitive": ("es", "er", "es", "er"),
}
ADJECTIVE_ENDINGS = {
    "strong": {
        "nominative": ("er", "e", "es", "e"),
        "accusative": ("en", "e", "es", "e"),
        "dative": ("em", "er", "em", "en"),
        "genitive": ("en", "er", "en", "er"),
    },
    "weak": {
        "nominative": ("e", "e", "e", "en"),
        "accusative": ("en", "e", "e", "en"),
        "dative": ("en", "en", "en", "en"),
        "genitive": ("en", "en", "en", "en"),
    },
    "mixed": {
        "nominative": ("er", "e", "es", "en"),
        "accusative": ("en", "e", "es", "en"),
        "dative": ("en", "en", "en", "en"),
        "genitive": ("en", "en", "en", "en"),
    },
}
CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "an das": "ans",
    "zu dem": "zum",
    "zu der": "zur",
    "von dem": "vom",
}
# The verbs that no rule gives, by person.
PERSONS = ("1s", "2s", "3s", "1p", "3p")
IRREGULAR_VERBS = {
    "sein": ("bin", "bist", "ist", "sind", "sind"),
    "haben": ("habe", "hast", "hat", "haben", "haben"),
    "werden": ("werde", "wirst", "wird", "werden", "werden"),
    "war": ("war", "warst", "war", "waren", "waren"),
    "hatte": ("hatte", "hattest", "hatte", "hatten", "hatten"),
    "können": ("kann", "kannst", "kann", "können", "können"),
    "müssen": ("muss", "musst", "muss", "müssen", "müssen"),
    "wollen": ("will", "willst", "will", "wollen", "wollen"),
    "dürfen": ("darf", "darfst", "darf", "dürfen", "dürfen"),
    "sollte": ("sollte", "solltest", "sollte", "sollten", "sollten"),
    "möchte": ("möchte", "möchtest", "möchte", "möchten", "möchten"),
    "konnte": ("konnte", "konntest", "konnte", "konnten", "konnten"),
    "wollte": ("wollte", "wolltest", "wollte", "wollten", "wollten"),
    "musste": ("musste", "musstest", "musste", "mussten", "mussten"),
    "wissen": ("weiß", "weißt", "weiß", "wissen", "wissen"),
    "mögen": ("mag", "magst", "mag", "mögen", "mögen"),
}


def decline_noun(noun: Noun, case: str, *, plural: bool) -> str:
    """Returns the noun in a case."""
    if plural:
        takes_n = case == "dative" and not noun.german_plural.endswith(("n", "s"))
        return noun.german_plural + ("n" if takes_n else "")
    if case == "nominative" or noun.gender == 1:
        return noun.german
    if "weak" in noun.flags:
        return noun.german_plural
    if case != "genitive":
        return noun.german
    if noun.german_plural == noun.german + "se":
        return noun.german + "ses"
    return noun.german + ("es" if takes_long_genitive(noun.german) else "s")


def takes_long_genitive(noun: str) -> bool:
    """Says whether the genitive is in -es: after s and its like, and in words of one syllable."""
    num_syllables = sum(
        letter in "aeiouyäöü" and (position == 0 or noun[position - 1].lower() not in "aeiouyäöü")
        for position, letter in enumerate(noun.lower())
    )
    return noun.endswith(("s", "ß", "z", "x")) or (num_syllables == 1 and noun[-1] not in "aeiou")


def decline_adjective(stem: str, declension: str, case: str, column: int) -> str:
    """Returns an adjective (or a comparative or superlative stem) with its ending."""
    return drop_unstressed_e(stem) + ADJECTIVE_ENDINGS[declension][case][column]


def contract(preposition: str, phrase: str) -> str:
    """Returns preposition and phrase, with the article drawn in where it must be: im Garten."""
    article, _, rest = phrase.partition(" ")
    contracted = CONTRACTIONS.get(f"{preposition} {article}")
    return f"{contracted} {rest}" if contracted else f"{preposition} {phrase}"


def conjugate(infinitive: str, third_person: str, person: str) -> str:
    """Returns the present tense; `third_person` is given where the stem changes, else empty."""
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
    """Says whether -st and -t need an e: du wartest, er öffnet, sie zeichnet."""
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
