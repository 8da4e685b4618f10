"""What became of the corpora: as a table, as JSON, and in words of warning."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mtkit.console import say, warn
from mtkit.data.normalization import note_changed_targets
from mtkit.data.preparation.report_page import render_page
from mtkit.data.tokenizer_choice import reused_folder
from mtkit.files import write_atomically
from mtkit.recipe import Recipe
from mtkit.recipe.data import corpus_names
from mtkit.units import plural

Facts = dict[str, Any]

_NOTABLE_UNKNOWN = 1e-3
"""Share of unknown tokens from which a report warns."""
_NOTABLE_DROP = 0.3
"""Share of a corpus that is left out from which a report warns."""


@dataclass(frozen=True)
class Epoch:
    """What one pass over the data is.

    Attributes:
        pairs: Sentence pairs, as often as their corpus's weight says.
        source_tokens: Source tokens, `</s>` counted.
        target_tokens: Target tokens, `</s>` counted.
        updates: Updates of the weights.
    """

    pairs: int
    source_tokens: int
    target_tokens: int
    updates: int


@dataclass(frozen=True)
class Report:
    """What a preparation found, as JSON can express it.

    Attributes:
        recipe: The recipe's name.
        languages: Source and target language.
        corpora: For each training corpus: name, weight, pairs read and kept, pairs dropped by
            filter, lines repaired by kind, samples of both, the longest pairs, stretches that look
            misaligned.
        tokens: For each side: tokens, lengths, pieces of the vocabulary, unknown pieces.
        dev: The development set.
        epoch: One pass over the data; None before there are tokens.
        max_steps: Updates that the recipe trains for.
        seconds: Processor time of the cleaning, by filter.
        notes: What a reader should look at.
    """

    recipe: str
    languages: tuple[str, str]
    corpora: list[Facts]
    tokens: dict[str, Facts]
    dev: Facts
    epoch: Epoch | None
    max_steps: int
    seconds: dict[str, float]
    notes: list[str]

    @classmethod
    def of(cls, recipe: Recipe, facts: Facts, epoch: Epoch, dev_targets: Sequence[str]) -> "Report":
        """Returns the report on a finished preparation.

        Args:
            recipe: What was prepared.
            facts: The facts of each stage.
            epoch: One pass over the data.
            dev_targets: Targets of the development set.
        """
        corpora = [
            _merge(name, corpus.weight, cleaned, tokenized)
            for name, corpus, cleaned, tokenized in zip(
                corpus_names(recipe.data.train),
                recipe.data.train,
                facts["text"]["corpora"],
                facts["train"]["corpora"],
                strict=True,
            )
        ]
        tokens = {side: facts["train"][side] for side in ("source", "target")}
        return cls(
            recipe=recipe.name,
            languages=(recipe.data.source_language, recipe.data.target_language),
            corpora=corpora,
            tokens=tokens,
            dev={key: value for key, value in facts["dev"].items() if key != "digest"},
            epoch=epoch,
            max_steps=recipe.training.max_steps,
            seconds=facts["text"]["seconds"],
            notes=[
                *facts["text"]["notes"],
                *note_corpora(corpora, facts["text"]["balance"]),
                *_note_tokens(tokens, is_kept=reused_folder(recipe) is not None),
                *note_changed_targets(recipe, dev_targets),
                *note_epoch(recipe, epoch),
            ],
        )

    def summary(self) -> Facts:
        """Returns the numbers that the manifest keeps."""
        return {
            "train": {
                "read": sum(corpus["read"] for corpus in self.corpora),
                "kept": sum(corpus["kept"] for corpus in self.corpora),
                "dropped": self.total_dropped(),
                "source_tokens": self.tokens["source"]["tokens"],
                "target_tokens": self.tokens["target"]["tokens"],
            },
            "dev": self.dev,
        }

    def total_dropped(self) -> dict[str, int]:
        """Returns the pairs that each filter dropped, over all corpora."""
        filters = dict.fromkeys(name for corpus in self.corpora for name in corpus["dropped"])
        return {
            name: sum(corpus["dropped"].get(name, 0) for corpus in self.corpora) for name in filters
        }


def _merge(name: str, weight: float, cleaned: Facts, tokenized: Facts) -> Facts:
    """Returns what became of a corpus, its stages' facts put together."""
    samples = dict(cleaned["samples"])
    if tokenized["samples"]:
        samples["max_tokens"] = [
            {"line": 0, "source": source, "target": target}
            for source, target in tokenized["samples"]
        ]
    return {
        **{key: value for key, value in cleaned.items() if key != "name"},
        "name": name,
        "weight": weight,
        "dropped": {**cleaned["dropped"], "max_tokens": tokenized["too_long"]},
        "samples": samples,
        "kept": tokenized["kept"],
    }


