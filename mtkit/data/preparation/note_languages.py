"""Looks at a few lines of each corpus: are they in the languages that the recipe names?"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from mtkit.checks.language import CONFUSED, find_label, find_majority_language, open_identifier
from mtkit.data.preparation.text_store import TextStore
from mtkit.text.letters import find_wrong_encoding, is_language_code, name_language

_ROWS = 200
_MAX_PARTS = 4
"""Parts of a corpus that the rows come from."""


def note_languages(
    store: TextStore,
    parts: Sequence[tuple[int, int]],
    names: Sequence[str],
    languages: Mapping[str, str],
) -> Iterator[str]:
    """Yields a sentence for each corpus that seems to be in other languages.

    `parts` has the corpus of each part of the text and its rows, `names` those of the corpora, and
    `languages` the language of each column. Languages that the identification doesn't know aren't
    judged.
    """
    codes = list(languages.values())
    for code in dict.fromkeys(codes):
        if not is_language_code(code):
            yield f'"{code}" isn\'t a language code of ISO 639: is it misspelt?'
    if len(codes) > 1 and codes[0] == codes[1]:
        yield f"source and target have the same language, {codes[0]}: is that right?"
    for corpus, name in enumerate(names):
        rows = _read_rows(store, [number for number, part in enumerate(parts) if part[0] == corpus])
        seen = {column: _find_other(rows[column], code) for column, code in languages.items()}
        wrong = {column: code for column, code in seen.items() if code}
        labels = [find_label(code, open_identifier().labels) for code in codes]
        if len(wrong) > 1 and list(seen.values()) == labels[::-1]:
            yield f"{name}: source and target seem to be swapped: {_describe(wrong, languages)}"
        elif wrong:
            yield f"{name}: is the language right? {_describe(wrong, languages)}"
        for column, code in languages.items():
            if encoding := find_wrong_encoding(rows[column], code):
                yield (
                    f"{name}: the {column} side looks like {encoding} that was read as "
                    "WINDOWS-1252: convert the original file again, from that encoding"
                )


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


def _find_other(lines: Sequence[str], language: str) -> str:
    """Returns the label of the language that lines are in, if it is another than expected."""
    expected = find_label(language, open_identifier().labels)
    found = find_majority_language(lines) if expected else ""
    if found == expected or any({found, expected} <= group for group in CONFUSED):
        return ""
    return found


def _describe(found: Mapping[str, str], languages: Mapping[str, str]) -> str:
    return ", ".join(
        f"most {column} lines look like {name_language(code)}, and the recipe says "
        f"{languages[column]}"
        for column, code in found.items()
    )
