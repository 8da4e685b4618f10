"""Clauses in both languages: the word order of statements, questions and subordinate clauses.

German order after the finite verb (Duden, Die Grammatik, Mittelfeld): subject if it isn't in front,
pronouns, dative, time, accusative, nicht, place and goal, then what closes the bracket.
"""

from dataclasses import dataclass

from mtkit.data.phrasebook import english, german
from mtkit.data.phrasebook.lexicon import Phrase, Verb
from mtkit.data.phrasebook.phrases import NounPhrase


@dataclass(frozen=True)
class TenseOrModal:
    """Tense or modal: an English auxiliary or `semimodal` with `to`, and the German modal.

    Without `german` it is the present, or the past: in German the perfect.
    """

    auxiliary: str = ""
    semimodal: tuple[str, str] = ("", "")
    german: str = ""
    claims_past: bool = False


PRESENT = TenseOrModal()
PAST = TenseOrModal(claims_past=True)
WILL = TenseOrModal("will", german="werden")
WANT = TenseOrModal(semimodal=("want to", ""), german="wollen")
WANTED = TenseOrModal(semimodal=("want to", "wanted"), german="wollte", claims_past=True)
MUST = TenseOrModal("must", german="müssen")
HAD_TO = TenseOrModal(semimodal=("have to", "had"), german="musste", claims_past=True)
MODALS = (
    TenseOrModal("can", german="können"),
    MUST,
    TenseOrModal("should", german="sollte"),
    TenseOrModal("may", german="dürfen"),
    WANT,
    TenseOrModal("would", german="möchte"),
    TenseOrModal("could", german="konnte", claims_past=True),
    WANTED,
    HAD_TO,
)
CAN = MODALS[0]

PRETERITES = {"sein": "war", "haben": "hatte"}
# Words of phrasal verbs that follow a pronoun: picks him up, but looks for him.
ADVERBIAL_PARTICLES = frozenset({"up", "on", "off", "away", "along"})
NEVER = Phrase("never", "nie")


@dataclass(frozen=True)
class Clause:
    """Who does what to whom, in which mode; where, when and how often."""

    subject: NounPhrase
    verb: Verb
    mode: TenseOrModal = PRESENT
    dative: NounPhrase | None = None
    accusative: NounPhrase | None = None
    complement: Phrase | None = None
    place: Phrase | None = None
    time: Phrase | None = None
    frequency: Phrase | None = None
    claims_not: bool = False


def build_english_verbs(clause: Clause, *, needs_auxiliary: bool) -> tuple[str, str]:
    """Returns the auxiliary, if any, and the rest of the verb."""
    mode, verb, person = clause.mode, clause.verb, clause.subject.person
    if mode.auxiliary:
        is_liking = mode.auxiliary == "would"
        return mode.auxiliary, f"like to {verb.english}" if is_liking else verb.english
    base, past, rest = verb.english, verb.english_past, ""
    if mode.semimodal[0]:
        base, past = mode.semimodal
        rest = f" {verb.english}"
    elif verb.english == "be":
        forms = english.BE_PAST if mode.claims_past else english.BE_PRESENT
        return forms[person], ""
    if needs_auxiliary:
        if mode.claims_past:
            return "did", base + rest
        return "does" if person == "3s" else "do", base + rest
    if mode.claims_past:
        return "", english.inflect_past(base, past) + rest
    return "", (english.inflect_third_person(base) if person == "3s" else base) + rest


def _join(*words: str) -> str:
    return " ".join(word for word in words if word)


def _end_in_english(clause: Clause, verbs: str) -> str:
    """Returns verb, objects and adverbials in the English order."""
    accusative = clause.accusative.english_object if clause.accusative else ""
    if clause.accusative and clause.accusative.is_pronoun:
        head, _, particle = verbs.rpartition(" ")
        if particle in ADVERBIAL_PARTICLES:
            verbs, accusative = head, f"{accusative} {particle}"
    adverbials = (clause.complement, clause.place, clause.time)
    return _join(
        verbs,
        clause.dative.english_object if clause.dative else "",
        accusative,
        *(adverbial.english for adverbial in adverbials if adverbial),
    )


def build_german_verbs(clause: Clause) -> tuple[str, str]:
    """Returns both parts of the verb bracket: (hat, gelesen), (ruft, an)."""
    mode, verb, person = clause.mode, clause.verb, clause.subject.person
    if mode.german:
        return german.conjugate(mode.german, "", person), verb.prefix + verb.german
    if mode.claims_past and verb.german in PRETERITES:
        return german.conjugate(PRETERITES[verb.german], "", person), ""
    if mode.claims_past:
        return german.conjugate(verb.auxiliary, "", person), verb.participle
    return german.conjugate(verb.german, verb.third_person, person), verb.prefix