def note_corpora(corpora: Sequence[Facts], balance: float) -> list[str]:
    """Returns what a reader should look at in the corpora, a sentence each.

    Args:
        corpora: What became of each.
        balance: Target characters per source character in the development set.
    """
    notes = []
    for corpus in corpora:
        name, read = corpus["name"], corpus["read"]
        if corpus["skipped"]:
            notes.append(
                f"{name}: {corpus['skipped']:,} entries without both languages are passed over"
            )
        notes += [_note_misaligned(name, stretch) for stretch in corpus["misaligned"]]
        for filter_name, count in corpus["dropped"].items():
            if count > _NOTABLE_DROP * read:
                measure = (
                    f" (by the development set, which has {balance:.2f} target characters per "
                    "source character)"
                    if filter_name == "length_ratio"
                    else ""
                )
                notes.append(
                    f"{name}: {filter_name} drops {count / read:.0%} of all pairs{measure}; if "
                    "these are good, tune or turn off that filter"
                )
        if count := corpus["dropped"].get("overlap"):
            notes.append(
                f"{name}: {count:,} pairs are left out that stand in the development or test sets"
            )
        if not corpus["kept"]:
            notes.append(f"{name}: nothing of it is left")
    return notes


def note_epoch(recipe: Recipe, epoch: Epoch | None) -> list[str]:
    """Returns what a reader should look at where low weights leave less than an update of an epoch.

    An update ends with its epoch, so that each would be as small.
    """
    wanted = recipe.training.batch_tokens
    is_low = any(corpus.weight < 1.0 for corpus in recipe.data.train)
    if epoch is None or not is_low or max(epoch.source_tokens, epoch.target_tokens) >= wanted:
        return []
    return [
        f"with these weights an epoch has {plural(epoch.pairs, 'pair')}, fewer "
        f"than make an update of training.batch_tokens = {wanted:,}, and none is larger than its "
        "epoch: multiply the weights of data.train by one number"
    ]


def _note_misaligned(name: str, stretch: Facts) -> str:
    shift = stretch["shift"]
    lines = plural(abs(shift), "line")
    how = f"the target is {lines} {'late' if shift > 0 else 'early'}" if shift else "no shift helps"
    return (
        f"{name}: lines {stretch['first']:,} to {stretch['last']:,} look misaligned ({how}): the "
        f"lengths of their two sides correlate by {stretch['correlation']:.2f}"
    )


def _note_tokens(tokens: dict[str, Facts], *, is_kept: bool) -> list[str]:
    mend = (
        "the model that training starts from never saw them: tokenizer.user_symbols adds some, "
        'training.start_from.vocabulary = "new" trains pieces for all'
        if is_kept
        else "tokenizer.byte_fallback = true spells them, or raise tokenizer.character_coverage"
    )
    notes = []
    for side, facts in tokens.items():
        share = facts["unknown_tokens"] / max(1, facts["tokens"])
        if share > _NOTABLE_UNKNOWN:
            unknown = " ".join(list(facts["unknown_pieces"])[:10])
            notes.append(f"{side}: {share:.2%} of the tokens are unknown ({unknown}): {mend}")
    return notes


