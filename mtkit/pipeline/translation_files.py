"""Test sets with their translations, as a workspace keeps them."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mtkit.data.sources.lines import decode_text, read_lines
from mtkit.digests import digest_bytes
from mtkit.files import read_json, write_atomically
from mtkit.locks import locked
from mtkit.workspace import Workspace


@dataclass(frozen=True)
class TranslatedTestSet:
    """A test set with the model's translation of it, sentence by sentence.

    Attributes:
        name: The test set's name.
        sources: What was translated.
        references: Sets of translations that people made.
        hypotheses: The translations that the model made.
    """

    name: str
    sources: list[str]
    references: list[list[str]]
    hypotheses: list[str]


class TranslationFiles:
    """The files of a test set's translation, and the record of what it was made from.

    Commands that use them at once write them in turn, so that they always belong together.

    Args:
        workspace: Whose translations they are.
        name: The test set's.
    """

    def __init__(self, workspace: Workspace, name: str) -> None:
        self._name = name
        self._source = workspace.translations / f"{name}.src"
        self._reference = workspace.translations / f"{name}.ref"
        self._hypothesis = workspace.translations / f"{name}.hyp"
        self._record = workspace.translations / f"{name}.json"

    def read(self) -> TranslatedTestSet:
        """Returns what the files hold."""
        with locked(self._record):
            return TranslatedTestSet(
                self._name,
                sources=list(read_lines(self._source)),
                references=[list(read_lines(path)) for path in self._list_references()],
                hypotheses=list(read_lines(self._hypothesis)),
            )

    def take(
        self,
        sources: Sequence[str],
        references: Sequence[Sequence[str]],
        made_from: Mapping[str, object],
    ) -> TranslatedTestSet | None:
        """Returns a translation that is there already; None where it is another or incomplete.

        Args:
            sources: What is translated.
            references: Replace the references that are there.
            made_from: What the hypotheses must depend on.
        """
        if not self._record.is_file():
            return None
        with locked(self._record):
            if not self._hypothesis.is_file():
                return None
            content = self._hypothesis.read_bytes()
            if read_json(self._record) != {**made_from, "hypothesis": digest_bytes(content)}:
                return None
            return self._write_text(sources, references, content)

    def write(
        self,
        sources: Sequence[str],
        references: Sequence[Sequence[str]],
        hypotheses: Sequence[str],
        made_from: Mapping[str, object],
    ) -> TranslatedTestSet:
        """Writes a translation into the files; returns it as reading them gives it.

        Args:
            sources: What was translated.
            references: Sets of translations that people made.
            hypotheses: Those that the model made.
            made_from: What they depend on.
        """
        self._record.parent.mkdir(parents=True, exist_ok=True)
        with locked(self._record):
            content = _write_lines(self._hypothesis, hypotheses)
            record = {**made_from, "hypothesis": digest_bytes(content)}
            write_atomically(self._record, json.dumps(record, indent=2, allow_nan=False) + "\n")
            return self._write_text(sources, references, content)

    def _write_text(
        self, sources: Sequence[str], references: Sequence[Sequence[str]], hypotheses: bytes
    ) -> TranslatedTestSet:
        """Writes sources and references beside the hypotheses; returns all three."""
        for path in self._list_references()[len(references) :]:
            path.unlink()
        paths = map(self._find_reference, itertools.count())
        return TranslatedTestSet(
            self._name,
            _split_lines(_write_lines(self._source, sources), self._source),
            [
                _split_lines(_write_lines(path, lines), path)
                for path, lines in zip(paths, references, strict=False)
            ],
            _split_lines(hypotheses, self._hypothesis),
        )

    def _list_references(self) -> list[Path]:
        """Returns the files of references that are there, the first in any case."""
        further = map(self._find_reference, itertools.count(1))
        return [self._reference, *itertools.takewhile(Path.is_file, further)]

    def _find_reference(self, index: int) -> Path:
        name = self._reference.name
        return self._reference.with_name(f"{name}{index + 1}" if index else name)


def _write_lines(path: Path, lines: Sequence[str]) -> bytes:
    """Writes lines into a file; returns its bytes."""
    text = "".join(f"{line}\n" for line in lines)
    write_atomically(path, text)
    return text.encode()


def _split_lines(content: bytes, path: Path) -> list[str]:
    """Returns lines as `read_lines` gives them."""
    if not content:
        return []
    return decode_text(content.removesuffix(b"\n"), str(path), 1, drop_invalid=False)[0]
