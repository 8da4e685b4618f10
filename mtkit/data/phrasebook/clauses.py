"""Clauses in both languages: what stands where in statements, questions and subordinate clauses.

German order after the finite verb (Duden, Die Grammatik, Mittelfeld): subject if it is not in
front, pronouns, dative, time, accusative, nicht, place and goal, then what closes the bracket.
"""

from dataclasses import dataclass

from mtkit.data.phrasebook import english, german
from mtkit.data.phrasebook.lexicon import Phrase, Verb
from mtkit.data.phrasebook.phrases import NounPhrase


@dataclass(frozen=True)
class Mode:
    """Tense or modal: an English auxiliary or `semimodal` with `to`, and the German modal.

    Without `german` it is the present, or the past: in German the perfect.
    """

    auxiliary: str = ""
    semimodal: tuple[str, str] = ("", "")
    german: str = ""
    claims_past: bool = False


PRESENT = Mode()
PAST = Mode(claims_past=True)
WILL = Mode("will", german="werden")
CAN = Mode("can", german="können")
MUST = Mode("must", german="müssen")
SHOULD = Mode("should", german="sollte")
MAY = Mode("may", german="dürfen")
WANT = Mode(semimodal=("want to", ""), german="wollen")
WOULD_LIKE = Mode("would", german="möchte")
COULD = Mode("could", german="konnte", claims_past=True)
WANTED = Mode(semimodal=("want to", "wanted"), german="wollte", claims_past=True)
HAD_TO = Mode(semimodal=("have to", "had"), german="musste", claims_past=True)

PRETERITES = {"sein": "war", "haben": "hatte"}
# Words of phrasal verbs that stand behind a pronoun: picks him up, but looks for him.
ADVERBIAL_PARTICLES = frozenset({"up", "on", "off", "away", "along"})
NEVER = Phrase("never", "nie")


@dataclass(frozen=True)
class Clause:
    """Who does what to whom, in which mode; where, when and how often."""

    subject: NounPhrase
    verb: Verb
    mode: Mode = PRESENT
    dative: NounPhrase | None = None
    accusative: NounPhrase | None = None
    complement: Phrase | None = None
    place: Phrase | None = None
    time: Phrase | None = None
    frequency: Phrase | None = None
    claims_not: bool = False


def build_english_verbs(clause: Clause, *, needs_auxiliary: bool) -> tuple[str, str]:
    """Returns the auxiliary (or empty) and the rest of the verb."""
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


def _list_english_objects(clause: Clause, verbs: str) -> list[str]:
    """Returns verb, objects and adverbials in the English order."""
    dative = clause.dative.english_object if clause.dative else ""
    accusative = clause.accusative.english_object if clause.accusative else ""
    if clause.accusative and clause.accusative.is_pronoun:
        head, _, particle = verbs.rpartition(" ")
        if particle in ADVERBIAL_PARTICLES:
            verbs, accusative = head, f"{accusative} {particle}"
    phrases = (clause.complement, clause.place, clause.time)
    return [verbs, dative, accusative, *(phrase.english for phrase in phrases if phrase)]


def state_in_english(clause: Clause) -> str:
    """Returns subject and predicate in the order of a statement, without capital and stop."""
    auxiliary, verbs = build_english_verbs(clause, needs_auxiliary=clause.claims_not)
    if clause.claims_not:
        auxiliary = "cannot" if auxiliary == "can" else f"{auxiliary} not"
    frequency = clause.frequency.english if clause.frequency else ""
    words = [
        clause.subject.english,
        auxiliary,
        frequency,
        *_list_english_objects(clause, verbs),
    ]
    return " ".join(word for word in words if word)


def ask_in_english(clause: Clause, question_word: str = "") -> str:
    """Returns a question, yes/no or with a question word in front, without the question mark."""
    auxiliary, verbs = build_english_verbs(clause, needs_auxiliary=True)
    negation = "not" if clause.claims_not else ""
    frequency = clause.frequency.english if clause.frequency else ""
    words = [
        question_word,
        auxiliary,
        clause.subject.english,
        negation,
        frequency,
        *_list_english_objects(clause, verbs),
    ]
    return " ".join(word for word in words if word)


