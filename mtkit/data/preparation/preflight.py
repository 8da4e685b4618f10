"""A preparation without writing data: `mtkit prepare --check`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from mtkit.data.normalization import choose_normalization, note_changed_targets
from mtkit.data.preparation.clean_corpora import (
    CleaningTally,
    clean_blocks,
    nothing_left,
    read_training_blocks,
)
from mtkit.data.preparation.cleaned_block import CleanedBlock, CleaningJob
from mtkit.data.preparation.duplicates import KeyFiles
from mtkit.data.preparation.facts import CorpusFacts, ReportedCorpus
from mtkit.data.preparation.held_out import read_held_out, tokenize_dev
from mtkit.data.preparation.report import EpochSize, Report, note_corpora, note_epoch
from mtkit.data.sources.corpora import Pair
from mtkit.data.tokenizer_choice import find_tokenizer, list_tags, punctuation_languages
from mtkit.errors import MtkitError
from mtkit.recipe import Recipe
from mtkit.recipe.data import HeldOutCorpus
from mtkit.text.normalization import Normalization
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.train_tokenizer import train_tokenizer

_SAMPLE_PAIRS = 50_000
"""Pairs by which tokens are estimated, at most."""
_MIN_PIECES = 64
_BYTES_PER_PAIR = 36
"""What a pair takes beside tokens and text: offsets, its index in length order, a mark."""
_TEXT_SHRINKS_TO = 0.5
"""Bytes of compressed text by its number of characters, as measured on English-German text."""


@dataclass(frozen=True)
class Preflight:
    """The findings.

    Attributes:
        report: As of a preparation; its tokens are left out.
        faults: What would end `mtkit prepare`.
        num_bytes: About how much disk the data would take.
    """

    report: Report
    faults: list[MtkitError]
    num_bytes: int


def check_data(recipe: Recipe, *, num_workers: int) -> Preflight:
    """Returns what preparing a recipe's data would find; nothing is left on disk.

    Every corpus is read and cleaned. Tokens are estimated with the tokenizer that the recipe names,
    or with one trained on a sample.

    Args:
        recipe: Whose data to look at.
        num_workers: Processes that clean.
    """
    faults: list[MtkitError] = []
    dev = _read_whole(recipe, recipe.data.dev, "dev", faults)
    tests = [_read_whole(recipe, test, "test", faults) for test in recipe.evaluation.test_sets]
    normalizations: tuple[Normalization, Normalization] = ("identity", "identity")
    changes: list[str] = []
    with _faults_listed(faults):
        normalizations = choose_normalization(recipe)
        changes = note_changed_targets(recipe, [target for _, target in dev])
    job = CleaningJob.of(
        recipe, dev, chain.from_iterable(tests), normalizations=normalizations, drop_invalid=True
    )
    tally, sample = _clean_all(recipe, job, faults, num_workers=num_workers)
    every: list[ReportedCorpus] = [
        {**facts, "weight": corpus.weight}
        for corpus, facts in zip(recipe.data.train, tally.corpora, strict=True)
    ]
    corpora = [facts for facts in every if facts["read"]]
    lengths = None
    if corpora and not any(facts["kept"] for facts in corpora):
        faults.append(nothing_left(corpora))
    with _faults_listed(faults):
        lengths = _estimate_lengths(recipe, sample.pairs, dev, is_all=sample.is_all)
    epoch = _estimate_epoch(recipe, every, lengths)
    report = Report(
        recipe=recipe.name,
        languages=recipe.data.languages,
        corpora=corpora,
        tokens={},
        dev={"read": len(dev)},
        epoch=epoch,
        max_steps=recipe.training.max_steps,
        seconds=dict(tally.seconds),
        notes=[
            *tally.notes,
            *note_corpora(corpora, job.length_ratio),
            *changes,
            *note_epoch(recipe, epoch),
        ],
    )
    return Preflight(report, faults, _estimate_bytes(recipe, corpora, lengths))


def _clean_all(
    recipe: Recipe, job: CleaningJob, faults: list[MtkitError], *, num_workers: int
) -> tuple[CleaningTally, "_EvenSample"]:
    """Returns what became of all corpora, and some of the pairs that are left."""
    tally, sample = CleaningTally(recipe), _EvenSample()
    with TemporaryDirectory(prefix="mtkit-check-") as folder:
        with KeyFiles(Path(folder), job.duplicate_keys) as keys:
            # One by one, so that a fault in one leaves the others to be looked at.
            for index in range(len(tally.corpora)):
                blocks = read_training_blocks(recipe, index)
                with _faults_listed(faults):
                    for block in clean_blocks(blocks, job, num_workers=num_workers):
                        tally.add(block)
                        keys.append(block.keys)
                        sample.take(block)
        tally.drop_duplicates(keys)
    for facts in tally.corpora:
        if facts["invalid_utf8"] and recipe.data.cleaning.encoding.invalid_utf8 == "error":
            faults.append(_invalid(facts))
    return tally, sample


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
    recipe: Recipe, corpus: HeldOutCorpus, split: Literal["dev", "test"], faults: list[MtkitError]
) -> list[Pair]:
    """Returns a development or test set; an empty list and a fault where it can't be read."""
    pairs: list[Pair] = []
    with _faults_listed(faults):
        pairs += read_held_out(recipe, corpus, split)
    return pairs


