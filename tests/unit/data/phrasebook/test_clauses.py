"""Sentences whose English and German were written by hand, after the Duden grammar's rules."""

import pytest

from mtkit.data.phrasebook import clauses, lexicon, phrases
from mtkit.data.phrasebook.clauses import (
    HAD_TO,
    MODALS,
    MUST,
    NEVER,
    PAST,
    WANT,
    WILL,
    Clause,
    TenseOrModal,
    ask,
    build_infinitive,
    propose,
    request,
    state,
    subordinate,
)
from mtkit.data.phrasebook.lexicon import BE, VERB_NAMED, Phrase, Verb
from mtkit.data.phrasebook.phrases import (
    ALL,
    NO,
    NO_MASS,
    NONE,
    POSSESSIVES,
    PRONOUNS,
    THE,
    THIS,
    WHICH,
    WHO,
    A,
    Determiner,
    NounPhrase,
    add_owner,
    build_name,
    build_noun_phrase,
    build_relative_pronoun,
    count,
    join_with_and,
)

VERBS = {verb.english: verb for verbs in reversed(list(lexicon.VERBS.values())) for verb in verbs}
CAN, SHOULD, MAY, WOULD_LIKE, COULD = (
    next(mode for mode in MODALS if mode.auxiliary == word)
    for word in ("can", "should", "may", "would", "could")
)
ME, YOU, HE, SHE, WE, THEY = (PRONOUNS[word] for word in ("I", "you", "he", "she", "we", "they"))
ANNA, PETER = build_name("Anna", "she"), build_name("Peter", "he")
TOMORROW, YESTERDAY = Phrase("tomorrow", "morgen"), Phrase("yesterday", "gestern")
THREE = count(Phrase("three", "drei"))
MY, HER, HIS = POSSESSIVES["my"], POSSESSIVES["her"], POSSESSIVES["his"]


def np(determiner: Determiner, *words: str, plural: bool = False) -> NounPhrase:
    """Returns the phrase of a determiner, adjectives and a noun."""
    *adjectives, noun = words
    inflected = tuple(phrases.inflect(lexicon.ADJECTIVES[word]) for word in adjectives)
    return build_noun_phrase(lexicon.NOUN_NAMED[noun], determiner, inflected, plural=plural)


def does(
    subject: NounPhrase,
    verb: str,
    accusative: NounPhrase | None = None,
    *,
    to: NounPhrase | None = None,
    mode: TenseOrModal = clauses.PRESENT,
    where: Phrase | None = None,
    time: Phrase | None = None,
    frequency: Phrase | None = None,
    negated: bool = False,
) -> Clause:
    """Returns the clause of an English verb."""
    return Clause(
        subject, VERBS[verb], mode, to, accusative, where, None, time, frequency, claims_not=negated
    )


def behind(english: str, german: str, case: str, noun_phrase: NounPhrase) -> Phrase:
    return noun_phrase.follow(Phrase(english, german), case)


def put(
    verb: Verb, thing: NounPhrase, where: Phrase, mode: TenseOrModal = clauses.PRESENT
) -> Clause:
    return Clause(SHE, verb, mode, accusative=thing, complement=where)


THE_MAN, THE_WOMAN, THE_CHILD = np(THE, "man"), np(THE, "woman"), np(THE, "child")
STUDENTS = np(ALL, "student", plural=True)
OFTEN = Phrase("often", "oft")

