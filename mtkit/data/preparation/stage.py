"""What a stage of preparation is, how it runs, and what stages share.

Finished work is kept; work with changed inputs is repeated.

A stage is a constant at the end of the file that does its work, here or in mtkit/data/selection.
Facts that others read have a type in facts.py; mtkit/data/prepare.py lists all stages in order.
"""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from mtkit.data.preparation.facts import PreparedFacts
from mtkit.data.preparation.preparation_report import PreparationReport
from mtkit.data.preparation.teachers import Teachers
from mtkit.data.preparation.text_store import TextPart, TextStore
from mtkit.data.prepared import FORMAT_VERSION
from mtkit.data.selection.language_models import LanguageModels
from mtkit.data.sources.blocks import Block
from mtkit.data.tokenizer_choice import TokenizerChoice
from mtkit.errors import MtkitError
from mtkit.executor import ONE_WORKER, Executor
from mtkit.files import as_json_text, digest, read_json, write_atomically
from mtkit.folders import building, remove_folder
from mtkit.recipe import Recipe
from mtkit.recipe.corpora import HeldOutCorpus, name_file
from mtkit.recipe.data import Data
from mtkit.recipe.tables import relative_to_root
from mtkit.storage import Url

LEXICON_FILE = "lexicon.json"
LEFT_OUT_FILE = "left_out.npy"
"""Marks rows of the text store that aren't selected, including duplicates, [rows]."""


Rows = list[list[str]]


@dataclass(frozen=True)
class ReportSection:
    """A table with its title and caption.

    Attributes:
        title: On the page.
        caption: A sentence above the table.
        num_text_columns: Columns at the end that hold text, not numbers.
        on_terminal: Whether it is printed as well.
        in_check: Whether a check prints it as well.
        draw: Returns a picture below the page's table, as SVG.
    """

    title: str
    header: Sequence[str]
    rows: Rows
    caption: str = ""
    num_text_columns: int = 0
    on_terminal: bool = True
    in_check: bool = False
    draw: Callable[[], str] | None = None


def share(count: int, total: int) -> str:
    """Returns a count with its share of a total."""
    return f"{count:,} {count / max(1, total):6.2%}"


def make_visible(text: str) -> str:
    """Returns text with unprintable characters written out."""
    return "".join(
        character if character.isprintable() else f"⟨U+{ord(character):04X}⟩" for character in text
    )


