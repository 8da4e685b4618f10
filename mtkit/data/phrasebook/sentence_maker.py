"""Makes whole sentences in both languages: one method for each kind."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from zlib import crc32

from mtkit.data.phrasebook import clauses, german, lexicon, phrases
from mtkit.data.phrasebook.choosing import (
    OWNED_GROUPS,
    PEOPLE,
    PRESENT_OR_PAST,
    SMALL_THINGS,
    STRANGERS,
    PartChooser,
    find_comparable,
)
from mtkit.data.phrasebook.clauses import Clause, ask, state, subordinate
from mtkit.data.phrasebook.lexicon import Noun, Phrase
from mtkit.data.phrasebook.phrases import NounPhrase

THINGS = lexicon.find_nouns(["described_thing"])
MALE_PROFESSIONS = lexicon.find_nouns(["male_profession"])
FEMALE_PROFESSIONS = lexicon.find_nouns(["female_profession"])
PROFESSIONAL = [lexicon.ADJECTIVES[name] for name in lexicon.WORDS["professional"]]
PETS = lexicon.find_nouns(["house_animal"])
STOP, QUESTION_MARK = Phrase(".", "."), Phrase("?", "?")
AND, BUT = Phrase(", and", "und"), Phrase(", but", ", aber")
PHRASEBOOK_SPLITS = ("train", "dev", "test")
# Maximum per call: the grammar has more than twice as many.
MAX_PAIRS = {"train": 500_000, "dev": 20_000, "test": 20_000}
MAX_ENGLISH_WORDS = 15
MIN_ENGLISH_WORDS = 3


class SentenceMaker(PartChooser):
    """Makes sentence pairs, mostly statements."""

    def __init__(self, generator: Random) -> None:
        super().__init__(generator)
        self._kinds: tuple[tuple[float, Callable[[], Phrase]], ...] = (
            (0.48, self.make_statement),
            (0.60, self.make_question),
            (0.64, self.make_profession),
            (0.67, self.make_position),
            (0.69, self.make_animal),
            (0.75, self.make_description),
            (0.78, self.make_comparison),
            (0.81, self.make_scene),
            (0.85, self.make_request),
            (0.89, self.make_reason),
            (0.92, self.make_report),
            (0.95, self.make_relative_clause),
            (0.97, self.make_infinitive_clause),
            (0.99, self.make_compound),
            (1.00, self.make_contrast),
        )

    def make_pair(self) -> tuple[str, str]:
        """Returns an English sentence and its German translation."""
        share = self._draw()
        sentence = next(make for limit, make in self._kinds if share < limit)()
        return finish(sentence.english), finish(sentence.german)

    def make_statement(self) -> Phrase:
        """Returns a main clause; a time may come first."""
        if self.happens(0.06):
            return state(self.choose_kein_clause()) + STOP
        clause = self.add_circumstances(self.choose_clause())
        if clause.time and not clause.claims_not and self.happens(0.35):
            return state(replace(clause, time=None), clause.time) + STOP
        return state(clause) + STOP

    def make_question(self) -> Phrase:
        """Returns a question: yes/no or about the person, the time, the reason, place or object."""
        share = self._draw()
        if share < 0.4:
            return ask(self.add_time(self.choose_clause(), 0.3)) + QUESTION_MARK
        if share < 0.5:
            clause = self.choose_clause(phrases.WHO)
            return state(self.add_circumstances(clause)) + QUESTION_MARK
        if share < 0.7:
            clause = self.choose_clause()
            is_state = clause.verb.english in lexicon.WORDS["stative"]
            words = (Phrase("why", "warum"), Phrase("when", "wann"))
            return ask(clause, words[0] if is_state else self.choose(words)) + QUESTION_MARK
        if share < 0.8:
            return self._ask_where() + QUESTION_MARK
        return self._ask_for_object() + QUESTION_MARK

    def _ask_where(self) -> Phrase:
        """Returns a question about where (wo) or where to (wohin)."""
        share = self._draw()
        where = Phrase("where", "wo")
        if share < 0.3:
            thing = self._choose_small_thing(self.choose(SMALL_THINGS))
            return ask(Clause(thing, lexicon.BE), where)
        subject, mode = self.choose_subject(), self.choose(PRESENT_OR_PAST)
        if share < 0.65:
            return ask(Clause(subject, self.choose(lexicon.VERBS["located"]), mode), where)
        verbs = tuple(verb for verb in lexicon.VERBS["motion"] if verb.english != "come")
        return ask(Clause(subject, self.choose(verbs), mode), Phrase("where", "wohin"))

    def _ask_for_object(self) -> Phrase:
        """Returns a question about the object: who (wen), what, which, how many."""
        verb = self.choose(lexicon.VERBS["transitive"])
        clause = Clause(self.choose_subject(), verb, self.choose(PRESENT_OR_PAST))
        noun = self.choose(verb.objects)
        if noun in PEOPLE:
            return ask(clause, Phrase("who", "wen"))
        share = self._draw()
        if share < 0.35:
            return ask(clause, Phrase("what", "was"))
        is_single = noun.flag == "mass" or verb.english in lexicon.WORDS["single_object"]
        if share < 0.7 or is_single:
            asked = phrases.build_noun_phrase(noun, phrases.WHICH)
        else:
            asked = phrases.build_noun_phrase(noun, phrases.HOW_MANY, plural=True)
        return ask(clause, Phrase(asked.english, asked.decline("accusative")))

    def make_description(self) -> Phrase:
        """Returns a description of somebody or something, in the present or past."""
        if self.happens(0.4):
            subject, group = self.choose_subject(), "male"
        else:
            noun = self.choose(THINGS)
            determiner = phrases.THE
            if noun.group in OWNED_GROUPS:
                determiner = self.choose((phrases.THE, phrases.THIS, phrases.POSSESSIVES["my"]))
            subject, group = self._describe(noun, determiner), noun.group
        quality = self.choose_quality(group)
        said = subject.english.split()
        if quality.english in said or any(
            quality.english in pair and pair.intersection(said) for pair in lexicon.OPPOSITES
        ):
            return self.make_description()
        share = self._draw()
        if share < 0.2:
            quality = self.choose((Phrase("very", "sehr"), Phrase("too", "zu"))) + quality
        clause = Clause(subject, lexicon.BE, self.choose(PRESENT_OR_PAST), complement=quality)
        if share > 0.85:
            return ask(clause) + QUESTION_MARK
        is_negated = share > 0.7 and not subject.claims_all
        return state(replace(clause, claims_not=is_negated)) + STOP

    def _describe(self, noun: Noun, determiner: phrases.Determiner) -> NounPhrase:
        adjectives = self.choose_adjectives(noun, 0.2)
        plural = self.happens(0.3)
        return phrases.build_noun_phrase(noun, determiner, adjectives, plural=plural)

    def _choose_small_thing(self, noun: Noun) -> NounPhrase:
        return self._describe(noun, self.choose((phrases.THE, phrases.POSSESSIVES["my"])))

    def make_profession(self) -> Phrase:
        """Returns somebody's profession: ist Arzt, but ist ein guter Arzt."""
        is_man = self.happens(0.5)
        share = self._draw()
        if share < 0.4:
            names = lexicon.WORDS["male_names"] if is_man else lexicon.WORDS["female_names"]
            subject = phrases.build_name(self.choose(names), "")
        elif share < 0.6:
            subject = phrases.PRONOUNS["he" if is_man else "she"]
        else:
            relatives = lexicon.NOUNS_OF["kinsman" if is_man else "kinswoman"]
            subject = self.choose_related(relatives)
        noun = self.choose(MALE_PROFESSIONS if is_man else FEMALE_PROFESSIONS)
        is_qualified = self.happens(0.4)
        adjectives = (phrases.inflect(self.choose(PROFESSIONAL)),) if is_qualified else ()
        title = phrases.build_noun_phrase(noun, phrases.A, adjectives)
        german_title = title.decline("nominative") if is_qualified else noun.german
        complement = Phrase(title.english, german_title)
        verb, modes = lexicon.BE, (clauses.PRESENT, clauses.PAST)
        if self.happens(0.3):
            verb, modes = lexicon.VERB_NAMED["become"], (clauses.WANT, clauses.WANTED)
        return state(Clause(subject, verb, self.choose(modes), complement=complement)) + STOP

    def make_position(self) -> Phrase:
        """Returns where a thing lies or stands."""
        noun = self.choose(SMALL_THINGS)
        verb = lexicon.VERB_NAMED["lie"] if noun.flag == "lie" else lexicon.VERB_NAMED["stand"]
        where = self.choose_support(noun, "dative")
        clause = Clause(self._choose_small_thing(noun), verb, complement=where)
        return ask(clause) + QUESTION_MARK if self.happens(0.2) else state(clause) + STOP

    def make_animal(self) -> Phrase:
        """Returns where an animal sits or sleeps."""
        noun = self.choose(PETS)
        plural = self.happens(0.3)
        determiner = self.choose((phrases.THE, phrases.THE, phrases.THIS))
        if plural and self.happens(0.5):
            determiner = phrases.count(self.choose(lexicon.PHRASES["numbers"][:3]))
        adjectives = self.choose_adjectives(noun)
        subject = phrases.build_noun_phrase(noun, determiner, adjectives, plural=plural)
        verb, mode = (
            self.choose((lexicon.VERB_NAMED["sit"], lexicon.VERB_NAMED["sleep"])),
            self.choose(PRESENT_OR_PAST),
        )
        where = self.choose_support(noun, "dative")
        clause = self.add_time(Clause(subject, verb, mode, complement=where), 0.2)
        return ask(clause) + QUESTION_MARK if self.happens(0.2) else state(clause) + STOP

    def make_comparison(self) -> Phrase:
        """Returns a comparison of two people or two things."""
        if self.happens(0.5):
            noun = lexicon.NOUN_NAMED["man"]
            first, second = self.choose_person(may_be_plural=False), self.choose_name()
        else:
            nouns = lexicon.NOUNS_OF[self.choose(lexicon.WORDS["compared_groups"])]
            noun, other = self.choose(nouns), self.choose(nouns)
            if noun is other:
                return self.make_comparison()
            first, second = self.build_definite(noun, 0), self.build_definite(other, 0)
        adjective = self.choose(find_comparable(noun))
        if adjective.english in first.english.split():
            return self.make_comparison()
        standard = Phrase(second.english, second.decline("nominative"))
        if self.happens(0.7):
            english_form, german_form = phrases.inflect(adjective, "comparative")
            quality = Phrase(f"{english_form} than", f"{german_form} als") + standard
            return state(Clause(first, lexicon.BE, complement=quality)) + STOP
        quality = Phrase(f"as {adjective.english} as", f"so {adjective.german} wie") + standard
        is_negated = not first.claims_all and self.happens(0.4)
        return state(Clause(first, lexicon.BE, complement=quality, claims_not=is_negated)) + STOP

    def make_scene(self) -> Phrase:
        """Returns what there is somewhere: es gibt with the accusative."""
        place, nouns = self.choose(lexicon.SCENES)
        noun = self.choose(nouns)
        adjectives = self.choose_adjectives(noun)
        plural = self.happens(0.5)
        determiner = phrases.A
        if plural:
            number = phrases.count(self.choose(lexicon.PHRASES["numbers"]))
            determiner = self.choose((number, number, *phrases.QUANTIFIERS[:1]))
        thing = phrases.build_noun_phrase(noun, determiner, adjectives, plural=plural)
        verb = Phrase("are" if plural else "is", "gibt")
        if self.happens(0.3):
            verb = Phrase("were" if plural else "was", "gab")
        where = self.build_definite(place).follow(Phrase("in", "in"), "dative")
        scene = Phrase(thing.english, thing.decline("accusative")) + where
        subject = Phrase("there", "es")
        if self.happens(0.2):
            return verb + subject + scene + QUESTION_MARK
        return subject + verb + scene + STOP

    def make_request(self) -> Phrase:
        """Returns a polite command or a proposal."""
        is_proposal = self.happens(0.35)
        clause = self.choose_action(phrases.PRONOUNS["we" if is_proposal else "you"])
        if self.happens(0.3):
            clause = replace(clause, time=self.choose_time(clauses.WILL))
        return (clauses.propose(clause) if is_proposal else clauses.request(clause)) + STOP

    def make_reason(self) -> Phrase:
        """Returns a main clause with a because, although or if clause."""
        subject = self.choose_subject()
        if not subject.pronoun:
            return self.make_reason()
        clause = self.choose_clause(subject, PRESENT_OR_PAST)
        pronoun = phrases.PRONOUNS[subject.pronoun]
        is_past = clause.mode.claims_past
        conjunction = self.choose((Phrase("because", ", weil"), Phrase("although", ", obwohl")))
        share = self._draw()
        if share < 0.3 and not is_past:
            weather = self.choose(lexicon.PHRASES["weather"])
            if self.happens(0.5):
                front = Phrase("if", "wenn") + weather + Phrase(",", ",")
                return state(clause, front) + STOP
            return state(clause) + conjunction + weather + STOP
        if share < 0.6:
            adjective = lexicon.ADJECTIVES[self.choose(lexicon.WORDS["states"])]
            quality = Phrase(adjective.english, adjective.german)
            background = Clause(pronoun, lexicon.BE, clause.mode, complement=quality)
        else:
            modals = (clauses.WANTED, clauses.HAD_TO) if is_past else (clauses.WANT, clauses.MUST)
            background = self.choose_action(pronoun)
            background = replace(background, mode=self.choose(modals))
        return state(clause) + conjunction + subordinate(background) + STOP

    def make_report(self) -> Phrase:
        """Returns what somebody knows, believes, says or hopes, or doesn't know."""
        speaker = self.choose((phrases.PRONOUNS["I"], phrases.PRONOUNS["we"], self.choose_name()))
        modes = (*PRESENT_OR_PAST, clauses.WILL, clauses.CAN)
        clause = self.add_time(self.choose_clause(modes=modes), 0.2)
        if self.happens(0.3):
            clause = Clause(self.choose_subject(), lexicon.BE, complement=self.choose_quality())
        # No reports about oneself: `we hope that I sang` would sound odd.
        if clause.subject.pronoun in ("I", "we") or clause.subject.english == speaker.english:
            return self.make_report()
        verbs = (
            lexicon.VERB_NAMED["know"],
            lexicon.VERB_NAMED["believe"],
            lexicon.VERB_NAMED["say"],
            lexicon.VERB_NAMED["hope"],
        )
        reporting, conjunction = Clause(speaker, self.choose(verbs)), Phrase("that", ", dass")
        if self.happens(0.3):
            reporting = Clause(speaker, lexicon.VERB_NAMED["know"], claims_not=True)
            conjunction = Phrase("whether", ", ob")
        return state(reporting) + conjunction + subordinate(clause) + STOP

    def make_relative_clause(self) -> Phrase:
        """Returns a sentence about somebody described by a relative clause."""
        noun = self.choose(STRANGERS)
        plural = self.happens(0.25)
        phrase = phrases.build_noun_phrase(noun, phrases.THE, plural=plural)
        who = phrases.build_relative_pronoun(german.PLURAL if plural else noun.gender)
        relative = subordinate(self.choose_clause(who, PRESENT_OR_PAST))
        subject = replace(
            phrase,
            english=f"{phrase.english} {relative.english}",
            german=tuple(f"{form}, {relative.german}," for form in phrase.german),
        )
        if self.happens(0.4):
            return state(Clause(subject, lexicon.BE, complement=self.choose_quality())) + STOP
        return state(self.choose_clause(subject, PRESENT_OR_PAST)) + STOP

    def make_infinitive_clause(self) -> Phrase:
        """Returns what somebody tries, forgets or begins to do, with zu and the infinitive."""
        subject = self.choose_subject()
        action = self.choose_action(subject)
        verbs = (
            lexicon.VERB_NAMED["try"],
            lexicon.VERB_NAMED["forget"],
            lexicon.VERB_NAMED["begin"],
        )
        # "Begin to stay" would sound odd.
        verb = self.choose(verbs[:2] if action.verb.english == "stay" else verbs)
        outer = state(Clause(subject, verb, self.choose(PRESENT_OR_PAST)))
        inner = clauses.build_infinitive(action)
        return outer + Phrase(inner.english, f", {inner.german}") + STOP

    def make_compound(self) -> Phrase:
        """Returns two main clauses joined by and or but."""
        first = self.choose_clause(modes=PRESENT_OR_PAST)
        second = self.choose_clause(modes=(first.mode,))
        return state(first) + self.choose((AND, BUT)) + state(second) + STOP

    def make_contrast(self) -> Phrase:
        """Returns two qualities of a thing, where `it` has the German gender: er, sie, es."""
        noun = self.choose(THINGS)
        first, second = self.choose_quality(noun.group), self.choose_quality(noun.group)
        if first == second or {first.english, second.english} in lexicon.OPPOSITES:
            return self.make_contrast()
        plural = self.happens(0.3)
        subject = phrases.build_noun_phrase(noun, phrases.THE, plural=plural)
        pronoun = phrases.PRONOUNS["they"] if plural else phrases.IT[noun.gender]
        mode = self.choose(PRESENT_OR_PAST)
        opening = state(Clause(subject, lexicon.BE, mode, complement=first))
        ending = state(Clause(pronoun, lexicon.BE, mode, complement=second))
        return opening + self.choose((AND, BUT)) + ending + STOP


