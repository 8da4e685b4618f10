"""Looks at a few lines of each corpus: are they in the languages that the recipe names?"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from mtkit.checks.language import (
    CONFUSED,
    WIDELY_WRITTEN,
    find_label,
    find_majority_language,
    open_identifier,
)
from mtkit.data.preparation.text_store import TextStore
from mtkit.data.sources.string_corpora import contradicts, read_declared_languages
from mtkit.recipe.corpora import (
    Corpus,
    FileCorpus,
    HubCorpus,
    PairedFileCorpus,
    TranslatedCorpus,
    corpus_names,
)
from mtkit.recipe.corpus_files import NUMBERED_FORMATS, STRING_PAIRS
from mtkit.recipe.data import Data
from mtkit.recipe.tables import relative_to_root
from mtkit.text.letters import find_wrong_encoding, is_language_code, name_language

_ROWS = 200
_MAX_PARTS = 4
"""Parts of a corpus that the rows come from."""
_MIN_SURE = 0.7
"""Minimum share of lines in another widely written language that is surely a mistake: texts in one
such language have at most 0.6 of another (docs/log.md)."""
_TAGGED = re.compile(r"[a-z]{2,3}(?![A-Za-z])")


@dataclass(frozen=True)
class LanguageNote:
    """What seems wrong with the languages; if `is_sure`, a check fails."""

    message: str
    hint: str = ""
    is_sure: bool = False
    is_swap: bool = False

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.message, self.hint)))


def note_languages(
    store: TextStore, parts: Sequence[tuple[int, int]], data: Data
) -> Iterator[LanguageNote]:
    """Yields a note for each corpus that seems to be in other languages.

    `parts` has the corpus of each part of the text and its rows. Languages that the identification
    doesn't know aren't judged.
    """
    of_recipe = {"text": data.language} if data.is_text else _by_column(data.languages)
    yield from note_codes(
        list(of_recipe.values()), "set data.source_language or data.target_language"
    )
    for index, (corpus, name) in enumerate(zip(data.train, corpus_names(data.train), strict=True)):
        numbers = [number for number, part in enumerate(parts) if part[0] == index]
        if not numbers:
            continue
        tagged = find_tagged_language(corpus)
        # Such a corpus may be of any direction.
        languages = {"target": tagged} if tagged else of_recipe
        yield from _compare_declared(corpus, languages)
        rows = _read_rows(store, numbers)
        if isinstance(corpus, TranslatedCorpus) and corpus.translated_by:
            notes = _compare_found(corpus, name, rows, languages, data)
            yield from (
                LanguageNote(note.message, "if the file is right, its translator is too weak")
                for note in notes
            )
            continue
        found = list(_compare_found(corpus, name, rows, languages, data))
        yield from found
        # The letters of the other language look like a wrong encoding.
        is_swapped = any(note.is_swap for note in found)
        for column, code in () if is_swapped else languages.items():
            if encoding := find_wrong_encoding(rows[column], code):
                yield LanguageNote(
                    f"{name}: the {column} side looks like {encoding} that was read as "
                    "WINDOWS-1252",
                    "convert the original file again, from that encoding",
                )


def note_codes(codes: Sequence[str], remedy: str) -> Iterator[LanguageNote]:
    """Yields a note for each code that isn't in ISO 639, and one if both sides have the same."""
    for code in dict.fromkeys(codes):
        if not is_language_code(code):
            yield LanguageNote(f'"{code}" isn\'t a language code of ISO 639: is it misspelt?')
    if len(codes) > 1 and codes[0] == codes[1]:
        yield LanguageNote(
            f"source and target have the same language, {codes[0]}",
            f"if that is a mistake, {remedy}",
        )


def find_tagged_language(corpus: Corpus) -> str:
    """Returns the target language that a corpus's tag names: `<de>`, `>>deu<<`; "" without one."""
    code = corpus.tag.strip("<>")
    return code if _TAGGED.match(code) and is_language_code(code) else ""


def _by_column(languages: tuple[str, str]) -> dict[str, str]:
    return dict(zip(("source", "target"), languages, strict=True))


