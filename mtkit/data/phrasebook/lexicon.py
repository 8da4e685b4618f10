"""The phrasebook's words as objects, read from `tables`."""

from collections.abc import Mapping
from dataclasses import dataclass

from mtkit.data.phrasebook import tables
from mtkit.data.phrasebook.english import add_s


@dataclass(frozen=True)
class Noun:
    """A noun of both languages; `gender` is the index of its column: 0 der, 1 die, 2 das."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: int
    group: str
    flags: frozenset[str]


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
    english_past: str
    german: str
    prefix: str
    third_person: str
    participle: str
    auxiliary: str
    german_preposition: str = ""
    case: str = ""
    objects: tuple[Noun, ...] = ()


@dataclass(frozen=True)
class Phrase:
    """A piece of a sentence that stands in both languages as it is."""

    english: str
    german: str

    def __add__(self, other: "Phrase") -> "Phrase":
        """Returns both phrases as one, with a blank between them."""
        return Phrase(f"{self.english} {other.english}", f"{self.german} {other.german}")


@dataclass(frozen=True)
class Place:
    """A noun with its prepositions for where (German dative) and for where to."""

    noun: Noun
    at: Phrase
    to: Phrase
    to_case: str


def split_table(table: str) -> list[list[str]]:
    """Returns the entries of a table, each as its fields."""
    entries = [entry.split() for entry in table.split(";")]
    return [[field.replace("_", " ") for field in entry] for entry in entries if entry]


def read_phrases(table: str) -> tuple[Phrase, ...]:
    """Returns the phrases of a table; one with a single field is the same in both languages."""
    return tuple(Phrase(fields[0], fields[-1]) for fields in split_table(table))


def read_noun(fields: list[str], group: str) -> Noun:
    """Returns the noun of one entry, with the regular English plural where none is given."""
    english, article, german, german_plural, *flags = fields
    singular, _, plural = english.partition("/")
    gender = ("der", "die", "das").index(article)
    return Noun(
        singular, plural or add_s(singular), german, german_plural, gender, group, frozenset(flags)
    )


def read_adjective(fields: list[str]) -> Adjective:
    """Returns an adjective, with the regular comparison where the table gives none."""
    english, german, *comparison = fields
    if comparison:
        return Adjective(english, german, *comparison)
    superlative = german + ("est" if german[-1] in "dtsßz" else "st")
    return Adjective(english, german, drop_unstressed_e(german) + "er", superlative)


def drop_unstressed_e(adjective: str) -> str:
    """Returns the stem that takes endings: müde -> müd-, dunkel -> dunkl-, teuer -> teur-."""
    if adjective.endswith("e"):
        return adjective[:-1]
    if adjective.endswith(("el", "teuer")):
        return adjective[:-2] + adjective[-1]
    return adjective


def read_verb(entry: str) -> Verb:
    """Returns the verb of one entry; the tables say how an entry is laid out."""
    forms, _, objects = entry.partition(":")
    english, infinitive, *rest = (field.replace("_", " ") for field in forms.split())
    case = preposition = ""
    if "+" in rest[-1]:
        preposition, case = rest.pop().split("+")
    auxiliary = "haben"
    if rest[-1] == "sein":
        auxiliary = rest.pop()
    participle = rest.pop()
    third_person = rest.pop() if rest else ""
    base, _, past = english.partition("/")
    prefix, _, german = infinitive.rpartition("|")
    nouns = find_nouns(objects) if objects else ()
    german_forms = (german, prefix, third_person, participle, auxiliary)
    return Verb(base, past, *german_forms, preposition, case, nouns)


def read_verbs(table: str) -> tuple[Verb, ...]:
    """Returns the verbs of a table."""
    return tuple(read_verb(entry) for entry in table.split(";"))


def find_nouns(names: str) -> tuple[Noun, ...]:
    """Returns the nouns named: one by one, by group or by family of groups."""
    found: list[Noun] = []
    for name in names.split():
        if name in tables.FAMILIES:
            found.extend(find_nouns(tables.FAMILIES[name]))
        elif name in NOUNS_OF:
            found.extend(NOUNS_OF[name])
        else:
            found.append(NOUN_NAMED[name])
    return tuple(found)


def read_place(fields: list[str]) -> Place:
    """Returns the place of one entry."""
    name, english_at, german_at, english_to, german_to = fields
    preposition, case = german_to.split("+")
    at, to = Phrase(english_at, german_at), Phrase(english_to, preposition)
    return Place(NOUN_NAMED[name], at, to, case)


NOUNS_OF: Mapping[str, tuple[Noun, ...]] = {
    group: tuple(read_noun(fields, group) for fields in split_table(table))
    for group, table in tables.NOUNS.items()
}
NOUNS = tuple(noun for nouns in NOUNS_OF.values() for noun in nouns)
NOUN_NAMED: Mapping[str, Noun] = {noun.english: noun for noun in NOUNS}

ADJECTIVES: Mapping[str, Adjective] = {
    fields[0]: read_adjective(fields) for fields in split_table(tables.ADJECTIVES)
}
ADJECTIVES_OF: Mapping[str, tuple[Adjective, ...]] = {
    group: tuple(ADJECTIVES[adjective] for adjective in names.split())
    for family, names in tables.ADJECTIVES_OF.items()
    for group in tables.FAMILIES.get(family, family).split()
}

TRANSITIVE = read_verbs(tables.TRANSITIVE)
DATIVE = read_verbs(tables.DATIVE)
DITRANSITIVE = read_verbs(tables.DITRANSITIVE)
PREPOSITIONAL = read_verbs(tables.PREPOSITIONAL)
INTRANSITIVE = read_verbs(tables.INTRANSITIVE)
LOCATED = read_verbs(tables.LOCATED)
MOTION = read_verbs(tables.MOTION)
TRAVEL = read_verbs(tables.TRAVEL)

BE = Verb("be", "", "sein", "", "ist", "gewesen", "sein")
PUT_LYING = Verb("put", "put", "legen", "", "", "gelegt", "haben")
PUT_STANDING = Verb("put", "put", "stellen", "", "", "gestellt", "haben")
BECOME = Verb("become", "became", "werden", "", "", "geworden", "sein")
SLEEP = Verb("sleep", "slept", "schlafen", "", "schläft", "geschlafen", "haben")
SIT = Verb("sit", "sat", "sitzen", "", "", "gesessen", "haben")
TRY = Verb("try", "", "versuchen", "", "", "versucht", "haben")
FORGET = Verb("forget", "forgot", "vergessen", "", "vergisst", "vergessen", "haben")
BEGIN = Verb("begin", "began", "beginnen", "", "", "begonnen", "haben")
KNOW = Verb("know", "knew", "wissen", "", "", "gewusst", "haben")
BELIEVE = Verb("believe", "", "glauben", "", "", "geglaubt", "haben")
SAY = Verb("say", "said", "sagen", "", "", "gesagt", "haben")
HOPE = Verb("hope", "", "hoffen", "", "", "gehofft", "haben")
LIE = Verb("be", "", "liegen", "", "", "gelegen", "haben")
STAND = Verb("be", "", "stehen", "", "", "gestanden", "haben")

PLACES: Mapping[str, Place] = {
    fields[0]: read_place(fields) for fields in split_table(tables.PLACES)
}
FIXED_PLACES: Mapping[str, Phrase] = {
    place.english: place for place in read_phrases(tables.FIXED_PLACES)
}
PLACES_OF: Mapping[str, tuple[Place | Phrase, ...]] = {
    verb: tuple(
        PLACES[name] if name in PLACES else FIXED_PLACES[name.replace("_", " ")]
        for name in names.split()
    )
    for verb, names in tables.PLACES_OF.items()
}
FIXED_GOALS = read_phrases(tables.FIXED_GOALS)
STATIVE = frozenset(tables.STATIVE.split())
UNWILLED = frozenset(verb.replace("_", " ") for verb in tables.UNWILLED.split())
SINGLE_OBJECT = frozenset(verb.replace("_", " ") for verb in tables.SINGLE_OBJECT.split())
SCENES: tuple[tuple[Noun, tuple[Noun, ...]], ...] = tuple(
    (NOUN_NAMED[name], find_nouns(nouns)) for name, nouns in tables.SCENES.items()
)
HOUSE_ANIMALS = find_nouns(tables.HOUSE_ANIMALS)
MALE_PROFESSIONS = find_nouns(tables.MALE_PROFESSIONS)
FEMALE_PROFESSIONS = find_nouns(tables.FEMALE_PROFESSIONS)
PROFESSIONAL = tuple(ADJECTIVES[name] for name in tables.PROFESSIONAL.split())
CITIES = read_phrases(tables.CITIES)
COUNTRIES = read_phrases(tables.COUNTRIES)
SUPPORTS: tuple[tuple[Noun, tuple[Phrase, ...]], ...] = tuple(
    (NOUN_NAMED[name], tuple(Phrase(word, tables.TWO_WAY[word]) for word in prepositions))
    for name, *prepositions in split_table(tables.SUPPORTS)
)
NUMBERS = read_phrases(tables.NUMBERS)
HOURS = read_phrases(tables.HOURS)
WEEKDAYS = read_phrases(tables.WEEKDAYS)
PRESENT_TIMES = read_phrases(tables.PRESENT_TIMES)
PAST_TIMES = read_phrases(tables.PAST_TIMES)
FUTURE_TIMES = read_phrases(tables.FUTURE_TIMES)
FREQUENCIES = read_phrases(tables.FREQUENCIES)
CIRCUMSTANCES = read_phrases(tables.CIRCUMSTANCES)
TIME_UNITS = read_phrases(tables.TIME_UNITS)
WEATHER = read_phrases(tables.WEATHER)
MALE_NAMES = tuple(tables.MALE_NAMES.split())
FEMALE_NAMES = tuple(tables.FEMALE_NAMES.split())