class CorpusSample:
    """Blocks evenly spread over each corpus, which a check cleans.

    At most `max_blocks` per corpus are chosen, and at least half as many if there are more.

    Attributes:
        num_rows: Rows of each corpus.
        num_chosen: Rows in chosen blocks.
        num_invalid: Rows of each corpus with invalid UTF-8.
        invalid: The first error of each of those corpora.
        labels: All labels.
    """

    def __init__(self, max_blocks: int, rows_per_block: int) -> None:
        self._max_blocks, self.rows_per_block = max_blocks, rows_per_block
        self.num_rows: Counter[int] = Counter()
        self.num_chosen: Counter[int] = Counter()
        self.num_invalid: Counter[int] = Counter()
        self.invalid: dict[int, MtkitError] = {}
        self.labels: set[str] = set()

    def choose(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yields the sample of a corpus after reading all of it."""
        chosen: list[Block] = []
        stride = 1
        for number, block in enumerate(blocks):
            self.num_rows[block.corpus] += block.num_rows
            # Decoding takes a hundredth of the time of cleaning.
            found = block.decode(drop_invalid=True)
            self.num_invalid[block.corpus] += found.num_invalid
            if found.num_invalid and block.corpus not in self.invalid:
                try:
                    block.decode(drop_invalid=False)
                except MtkitError as error:
                    self.invalid[block.corpus] = error
            self.labels.update(found.columns.get("label", ()))
            if number % stride == 0:
                chosen.append(block)
            if len(chosen) > self._max_blocks:
                chosen, stride = chosen[::2], 2 * stride
        for block in chosen:
            self.num_chosen[block.corpus] += block.num_rows
            yield block

    def scale(self, corpus: int) -> float:
        """Returns how many rows of a corpus there are per chosen row."""
        return self.num_rows[corpus] / max(1, self.num_chosen[corpus])


@dataclass(frozen=True)
class Preparation:
    """A preparation of a recipe's data in progress.

    Attributes:
        draft: Each stage has a folder of its name in it.
        earlier: The data of an earlier preparation, if any.
        models: Runs the language models of `data.cleaning.selection`, if any.
        teachers: Translates the corpora that name a translator, if any.
        found: The facts of the stages so far.
        sample: What a check cleans; None to prepare everything.
        faults: What a check has found.
    """

    recipe: Recipe
    draft: Path
    executor: Executor = ONE_WORKER
    models: LanguageModels | None = None
    teachers: Teachers | None = None
    found: PreparedFacts = field(default_factory=PreparedFacts)
    sample: CorpusSample | None = None
    faults: list[MtkitError] = field(default_factory=list)
    earlier: Path | None = None

    @cached_property
    def choice(self) -> TokenizerChoice:
        """The recipe's tokenizer."""
        return TokenizerChoice.of(self.recipe)

    @property
    def data(self) -> Data:
        """The recipe's section."""
        return self.recipe.data

    @property
    def files(self) -> tuple[str, ...]:
        """The file of each training corpus, from the data root, or its name."""
        return tuple(map(self.name_corpus, range(len(self.data.train))))

    def name_corpus(self, index: int) -> str:
        """Returns the file of a training corpus, from the data root, or its name."""
        file = name_file(self.data.train[index])
        root = self.data.data_root.absolute()
        if isinstance(file, Path) and file.is_relative_to(root):
            return str(file.relative_to(root))
        return file.name if isinstance(file, Path | Url) else file

    @property
    def held_out(self) -> tuple[HeldOutCorpus, ...]:
        """The development and test sets."""
        return (self.data.dev, *self.recipe.evaluation.test_sets)

    @contextmanager
    def listing_faults(self) -> Iterator[None]:
        """Lists a fault that ends the block if this is a check, so that it finds others."""
        try:
            yield
        except MtkitError as error:
            if self.sample is None:
                raise
            if str(error) not in map(str, self.faults):
                self.faults.append(error)

    @property
    def text(self) -> Path:
        """The folder of the cleaned text."""
        return self.draft / "text"

    @property
    def tokenizer(self) -> Path:
        """The folder of the tokenizer."""
        return self.draft / "tokenizer"

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Corpus and number of rows, with duplicates, of each part of the cleaned text."""
        return self.found["text"]["parts"]

    @property
    def left_out(self) -> Path | None:
        """The file that marks rows that aren't selected; None if all are."""
        selects = self.data.cleaning.selection is not None
        return self.draft / "selection" / LEFT_OUT_FILE if selects else None

    @property
    def facts(self) -> dict[str, Any]:
        """`found` as a plain dictionary, for names that are only known at run time."""
        return cast("dict[str, Any]", self.found)

    def note(self, stage: "Stage", facts: Any) -> None:
        """Adds the facts of the next stage."""
        self.facts[stage.name] = facts

    def open_text(self) -> TextStore:
        """Returns the cleaned text, and which of it is selected."""
        return TextStore(self.text, left_out=self.left_out)

    def list_parts(self) -> Iterator[TextPart]:
        """Yields each part of the cleaned text, and which of its rows count."""
        return self.open_text().list_parts(self.parts)

    def describe_text(self) -> list[Any]:
        """Returns what identifies the text that is tokenised."""
        digests, selection = self.found["text"]["digest"], self.found.get("selection")
        return digests if selection is None else [digests, selection["digest"]]

    def dump(self, section: BaseModel, left_out: set[str] | None = None) -> Any:
        """Returns a section's values without some keys, with paths relative to the data root."""
        values = section.model_dump(mode="json", exclude=left_out)
        return relative_to_root(values, str(self.data.data_root))


@dataclass(frozen=True)
class Stage:
    """A step of preparation; it is repeated if something it depends on changes.

    Attributes:
        build: Fills an empty folder, and returns the facts, with a `digest` of its files if any.
        depends: Returns all that the result depends on, given the facts of earlier stages.
        applies: Checks that a recipe has it.
        describe: Returns its sections of the report, from the report and its own facts.
    """

    name: str
    build: Callable[[Preparation, Path], Any]
    depends: Callable[[Preparation], list[Any]]
    applies: Callable[[Preparation], bool] = lambda _: True
    describe: Callable[[PreparationReport, Any], Iterable[ReportSection]] = lambda *_: ()

    def compute_key(self, preparation: Preparation) -> str:
        """Returns a digest of all that the result depends on."""
        return digest([self.name, FORMAT_VERSION, *self.depends(preparation)])


def has_pairs(preparation: Preparation) -> bool:
    """Checks that a recipe learns from sentence pairs."""
    return not preparation.data.is_text


def is_labelled(preparation: Preparation) -> bool:
    """Checks that a recipe learns labels of texts."""
    return preparation.recipe.objective == "classification"


def name_unit(preparation: Preparation) -> str:
    """Returns the name of a row of a recipe's corpora."""
    if is_labelled(preparation):
        return "text"
    return "line" if preparation.data.is_text else "pair"


def needs_alignments(preparation: Preparation) -> bool:
    """Checks that a recipe needs word alignments."""
    is_guided = preparation.recipe.training.guided_alignment is not None
    return is_guided or preparation.data.aligns_terms


_RECORD_FILE = "stage.json"
_MAX_RECORD_BYTES = 1 << 30
"""A record has a few bytes for each part of the text."""
Facts = Mapping[str, Any]
"""The findings of a stage, in a form that JSON allows; see `facts.py`."""


def run_stage(
    folder: Path, earlier: Path, key: str, build: Callable[[Path], Facts]
) -> tuple[Any, bool]:
    """Returns a stage's facts, and whether it was built now rather than reused.

    A stage is whole or missing, so that an interrupted preparation continues with the stages it
    finished. A stage in `folder` or `earlier` with the same key is reused; otherwise `build` fills
    an empty folder and returns the facts.
    """
    for found in (folder, earlier):
        record = read_record(found)
        if record is not None and record["key"] == key:
            if found != folder:
                link_folder(found, folder)
            return record["facts"], False
    with building(folder) as unfinished:
        facts = build(unfinished)
        record = {"key": key, "facts": facts, "files": _list_files(unfinished)}
        write_atomically(unfinished / _RECORD_FILE, as_json_text(record))
    return facts, True


def read_record(folder: Path) -> dict[str, Any] | None:
    """Returns a finished stage's key and facts; None if it isn't finished and whole."""
    path = folder / _RECORD_FILE
    try:
        record = read_json(path, max_bytes=_MAX_RECORD_BYTES) if path.is_file() else None
    except MtkitError:
        return None
    return record if record is not None and record.get("files") == _list_files(folder) else None


def _list_files(folder: Path) -> dict[str, int]:
    """Returns the size of each file of a stage, except its record."""
    return {
        str(path.relative_to(folder)): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != _RECORD_FILE
    }


def link_folder(origin: Path, folder: Path) -> None:
    """Creates a folder that shares another's files, which never change once written."""
    with building(folder) as unfinished:
        for path in sorted(origin.rglob("*")):
            target = unfinished / path.relative_to(origin)
            if path.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            else:
                link(path, target)


def link(path: Path, target: Path) -> None:
    """Makes a file that shares another's content, which never changes once written."""
    try:
        os.link(path, target)
    except OSError:
        # A file system without links.
        shutil.copyfile(path, target)


def clear_stages(draft: Path, names: tuple[str, ...]) -> None:
    """Removes everything in a draft folder except finished stages with these names."""
    if draft.is_dir():
        for path in draft.iterdir():
            if path.name not in names:
                remove_folder(path)
