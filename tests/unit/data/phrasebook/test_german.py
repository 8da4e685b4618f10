"""German forms against the paradigms of Duden, Die Grammatik, written out by hand."""

import pytest

from mtkit.data.phrasebook import german, lexicon
from mtkit.data.phrasebook.lexicon import NOUN_NAMED, Verb
from mtkit.data.phrasebook.phrases import (
    ALL,
    EVERY,
    NO,
    NONE,
    POSSESSIVES,
    THE,
    THIS,
    A,
    Determiner,
    build_noun_phrase,
)

GOOD = ("good", "gut")
ALL_VERBS = [verb for verbs in lexicon.VERBS.values() for verb in verbs]

# Duden, Adjektiv: nominative, accusative, dative, genitive of each phrase.
PARADIGMS = [
    (THE, "man", False, "der gute Mann | den guten Mann | dem guten Mann | des guten Mannes"),
    (THE, "woman", False, "die gute Frau | die gute Frau | der guten Frau | der guten Frau"),
    (THE, "child", False, "das gute Kind | das gute Kind | dem guten Kind | des guten Kindes"),
    (
        THE,
        "child",
        True,
        "die guten Kinder | die guten Kinder | den guten Kindern | der guten Kinder",
    ),
    (A, "man", False, "ein guter Mann | einen guten Mann | einem guten Mann | eines guten Mannes"),
    (A, "woman", False, "eine gute Frau | eine gute Frau | einer guten Frau | einer guten Frau"),
    (A, "child", False, "ein gutes Kind | ein gutes Kind | einem guten Kind | eines guten Kindes"),
    (NO, "man", True, "keine guten Männer | keine guten Männer | keinen guten Männern"),
    (NONE, "wine", False, "guter Wein | guten Wein | gutem Wein | guten Weines"),
    (NONE, "milk", False, "gute Milch | gute Milch | guter Milch | guter Milch"),
    (NONE, "water", False, "gutes Wasser | gutes Wasser | gutem Wasser | guten Wassers"),
    (NONE, "apple", True, "gute Äpfel | gute Äpfel | guten Äpfeln | guter Äpfel"),
    (THIS, "boy", False, "dieser gute Junge | diesen guten Jungen | diesem guten Jungen"),
    (EVERY, "woman", False, "jede gute Frau | jede gute Frau | jeder guten Frau"),
    (ALL, "car", True, "alle guten Autos | alle guten Autos | allen guten Autos"),
    (
        POSSESSIVES["our"],
        "house",
        False,
        "unser gutes Haus | unser gutes Haus | unserem guten Haus",
    ),
    (
        POSSESSIVES["my"],
        "aunt",
        True,
        "meine guten Tanten | meine guten Tanten | meinen guten Tanten",
    ),
    (
        POSSESSIVES["her"],
        "coat",
        False,
        "ihr guter Mantel | ihren guten Mantel | ihrem guten Mantel",
    ),
]


@pytest.mark.parametrize(("determiner", "noun", "plural", "paradigm"), PARADIGMS)
def test_noun_phrases_decline_as_in_the_grammar_book(
    determiner: Determiner, noun: str, plural: bool, paradigm: str
) -> None:
    phrase = build_noun_phrase(NOUN_NAMED[noun], determiner, (GOOD,), plural=plural)
    expected = tuple(paradigm.split(" | "))
    assert phrase.german[: len(expected)] == expected


@pytest.mark.parametrize(
    ("noun", "expected"),
    [
        ("student", "Student Studenten Studenten Studenten"),
        ("neighbour", "Nachbar Nachbarn Nachbarn Nachbarn"),
        ("bear", "Bär Bären Bären Bären"),
        ("lion", "Löwe Löwen Löwen Löwen"),
        ("house", "Haus Haus Haus Hauses"),
        ("teacher", "Lehrer Lehrer Lehrer Lehrers"),
        ("friend", "Freund Freund Freund Freundes"),
        ("bus", "Bus Bus Bus Busses"),
        ("car", "Auto Auto Auto Autos"),
        ("lake", "See See See Sees"),
        ("sister", "Schwester Schwester Schwester Schwester"),
    ],
)
def test_nouns_decline_in_the_singular(noun: str, expected: str) -> None:
    forms = [german.decline_noun(NOUN_NAMED[noun], case, plural=False) for case in german.CASES]
    assert forms == expected.split()