def name_in_english(clause: Clause) -> str:
    """Returns the clause as an infinitive without `to`."""
    return " ".join(word for word in _list_english_objects(clause, clause.verb.english) if word)


def build_german_verbs(clause: Clause) -> tuple[str, str]:
    """Returns the finite verb and what closes the bracket: (hat, gelesen), (ruft, an)."""
    mode, verb, person = clause.mode, clause.verb, clause.subject.person
    if mode.german:
        return german.conjugate(mode.german, "", person), verb.prefix + verb.german
    if mode.claims_past and verb.german in PRETERITES:
        return german.conjugate(PRETERITES[verb.german], "", person), ""
    if mode.claims_past:
        return german.conjugate(verb.auxiliary, "", person), verb.participle
    return german.conjugate(verb.german, verb.third_person, person), verb.prefix


def _list_german_middle(clause: Clause) -> list[str]:
    """Returns what stands between subject and closing verb, in order."""
    dative, accusative = clause.dative, clause.accusative
    claims_never = clause.frequency is NEVER
    has_negation = clause.claims_not or claims_never
    negation = "nie" if claims_never else "nicht" if has_negation else ""
    object_text = accusative.decline("accusative") if accusative else ""
    if accusative and accusative.claims_none:
        negation = ""
    # A pronoun comes first; a definite object leaves the place behind the time to the negation.
    is_early = accusative is not None and (
        accusative.is_pronoun or (has_negation and accusative.is_definite)
    )
    is_pronoun = accusative is not None and accusative.is_pronoun
    time = clause.time.german if clause.time else ""
    frequency = clause.frequency.german if clause.frequency and not claims_never else ""
    is_negated_first = accusative is not None and not is_early
    words = [
        object_text if is_pronoun else "",
        dative.decline("dative") if dative else "",
        object_text if is_early and not is_pronoun else "",
        time,
        frequency,
        negation if is_negated_first else "",
        object_text if not is_early else "",
        "" if is_negated_first else negation,
        clause.complement.german if clause.complement else "",
        clause.place.german if clause.place else "",
    ]
    return [word for word in words if word]


def state_in_german(clause: Clause, front: str = "") -> str:
    """Returns a statement with the verb second, behind `front` if there is one."""
    finite, closing = build_german_verbs(clause)
    subject = clause.subject.decline("nominative")
    opening = [front, finite, subject] if front else [subject, finite]
    return " ".join(word for word in [*opening, *_list_german_middle(clause), closing] if word)


def ask_in_german(clause: Clause, question_word: str = "") -> str:
    """Returns a question, yes/no or with a question word in front, without the question mark."""
    finite, closing = build_german_verbs(clause)
    opening = [question_word, finite, clause.subject.decline("nominative")]
    return " ".join(word for word in [*opening, *_list_german_middle(clause), closing] if word)


def subordinate_in_german(clause: Clause, conjunction: str) -> str:
    """Returns the clause behind a conjunction or relative pronoun, with its verb at the end."""
    finite, closing = build_german_verbs(clause)
    is_split_verb = closing and closing == clause.verb.prefix
    ending = closing + finite if is_split_verb else f"{closing} {finite}".lstrip()
    words = [conjunction, clause.subject.decline("nominative"), *_list_german_middle(clause)]
    return " ".join(word for word in [*words, ending] if word)


def name_in_german(clause: Clause) -> str:
    """Returns the clause as an infinitive with zu."""
    return " ".join([*_list_german_middle(clause), german.build_zu_infinitive(clause.verb)])


def suggest_in_german(clause: Clause) -> str:
    """Returns `lass uns` with the clause: let us ..."""
    infinitive = clause.verb.prefix + clause.verb.german
    return " ".join(["lass uns", *_list_german_middle(clause), infinitive])


def command_in_german(clause: Clause) -> str:
    """Returns the request: bitte öffne das Fenster."""
    words = [
        "bitte",
        german.command(clause.verb),
        *_list_german_middle(clause),
        clause.verb.prefix,
    ]
    return " ".join(word for word in words if word)


