"""Opens the data of a workspace, and checks whether it is up to date."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mtkit.data.batches.length_order import LengthOrder
from mtkit.data.batches.numbered_texts import NumberedTexts, open_labelled
from mtkit.data.batches.token_store import ALIGNMENT_COLUMN, TokenStore
from mtkit.data.sources.corpora import input_files
from mtkit.data.tokenizer_choice import TokenizerChoice
from mtkit.data.word_alignment.aligner import ALIGNER_FILE
from mtkit.errors import MtkitError
from mtkit.files import check_format, digest, read_file, read_json
from mtkit.recipe import Recipe
from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.tables import list_differences, relative_to_root, select_keys
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.storage import describe_location
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.workspace import Workspace

FORMAT_VERSION = 5
"""Increased when older versions can't read this version's data, or the reverse."""
FACTS_FILE = "prepared.json"
_MAX_TEXT_BYTES = 1 << 28
_MAX_CHANGES_TOLD = 3
SHORT_BLOCKS = "short"
"""Folder of short blocks inside that of the stage `train`."""


@dataclass(frozen=True)
class PreparedData:
    """The data of a workspace.

    Attributes:
        train: Training pairs as tokens, in the columns `source` and `target`, and `alignment` with
            guided attention; blocks of text in one language are in the column `text`.
        train_order: The same rows by length.
        dev: The development set as tokens, for its loss.
        dev_text: Its source and target lines, for its score. For text in one language, both are its
            lines without blank ones.
        digest: Digest of all that training depends on: tokenizer, tokens and weights.
        documents: The document number of each block of `train`, ascending, [rows]; None for pairs.
        train_short: The training text in short blocks; None if the recipe has none.
        labels: A classifier's labels, sorted; otherwise empty.
        train_labels: The label number of each row of `train`; None without labels.
        word_aligner: File of the aligner trained on the pairs; None without `data.word_aligner`.
    """

    tokenizer: SubwordTokenizer
    train: TokenStore
    train_order: LengthOrder
    dev: TokenStore
    dev_text: tuple[list[str], list[str]]
    digest: str
    documents: NDArray[np.int64] | None = None
    dev_documents: NDArray[np.int64] | None = None
    train_short: NumberedTexts | None = None
    labels: tuple[str, ...] = ()
    train_labels: NDArray[np.int64] | None = None
    dev_labels: NDArray[np.int64] | None = None
    word_aligner: Path | None = None


def open_prepared(recipe: Recipe, workspace: Workspace) -> PreparedData:
    """Returns the workspace's data; raises MtkitError if it is from another recipe."""
    path = workspace.data / FACTS_FILE
    if not path.is_file():
        raise MtkitError(f"{workspace.data}: no prepared data", "run `mtkit prepare` first")
    hint = "run `mtkit prepare` again"
    facts = read_json(path, hint=hint)
    check_format(facts, path, FORMAT_VERSION, hint)
    if facts.get("fingerprint") != fingerprint(recipe):
        changes = _list_changes(recipe.model_dump(mode="json", exclude_none=True), workspace)
        told = f": {'; '.join(changes[:_MAX_CHANGES_TOLD])}" if changes else ""
        raise MtkitError(
            f"{workspace.data} was prepared from another recipe: data, tokenizer or seed differ "
            f"(compare {workspace.recipe_file}){told}",
            "use the same --set as for `mtkit prepare`, or write it into the recipe; to prepare "
            "again: `mtkit prepare`, with another `name` or --workspace if there are checkpoints",
        )
    tokenizer = SubwordTokenizer.load(workspace.tokenizer)
    train_folder, dev_folder = workspace.data / "train", workspace.data / "dev"
    num_pieces = tokenizer.source_vocab_size
    opened = partial(
        PreparedData,
        tokenizer,
        dev_text=read_dev_text(workspace),
        digest=str(facts.get("digest", "")),
    )
    if recipe.objective == "classification":
        texts, labels = open_labelled(train_folder, num_pieces)
        held_out, _ = open_labelled(dev_folder, num_pieces)
        return opened(
            train=texts.store,
            train_order=texts.order,
            dev=held_out.store,
            labels=labels,
            train_labels=texts.numbers,
            dev_labels=held_out.numbers,
        )
    if recipe.data.is_text:
        train = NumberedTexts.open(train_folder, num_pieces)
        dev = NumberedTexts.open(dev_folder, num_pieces)
        has_short = recipe.training.masked.short_tokens is not None
        short = NumberedTexts.open(train_folder / SHORT_BLOCKS, num_pieces) if has_short else None
        return opened(
            train=train.store,
            train_order=train.order,
            dev=dev.store,
            documents=train.numbers,
            dev_documents=dev.numbers,
            train_short=short,
        )
    columns = dict(tokenizer.vocab_sizes)
    if recipe.training.guided_alignment is not None:
        columns[ALIGNMENT_COLUMN] = recipe.data.max_tokens
    aligner = workspace.data / "aligner" / ALIGNER_FILE
    return opened(
        train=TokenStore(train_folder, columns),
        train_order=LengthOrder(train_folder),
        dev=TokenStore(dev_folder, tokenizer.vocab_sizes),
        word_aligner=aligner if recipe.data.word_aligner else None,
    )


