"""Adds up the facts of the corpora's rows, block by block."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from mtkit.data.cleaning.alignment import Misaligned
from mtkit.data.preparation.cleaned_block import NUM_SAMPLES, CleanedBlock, choose_scattered
from mtkit.data.preparation.duplicates import KeyFiles
from mtkit.data.preparation.facts import BlockFacts, CorpusFacts, ShownRow
from mtkit.data.sources.documents import DocumentCounter, Indices
from mtkit.errors import MtkitError
from mtkit.recipe.cleaning import Cleaning
from mtkit.units import plural


class CleaningTally:
    """Facts of all training corpora so far; `kept` has duplicates until `drop_duplicates`."""

    def __init__(self, names: Iterable[str]) -> None:
        self.corpora = list(map(_nothing_read, names))
        self.seconds: Counter[str] = Counter()
        self.notes: list[str] = []
        self._documents = DocumentCounter()
        self._num_unlinked: Counter[int] = Counter()

    def add(self, block: CleanedBlock) -> Indices | None:
        """Adds the next block; returns the document number of each of its remaining lines."""
        facts = self.corpora[block.corpus]
        _add_facts(facts, block.facts)
        self.seconds.update(block.seconds)
        self._num_unlinked[block.corpus] += block.num_unlinked
        self.notes += [note for note in block.notes if note not in self.notes]
        if block.documents is None:
            return None
        num_before = self._documents.num_documents
        numbers = self._documents.number(block.corpus, block.documents)
        num_begun = self._documents.num_documents - num_before
        facts["documents"] = facts.get("documents", 0) + num_begun
        return numbers

    def note_unlinked(self) -> None:
        """Adds a note for each corpus in which pairs lost their alignment."""
        self.notes += [
            f"{self.corpora[corpus]['name']}: {plural(count, 'pair')} lost "
            f"{'its' if count == 1 else 'their'} alignment, since repairs or punctuation changed "
            "the words"
            for corpus, count in sorted(self._num_unlinked.items())
            if count
        ]

    def count_duplicates(self, keys: KeyFiles) -> None:
        """Marks duplicates in the text store, and counts them as dropped."""
        marks = keys.mark_duplicates([facts["kept"] for facts in self.corpora])
        for facts, is_duplicate in zip(self.corpora, marks, strict=True):
            facts["dropped"]["duplicates"] = int(np.count_nonzero(is_duplicate))
            facts["kept"] -= facts["dropped"]["duplicates"]


def _nothing_read(name: str) -> CorpusFacts:
    """Returns the facts of a corpus before its first row."""
    return {
        "name": name,
        "read": 0,
        "kept": 0,
        "invalid_utf8": 0,
        "skipped": 0,
        "dropped": {},
        "repaired": {},
        "quoted": 0,
        "strange_rows": {},
        "strange_letters": {},
        "samples": {},
        "misaligned": [],
        "longest": [],
    }


def _add_facts(facts: BlockFacts, block: BlockFacts) -> None:
    """Adds the facts of the next block."""
    facts["read"] += block["read"]
    facts["kept"] += block["kept"]
    facts["invalid_utf8"] += block["invalid_utf8"]
    facts["skipped"] += block["skipped"]
    if "text_characters" in block:
        facts["text_characters"] = facts.get("text_characters", 0) + block["text_characters"]
    else:
        source, target = block["source_characters"], block["target_characters"]
        facts["source_characters"] = facts.get("source_characters", 0) + source
        facts["target_characters"] = facts.get("target_characters", 0) + target
    facts["quoted"] += block["quoted"]
    for column, letters in block["strange_letters"].items():
        found = Counter(facts["strange_letters"].get(column, {})) + Counter(letters)
        facts["strange_letters"][column] = dict(found.most_common())
    for counts, added in (
        (facts["dropped"], block["dropped"]),
        (facts["repaired"], block["repaired"]),
        (facts["strange_rows"], block["strange_rows"]),
    ):
        for name, count in added.items():
            counts[name] = counts.get(name, 0) + count
    for name, samples in block["samples"].items():
        add_samples(facts, name, samples)
    for stretch in block["misaligned"]:
        last = facts["misaligned"][-1] if facts["misaligned"] else None
        if last and _continues(last, stretch):
            last["last"] = stretch["last"]
            last["correlation"] = min(last["correlation"], stretch["correlation"])
        else:
            facts["misaligned"].append(stretch)
    longest = [*facts["longest"], *block["longest"]]
    facts["longest"] = sorted(longest, key=lambda pair: -pair["characters"])[:NUM_SAMPLES]


def _continues(last: Misaligned, stretch: Misaligned) -> bool:
    """Checks that a stretch continues one of earlier blocks.

    Neighbours that are alike hide a shift: the same shift goes on in a gap that is no longer than
    the stretches around it.
    """
    gap = stretch["first"] - last["last"] - 1
    longer = max(each["last"] + 1 - each["first"] for each in (last, stretch))
    is_near = not gap or (last["shift"] != 0 and gap <= longer)
    return is_near and last["shift"] == stretch["shift"]


def add_samples(facts: BlockFacts, name: str, samples: Iterable[ShownRow]) -> None:
    """Adds rows dropped by a filter to the few that are shown."""
    merged = [*facts["samples"].get(name, []), *samples]
    chosen = choose_scattered(np.array([sample["line"] - 1 for sample in merged]))
    in_order = sorted((merged[index] for index in chosen), key=lambda sample: sample["line"])
    facts["samples"][name] = in_order


def nothing_left(corpora: Sequence[CorpusFacts], unit: str) -> MtkitError:
    """Returns the error for no row passing the filters, with what dropped them."""
    dropped: Counter[str] = Counter()
    for facts in corpora:
        dropped.update(facts["dropped"])
    reasons = ", ".join(f"{count:,} by {name}" for name, count in dropped.most_common() if count)
    total = sum(facts["read"] for facts in corpora)
    if not total:
        return MtkitError(
            "data.train: no text in it, only blank or skipped lines", "are these the right files?"
        )
    worst = dropped.most_common(1)[0][0]
    return MtkitError(
        f"data.train: no {unit}s left of {total:,}; dropped: {reasons}",
        "are these the right files and languages?"
        # A blank side can't be kept.
        + (
            f"; else --set data.cleaning.{worst}.enabled=false"
            if worst in Cleaning.model_fields
            else ""
        ),
    )