def _invalid(facts: CorpusFacts) -> MtkitError:
    count = facts["invalid_utf8"]
    return MtkitError(
        f"{facts['name']}: {count:,} line{'s are' if count > 1 else ' is'} invalid UTF-8",
        "convert the file (`mtkit prepare` names file, line and byte of the first), or drop them: "
        "--set data.cleaning.encoding.invalid_utf8=drop",
    )


class _EvenSample:
    """Pairs evenly spread over all that come, however many those are."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self._stride = 1
        self._skip = 0

    @property
    def is_all(self) -> bool:
        """Whether every pair that came is in it."""
        return self._stride == 1

    def take(self, block: CleanedBlock) -> None:
        num_rows = block.text.num_rows
        indices = range(self._skip, num_rows, self._stride)
        sources, targets = block.text.column("source"), block.text.column("target")
        self.pairs += [(sources[index].as_py(), targets[index].as_py()) for index in indices]
        self._skip = self._skip + len(indices) * self._stride - num_rows
        while len(self.pairs) > _SAMPLE_PAIRS:
            # Every second one goes; the next to come is the one after as many again.
            self._skip += self._stride if len(self.pairs) % 2 else 0
            self.pairs = self.pairs[::2]
            self._stride *= 2


def _estimate_lengths(
    recipe: Recipe, pairs: list[Pair], dev: list[Pair], *, is_all: bool
) -> tuple[float, float] | None:
    """Returns the mean source and target tokens of a pair, `</s>` counted; None without pairs.

    Raises:
        MtkitError: `prepare` couldn't make the tokenizer, or would leave nothing of the development
            set.
    """
    if not pairs:
        return None
    tokenizer = _make_tokenizer(recipe, pairs, is_all=is_all)
    if dev:
        tokenize_dev(tokenizer, recipe, dev)
    # As `prepare` does: their punctuation is normalised already, and their tags are no text.
    sides = (
        tokenizer.tokenize("source", [source for source, _ in pairs]),
        tokenizer.tokenize("target", [target for _, target in pairs]),
    )
    source, target = (sum(map(len, sentences)) / len(pairs) for sentences in sides)
    return source, target


def _make_tokenizer(recipe: Recipe, pairs: list[Pair], *, is_all: bool) -> SubwordTokenizer:
    """Returns the recipe's tokenizer, or one of a sample of the text with a smaller vocabulary."""
    punctuation = punctuation_languages(recipe)
    tokenizer = find_tokenizer(recipe, punctuation)
    if tokenizer is not None:
        return tokenizer
    settings, tags = recipe.tokenizer, list_tags(recipe)
    sides = [source for source, _ in pairs], [target for _, target in pairs]
    while True:
        try:
            return train_tokenizer(
                settings, *sides, seed=recipe.seed, tags=tags, punctuation=punctuation
            )
        except MtkitError:
            # A sample may not yield as many pieces as the whole.
            if is_all or settings.vocab_size < _MIN_PIECES:
                raise
            settings = settings.model_copy(update={"vocab_size": settings.vocab_size // 2})


def _estimate_epoch(
    recipe: Recipe, corpora: list[ReportedCorpus], lengths: tuple[float, float] | None
) -> EpochSize | None:
    pairs = [facts["kept"] * facts["weight"] for facts in corpora]
    num_pairs = round(sum(pairs))
    if lengths is None:
        return None
    source, target = (round(length * num_pairs) for length in lengths)
    tagged = zip(pairs, recipe.data.train, strict=True)
    source += round(sum(count for count, corpus in tagged if corpus.tag))
    updates = max(1, -(-max(source, target) // recipe.training.batch_tokens))
    return EpochSize(pairs=num_pairs, source_tokens=source, target_tokens=target, updates=updates)


def _estimate_bytes(
    recipe: Recipe, corpora: list[ReportedCorpus], lengths: tuple[float, float] | None
) -> int:
    num_pairs: int = sum(facts["kept"] for facts in corpora)
    num_characters: int = sum(
        facts["source_characters"] + facts["target_characters"] for facts in corpora
    )
    width = 2 if recipe.tokenizer.vocab_size <= 1 << 16 else 4
    num_tokens = num_pairs * sum(lengths or (0.0, 0.0))
    return round(
        _TEXT_SHRINKS_TO * num_characters + width * num_tokens + _BYTES_PER_PAIR * num_pairs
    )