def _list_changes(wanted: Mapping[str, Any], workspace: Workspace) -> list[str]:
    """Returns a phrase for each key of data, tokenizer or seed that changed since `prepare`."""
    if not workspace.recipe_file.is_file():
        return []
    try:
        tables = tomllib.loads(read_file(workspace.recipe_file, max_bytes=1 << 20).decode("utf-8"))
    except (RecursionError, ValueError):
        # Changed by hand, or it names a path that is invalid UTF-8, which TOML can't.
        return []
    try:
        return list_differences(_select_data(wanted), _select_data(tables))
    except TypeError:
        # Changed by hand.
        return []


def read_digest(workspace: Workspace) -> str:
    """Returns the digest of the workspace's data, for any recipe; empty without data."""
    return str(read_facts(workspace).get("digest", ""))


def read_facts(workspace: Workspace) -> dict[str, Any]:
    """Returns what `prepare` noted about data in this version's format; empty without any."""
    path = workspace.data / FACTS_FILE
    try:
        facts = read_json(path) if path.is_file() else {}
    except MtkitError:
        # Damaged: `prepare` writes it again.
        return {}
    return facts if facts.get("format_version") == FORMAT_VERSION else {}


def fingerprint(recipe: Recipe) -> str:
    """Returns a digest of what prepared data depends on, except the corpora's contents.

    The corpora's location doesn't count, because a project's folder may move.
    """
    chosen = _select_data(recipe.model_dump(mode="json"))
    kept = TokenizerChoice.of(recipe).reused_folder
    if kept is not None:
        root = str(recipe.data.data_root)
        chosen["kept_vocabulary"] = relative_to_root(str(kept), root)
    short_tokens = recipe.training.masked.short_tokens
    if recipe.objective == "classification":
        chosen["classification"] = recipe.classification.kind
    if short_tokens is not None:
        chosen["short_tokens"] = short_tokens
    if recipe.training.guided_alignment is not None:
        chosen["is_aligned"] = True
    return digest(chosen)


def _select_data(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys of data, tokenizer and seed that affect prepared data."""
    chosen = select_keys(tables, Invalidates.DATA)
    # Only the choice of a kept vocabulary affects the data, not the rest of `training.start_from`.
    chosen.pop("training", None)
    root = str(tables.get("data", {}).get("data_root", ""))
    relative: dict[str, Any] = relative_to_root(chosen, root)
    return relative


def describe_inputs(corpora: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Returns size and time of each file of some corpora, which reveal a change."""
    return [describe_location(path) for corpus in corpora for path in input_files(corpus)]


def describe_pretrained(tokenizer: Tokenizer) -> list[Mapping[str, Any]]:
    """Returns what identifies a recipe's SentencePiece models; empty without any."""
    models = tokenizer.pretrained
    paths = [] if models is None else [models.source, models.target]
    return [describe_location(path) for path in paths if path is not None]


def read_dev_text(workspace: Workspace) -> tuple[list[str], list[str]]:
    """Returns source and target lines of the development set; both the same for text."""
    if (workspace.data / "dev" / "text.txt").is_file():
        lines = read_dev_side(workspace.data, "text")
        return lines, lines
    return read_dev_side(workspace.data, "source"), read_dev_side(workspace.data, "target")


def read_dev_side(data: Path, side: Literal["source", "target", "text"]) -> list[str]:
    """Returns one side of the development set in a folder of prepared data, or its text."""
    # Bytes, because reading as text would treat a lone "\r" as a line end.
    path = data / "dev" / f"{side}.txt"
    try:
        content = read_file(path, max_bytes=_MAX_TEXT_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise MtkitError(
            f"{path}: damaged: invalid UTF-8: {error}", "run `mtkit prepare` again"
        ) from error
    return content.split("\n")[:-1]


def check_weights(recipe: Recipe, order: LengthOrder) -> None:
    """Checks that each stage of a training has a corpus with a weight and rows."""
    filled = np.unique(order.strata["corpus"])
    for number, stage in enumerate(recipe.stages):
        if not np.take(stage.weights, filled).any():
            raise MtkitError(
                f"training.stages.{number}.weights: no pairs: the corpora with a weight are empty",
                "give another corpus a weight; `mtkit prepare` prints what each one has",
            )