def write_report(report: Report, folder: Path) -> None:
    """Leaves `report.json`, and `report.html` to read in a browser."""
    tables = asdict(report)
    text = json.dumps(tables, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(folder / "report.json", text)
    write_atomically(folder / "report.html", render_page(tables))


def show_report(report: Report, console: Console) -> None:
    """Prints the report: what was dropped by each filter, what the tokens look like, the notes."""
    console.print(_corpus_table(report))
    if report.tokens:
        console.print(_token_table(report))
    if report.epoch is not None:
        epoch = report.epoch
        passes = report.max_steps / max(1, epoch.updates)
        say(
            f"an epoch: {plural(epoch.updates, 'update')}, "
            f"{epoch.pairs:,} pairs, {epoch.source_tokens:,} source and {epoch.target_tokens:,} "
            "target tokens; "
            f"training.max_steps = {report.max_steps:,} are {passes:,.1f} epochs"
        )
    for side, language in zip(report.tokens, report.languages, strict=False):
        growth = report.tokens[side].get("sampling_growth")
        if growth is not None:
            say(f"sampled segmentations have {growth - 1:.0%} more tokens in {language}")
    for note in report.notes:
        warn(note)


def _corpus_table(report: Report) -> Table:
    table = Table()
    table.add_column("pairs")
    for corpus in report.corpora:
        table.add_column(Text(corpus["name"]), justify="right")
    several = len(report.corpora) > 1
    if several:
        table.add_column("all", justify="right")

    def add(label: str, counts: Sequence[int], *, of: Sequence[int] | None = None) -> None:
        if several:
            counts = [*counts, sum(counts)]
            of = None if of is None else [*of, sum(of)]
        shares = [""] * len(counts)
        if of is not None:
            shares = [
                f" {count / max(1, total):6.2%}" for count, total in zip(counts, of, strict=True)
            ]
        cells = (f"{count:,}{share}" for count, share in zip(counts, shares, strict=True))
        table.add_row(Text(label), *cells)

    read = [corpus["read"] for corpus in report.corpora]
    add("read", read)
    for name, total in report.total_dropped().items():
        if total:
            add(f"- {name}", [corpus["dropped"].get(name, 0) for corpus in report.corpora], of=read)
    add("kept", [corpus["kept"] for corpus in report.corpora], of=read)
    repairs = dict.fromkeys(kind for corpus in report.corpora for kind in corpus["repaired"])
    counts = {kind: [c["repaired"].get(kind, 0) for c in report.corpora] for kind in repairs}
    if any(map(any, counts.values())):
        table.add_section()
        for kind, row in counts.items():
            if any(row):
                add(f"lines repaired: {kind}", row)
    return table


def _token_table(report: Report) -> Table:
    table = Table()
    table.add_column("tokens")
    for language in report.languages:
        table.add_column(Text(language), justify="right")
    sides = [report.tokens[side] for side in ("source", "target")]

    def add(label: str, cells: Sequence[str]) -> None:
        table.add_row(label, *cells)

    add("in all", [f"{side['tokens']:,}" for side in sides])
    for label, share in (("median sentence", 0.5), ("95 % are at most", 0.95), ("longest", 1.0)):
        add(label, [f"{quantile(side['lengths'], share):,}" for side in sides])
    add("pieces of the vocabulary", [f"{side['pieces']:,}" for side in sides])
    add("  that this side uses", [f"{side['pieces_used']:,}" for side in sides])
    add("unknown", [f"{side['unknown_tokens']:,}" for side in sides])
    return table


def quantile(histogram: Sequence[int], share: float) -> int:
    """Returns the least length that at least a share of the sentences don't exceed."""
    sums = np.cumsum(histogram)
    return int(np.searchsorted(sums, share * sums[-1])) if len(sums) and sums[-1] else 0


def show_longest(report: Report, console: Console) -> None:
    """Prints the longest pairs that were read, the beginning of each."""
    table = Table()
    table.add_column("longest pairs")
    table.add_column("line", justify="right")
    table.add_column("characters", justify="right")
    table.add_column("source")
    for corpus in report.corpora:
        for pair in corpus["longest"][:3]:
            name, beginning = Text(corpus["name"]), Text(pair["source"][:60])
            table.add_row(name, f"{pair['line']:,}", f"{pair['characters']:,}", beginning)
    console.print(table)