STATEMENTS = [
    (
        does(np(THE, "old", "man"), "buy", np(THREE, "red", "apple", plural=True)),
        "the old man buys three red apples",
        "der alte Mann kauft drei rote Äpfel",
    ),
    (
        does(SHE, "drink", np(NONE, "cold", "water")),
        "she drinks cold water",
        "sie trinkt kaltes Wasser",
    ),
    (does(HE, "eat", np(A, "apple")), "he eats an apple", "er isst einen Apfel"),
    (does(YOU, "read", np(A, "new", "book")), "you read a new book", "du liest ein neues Buch"),
    (
        does(THEY, "see", np(THIS, "student", plural=True)),
        "they see these students",
        "sie sehen diese Studenten",
    ),
    (does(WE, "love", np(THE, "bear")), "we love the bear", "wir lieben den Bären"),
    (
        does(STUDENTS, "know", np(THE, "neighbour")),
        "all students know the neighbour",
        "alle Studenten kennen den Nachbarn",
    ),
    (
        does(ANNA, "wear", np(HER, "blue", "coat")),
        "Anna wears her blue coat",
        "Anna trägt ihren blauen Mantel",
    ),
    (
        does(PETER, "clean", np(HIS, "motorbike")),
        "Peter cleans his motorbike",
        "Peter putzt sein Motorrad",
    ),
    # Separable prefixes
    (does(THE_MAN, "call", THE_WOMAN), "the man calls the woman", "der Mann ruft die Frau an"),
    (does(ANNA, "invite", HE), "Anna invites him", "Anna lädt ihn ein"),
    (does(SHE, "pick up", HE), "she picks him up", "sie holt ihn ab"),
    (does(ME, "get up"), "I get up", "ich stehe auf"),
    (
        does(HE, "tidy up", np(THE, "kitchen"), mode=PAST),
        "he tidied up the kitchen",
        "er hat die Küche aufgeräumt",
    ),
    (
        does(HE, "turn off", np(THE, "lamp"), mode=WILL),
        "he will turn off the lamp",
        "er wird die Lampe ausschalten",
    ),
    # Dative
    (
        does(ME, "help", to=np(THE, "old", "woman")),
        "I help the old woman",
        "ich helfe der alten Frau",
    ),
    (does(THEY, "help", to=THE_MAN), "they help the man", "sie helfen dem Mann"),
    (
        does(THE_MAN, "thank", to=np(THE, "child", plural=True), mode=PAST),
        "the man thanked the children",
        "der Mann hat den Kindern gedankt",
    ),
    (does(HE, "follow", to=ME, mode=PAST), "he followed me", "er ist mir gefolgt"),
    (does(SHE, "listen to", to=HE), "she listens to him", "sie hört ihm zu"),
    (
        does(THE_WOMAN, "give", np(A, "apple"), to=THE_CHILD),
        "the woman gives the child an apple",
        "die Frau gibt dem Kind einen Apfel",
    ),
    (
        does(PETER, "show", np(MY, "picture"), to=ME),
        "Peter shows me my picture",
        "Peter zeigt mir mein Bild",
    ),
    (
        does(HE, "tell", np(A, "long", "story"), to=np(THE, "student"), mode=PAST, time=YESTERDAY),
        "he told the student a long story yesterday",
        "er hat dem Studenten gestern eine lange Geschichte erzählt",
    ),
    # Prepositions
    (
        does(WE, "wait for", where=behind("", "auf", "accusative", np(THE, "bus"))),
        "we wait for the bus",
        "wir warten auf den Bus",
    ),
    (
        does(SHE, "dream of", where=behind("", "von", "dative", np(THE, "castle"))),
        "she dreams of the castle",
        "sie träumt vom Schloss",
    ),
    (
        does(HE, "work", where=behind("in", "in", "dative", np(THE, "garden"))),
        "he works in the garden",
        "er arbeitet im Garten",
    ),
    (
        does(HE, "go", where=behind("into", "in", "accusative", np(THE, "garden")), mode=PAST),
        "he went into the garden",
        "er ist in den Garten gegangen",
    ),
    (
        does(ME, "go", where=behind("to", "in", "accusative", np(THE, "theatre"))),
        "I go to the theatre",
        "ich gehe ins Theater",
    ),
    (
        does(THEY, "run", where=behind("to", "zu", "dative", np(THE, "station"))),
        "they run to the station",
        "sie laufen zum Bahnhof",
    ),
    (
        does(SHE, "wait", where=behind("at", "an", "dative", np(THE, "old", "station"))),
        "she waits at the old station",
        "sie wartet am alten Bahnhof",
    ),
    (
        does(HE, "return", where=Phrase("to Vienna", "nach Wien"), mode=PAST),
        "he returned to Vienna",
        "er ist nach Wien zurückgekehrt",
    ),
    (
        put(
            VERB_NAMED["put_lying"],
            np(THE, "book"),
            behind("on", "auf", "accusative", np(THE, "table")),
        ),
        "she puts the book on the table",
        "sie legt das Buch auf den Tisch",
    ),
    (
        put(
            VERB_NAMED["put_standing"],
            np(A, "bottle"),
            behind("in", "in", "accusative", np(THE, "cupboard")),
            PAST,
        ),
        "she put a bottle in the cupboard",
        "sie hat eine Flasche in den Schrank gestellt",
    ),
    # Modals
    (does(HE, "sleep", mode=MUST), "he must sleep", "er muss schlafen"),
    (does(ME, "swim", mode=CAN), "I can swim", "ich kann schwimmen"),
    (does(SHE, "get up", mode=WANT), "she wants to get up", "sie will aufstehen"),
    (
        does(WE, "buy", np(A, "car"), mode=WOULD_LIKE),
        "we would like to buy a car",
        "wir möchten ein Auto kaufen",
    ),
    (does(YOU, "work", mode=SHOULD), "you should work", "du solltest arbeiten"),
    (does(THE_CHILD, "play", mode=MAY), "the child may play", "das Kind darf spielen"),
    (does(THEY, "help", to=WE, mode=COULD), "they could help us", "sie konnten uns helfen"),
    (does(HE, "work", mode=HAD_TO), "he had to work", "er musste arbeiten"),
    # Negation
    (does(HE, "sleep", negated=True), "he does not sleep", "er schläft nicht"),
    (
        does(THE_WOMAN, "buy", np(THE, "car"), negated=True),
        "the woman does not buy the car",
        "die Frau kauft das Auto nicht",
    ),
    (
        does(THE_WOMAN, "buy", np(NO, "red", "apple", plural=True), negated=True),
        "the woman does not buy any red apples",
        "die Frau kauft keine roten Äpfel",
    ),
    (does(ME, "have", np(NO, "dog"), negated=True), "I do not have a dog", "ich habe keinen Hund"),
    (
        does(WE, "drink", np(NO_MASS, "milk"), mode=PAST, negated=True),
        "we did not drink any milk",
        "wir haben keine Milch getrunken",
    ),
    (
        does(ANNA, "live", where=Phrase("in Berlin", "in Berlin"), negated=True),
        "Anna does not live in Berlin",
        "Anna wohnt nicht in Berlin",
    ),
    (does(ME, "swim", mode=CAN, negated=True), "I cannot swim", "ich kann nicht schwimmen"),
    (
        does(HE, "call", THE_WOMAN, frequency=NEVER),
        "he never calls the woman",
        "er ruft die Frau nie an",
    ),
    (
        does(SHE, "read", np(A, "book"), frequency=OFTEN),
        "she often reads a book",
        "sie liest oft ein Buch",
    ),
    # sein, haben, owners, two people
    (
        Clause(np(MY, "brother"), BE, complement=Phrase("a doctor", "Arzt")),
        "my brother is a doctor",
        "mein Bruder ist Arzt",
    ),
    (Clause(WE, BE, PAST, complement=Phrase("tired", "müde")), "we were tired", "wir waren müde"),
    (does(HE, "have", np(A, "cat"), mode=PAST), "he had a cat", "er hatte eine Katze"),
    (
        does(
            join_with_and(ANNA, PETER),
            "wash",
            add_owner(np(THE, "teacher"), np(THE, "car"), np(NONE, "car")),
        ),
        "Anna and Peter wash the teacher's car",
        "Anna und Peter waschen das Auto des Lehrers",
    ),
    (
        does(ME, "find", add_owner(ANNA, np(THE, "key"), np(NONE, "key")), mode=PAST),
        "I found Anna's key",
        "ich habe Annas Schlüssel gefunden",
    ),
]


