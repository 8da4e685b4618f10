"""A preparation without writing data: `mtkit prepare --check`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from math import expm1
from operator import mul
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from mtkit.data.batches.token_store import PAIR_COLUMNS
from mtkit.data.normalization import choose_normalization, note_changed_targets
from mtkit.data.preparation.clean_corpora import (
    CleaningTally,
    clean_blocks,
    nothing_left,
    read_training_blocks,
)
from mtkit.data.preparation.cleaned_block import CleanedBlock, CleaningJob
from mtkit.data.preparation.duplicates import KeyFiles
from mtkit.data.preparation.facts import CorpusFacts, ReportedCorpus, ReportedSelection
from mtkit.data.preparation.held_out import read_held_out_rows, tokenize_dev
from mtkit.data.preparation.report import (
    EpochSize,
    Report,
    TextEpochSize,
    note_corpora,
    note_epoch,
)
from mtkit.data.selection.estimate import estimate_selection
from mtkit.data.selection.language_models import LanguageModels
from mtkit.data.tokenizer_choice import TokenizerChoice
from mtkit.errors import MtkitError
from mtkit.recipe import Recipe
from mtkit.recipe.corpora import HeldOutCorpus, corpus_names
from mtkit.recipe.data import Data
from mtkit.text.normalization import Normalization
from mtkit.text.tokenizer import SubwordTokenizer

Row = tuple[str, ...]
"""A pair, or a line of text in one language."""

_SAMPLE_ROWS = 50_000
"""Pairs or lines by which tokens are estimated, at most."""
_MIN_PIECES = 64
_BYTES_PER_PAIR = 36
"""What a pair takes beside tokens and text: offsets, its index in length order, a mark."""
_BYTES_PER_LINE = 17
"""What a line of text takes: an offset, the number of its document, a mark."""
_BYTES_PER_BLOCK = 16
"""What a block takes beside its tokens: an offset, its index, the number of its document."""
_TEXT_SHRINKS_TO = 0.5
"""Bytes of compressed text by its number of characters, as measured on English-German text."""


@dataclass(frozen=True)
class Preflight:
    """The findings.

    Attributes:
        report: As of a preparation; without its tokens.
        faults: What would end `mtkit prepare`.
        num_bytes: About how much disk the data would take.
    """

    report: Report
    faults: list[MtkitError]
    num_bytes: int


def check_data(
    recipe: Recipe, *, num_workers: int, models: LanguageModels | None = None
) -> Preflight:
    """Returns what preparing a recipe's data would find; nothing is left on disk.

    Every corpus is read and cleaned. Tokens are estimated with the tokenizer that the recipe names,
    or with one trained on a sample.

    Args:
        recipe: Whose data to look at.
        num_workers: Processes that clean.
        models: What runs the language models of `data.cleaning.selection`; needed where a recipe
            has that.
    """
    faults: list[MtkitError] = []
    data, choice = recipe.data, TokenizerChoice.of(recipe)
    dev = _read_whole(data, data.dev, "dev", faults)
    tests = [_read_whole(data, test, "test", faults) for test in recipe.evaluation.test_sets]
    normalizations: tuple[Normalization, Normalization] = ("identity", "identity")
    changes: list[str] = []
    with _faults_listed(faults):
        normalizations = choose_normalization(choice)
        changes = note_changed_targets(choice, [row[-1] for row in dev])
    job = CleaningJob.of(
        choice, dev, chain.from_iterable(tests), normalizations=normalizations, drop_invalid=True
    )
    num_faults = len(faults)
    tally, sample = _clean_all(data, job, faults, num_workers=num_workers)
    every: list[ReportedCorpus] = [
        {**facts, "weight": corpus.weight}
        for corpus, facts in zip(data.train, tally.corpora, strict=True)
    ]
    corpora = [facts for facts in every if facts["read"]]
    lengths = None
    # Where nothing was read, it is because of another fault, or text of blank lines alone.
    was_read = bool(corpora) or len(faults) == num_faults
    if was_read and not any(facts["kept"] for facts in corpora):
        faults.append(nothing_left(corpora, "line" if data.is_text else "pair"))
    with _faults_listed(faults):
        lengths = _estimate_lengths(choice, sample.rows, dev, is_all=sample.is_all)
    selection = None
    with _faults_listed(faults):
        selection = estimate_selection(
            data, sample.rows, sample.corpora, models, num_workers=num_workers
        )
    if selection is not None:
        _leave_out_unselected(every, selection)
    epoch = _estimate_epoch(data, every, lengths, recipe.training.batch_tokens)
    report = Report(
        recipe=recipe.name,
        languages=data.column_languages,
        corpora=corpora,
        tokens={},
        dev={"read": len(dev)},
        epoch=epoch,
        max_steps=recipe.training.max_steps,
        seconds=dict(tally.seconds),
        notes=[
            *tally.notes,
            *note_corpora(corpora, None if data.is_text else job.length_ratio),
            *changes,
            *note_epoch(data.train, recipe.training.batch_tokens, epoch),
        ],
        selection=selection,
    )
    width = 2 if recipe.tokenizer.vocab_size <= 1 << 16 else 4
    num_stores = 1 if recipe.training.masked.short_tokens is None else 2
    num_bytes = _estimate_bytes(data, corpora, lengths, width=width, num_stores=num_stores)
    return Preflight(report, faults, num_bytes)


def _clean_all(
    data: Data, job: CleaningJob, faults: list[MtkitError], *, num_workers: int
) -> tuple[CleaningTally, "_EvenSample"]:
    """Returns what became of all corpora, and some of the rows that are left."""
    tally, sample = CleaningTally(corpus_names(data.train)), _EvenSample(job.columns)
    with TemporaryDirectory(prefix="mtkit-check-") as folder:
        with KeyFiles(Path(folder), job.duplicate_keys) as keys:
            # One by one, so that a fault in one leaves the others to be looked at.
            for index in range(len(tally.corpora)):
                blocks = read_training_blocks(data, index)
                with _faults_listed(faults):
                    for block in clean_blocks(blocks, job, num_workers=num_workers):
                        tally.add(block)
                        keys.append(block.keys)
                        sample.take(block)
        tally.note_unlinked()
        tally.drop_duplicates(keys)
    for facts in tally.corpora:
        if facts["invalid_utf8"] and data.cleaning.encoding.invalid_utf8 == "error":
            faults.append(_invalid(facts))
    return tally, sample


def _leave_out_unselected(corpora: list[ReportedCorpus], selection: ReportedSelection) -> None:
    """Counts of each corpus as many rows as dropped as its sample tells."""
    for facts in corpora:
        found = selection["corpora"].get(facts["name"])
        if found is not None and found["scored"]:
            kept = round(facts["kept"] * found["kept"] / found["scored"])
            facts["dropped"]["selection"] = facts["kept"] - kept
            facts["kept"] = kept


@contextmanager
def _faults_listed(faults: list[MtkitError]) -> Iterator[None]:
    """Adds a fault that ends the block to those found so far."""
    try:
        yield
    except MtkitError as error:
        # A tokenizer that can't be read is asked for twice.
        if str(error) not in map(str, faults):
            faults.append(error)


def _read_whole(
    data: Data, corpus: HeldOutCorpus, split: Literal["dev", "test"], faults: list[MtkitError]
) -> list[Row]:
    """Returns a development or test set; an empty list and a fault where it can't be read."""
    rows: list[Row] = []
    with _faults_listed(faults):
        rows += read_held_out_rows(data, corpus, split)
    return rows


