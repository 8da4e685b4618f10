"""The phrasebook's words as objects, read from `words.toml`."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from mtkit.data.phrasebook.english import add_s


@dataclass(frozen=True)
class Noun:
    """A noun of both languages; `flag` is explained in `words.toml`."""

    group: str
    english: str
    article: str
    german: str
    german_plural: str
    english_plural: str
    flag: str = ""

    @property
    def gender(self) -> int:
        """The index of its column in tables of endings: 0 der, 1 die, 2 das."""
        return ("der", "die", "das").index(self.article)


@dataclass(frozen=True)
class Adjective:
    """An adjective of both languages, with its German comparative and superlative stems."""

    english: str
    german: str
    comparative: str
    superlative: str


@dataclass(frozen=True)
class Verb:
    """A verb of both languages; `english` may end in a particle (`look for`)."""

    english: str
    german: str
    participle: str
    english_past: str = ""
    prefix: str = ""
    third_person: str = ""
    auxiliary: str = "haben"
    german_preposition: str = ""
    case: str = ""
    objects: tuple[Noun, ...] = ()


@dataclass(frozen=True)
class Phrase:
    """A piece of a sentence in both languages, which isn't inflected."""

    english: str
    german: str

    def __add__(self, other: "Phrase") -> "Phrase":
        """Returns both phrases as one, with a space in between."""
        return Phrase(f"{self.english} {other.english}", f"{self.german} {other.german}")


@dataclass(frozen=True)
class PlaceNoun:
    """A noun with its prepositions for a place (German dative) and a destination."""

    noun: Noun
    at: Phrase
    to: Phrase
    to_case: str


def drop_unstressed_e(adjective: str) -> str:
    """Returns the stem that takes endings: müde -> müd-, dunkel -> dunkl-, teuer -> teur-."""
    if adjective.endswith("e"):
        return adjective[:-1]
    if adjective.endswith(("el", "teuer")):
        return adjective[:-2] + adjective[-1]
    return adjective


def _read_adjective(english: str, german: str, *comparison: str) -> Adjective:
    if comparison:
        return Adjective(english, german, *comparison)
    superlative = german + ("est" if german[-1] in "dtsßz" else "st")
    return Adjective(english, german, drop_unstressed_e(german) + "er", superlative)


def find_nouns(names: Iterable[str]) -> tuple[Noun, ...]:
    """Returns nouns by their name, group or family of groups."""
    found: list[Noun] = []
    for name in names:
        if name in _TABLES["families"]:
            found.extend(find_nouns(_TABLES["families"][name]))
        else:
            found.extend(NOUNS_OF.get(name) or (NOUN_NAMED[name],))
    return tuple(found)


def _read_verb(fields: Mapping[str, Any]) -> Verb:
    return Verb(**{**fields, "objects": find_nouns(fields.get("objects", ()))})


_TABLES = tomllib.loads((files(__package__) / "words.toml").read_text("utf-8"))
# Endings by declension and case; the forms of an irregular verb by person.
ENDINGS: Mapping[str, Mapping[str, list[str]]] = _TABLES["endings"]
CONTRACTIONS: Mapping[str, str] = _TABLES["contractions"]
IRREGULAR_VERBS: Mapping[str, list[str]] = _TABLES["irregular_verbs"]
# Lists of words, and phrases, by the name of their list.
WORDS: Mapping[str, list[str]] = _TABLES["words"]
PHRASES: Mapping[str, tuple[Phrase, ...]] = {
    name: tuple(Phrase(*both) for both in table.items())
    for name, table in _TABLES["phrases"].items()
}
OPPOSITES = tuple(frozenset(pair) for pair in _TABLES["opposites"])

NOUNS_OF: Mapping[str, tuple[Noun, ...]] = {
    group: tuple(Noun(group, **{"english_plural": add_s(row["english"])} | row) for row in rows)
    for group, rows in _TABLES["nouns"].items()
}
NOUNS = tuple(noun for nouns in NOUNS_OF.values() for noun in nouns)
NOUN_NAMED: Mapping[str, Noun] = {noun.english: noun for noun in NOUNS}
ADJECTIVES: Mapping[str, Adjective] = {
    name: _read_adjective(name, *forms) for name, forms in _TABLES["adjectives"].items()
}
ADJECTIVES_OF: Mapping[str, tuple[Adjective, ...]] = {
    group: tuple(ADJECTIVES[adjective] for adjective in names)
    for family, names in _TABLES["adjectives_of"].items()
    for group in _TABLES["families"].get(family, [family])
}
# Verbs by their construction, and those that the grammar chooses by name.
VERBS: Mapping[str, tuple[Verb, ...]] = {
    name: tuple(_read_verb(row) for row in rows) for name, rows in _TABLES["verbs"].items()
}
VERB_NAMED: Mapping[str, Verb] = {
    name: _read_verb(row) for name, row in _TABLES["grammatical_verbs"].items()
}
BE = VERB_NAMED["be"]

PLACES: Mapping[str, PlaceNoun] = {
    name: PlaceNoun(NOUN_NAMED[name], Phrase(*row["at"]), Phrase(*row["to"]), row["case"])
    for name, row in _TABLES["places"].items()
}
_FIXED_PLACES = {place.english: place for place in PHRASES["fixed_places"]}
PLACES_OF: Mapping[str, tuple[PlaceNoun | Phrase, ...]] = {
    verb: tuple(PLACES[name] if name in PLACES else _FIXED_PLACES[name] for name in names)
    for verb, names in _TABLES["places_of"].items()
}
SCENES = tuple((NOUN_NAMED[name], find_nouns(nouns)) for name, nouns in _TABLES["scenes"].items())
SUPPORTS = tuple(
    (
        NOUN_NAMED[name],
        tuple(Phrase(word, _TABLES["phrases"]["two_way"][word]) for word in prepositions),
    )
    for name, prepositions in _TABLES["supports"].items()
)
HOURS = (Phrase("one", "eins"), *PHRASES["numbers"])
