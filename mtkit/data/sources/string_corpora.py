"""Files of programs' strings: PO, MO and XLIFF with both languages, others with one a file."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from mtkit.checks.language import name_label
from mtkit.data.sources.lines import check_has_content, opening
from mtkit.data.sources.tables import TableColumns, list_names
from mtkit.data.sources.values import RawRows, ValueSource
from mtkit.errors import MtkitError
from mtkit.recipe.corpus_files import FORMATS, STRING_FORMATS, ending_of
from mtkit.storage import Location
from mtkit.text.string_files.read_strings import find_languages, read_strings, read_translations

_PAIR = ("source", "target")
_CODE = re.compile(r"(?!und|mul|mis)[A-Za-z]{2,3}(?![A-Za-z])")
_Found = TypeVar("_Found")


@contextmanager
def open_string_pairs(path: Location, wanted: TableColumns) -> Iterator[ValueSource]:
    """Opens a PO, MO or XLIFF file; only finished translations are rows.

    XLIFF may hold files in several languages: those of others are skipped.
    """
    yield ValueSource(_read_pairs(path, wanted.languages), _PAIR, str(path))


def _read_pairs(path: Location, languages: tuple[str, str]) -> RawRows:
    pairs = list(_read(path, read_translations, FORMATS))
    if not pairs:
        raise MtkitError(
            f"{path}: no finished translation in it",
            "fuzzy, obsolete, unreviewed and blank ones aren't read",
        )
    declared = dict.fromkeys(pair.languages for pair in pairs)
    wanted = [each for each in declared if len(declared) == 1 or _fits(each, languages)]
    if not wanted:
        raise MtkitError(
            f"{path}: none of its {len(pairs):,} translations is from '{languages[0]}' to "
            f"'{languages[1]}'; found: {list_names([' to '.join(each) for each in declared])}",
            "check data.source_language and data.target_language",
        )
    for pair in pairs:
        is_wanted = pair.languages in wanted
        yield (pair.source.encode(), pair.target.encode()) if is_wanted else None


def read_declared_languages(path: Location, wanted: tuple[str, str]) -> tuple[str, str]:
    """Returns the codes that a PO, MO or XLIFF file names; empty where it names none.

    Of several files in XLIFF those of one with the wanted languages, if there is one.
    """
    declared = list(_read(path, find_languages, FORMATS)) or [("", "")]
    return next((each for each in declared if _fits(each, wanted)), declared[0])


def _fits(declared: tuple[str, str], wanted: tuple[str, str]) -> bool:
    return not any(map(contradicts, declared, wanted))


def contradicts(declared: str, language: str) -> bool:
    """Checks that a file declares another language; a missing code contradicts nothing."""
    code = _CODE.match(declared)
    if code is None or not language:
        return False
    return name_label(code[0]) != name_label(language)


@contextmanager
def open_keyed_strings(source: Location, target: Location) -> Iterator[ValueSource]:
    """Opens two files of keyed strings, paired by key; strings without a partner are skipped."""
    yield ValueSource(_pair_by_key(source, target), _PAIR, f"{source} and {target}")


def _pair_by_key(source: Location, target: Location) -> RawRows:
    """Yields the pairs in the order of the sources; those of a repeated key in its order."""
    has_pairs = False
    targets: defaultdict[str, list[str]] = defaultdict(list)
    for each in reversed(list(_read(target, read_strings, STRING_FORMATS))):
        targets[each.key].append(each.text)
    for each in _read(source, read_strings, STRING_FORMATS):
        if texts := targets[each.key]:
            has_pairs = True
            # Half of a surrogate pair becomes invalid UTF-8, which is reported by row later.
            source_text, target_text = each.text, texts.pop()
            yield tuple(text.encode(errors="surrogatepass") for text in (source_text, target_text))
        else:
            yield None
    if not has_pairs:
        raise MtkitError(f"{source} and {target}: no key in common", "are they of one program?")
    yield from (None for texts in targets.values() for _ in texts)


def _read(
    path: Location, read: Callable[[bytes, str], Iterator[_Found]], formats: Mapping[str, str]
) -> Iterator[_Found]:
    """Yields what a file holds; errors name the file."""
    check_has_content(path)
    with opening(path) as stream:
        content = stream.read()
    try:
        yield from read(content, formats[ending_of(path)])
    except MtkitError as error:
        raise MtkitError(f"{path}: {error.message}", error.hint) from error