def _fill_german_middle(clause: Clause, *, subject: bool) -> str:
    """Returns the content of the bracket, with or without the subject.

    A pronoun comes before everything except another pronoun: Gestern hat mich der Mann gesehen. A
    definite object comes before nicht and nie, and kein replaces nicht.
    """
    accusative, frequency = clause.accusative, clause.frequency
    negation = "nie" if frequency is NEVER else "nicht" if clause.claims_not else ""
    pronoun = definite = indefinite = ""
    if accusative:
        text = accusative.decline("accusative")
        if accusative.is_pronoun:
            pronoun = text
        elif negation and accusative.is_definite:
            definite = text
        else:
            indefinite = text
            negation = "" if accusative.claims_none else negation
    dative = clause.dative.decline("dative") if clause.dative else ""
    if clause.dative and clause.dative.is_pronoun:
        pronoun, dative = dative, ""
    opening = [pronoun]
    if subject:
        nominative = clause.subject.decline("nominative")
        is_first = clause.subject.is_pronoun
        opening = [nominative, pronoun] if is_first else [pronoun, nominative]
    return _join(
        *opening,
        dative,
        definite,
        clause.time.german if clause.time else "",
        frequency.german if frequency and frequency is not NEVER else "",
        *((negation, indefinite) if indefinite else (negation,)),
        clause.complement.german if clause.complement else "",
        clause.place.german if clause.place else "",
    )


def state(clause: Clause, front: Phrase | None = None) -> Phrase:
    """Returns a statement, the German verb second, after `front` if there is one."""
    auxiliary, verbs = build_english_verbs(clause, needs_auxiliary=clause.claims_not)
    if clause.claims_not:
        auxiliary = "cannot" if auxiliary == "can" else f"{auxiliary} not"
    english_statement = _join(
        front.english if front else "",
        clause.subject.english,
        auxiliary,
        clause.frequency.english if clause.frequency else "",
        _end_in_english(clause, verbs),
    )
    finite, closing = build_german_verbs(clause)
    opening = front.german if front else clause.subject.decline("nominative")
    middle = _fill_german_middle(clause, subject=front is not None)
    return Phrase(english_statement, _join(opening, finite, middle, closing))


def ask(clause: Clause, question_word: Phrase | None = None) -> Phrase:
    """Returns a question without its question mark: yes/no, or with a question word in front."""
    auxiliary, verbs = build_english_verbs(clause, needs_auxiliary=True)
    finite, closing = build_german_verbs(clause)
    english_word = question_word.english if question_word else ""
    german_word = question_word.german if question_word else ""
    return Phrase(
        _join(english_word, auxiliary, clause.subject.english, _end_in_english(clause, verbs)),
        _join(german_word, finite, _fill_german_middle(clause, subject=True), closing),
    )


def subordinate(clause: Clause) -> Phrase:
    """Returns the clause as it follows a conjunction, with the German verb at the end.

    A relative clause follows its own subject in this form.
    """
    finite, closing = build_german_verbs(clause)
    is_split_verb = closing != "" and closing == clause.verb.prefix
    ending = closing + finite if is_split_verb else _join(closing, finite)
    german_clause = _join(_fill_german_middle(clause, subject=True), ending)
    return Phrase(state(clause).english, german_clause)


def _build_nonfinite(clause: Clause, opening: Phrase, closing: str) -> Phrase:
    """Returns the clause without its subject, between `opening` and a German verb form."""
    middle = _fill_german_middle(clause, subject=False)
    return Phrase(
        f"{opening.english} {_end_in_english(clause, clause.verb.english)}",
        _join(opening.german, middle, closing),
    )


def build_infinitive(clause: Clause) -> Phrase:
    """Returns the clause with to and zu."""
    return _build_nonfinite(clause, Phrase("to", ""), german.build_zu_infinitive(clause.verb))


def request(clause: Clause) -> Phrase:
    """Returns the clause as a polite command: bitte öffne das Fenster."""
    opening = Phrase("please", f"bitte {german.command(clause.verb)}")
    return _build_nonfinite(clause, opening, clause.verb.prefix)


def propose(clause: Clause) -> Phrase:
    """Returns the clause as a proposal: lass uns ins Kino gehen."""
    infinitive = clause.verb.prefix + clause.verb.german
    return _build_nonfinite(clause, Phrase("let us", "lass uns"), infinitive)