def _compare_declared(corpus: Corpus, languages: Mapping[str, str]) -> Iterator[LanguageNote]:
    """Yields a note if a file of strings declares other languages than the recipe."""
    if not isinstance(corpus, PairedFileCorpus) or corpus.format not in STRING_PAIRS:
        return
    wanted = languages.get("source", ""), languages.get("target", "")
    declared = _by_column(read_declared_languages(corpus.path, wanted))
    wrong = {
        column: re.split("[^A-Za-z]", declared[column])[0]
        for column, language in languages.items()
        if contradicts(declared[column], language)
    }
    if wrong:
        yield LanguageNote(
            f"{corpus.path}: "
            + ", ".join(
                f'its {column} language is "{declared[column]}", and the recipe says '
                f"{languages[column]}"
                for column in wrong
            ),
            "if the text is in the recipe's language, correct the file's header; otherwise "
            + _explain_languages(wrong, corpus),
            is_sure=True,
        )


def _compare_found(
    corpus: Corpus,
    name: str,
    rows: Mapping[str, Sequence[str]],
    languages: Mapping[str, str],
    data: Data,
) -> Iterator[LanguageNote]:
    """Yields a note if rows are in other languages than the recipe names."""
    known = open_identifier().labels
    labels = {column: find_label(code, known) for column, code in languages.items()}
    others = dict(zip(labels, reversed(labels.values()), strict=True))
    seen = {column: find_majority_language(rows[column]) for column in labels}
    foreign = {
        column: found
        for column, (found, _) in seen.items()
        if found != labels[column]
        and not any({found, labels[column]} <= group for group in CONFUSED)
    }
    wrong = {column: found for column, found in foreign.items() if found and labels[column]}
    crossed = {column: found for column, found in foreign.items() if found == others[column]}
    # A side in a language that the identification doesn't know says nothing of the other.
    is_swapped = bool(crossed) and all(
        column in crossed or (column in foreign and others[column] is None) for column in labels
    )
    told = crossed if is_swapped else wrong
    if not told:
        return
    sure = {
        column: found
        for column, found in told.items()
        if seen[column][1] >= _MIN_SURE and {found, labels[column] or found} <= set(WIDELY_WRITTEN)
    }
    described = ", ".join(
        f"{seen[column][1]:.0%} of the {column} lines look like {name_language(found)}, and the "
        f"recipe says {languages[column]}"
        for column, found in told.items()
    )
    if is_swapped:
        message = f"{name}: source and target seem to be swapped: {described}"
        yield LanguageNote(message, _explain_swap(corpus, data), bool(sure), is_swap=True)
    else:
        # A small language that the identification doesn't know looks a little like another.
        hint = f"{_explain_languages(sure or told, corpus)}, or name another file or column"
        yield LanguageNote(f"{name}: is the language right? {described}", hint, bool(sure))


def _read_rows(store: TextStore, numbers: Sequence[int]) -> dict[str, list[str]]:
    """Returns some rows of some parts, by column."""
    chosen = numbers[:: max(1, -(-len(numbers) // _MAX_PARTS))]
    rows: dict[str, list[str]] = {column: [] for column in store.columns}
    for number in chosen:
        part = store.read_part(number)
        step = max(1, part.num_rows * len(chosen) // _ROWS)
        some = part.take(pa.array(range(0, part.num_rows, step)))
        for column, values in some.to_pydict().items():
            rows[column] += values
    return rows


def _explain_languages(codes: Mapping[str, str], corpus: Corpus) -> str:
    if find_tagged_language(corpus):
        return "correct its tag"
    keys = {"text": "language", "source": "source_language", "target": "target_language"}
    return "set " + " and ".join(f'data.{keys[each]} = "{code}"' for each, code in codes.items())


def _explain_swap(corpus: Corpus, data: Data) -> str:
    """Returns how a recipe swaps the sides of a corpus."""
    if isinstance(corpus, FileCorpus):
        files = relative_to_root([str(corpus.target), str(corpus.source)], str(data.data_root))
        return 'swap the files: source = "{}", target = "{}"'.format(*files)
    columns: tuple[int | str, int | str] = ("", "")
    if isinstance(corpus, HubCorpus | PairedFileCorpus):
        columns = (corpus.target_column, corpus.source_column)
    if isinstance(corpus, PairedFileCorpus) and corpus.format in NUMBERED_FORMATS:
        columns = (columns[0] or 2, columns[1] or 1)
    if all(columns):
        source, target = map(json.dumps, columns)
        return (
            f"set source_column = {source} and target_column = {target} for it, and for other "
            "corpora and sets of this form"
        )
    return _explain_languages(_by_column((data.target_language, data.source_language)), corpus)
