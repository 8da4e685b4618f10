"""Test sets with their translations in a workspace."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mtkit.data.sources.blocks import decode_text
from mtkit.data.sources.lines import read_lines
from mtkit.files import as_json_text, digest_bytes, read_json, write_atomically, write_lines
from mtkit.locks import locked
from mtkit.workspace import Workspace


@dataclass(frozen=True)
class TranslatedTestSet:
    """A test set with the model's translation of it, sentence by sentence."""

    name: str
    sources: list[str]
    references: list[list[str]]
    hypotheses: list[str]


class TranslationFiles:
    """The files of a test set's translation, and the record of what it was made from.

    A lock serialises concurrent commands, so that the files always match each other.
    """

    def __init__(self, workspace: Workspace, name: str) -> None:
        self._name = name
        self._source = workspace.translations / f"{name}.src"
        self._reference = workspace.translations / f"{name}.ref"
        self._hypothesis = workspace.translations / f"{name}.hyp"
        self._record = workspace.translations / f"{name}.json"

    def read(self) -> TranslatedTestSet:
        """Returns the content of the files."""
        with locked(self._record):
            return TranslatedTestSet(
                self._name,
                sources=list(read_lines(self._source)),
                references=[list(read_lines(path)) for path in self._list_references()],
                hypotheses=list(read_lines(self._hypothesis)),
            )

    def find_model(self) -> str:
        """Returns the digest of the model that the translation is by; empty if it isn't known."""
        if not self._record.is_file():
            return ""
        with locked(self._record):
            record = read_json(self._record)
            is_same = record.get("hypothesis") == digest_bytes(self._hypothesis.read_bytes())
        return str(record.get("model", "")) if is_same else ""

    def take(
        self,
        sources: Sequence[str],
        references: Sequence[Sequence[str]],
        made_from: Mapping[str, object],
    ) -> TranslatedTestSet | None:
        """Returns an existing translation; None if it differs from `made_from` or is incomplete.

        `references` replace the existing ones.
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
        """Writes a translation into the files; returns it as `read` would."""
        self._record.parent.mkdir(parents=True, exist_ok=True)
        with locked(self._record):
            content = write_lines(self._hypothesis, hypotheses)
            record = {**made_from, "hypothesis": digest_bytes(content)}
            write_atomically(self._record, as_json_text(record, is_ascii=True))
            return self._write_text(sources, references, content)

    def _write_text(
        self, sources: Sequence[str], references: Sequence[Sequence[str]], hypotheses: bytes
    ) -> TranslatedTestSet:
        """Writes sources and references next to the hypotheses; returns all three."""
        for path in self._list_references()[len(references) :]:
            path.unlink()
        paths = map(self._find_reference, itertools.count())
        return TranslatedTestSet(
            self._name,
            _split_lines(write_lines(self._source, sources), self._source),
            [
                _split_lines(write_lines(path, lines), path)
                for path, lines in zip(paths, references, strict=False)
            ],
            _split_lines(hypotheses, self._hypothesis),
        )

    def _list_references(self) -> list[Path]:
        """Returns the existing reference files, and always the first."""
        further = map(self._find_reference, itertools.count(1))
        return [self._reference, *itertools.takewhile(Path.is_file, further)]

    def _find_reference(self, index: int) -> Path:
        name = self._reference.name
        return self._reference.with_name(f"{name}{index + 1}" if index else name)


def _split_lines(content: bytes, path: Path) -> list[str]:
    """Returns lines as `read_lines` would."""
    if not content:
        return []
    return decode_text(content, str(path), 1, drop_invalid=False)[0]