def finish(text: str) -> str:
    """Returns the sentence capitalised, without spaces before punctuation."""
    for mark in (",", ".", "?"):
        text = text.replace(f" {mark}", mark)
    text = text.replace(",,", ",").replace(",.", ".")
    return text[0].upper() + text[1:]


def find_split(german: str) -> str:
    """Returns the split of a German sentence: 90 % train, 5 % dev, 5 % test.

    The German decides, because every English sentence has one German translation: a sentence of
    either side is then in only one split, even if two English sentences share their German.
    """
    share = crc32(german.encode()) % 20
    return "dev" if share == 0 else "test" if share == 1 else "train"


def generate_pairs(split: str, count: int, *, seed: int = 1) -> Iterator[tuple[str, str]]:
    """Yields `count` distinct (English, German) pairs of a split.

    The pairs depend on split, count and seed alone, on every platform and Python version, and a
    shorter request with the same seed is the start of a longer one.
    """
    if split not in PHRASEBOOK_SPLITS:
        raise ValueError(f"split must be one of {', '.join(PHRASEBOOK_SPLITS)}, got {split!r}")
    if not 0 <= count <= MAX_PAIRS[split]:
        raise ValueError(f"count must be between 0 and {MAX_PAIRS[split]} for {split}, got {count}")
    return _draw_pairs(split, count, seed)


def _draw_pairs(split: str, count: int, seed: int) -> Iterator[tuple[str, str]]:
    maker = SentenceMaker(Random(seed))
    seen: set[str] = set()
    while len(seen) < count:
        english, german = maker.make_pair()
        num_words = english.count(" ") + 1
        if not MIN_ENGLISH_WORDS <= num_words <= MAX_ENGLISH_WORDS:
            continue
        if find_split(german) == split and english not in seen:
            seen.add(english)
            yield english, german