@pytest.mark.parametrize(("clause", "english", "german"), STATEMENTS)
def test_statements(clause: Clause, english: str, german: str) -> None:
    assert state(clause) == Phrase(english, german)


@pytest.mark.parametrize(
    ("phrase", "english", "german"),
    [
        (
            state(does(THE_WOMAN, "buy", np(A, "book"), mode=PAST), YESTERDAY),
            "yesterday the woman bought a book",
            "gestern hat die Frau ein Buch gekauft",
        ),
        (
            state(does(THE_MAN, "visit", ME, mode=PAST), Phrase("on Monday", "am Montag")),
            "on Monday the man visited me",
            "am Montag hat mich der Mann besucht",
        ),
        (
            state(does(SHE, "get up"), Phrase("at half past six", "um halb sieben")),
            "at half past six she gets up",
            "um halb sieben steht sie auf",
        ),
        (ask(does(YOU, "read", np(THE, "book"))), "do you read the book", "liest du das Buch"),
        (
            ask(does(THE_MAN, "call", SHE, mode=PAST)),
            "did the man call her",
            "hat sie der Mann angerufen",
        ),
        (
            ask(does(ANNA, "live"), Phrase("where", "wo")),
            "where does Anna live",
            "wo wohnt Anna",
        ),
        (
            ask(does(THEY, "go", mode=PAST), Phrase("where", "wohin")),
            "where did they go",
            "wohin sind sie gegangen",
        ),
        (state(does(WHO, "buy", np(THE, "car"))), "who buys the car", "wer kauft das Auto"),
        (
            ask(does(SHE, "visit", mode=WILL), Phrase("who", "wen")),
            "who will she visit",
            "wen wird sie besuchen",
        ),
        (
            ask(
                does(THE_CHILD, "read"),
                Phrase(np(WHICH, "book").english, np(WHICH, "book").decline("accusative")),
            ),
            "which book does the child read",
            "welches Buch liest das Kind",
        ),
        (
            state(does(ME, "stay", where=Phrase("at home", "zu Hause")))
            + Phrase("because", "weil")
            + subordinate(does(ME, "work", mode=MUST)),
            "I stay at home because I must work",
            "ich bleibe zu Hause weil ich arbeiten muss",
        ),
        (
            subordinate(does(THE_MAN, "call", THE_WOMAN)),
            "the man calls the woman",
            "der Mann die Frau anruft",
        ),
        (
            subordinate(does(THE_WOMAN, "get up", mode=PAST, time=YESTERDAY)),
            "the woman got up yesterday",
            "die Frau gestern aufgestanden ist",
        ),
        (
            subordinate(does(build_relative_pronoun(1), "help", to=HE, mode=PAST)),
            "who helped him",
            "die ihm geholfen hat",
        ),
        (
            build_infinitive(does(SHE, "tidy up", np(THE, "room"))),
            "to tidy up the room",
            "das Zimmer aufzuräumen",
        ),
        (build_infinitive(does(HE, "help", to=ME)), "to help me", "mir zu helfen"),
        (
            request(does(YOU, "open", np(THE, "window"))),
            "please open the window",
            "bitte öffne das Fenster",
        ),
        (
            request(does(YOU, "turn on", np(THE, "radio"), time=TOMORROW)),
            "please turn on the radio tomorrow",
            "bitte schalte morgen das Radio ein",
        ),
        (
            propose(does(WE, "go", where=Phrase("home", "nach Hause"))),
            "let us go home",
            "lass uns nach Hause gehen",
        ),
    ],
)
def test_other_kinds_of_clauses(phrase: Phrase, english: str, german: str) -> None:
    assert phrase == Phrase(english, german)
