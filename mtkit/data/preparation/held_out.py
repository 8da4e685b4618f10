"""Development and test sets as pairs, or as lines in one language."""

from collections.abc import Iterator, Sequence
from typing import Literal

from mtkit.data.batches.token_store import PAIR_COLUMNS
from mtkit.data.preparation.text_store import TextStore
from mtkit.data.prepared import FACTS_FILE, describe_inputs
from mtkit.data.sources.corpora import (
    Pair,
    read_corpus_pairs,
    read_corpus_text,
    require_parallel,
    without_tag,
)
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import HeldOutCorpus
from mtkit.recipe.data import Data
from mtkit.recipe.recipe import Recipe
from mtkit.recipe.test_sets import TestSet
from mtkit.recipe.text_corpora import TextCorpus, TextTableCorpus
from mtkit.workspace import Workspace

_LEAKED = 0.1
"""Minimum share of a test set's pairs in training text that can't be chance: short sentences are
in many corpora."""
_SAME_SET = 0.5
"""The same for the development set, which is often from the same text."""


def read_held_out(
    data: Data,
    corpus: HeldOutCorpus,
    split: Literal["dev", "test"],
    *,
    is_tagged: bool = False,
) -> Iterator[Pair]:
    """Yields the pairs of a development or test set; `split` selects the embedded corpus's part."""
    parallel = require_parallel(corpus)
    return read_corpus_pairs(
        parallel if is_tagged else without_tag(parallel),
        phrasebook_split=split,
        languages=data.languages,
        linearization=data.linearization,
    )


def read_held_out_rows(
    data: Data, corpus: HeldOutCorpus, split: Literal["dev", "test"]
) -> Iterator[tuple[str, ...]]:
    """Yields a development or test set's pairs without tags, or its lines in one language."""
    if isinstance(corpus, TextCorpus | TextTableCorpus):
        lines, _ = read_corpus_text(corpus)
        if split == "dev" and not lines:
            raise MtkitError("data.dev: no text in it, only blank lines", "is this the right file?")
        yield from ((line,) for line in lines)
    else:
        yield from read_held_out(data, corpus, split)


def note_test_sets(data: Data, test_sets: Sequence[TestSet]) -> Iterator[str]:
    """Yields a sentence for each test set that is mostly the development set."""
    known = frozenset(read_held_out_rows(data, data.dev, "dev"))
    for test_set in test_sets:
        rows = list(read_held_out_rows(data, test_set, "test"))
        num_known = sum(row in known for row in rows)
        if num_known > _SAME_SET * len(rows):
            yield (
                f"{num_known:,} of the {len(rows):,} lines of the test set {test_set.name} are in "
                "data.dev, by which the best checkpoint is chosen: its scores will be too good"
            )


def note_tags(recipe: Recipe) -> Iterator[str]:
    """Yields a sentence for each set's tag that no corpus has, unless a model may know it."""
    data = recipe.data
    is_of_pairs = recipe.objective != "classification" and not data.is_trees
    if recipe.training.start_from is not None or not is_of_pairs:
        return
    known = {corpus.tag for corpus in data.train}
    sets = {"data.dev": data.dev, **{each.name: each for each in recipe.evaluation.test_sets}}
    for name, held_out in sets.items():
        if held_out.tag and held_out.tag not in known:
            yield (
                f"{name}: no corpus has its tag {held_out.tag}, which is ordinary text to the model"
            )


def check_unseen(workspace: Workspace, data: Data, test_sets: Sequence[TestSet]) -> None:
    """Checks that a translator wasn't trained on test sets, as far as its workspace shows.

    `data` has the languages of the test sets. The workspace may be of either direction.
    """
    try:
        listed = workspace.read_manifest().get("prepare", {}).get("inputs")
    except MtkitError:
        # A model folder that was copied, next to another program's file.
        return
    inputs = listed if isinstance(listed, list) else []
    # They end with the development set, which may be the same.
    own = describe_inputs((data.dev,))
    for test_set in test_sets:
        files = [file for file in describe_inputs((test_set,)) if file not in own]
        if any("size" in file and file in inputs for file in files):
            raise _explain_leak(workspace, test_set, "its manifest lists the file")
    text = workspace.data / "text"
    is_prepared = workspace.recipe_file.is_file() and (workspace.data / FACTS_FILE).is_file()
    if not (is_prepared and text.is_dir() and test_sets):
        return
    store = TextStore(text)
    if not set(PAIR_COLUMNS) <= set(store.columns):
        return
    wanted = {
        test_set.name: set(map(frozenset, read_held_out(data, test_set, "test")))
        for test_set in test_sets
    }
    every = frozenset().union(*wanted.values())
    found: set[frozenset[str]] = set()
    for number in range(store.num_parts):
        part = store.read_part(number)
        columns = (part.column(name).to_pylist() for name in PAIR_COLUMNS)
        found |= every.intersection(map(frozenset, zip(*columns, strict=True)))
    for test_set in test_sets:
        pairs = wanted[test_set.name]
        if len(pairs & found) > _LEAKED * len(pairs):
            count = f"{len(pairs & found):,} of its {len(pairs):,} pairs are in its training text"
            raise _explain_leak(workspace, test_set, count)


def _explain_leak(workspace: Workspace, test_set: TestSet, reason: str) -> MtkitError:
    return MtkitError(
        f"translated_by: the model in {workspace.root} learns from the test set "
        f"{test_set.name}: {reason}",
        "its translations would make your scores too good: choose another translator, or another "
        "test set",
    )
