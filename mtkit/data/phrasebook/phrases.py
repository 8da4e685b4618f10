"""Noun phrases in both languages: determiner, adjectives and noun, pronouns, names."""

from dataclasses import dataclass

from mtkit.data.phrasebook import english, german
from mtkit.data.phrasebook.lexicon import ENDINGS, Adjective, Noun, Phrase


@dataclass(frozen=True)
class Determiner:
    """The start of a noun phrase: `german` takes the endings in `endings`, or none."""

    english: str
    english_plural: str
    german: str
    endings: str
    declension: str
    claims_definite: bool = False

    def decline(self, case: str, column: int) -> str:
        """Returns the German form in a case and a column of the tables."""
        return self.german + (ENDINGS[self.endings][case][column] if self.endings else "")


THE = Determiner("the", "the", "", "article", "weak", claims_definite=True)
THIS = Determiner("this", "these", "dies", "der", "weak", claims_definite=True)
EVERY = Determiner("every", "", "jed", "der", "weak", claims_definite=True)
ALL = Determiner("", "all", "all", "der", "weak", claims_definite=True)
WHICH = Determiner("which", "which", "welch", "der", "weak")
A = Determiner("a", "", "ein", "ein", "mixed")
NO = Determiner("a", "any", "kein", "ein", "mixed")
NO_MASS = Determiner("any", "any", "kein", "ein", "mixed")
NONE = Determiner("", "", "", "", "strong")
HOW_MANY = Determiner("", "how many", "wie viele", "", "strong")
QUANTIFIERS = tuple(
    Determiner("", word, stem, "der", "strong")
    for word, stem in (("many", "viel"), ("some", "einig"), ("several", "mehrer"))
)


def count(number: Phrase) -> Determiner:
    """Returns the determiner for a number from two to twelve: drei rote Äpfel."""
    return Determiner("", number.english, number.german, "", "strong")


@dataclass(frozen=True)
class NounPhrase:
    """A noun phrase; `german` holds its forms in the order of `german.CASES`.

    `pronoun` names the entry of `PRONOUNS` that refers back to the phrase, or is empty.
    """

    english: str
    english_object: str
    german: tuple[str, ...]
    person: str
    pronoun: str = ""
    is_pronoun: bool = False
    is_definite: bool = True
    claims_none: bool = False
    claims_all: bool = False
    contracts: bool = False

    def decline(self, case: str) -> str:
        """Returns the German form in a case."""
        return self.german[german.CASES.index(case)]

    def follow(self, preposition: Phrase, case: str) -> Phrase:
        """Returns the phrase after a preposition, in German contracted with its article."""
        phrase = self.decline(case)
        if self.contracts:
            german_phrase = german.contract(preposition.german, phrase)
        else:
            german_phrase = f"{preposition.german} {phrase}"
        return Phrase(f"{preposition.english} {self.english_object}".lstrip(), german_phrase)


# Subject: object, nominative, accusative and dative, person, possessives.
_PERSONS = {
    "I": ("me", ("ich", "mich", "mir"), "1s", "my", "mein"),
    "you": ("you", ("du", "dich", "dir"), "2s", "your", "dein"),
    "he": ("him", ("er", "ihn", "ihm"), "3s", "his", "sein"),
    "she": ("her", ("sie", "sie", "ihr"), "3s", "her", "ihr"),
    "we": ("us", ("wir", "uns", "uns"), "1p", "our", "unser"),
    "they": ("them", ("sie", "sie", "ihnen"), "3p", "their", "ihr"),
}
PRONOUNS = {
    name: NounPhrase(name, english_object, (*forms, ""), person, name, is_pronoun=True)
    for name, (english_object, forms, person, _, _) in _PERSONS.items()
}
POSSESSIVE_OF = {
    name: Determiner(word, word, stem, "ein", "mixed", claims_definite=True)
    for name, (*_, word, stem) in _PERSONS.items()
}
POSSESSIVES = {determiner.english: determiner for determiner in POSSESSIVE_OF.values()}
WHO = NounPhrase("who", "who", ("wer", "wen", "wem", "wessen"), "3s", is_pronoun=True)
# `it` for a thing follows the German gender: der Tisch ... er, die Lampe ... sie.
IT = tuple(
    NounPhrase("it", "it", (form, form, "", ""), "3s", is_pronoun=True)
    for form in ("er", "sie", "es")
)
MALE_GROUPS = frozenset({"kinsman", "acquaintance", "male"})
FEMALE_GROUPS = frozenset({"kinswoman", "female"})


