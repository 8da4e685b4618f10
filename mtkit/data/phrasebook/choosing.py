"""Chooses what a sentence is about: noun phrases, times, places and whole clauses."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar

from mtkit.data.phrasebook import clauses, lexicon, phrases
from mtkit.data.phrasebook.clauses import Clause, TenseOrModal
from mtkit.data.phrasebook.lexicon import Adjective, Noun, Phrase, PlaceNoun, Verb
from mtkit.data.phrasebook.phrases import Determiner, NounPhrase

Item = TypeVar("Item")

PRESENT_OR_PAST = (clauses.PRESENT,) * 3 + (clauses.PAST,) * 2
MODES = (*PRESENT_OR_PAST, *PRESENT_OR_PAST, clauses.WILL, clauses.WILL, *clauses.MODALS)
PEOPLE = lexicon.find_nouns(["people"])
PERSON_GROUPS = frozenset(noun.group for noun in PEOPLE)
RELATIVES = frozenset({"kinsman", "kinswoman"})
STRANGERS = lexicon.find_nouns(["stranger"])
RELATED = lexicon.find_nouns(["relation"])
OWNED_GROUPS = frozenset(noun.group for noun in lexicon.find_nouns(["goods"]))
SMALL_THINGS = tuple(noun for noun in lexicon.NOUNS if noun.flag in ("lie", "stand"))
OWNERS = ("my", "your", "our")
TOWNS_AND_COUNTRIES = (*lexicon.PHRASES["cities"], *lexicon.PHRASES["countries"])


class PartChooser:
    """Draws the parts of sentences; the same generator state gives the same parts everywhere.

    Only `Random.random` is used: its sequence for a seed is the same in every Python version.
    """

    def __init__(self, generator: Random) -> None:
        self._draw = generator.random

    def choose(self, items: Sequence[Item]) -> Item:
        """Returns one of the items, all equally likely."""
        return items[int(self._draw() * len(items))]

    def happens(self, probability: float) -> bool:
        """Returns True with the given probability."""
        return self._draw() < probability

    def choose_adjectives(
        self, noun: Noun, probability: float = 0.4
    ) -> tuple[tuple[str, str], ...]:
        """Returns no adjective, one, or rarely two, the second of which is a colour."""
        if not self.happens(probability):
            return ()
        first, second = (self.choose(lexicon.ADJECTIVES_OF[noun.group]) for _ in range(2))
        colours = lexicon.WORDS["colours"]
        if first.english in colours or second.english not in colours or self.happens(0.5):
            return (phrases.inflect(first),)
        return phrases.inflect(first), phrases.inflect(second)

    def choose_compared(self, noun: Noun, degree: str) -> tuple[tuple[str, str], ...]:
        """Returns one adjective in the comparative or superlative."""
        return (phrases.inflect(self.choose(find_comparable(noun)), degree),)

    def choose_name(self) -> NounPhrase:
        """Returns a personal name."""
        if self.happens(0.5):
            return phrases.build_name(self.choose(lexicon.WORDS["male_names"]), "he")
        return phrases.build_name(self.choose(lexicon.WORDS["female_names"]), "she")

    def choose_related(self, nouns: Sequence[Noun] = RELATED) -> NounPhrase:
        """Returns somebody's relative, friend or teacher: my brother."""
        owner = phrases.POSSESSIVES[self.choose(OWNERS)]
        return phrases.build_noun_phrase(self.choose(nouns), owner)

    def choose_person(self, *, may_be_plural: bool = True) -> NounPhrase:
        """Returns people as a noun phrase: the old man, my brothers, these three students."""
        noun = self.choose(PEOPLE)
        plural = may_be_plural and noun.flag != "one" and self.happens(0.25)
        if noun.group in RELATIVES or (noun.group == "acquaintance" and self.happens(0.5)):
            determiner = phrases.POSSESSIVES[self.choose(OWNERS)]
        elif plural and self.happens(0.25):
            determiner = phrases.count(self.choose(lexicon.PHRASES["numbers"]))
        elif plural:
            determiner = self.choose(
                (phrases.THE, phrases.THE, phrases.THIS, phrases.ALL, *phrases.QUANTIFIERS)
            )
        else:
            determiner = self.choose((phrases.THE,) * 5 + (phrases.THIS, phrases.A, phrases.EVERY))
        adjectives = self.choose_adjectives(noun, 0.35)
        if determiner is phrases.THE and self.happens(0.04):
            adjectives = self.choose_compared(noun, "superlative")
        return phrases.build_noun_phrase(noun, determiner, adjectives, plural=plural)

    def choose_subject(self) -> NounPhrase:
        """Returns who does something: a pronoun, one name or two, or people."""
        share = self._draw()
        if share < 0.3:
            return phrases.PRONOUNS[self.choose(tuple(phrases.PRONOUNS))]
        if share < 0.42:
            return self.choose_name()
        if share < 0.46:
            first, second = self.choose_name(), self.choose_name()
            if first != second:
                return phrases.join_with_and(first, second)
        return self.choose_person()

    def choose_person_object(self, subject: NounPhrase) -> NounPhrase:
        """Returns somebody other than the subject; never `sie`, which is both her and them."""
        share = self._draw()
        if share < 0.25:
            name = self.choose(("I", "you", "he", "we"))
            is_someone_else = name != subject.pronoun and {name, subject.pronoun} != {"I", "we"}
            person = phrases.PRONOUNS[name] if is_someone_else else self.choose_name()
        elif share < 0.4:
            person = self.choose_name()
        else:
            person = self.choose_person()
        subjects = subject.english.split(" and ")
        while person.english in subjects:
            person = self.choose_person()
        return person

    def choose_object(self, noun: Noun, subject: NounPhrase, *, single: bool) -> NounPhrase:
        """Returns a thing as a noun phrase: the red car, three old books, cold water, her key."""
        adjectives = self.choose_adjectives(noun)
        if noun.flag == "mass":
            determiner = phrases.THE if self.happens(0.3) else phrases.NONE
            return phrases.build_noun_phrase(noun, determiner, adjectives)
        plural = not single and self.happens(0.4)
        is_owned = noun.group in OWNED_GROUPS
        if plural:
            determiner = self._choose_plural_determiner()
        else:
            owner = phrases.POSSESSIVE_OF.get(subject.pronoun, phrases.THE)
            determiner = self.choose(
                (phrases.A, phrases.A, phrases.THE, phrases.THE, phrases.THE, phrases.THIS)
                + ((owner,) if is_owned else ())
            )
        if determiner is phrases.A and self.happens(0.06):
            adjectives = self.choose_compared(noun, "comparative")
        elif determiner is phrases.THE and self.happens(0.05):
            adjectives = self.choose_compared(noun, "superlative")
        elif determiner is phrases.THE and is_owned and not plural and self.happens(0.15):
            return self.choose_owned(noun)
        return phrases.build_noun_phrase(noun, determiner, adjectives, plural=plural)

    def _choose_plural_determiner(self) -> Determiner:
        share = self._draw()
        if share < 0.5:
            return phrases.count(self.choose(lexicon.PHRASES["numbers"]))
        if share < 0.65:
            return self.choose(phrases.QUANTIFIERS)
        return self.choose((phrases.THE, phrases.THIS, phrases.NONE, phrases.ALL))

    def choose_owned(self, noun: Noun) -> NounPhrase:
        """Returns somebody's thing: Anna's car, the teacher's book, my uncle's key."""
        owner = self.choose_name() if self.happens(0.4) else self.choose_related()
        if self.happens(0.4):
            owner = self.build_definite(self.choose(STRANGERS), 0)
        thing = phrases.build_noun_phrase(noun, phrases.THE)
        return phrases.add_owner(owner, thing, phrases.build_noun_phrase(noun, phrases.NONE))

    def build_definite(self, noun: Noun, probability: float = 0.2) -> NounPhrase:
        """Returns the noun with the definite article, and sometimes an adjective."""
        return phrases.build_noun_phrase(
            noun, phrases.THE, self.choose_adjectives(noun, probability)
        )

    def choose_quality(self, group: str = "male") -> Phrase:
        """Returns an adjective in its form after `be`."""
        adjective = self.choose(lexicon.ADJECTIVES_OF[group])
        return Phrase(adjective.english, adjective.german)

    def choose_hour(self) -> Phrase:
        """Returns a time by the clock: half past two is halb drei."""
        position = int(self._draw() * len(lexicon.HOURS))
        hour = lexicon.HOURS[position]
        share = self._draw()
        if share < 0.5:
            exact = "ein" if hour.german == "eins" else hour.german
            return Phrase(f"at {hour.english} o'clock", f"um {exact} Uhr")
        if share < 0.7:
            next_hour = lexicon.HOURS[(position + 1) % len(lexicon.HOURS)]
            return Phrase(f"at half past {hour.english}", f"um halb {next_hour.german}")
        if share < 0.85:
            return Phrase("at a quarter past", "um Viertel nach") + hour
        return Phrase("at a quarter to", "um Viertel vor") + hour

    def choose_time(self, mode: TenseOrModal) -> Phrase:
        """Returns a time that goes with the mode."""
        share = self._draw()
        if share < 0.15:
            return self.choose_hour()
        if share < 0.19:
            return self.choose(lexicon.PHRASES["circumstances"])
        if share < 0.34:
            return self._choose_weekday(mode)
        if share < 0.42 and mode is not clauses.PRESENT:
            span = self.choose(lexicon.PHRASES["numbers"]) + self.choose(
                lexicon.PHRASES["time_units"]
            )
            if mode.claims_past:
                return Phrase(f"{span.english} ago", f"vor {span.german}")
            return Phrase("in", "in") + span
        past_or_future = (
            lexicon.PHRASES["past_times"] if mode.claims_past else lexicon.PHRASES["future_times"]
        )
        return self.choose(
            lexicon.PHRASES["present_times"] if mode is clauses.PRESENT else past_or_future
        )

    def _choose_weekday(self, mode: TenseOrModal) -> Phrase:
        """Returns on Mondays in the present, else on Monday, perhaps with the hour."""
        weekday = self.choose(lexicon.PHRASES["weekdays"])
        if mode is clauses.PRESENT:
            return Phrase(f"on {weekday.english}s", f"{weekday.german.lower()}s")
        day = Phrase("on", "am") + weekday
        return day + self.choose_hour() if self.happens(0.4) else day

    def describe_where(self, place: PlaceNoun | Phrase) -> Phrase:
        """Returns a place where something happens: at the old station, am alten Bahnhof."""
        if isinstance(place, Phrase):
            return place
        return self.build_definite(place.noun).follow(place.at, "dative")

    def choose_goal(self, verb: Verb) -> Phrase:
        """Returns a destination: to the station, zum Bahnhof."""
        share = self._draw()
        if share < 0.2:
            goals = lexicon.PHRASES["fixed_goals"]
            return self.choose(goals if verb.english == "go" else goals[:1])
        if share < 0.35:
            return self.choose_related().follow(Phrase("to", "zu"), "dative")
        place = self.choose(tuple(lexicon.PLACES.values()))
        case = place.to_case
        return self.build_definite(place.noun).follow(place.to, case)

    def choose_support(self, noun: Noun, case: str) -> Phrase:
        """Returns a place that a thing lies on (dative) or is put on (accusative): on the table."""
        support, prepositions = self.choose(lexicon.SUPPORTS)
        preposition = self.choose(prepositions)
        if support is noun or (preposition.english == "in" and noun.group == "luggage"):
            return self.choose_support(noun, case)
        return self.build_definite(support).follow(preposition, case)

    def choose_clause(
        self, subject: NounPhrase | None = None, modes: Sequence[TenseOrModal] = MODES
    ) -> Clause:
        """Returns a clause about an action, without time and negation."""
        if subject is None:
            subject = self.choose_subject()
        share, mode = self._draw(), self.choose(modes)
        kinds = (
            (0.46, self.choose_transitive),
            (0.54, self._choose_dative),
            (0.64, self._choose_ditransitive),
            (0.71, self._choose_prepositional),
            (0.79, self._choose_intransitive),
            (0.87, self._choose_located),
            (0.97, self._choose_motion),
            (1.00, self._choose_putting),
        )
        return limit_mode(next(make for limit, make in kinds if share < limit)(subject, mode))

    def _choose_dative(self, subject: NounPhrase, mode: TenseOrModal) -> Clause:
        person = self.choose_person_object(subject)
        return Clause(subject, self.choose(lexicon.VERBS["dative"]), mode, dative=person)

    def _choose_ditransitive(self, subject: NounPhrase, mode: TenseOrModal) -> Clause:
        verb = self.choose(lexicon.VERBS["ditransitive"])
        thing = self.choose_object(self.choose(verb.objects), subject, single=False)
        person = self.choose_person_object(subject)
        return Clause(subject, verb, mode, dative=person, accusative=thing)

    def _choose_prepositional(self, subject: NounPhrase, mode: TenseOrModal) -> Clause:
        verb = self.choose(lexicon.VERBS["prepositional"])
        preposition = Phrase("", verb.german_preposition)
        about = self._choose_object_of(verb, subject)
        complement = about.follow(preposition, verb.case)
        return Clause(subject, verb, mode, complement=complement)

    def _choose_intransitive(self, subject: NounPhrase, mode: TenseOrModal) -> Clause:
        return Clause(subject, self.choose(lexicon.VERBS["intransitive"]), mode)

    def _choose_located(self, subject: NounPhrase, mode: TenseOrModal) -> Clause:
        verb = self.choose(lexicon.VERBS["located"])
        place = self.describe_where(self.choose(lexicon.PLACES_OF[verb.english]))
        if verb.english == "live" and self.happens(0.6):
            place = Phrase("in", "in") + self.choose(TOWNS_AND_COUNTRIES)
        return Clause(subject, verb, mode, complement=place)

    def _choose_motion(self, subject: NounPhrase, mode: TenseOrModal) -> Clause:
        if self.happens(0.6):
            verb = self.choose(lexicon.VERBS["motion"])
            return Clause(subject, verb, mode, complement=self.choose_goal(verb))
        goal = Phrase("to", "nach") + self.choose(TOWNS_AND_COUNTRIES)
        return Clause(subject, self.choose(lexicon.VERBS["travel"]), mode, complement=goal)

    def _choose_putting(self, subject: NounPhrase, mode: TenseOrModal) -> Clause:
        noun = self.choose(SMALL_THINGS)
        verb = (
            lexicon.VERB_NAMED["put_lying"]
            if noun.flag == "lie"
            else lexicon.VERB_NAMED["put_standing"]
        )
        thing = self.choose_object(noun, subject, single=True)
        goal = self.choose_support(noun, "accusative")
        return Clause(subject, verb, mode, accusative=thing, complement=goal)

    def _choose_object_of(self, verb: Verb, subject: NounPhrase) -> NounPhrase:
        noun = self.choose(verb.objects)
        if noun.group in PERSON_GROUPS and verb.english != "have":
            return self.choose_person_object(subject)
        single = verb.english in lexicon.WORDS["single_object"]
        return self.choose_object(noun, subject, single=single)

    def choose_transitive(self, subject: NounPhrase, mode: TenseOrModal) -> Clause:
        """Returns a clause with an accusative object, and perhaps a place."""
        verb = self.choose(lexicon.VERBS["transitive"])
        thing = self._choose_object_of(verb, subject)
        place = None
        if verb.english in lexicon.PLACES_OF and self.happens(0.25):
            place = self.describe_where(self.choose(lexicon.PLACES_OF[verb.english]))
        return Clause(subject, verb, mode, accusative=thing, place=place)

    def choose_kein_clause(self) -> Clause:
        """Returns a clause with kein: kauft keine roten Äpfel."""
        subject, verb = self.choose_subject(), self.choose(lexicon.VERBS["transitive"])
        noun = self.choose(verb.objects)
        if noun.group in PERSON_GROUPS or subject.claims_all:
            return self.choose_kein_clause()
        adjectives = self.choose_adjectives(noun)
        is_mass = noun.flag == "mass"
        plural = (
            verb.english not in lexicon.WORDS["single_object"] and not is_mass and self.happens(0.5)
        )
        determiner = phrases.NO_MASS if is_mass else phrases.NO
        thing = phrases.build_noun_phrase(noun, determiner, adjectives, plural=plural)
        mode = self.choose(PRESENT_OR_PAST)
        return Clause(subject, verb, mode, accusative=thing, claims_not=True)

    def choose_action(self, subject: NounPhrase) -> Clause:
        """Returns a clause in the present for an action that one can request, try or forget."""
        clause = self.choose_clause(subject, (clauses.PRESENT,))
        if clause.verb.english in (*lexicon.WORDS["stative"], *lexicon.WORDS["unwilled"]):
            return self.choose_action(subject)
        return clause

    def add_time(self, clause: Clause, probability: float) -> Clause:
        """Returns the clause with a time, with the given probability; a state verb takes none."""
        if clause.verb.english in lexicon.WORDS["stative"] or not self.happens(probability):
            return clause
        return replace(clause, time=self.choose_time(clause.mode))

    def add_circumstances(self, clause: Clause) -> Clause:
        """Returns the clause with a time, a frequency or a negation, or unchanged."""
        share = self._draw()
        if share < 0.15:
            return self.negate(clause)
        is_habit = (
            clause.mode is clauses.PRESENT and clause.verb.english not in lexicon.WORDS["stative"]
        )
        if share < 0.25 and is_habit:
            return replace(clause, frequency=self.choose(lexicon.PHRASES["frequencies"]))
        return self.add_time(clause, 0.35)

    def negate(self, clause: Clause) -> Clause:
        """Returns the clause with nicht or nie; unchanged if that would sound odd."""
        is_odd = clause.mode is clauses.MUST or clause.subject.claims_all or clause.place
        objects = (clause.accusative, clause.dative)
        if is_odd or any(thing and not thing.is_definite for thing in objects):
            return clause
        if clause.mode is clauses.PRESENT and self.happens(0.25):
            return replace(clause, frequency=clauses.NEVER)
        return replace(clause, claims_not=True)


def find_comparable(noun: Noun) -> tuple[Adjective, ...]:
    """Returns the noun's adjectives that can be compared."""
    excluded = (*lexicon.WORDS["colours"], *lexicon.WORDS["incomparable"])
    adjectives = lexicon.ADJECTIVES_OF[noun.group]
    return tuple(item for item in adjectives if item.english not in excluded)


def limit_mode(clause: Clause) -> Clause:
    """Returns the clause in the present if its mode would be odd or have two translations.

    `They read a book` is past or present, liest or hat gelesen: only the present is used.
    """
    verb, mode = clause.verb, clause.mode
    is_state = verb.english in lexicon.WORDS["stative"]
    happens_to_people = verb.english in lexicon.WORDS["unwilled"] and mode is not clauses.WILL
    if (is_state or happens_to_people) and mode not in PRESENT_OR_PAST:
        return replace(clause, mode=clauses.PRESENT)
    looks_present = verb.english_past == verb.english.split()[0] and clause.subject.person != "3s"
    if looks_present and mode is clauses.PAST:
        return replace(clause, mode=clauses.PRESENT)
    return clause
