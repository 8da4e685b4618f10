"""Word alignments of phrasebook sentences that its grammar knows, for alignment.py.

    python benchmarks/phrasebook_gold.py OUTPUT [--pairs 500]
    python benchmarks/alignment.py OUTPUT/gold OUTPUT/en OUTPUT/de --model FOLDER --of-gold-words

The links are those of nouns, adjectives, names, places, numbers and days: a word of the lexicon, in
any form that the grammar gives it, to the one word of the other sentence that is a form of its
translation. Articles, verbs and prepositions have none, and neither have words that occur twice.
"""

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from mtkit.data.phrasebook import english, generate_pairs, german, lexicon

WORD = re.compile(r"[^\s.,!?]+|[.,!?]")


def list_forms() -> dict[str, set[str]]:
    """Returns the forms of the German translation for each English form of one word."""
    found: dict[str, set[str]] = defaultdict(set)
    for noun in lexicon.NOUNS:
        for form, is_plural in ((noun.english, False), (noun.english_plural, True)):
            found[form] |= {
                german.decline_noun(noun, case, plural=is_plural) for case in german.CASES
            }
    for adjective in lexicon.ADJECTIVES.values():
        degrees = (adjective.english, *english.compare_adjective(adjective.english))
        stems = (adjective.german, adjective.comparative, adjective.superlative)
        for form, stem in zip(degrees, stems, strict=True):
            endings = ("", "e", "en", "er", "em", "es")
            found[form] |= {lexicon.drop_unstressed_e(stem) + ending for ending in endings}
            found[form].add(stem)
    for name in ("cities", "countries", "numbers", "weekdays"):
        for phrase in lexicon.PHRASES[name]:
            found[phrase.english].add(phrase.german)
    for name in (*lexicon.WORDS["male_names"], *lexicon.WORDS["female_names"]):
        found[name] |= {name, f"{name}s"}
        found[f"{name}'s"].add(f"{name}s")
    return {
        form: {each for each in forms if " " not in each}
        for form, forms in found.items()
        if " " not in form
    }


def link(source: list[str], target: list[str], forms: dict[str, set[str]]) -> list[tuple[int, int]]:
    """Returns the links that are certain, both from 0."""
    counts = Counter(source)
    links = []
    for index, word in enumerate(source):
        known = forms.get(word, forms.get(word[:1].lower() + word[1:], set()))
        places = [place for place, other in enumerate(target) if other in known]
        if counts[word] == 1 and len(places) == 1:
            links.append((index, places[0]))
    taken = Counter(place for _, place in links)
    return [each for each in links if taken[each[1]] == 1]


def list_pairs(count: int) -> Iterator[tuple[str, str, str]]:
    forms = list_forms()
    for pair in generate_pairs("test", count):
        source, target = (WORD.findall(line) for line in pair)
        links = link(source, target, forms)
        gold = " ".join(f"{first + 1}-{second + 1}" for first, second in links)
        yield gold, " ".join(source), " ".join(target)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("--pairs", type=int, default=500)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    rows = list(list_pairs(options.pairs))
    for number, name in enumerate(("gold", "en", "de")):
        content = "".join(f"{row[number]}\n" for row in rows)
        (options.output / name).write_text(content, "utf-8")
    num_links = sum(len(row[0].split()) for row in rows)
    num_words = sum(len(row[1].split()) for row in rows)
    print(f"{len(rows):,} pairs, {num_words:,} English words, {num_links:,} of them linked")


if __name__ == "__main__":
    main()