def build_noun_phrase(
    noun: Noun,
    determiner: Determiner,
    adjectives: tuple[tuple[str, str], ...] = (),
    *,
    plural: bool = False,
) -> NounPhrase:
    """Returns the phrase; an adjective is its English form and the German stem that takes endings.

    Source: Duden, Die Grammatik, the strong, weak and mixed declensions of the adjective.
    """
    words = [form for form, _ in adjectives]
    words.append(noun.english_plural if plural else noun.english)
    opening = determiner.english_plural if plural else determiner.english
    if opening == "a":
        opening = english.choose_article(words[0])
    english_phrase = " ".join([opening, *words] if opening else words)
    column = german.PLURAL if plural else noun.gender
    forms = []
    for case in german.CASES:
        parts = [determiner.decline(case, column)]
        parts.extend(
            german.decline_adjective(stem, determiner.declension, case, column)
            for _, stem in adjectives
        )
        parts.append(german.decline_noun(noun, case, plural=plural))
        forms.append(" ".join(filter(None, parts)))
    pronoun = ""
    if plural:
        pronoun = "they"
    elif noun.group in MALE_GROUPS:
        pronoun = "he"
    elif noun.group in FEMALE_GROUPS:
        pronoun = "she"
    return NounPhrase(
        english_phrase,
        english_phrase,
        tuple(forms),
        "3p" if plural else "3s",
        pronoun,
        is_definite=determiner.claims_definite,
        claims_none=determiner.german == "kein",
        claims_all=determiner in (EVERY, ALL),
        contracts=determiner is THE,
    )


def build_name(name: str, pronoun: str) -> NounPhrase:
    """Returns a personal name, which is the same in both languages."""
    return NounPhrase(name, name, (name, name, name, name + "s"), "3s", pronoun)


def join_with_and(first: NounPhrase, second: NounPhrase) -> NounPhrase:
    """Returns both phrases as one, which is plural."""
    pairs = zip(first.german, second.german, strict=True)
    joined = tuple(f"{one} und {other}" for one, other in pairs)
    text = f"{first.english} and {second.english}"
    return NounPhrase(text, text, joined, "3p", "they")


def build_relative_pronoun(column: int) -> NounPhrase:
    """Returns `who` as the subject of a relative clause: der, die, das or plural die."""
    form = ENDINGS["article"]["nominative"][column]
    person = "3p" if column == german.PLURAL else "3s"
    return NounPhrase("who", "who", (form, "", "", ""), person, is_pronoun=True)


def add_owner(owner: NounPhrase, thing: NounPhrase, bare: NounPhrase) -> NounPhrase:
    """Returns the owner's thing: `the teacher's car`, das Auto des Lehrers; Anna's car, Annas Auto.

    `thing` has the definite article, `bare` has none; both have the same noun.
    """
    text = f"{owner.english}'s {bare.english}"
    genitive = owner.decline("genitive")
    if " " in genitive:
        forms = tuple(f"{form} {genitive}" for form in thing.german)
    else:
        forms = tuple(f"{genitive} {form}" for form in bare.german)
    return NounPhrase(text, text, forms, thing.person, contracts=" " in genitive)


def inflect(adjective: Adjective, degree: str = "positive") -> tuple[str, str]:
    """Returns the English form and the German stem in the degree."""
    if degree == "comparative":
        return english.compare_adjective(adjective.english)[0], adjective.comparative
    if degree == "superlative":
        return english.compare_adjective(adjective.english)[1], adjective.superlative
    return adjective.english, adjective.german