def _invalid(facts: CorpusFacts) -> MtkitError:
    count = facts["invalid_utf8"]
    return MtkitError(
        f"{facts['name']}: {count:,} line{'s are' if count > 1 else ' is'} invalid UTF-8",
        "convert the file (`mtkit prepare` reports line and byte of the first), or drop them: "
        "--set data.cleaning.encoding.invalid_utf8=drop",
    )


class _EvenSample:
    """Rows evenly spread over all that come, however many those are."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns
        self.rows: list[Row] = []
        self.corpora: list[int] = []
        self._stride = 1
        self._skip = 0

    @property
    def is_all(self) -> bool:
        """Whether every row that came is in it."""
        return self._stride == 1

    def take(self, block: CleanedBlock) -> None:
        num_rows = block.text.num_rows
        indices = range(self._skip, num_rows, self._stride)
        columns = [block.text.column(name) for name in self._columns]
        self.rows += [tuple(column[index].as_py() for column in columns) for index in indices]
        self.corpora += [block.corpus] * len(indices)
        self._skip = self._skip + len(indices) * self._stride - num_rows
        while len(self.rows) > _SAMPLE_ROWS:
            # Every second one goes; the next to come is the one after as many again.
            self._skip += self._stride if len(self.rows) % 2 else 0
            self.rows, self.corpora = self.rows[::2], self.corpora[::2]
            self._stride *= 2


def _estimate_lengths(
    choice: TokenizerChoice, rows: list[Row], dev: list[Row], *, is_all: bool
) -> tuple[float, ...] | None:
    """Returns the mean tokens of a row in each column, `</s>` counted; None without rows.

    Raises:
        MtkitError: `prepare` couldn't make the tokenizer, or would leave nothing of the development
            set.
    """
    if not rows:
        return None
    tokenizer = _make_tokenizer(choice, rows, is_all=is_all)
    if dev and not choice.data.is_text:
        tokenize_dev(tokenizer, choice.data, [(source, target) for source, target in dev])
    # As `prepare` does: their punctuation is normalised already, and their tags are no text.
    return tuple(
        sum(map(len, tokenizer.tokenize(side, list(lines)))) / len(rows)
        for side, lines in zip(PAIR_COLUMNS, zip(*rows, strict=True), strict=False)
    )


def _make_tokenizer(choice: TokenizerChoice, rows: list[Row], *, is_all: bool) -> SubwordTokenizer:
    """Returns the recipe's tokenizer, or one of a sample of the text with a smaller vocabulary.

    So are the pieces that are learned from the text where a vocabulary is extended.
    """
    tokenizer = choice.find(choice.punctuation_languages)
    if tokenizer is not None and not choice.extends_vocabulary:
        return tokenizer
    settings, sources = choice.settings, [row[0] for row in rows]
    targets = [] if choice.data.is_text else [row[1] for row in rows]
    while True:
        try:
            return choice.learn(sources, targets, settings=settings)
        except MtkitError:
            # A sample may not yield as many pieces as the whole.
            if is_all or settings.vocab_size < _MIN_PIECES:
                raise
            settings = settings.model_copy(update={"vocab_size": settings.vocab_size // 2})


def _estimate_epoch(
    data: Data,
    corpora: list[ReportedCorpus],
    lengths: tuple[float, ...] | None,
    batch_tokens: int,
) -> EpochSize | TextEpochSize | None:
    if lengths is not None and data.is_text:
        counts = [_estimate_blocks(data.block_tokens, facts, lengths[0]) for facts in corpora]
        weights = [facts["weight"] for facts in corpora]
        blocks, tokens = (
            round(sum(map(mul, weights, of_all))) for of_all in zip(*counts, strict=True)
        )
        updates = max(1, -(-tokens // batch_tokens))
        return TextEpochSize(blocks=blocks, tokens=tokens, updates=updates)
    pairs = [facts["kept"] * facts["weight"] for facts in corpora]
    num_pairs = round(sum(pairs))
    if lengths is None:
        return None
    source, target = (round(length * num_pairs) for length in lengths)
    tagged = zip(pairs, data.train, strict=True)
    source += round(sum(count for count, corpus in tagged if corpus.tag))
    updates = max(1, -(-max(source, target) // batch_tokens))
    return EpochSize(pairs=num_pairs, source_tokens=source, target_tokens=target, updates=updates)


def _estimate_blocks(
    block_tokens: int, facts: CorpusFacts, line_tokens: float
) -> tuple[float, float]:
    """Returns about how many blocks and tokens a corpus of text has."""
    tokens = facts["kept"] * line_tokens
    documents = facts.get("documents", 0)
    if not tokens or not documents:
        return 0.0, tokens
    # As if documents' lengths were spread exponentially: blocks are whole, and documents not.
    blocks = documents / -expm1(-block_tokens * documents / tokens)
    return blocks, tokens


def _estimate_bytes(
    data: Data,
    corpora: list[ReportedCorpus],
    lengths: tuple[float, ...] | None,
    *,
    width: int,
    num_stores: int,
) -> int:
    num_rows: int = sum(facts["kept"] for facts in corpora)
    num_characters: int = sum(
        facts.get("source_characters", 0)
        + facts.get("target_characters", 0)
        + facts.get("text_characters", 0)
        for facts in corpora
    )
    num_tokens = num_rows * sum(lengths or (0.0,))
    extra: float = _BYTES_PER_PAIR * num_rows
    if data.is_text:
        line_tokens = (lengths or (0.0,))[0]
        blocks = [_estimate_blocks(data.block_tokens, facts, line_tokens)[0] for facts in corpora]
        num_tokens *= num_stores
        extra = _BYTES_PER_LINE * num_rows + num_stores * _BYTES_PER_BLOCK * sum(blocks)
    return round(_TEXT_SHRINKS_TO * num_characters + width * num_tokens + extra)