@pytest.mark.parametrize(
    ("adjective", "expected"),
    [
        ("expensive", "teure teurere teuerste"),
        ("dark", "dunkle dunklere dunkelste"),
        ("tired", "müde müdere müdeste"),
        ("new", "neue neuere neueste"),
        ("good", "gute bessere beste"),
        ("old", "alte ältere älteste"),
        ("big", "große größere größte"),
        ("hot", "heiße heißere heißeste"),
        ("exciting", "spannende spannendere spannendste"),
    ],
)
def test_adjectives_compare_and_lose_an_unstressed_e(adjective: str, expected: str) -> None:
    word = lexicon.ADJECTIVES[adjective]
    stems = (word.german, word.comparative, word.superlative)
    forms = [german.decline_adjective(stem, "weak", "nominative", 0) for stem in stems]
    assert forms == expected.split()


@pytest.mark.parametrize(
    ("english", "expected"),
    [
        ("buy", "kaufe kaufst kauft kaufen kaufen"),
        ("read", "lese liest liest lesen lesen"),
        ("eat", "esse isst isst essen essen"),
        ("wash", "wasche wäschst wäscht waschen waschen"),
        ("invite", "lade lädst lädt laden laden"),
        ("wait", "warte wartest wartet warten warten"),
        ("open", "öffne öffnest öffnet öffnen öffnen"),
        ("draw", "zeichne zeichnest zeichnet zeichnen zeichnen"),
        ("learn", "lerne lernst lernt lernen lernen"),
        ("smile", "lächle lächelst lächelt lächeln lächeln"),
        ("feed", "füttere fütterst füttert füttern füttern"),
        ("dance", "tanze tanzt tanzt tanzen tanzen"),
        ("travel", "reise reist reist reisen reisen"),
        ("like", "mag magst mag mögen mögen"),
        ("run", "laufe läufst läuft laufen laufen"),
        ("find", "finde findest findet finden finden"),
    ],
)
def test_verbs_conjugate_in_the_present(english: str, expected: str) -> None:
    verb = find_verb(english)
    forms = [german.conjugate(verb.german, verb.third_person, person) for person in german.PERSONS]
    assert forms == expected.split()


@pytest.mark.parametrize(
    ("english", "expected"),
    [
        ("read", "lies"),
        ("give", "gib"),
        ("help", "hilf"),
        ("open", "öffne"),
        ("wait", "warte"),
        ("run", "lauf"),
        ("go", "geh"),
        ("feed", "füttere"),
        ("smile", "lächle"),
        ("throw away", "wirf"),
    ],
)
def test_commands_to_du(english: str, expected: str) -> None:
    assert german.command(find_verb(english)) == expected


def test_prepositions_draw_in_the_definite_article() -> None:
    garden = build_noun_phrase(NOUN_NAMED["garden"], THE)
    station = build_noun_phrase(NOUN_NAMED["station"], THE, (("old", "alt"),))
    school = build_noun_phrase(NOUN_NAMED["school"], THE)
    mine = build_noun_phrase(NOUN_NAMED["garden"], POSSESSIVES["my"])
    in_ = lexicon.Phrase("in", "in")
    assert garden.follow(in_, "dative").german == "im Garten"
    assert garden.follow(in_, "accusative").german == "in den Garten"
    assert station.follow(lexicon.Phrase("to", "zu"), "dative").german == "zum alten Bahnhof"
    assert school.follow(lexicon.Phrase("to", "zu"), "dative").german == "zur Schule"
    assert mine.follow(in_, "dative").german == "in meinem Garten"


def find_verb(english: str) -> Verb:
    return next(verb for verb in ALL_VERBS if verb.english == english)
