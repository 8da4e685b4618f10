"""Files of programs' strings: PO, MO and XLIFF with both languages, others with one a file."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from mtkit.data.sources.lines import check_has_content, opening
from mtkit.data.sources.tables import TableColumns
from mtkit.data.sources.values import RawRows, ValueSource, encode_rows
from mtkit.errors import MtkitError
from mtkit.recipe.corpus_files import FORMATS, STRING_FORMATS, ending_of
from mtkit.storage import Location
from mtkit.text.string_files.read_strings import find_languages, read_strings, read_translations

_PAIR = ("source", "target")
_Found = TypeVar("_Found")


@contextmanager
def open_string_pairs(path: Location, wanted: TableColumns) -> Iterator[ValueSource]:
    """Opens a PO, MO or XLIFF file; only finished translations are rows."""
    del wanted
    pairs = ((each.source, each.target) for each in _read(path, read_translations, FORMATS))
    yield ValueSource(encode_rows(pairs), _PAIR, str(path))


def read_declared_languages(path: Location) -> tuple[str, str]:
    """Returns the codes that a PO, MO or XLIFF file names; empty where it names none."""
    return next(_read(path, find_languages, FORMATS), ("", ""))


@contextmanager
def open_keyed_strings(source: Location, target: Location) -> Iterator[ValueSource]:
    """Opens two files of keyed strings, paired by key; strings without a partner are skipped."""
    yield ValueSource(_pair_by_key(source, target), _PAIR, f"{source} and {target}")


def _pair_by_key(source: Location, target: Location) -> RawRows:
    """Yields the pairs in the order of the sources; those of a repeated key in its order."""
    targets: defaultdict[str, list[str]] = defaultdict(list)
    for each in reversed(list(_read(target, read_strings, STRING_FORMATS))):
        targets[each.key].append(each.text)
    for each in _read(source, read_strings, STRING_FORMATS):
        if texts := targets[each.key]:
            # Half of a surrogate pair becomes invalid UTF-8, which is reported by row later.
            source_text, target_text = each.text, texts.pop()
            yield tuple(text.encode(errors="surrogatepass") for text in (source_text, target_text))
        else:
            yield None
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
