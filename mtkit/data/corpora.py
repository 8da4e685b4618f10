"""Pairs of lines out of files, data sets and the phrasebook; faults are told by file and line."""

import gzip
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, cast

from mtkit.data.phrasebook import generate_pairs
from mtkit.errors import MtkitError
from mtkit.recipe.data import FileCorpus, HubCorpus, PhrasebookCorpus

AnyCorpus = FileCorpus | HubCorpus | PhrasebookCorpus
Pair = tuple[str, str]

BYTE_ORDER_MARK = "\ufeff"
"""What editors on Windows put before the first line of UTF-8; no part of it."""


def read_pairs(
    corpus: AnyCorpus, *, phrasebook_split: str, source_language: str, target_language: str
) -> Iterator[Pair]:
    """Yields a corpus's source and target lines, one pair at a time, in order.

    Args:
        corpus: An entry of the recipe.
        phrasebook_split: The split that the embedded corpus stands for here: train, dev or test.
        source_language: Key of the source in a data set's `translation` column.
        target_language: Key of the target.

    Raises:
        MtkitError: A file that is missing, empty, no UTF-8 or longer than its partner; a data set
            that can't be read.
    """
    match corpus:
        case FileCorpus():
            check_files(corpus)
            yield from _read_files(corpus.source, corpus.target)
        case HubCorpus():
            yield from _read_data_set(corpus, source_language, target_language)
        case PhrasebookCorpus():
            if (source_language, target_language) != ("en", "de"):
                raise MtkitError(
                    f"the phrasebook is English-German, but the recipe says {source_language}-"
                    f"{target_language}",
                    'set data.source_language to "en" and data.target_language to "de"',
                )
            yield from generate_pairs(phrasebook_split, corpus.sentences)


def read_lines(path: Path) -> Iterator[str]:
    r"""Yields a text file's lines without their ends.

    Only "\n" ends a line, and a "\r" before it belongs to it; a byte-order mark is no part of the
    first; a name in `.gz` is decompressed.

    Raises:
        MtkitError: The file can't be read, or a line is no UTF-8.
    """
    _check_is_file(path, "is its name right?")
    number = 0
    try:
        with _open(path) as stream:
            for line in stream:
                number += 1
                text = line.decode("utf-8").removesuffix("\n").removesuffix("\r")
                yield text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text
    except UnicodeDecodeError as error:
        raise MtkitError(
            f"{path}:{number}: byte {error.start + 1} of the line is no UTF-8 "
            f"(0x{error.object[error.start]:02x})",
            _explain_encoding(path, number, error.object),
        ) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise MtkitError(f"{path}: damaged gzip file after line {number}: {error}") from error


def _explain_encoding(path: Path, number: int, line: bytes) -> str:
    """Returns what to do about a line that is no UTF-8."""
    if number == 1 and line.startswith(b"\x1f\x8b"):
        return f"it is gzip'd: call it {path.name}.gz"
    if number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff")):
        return f"it is UTF-16: iconv -f UTF-16 -t UTF-8 {path.name} > {path.stem}.utf8"
    return (
        f"convert it: iconv -f WINDOWS-1252 -t UTF-8 {path.name} > {path.stem}.utf8, "
        "if that is what it is in"
    )


def count_lines(path: Path) -> int:
    """Returns how many lines `read_lines` yields."""
    return sum(1 for _ in read_lines(path))


def _read_files(source: Path, target: Path) -> Iterator[Pair]:
    number = 0
    for number, (source_line, target_line) in enumerate(
        zip_longest(read_lines(source), read_lines(target)), start=1
    ):
        if source_line is None or target_line is None:
            raise _unequal(source, target, number)
        yield source_line, target_line
    if number == 0:
        raise MtkitError(f"{source} and {target}: no lines in them", "is the file complete?")


def _unequal(source: Path, target: Path, first_unpaired: int) -> MtkitError:
    longer = source if count_lines(source) >= first_unpaired else target
    return MtkitError(
        f"{source} has {count_lines(source):,} lines, but {target} has {count_lines(target):,}: "
        f"the two must pair line by line, and {longer}:{first_unpaired} is the first without a "
        "partner",
        "find where they part: a missing or doubled line shifts all that follow",
    )


def check_files(corpus: FileCorpus) -> None:
    """Returns if both files of a corpus are there and hold something.

    Raises:
        MtkitError: One is missing, a folder, or empty.
    """
    for path in (corpus.source, corpus.target):
        _check_is_file(
            path, "corpus paths start from data_root: --set data.data_root=FOLDER moves them all"
        )
        if path.stat().st_size == 0:
            raise MtkitError(f"{path}: no lines in it", "is the file complete?")


def _check_is_file(path: Path, hint: str) -> None:
    if path.is_file():
        return
    near = [path.with_name(path.name + ".gz"), path.with_suffix("")]
    found = [str(other) for other in near if other.is_file()]
    what = "is a folder, not a text file" if path.is_dir() else "no such file"
    raise MtkitError(
        f"{path}: {what}",
        f"there is {found[0]}: name that one" if found else hint,
    )


def _open(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _read_data_set(corpus: HubCorpus, source_language: str, target_language: str) -> Iterator[Pair]:
    # Imported here: the library takes a second, and most recipes read files.
    import datasets  # noqa: PLC0415

    number = 0
    try:
        rows = datasets.load_dataset(
            corpus.dataset, corpus.configuration, split=corpus.split, streaming=True
        )
        for row in rows:
            number += 1
            yield _pair_of_row(row, number, corpus, source_language, target_language)
    except (OSError, ValueError, RuntimeError) as error:
        place = f", after row {number}" if number else ""
        raise MtkitError(
            f"data set {corpus.dataset} ({corpus.configuration}, {corpus.split}){place}: {error}",
            "check its name, configuration and split, and that this machine reaches the hub; "
            "or name two text files instead: source = ..., target = ...",
        ) from error


def _pair_of_row(
    row: dict[str, Any], number: int, corpus: HubCorpus, source_language: str, target_language: str
) -> Pair:
    pair = row.get("translation")
    if not isinstance(pair, dict) or not {source_language, target_language} <= pair.keys():
        raise MtkitError(
            f"data set {corpus.dataset}, row {number}: expected a `translation` column with "
            f"'{source_language}' and '{target_language}', found columns {sorted(row)}"
            + (f" with {sorted(pair)}" if isinstance(pair, dict) else "")
        )
    # A sentence is a line here, so a line break within one is a space; a missing one is blank.
    source, target = pair[source_language] or "", pair[target_language] or ""
    return " ".join(source.splitlines()), " ".join(target.splitlines())
