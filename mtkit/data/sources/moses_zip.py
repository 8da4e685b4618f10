"""Moses archives as OPUS distributes them: a zip with two aligned text files and other files."""

import io
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from mtkit.data.sources.lines import (
    LineDecoder,
    LineReader,
    LineSource,
    buffered,
    check_has_content,
    reporting_damage,
)
from mtkit.data.sources.tables import TableColumns, list_names
from mtkit.errors import MtkitError
from mtkit.storage import Location, open_location


@contextmanager
def open_zip(path: Location, wanted: TableColumns) -> Iterator[LineSource]:
    """Opens a Moses archive; exactly one pair of members must be named by the two languages."""
    check_has_content(path)
    with ExitStack() as stack:
        opened = stack.enter_context(open_location(path))
        with reporting_damage(path, "zip"):
            archive = stack.enter_context(zipfile.ZipFile(opened))
        readers = [
            stack.enter_context(_open_member(archive, name, path))
            for name in _find_members(archive, path, wanted.languages)
        ]
        names = tuple(reader.name for reader in readers)
        yield LineSource(readers, LineDecoder(names, tuple(wanted.columns)))


def _find_members(
    archive: zipfile.ZipFile, path: Location, languages: tuple[str, str]
) -> tuple[str, str]:
    source_language, target_language = languages
    members = [name for name in archive.namelist() if not name.endswith("/")]
    sources = _members_in(members, source_language)
    targets = _members_in(members, target_language)
    stems = [stem for stem in sources if stem in targets]
    if len(stems) == 1:
        return sources[stems[0]], targets[stems[0]]
    if stems:
        raise MtkitError(
            f"{path}: {len(stems)} pairs of files ending in .{source_language} and "
            f".{target_language}: {list_names(stems)}",
            "unzip it, and give the two files of one pair as source and target",
        )
    raise MtkitError(
        f"{path}: expected files NAME.{source_language} and NAME.{target_language}, found "
        f"{list_names(members)}",
        "unzip it, and give the two files as source and target",
    )


def _members_in(members: list[str], language: str) -> dict[str, str]:
    """Returns the members with a language code as their ending, by the name before it."""
    return {
        stem: name
        for name in members
        for stem, _, ending in [name.rpartition(".")]
        if ending.lower().replace("_", "-") == language.lower().replace("_", "-")
    }


def _open_member(archive: zipfile.ZipFile, name: str, path: Location) -> LineReader:
    try:
        with reporting_damage(path, "zip", lambda: f" at {name}"):
            stream: io.BufferedIOBase = archive.open(name)  # type: ignore[assignment]
    except (RuntimeError, NotImplementedError) as error:
        # A password, or a compression method unknown to Python.
        raise MtkitError(
            f"{path}: {name} can't be extracted: {error}",
            "unzip it with another program, and give the two files as source and target",
        ) from error
    return LineReader(buffered(stream), path, name=f"{path}/{name}", compression="zip")
