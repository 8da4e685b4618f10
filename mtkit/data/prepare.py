"""Corpora to a workspace's data, and the data opened again."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.console import say
from mtkit.data.cleaning import drop_blank, is_too_long
from mtkit.data.corpora import AnyCorpus, Pair, check_files, read_pairs
from mtkit.data.token_store import TokenStore, TokenStoreWriter
from mtkit.data.tokenizer import SubwordTokenizer, train_tokenizer
from mtkit.errors import MtkitError
from mtkit.recipe import Recipe, dump_recipe
from mtkit.recipe.data import FileCorpus, HubCorpus
from mtkit.workspace import Workspace, building, digest, read_json, write_atomically

_FORMAT_VERSION = 1
"""Raised when data that this version prepares can't be read by older ones, or the reverse."""
_TOKENIZER_SAMPLE_STREAM = 1
_PAIRS_AT_ONCE = 10_000


def prepare(
    recipe: Recipe, workspace: Workspace, *, check: Callable[[str], None] | None = None
) -> None:
    """Leaves tokenizer, tokenised training data and the development set in `workspace.data`.

    Nothing of an earlier `prepare` is touched until all of it is done.

    Args:
        recipe: Whose data to prepare.
        workspace: Where they go.
        check: Is told the new data's digest before they take the old ones' place, and may raise.

    Raises:
        MtkitError: A corpus that can't be read, holds no usable pair, or is too small for the
            tokenizer.
    """
    say(f"preparing {recipe.name} in {workspace.data}")
    # Told now rather than after hours of training.
    for corpus in (*recipe.data.train, recipe.data.dev, *recipe.evaluation.test_sets):
        if isinstance(corpus, FileCorpus):
            check_files(corpus)
    with building(workspace.data) as draft:
        tokenizer, digests = _train_tokenizer_on_sample(recipe)
        tokenizer.save(draft / workspace.tokenizer.name)
        facts: dict[str, Any] = {
            "format_version": _FORMAT_VERSION,
            "fingerprint": _fingerprint(recipe),
            "inputs": _describe_inputs(recipe),
            "train": {
                **_tokenize(_training_pairs(recipe), tokenizer, recipe, draft / "train"),
                "digests": digests,
            },
            "dev": _tokenize_dev(tokenizer, recipe, draft),
        }
        if check is not None:
            check(_digest_of(facts))
        write_atomically(draft / "prepared.json", json.dumps(facts, indent=2))
    write_atomically(workspace.recipe_file, dump_recipe(recipe))
    workspace.record("prepare", {"seed": recipe.seed, **facts})
    train = facts["train"]
    say(
        f"prepared {train['kept']:,} of {train['read']:,} pairs "
        f"({train['dropped']['blank']:,} with a blank side and {train['dropped']['too_long']:,} "
        f"longer than {recipe.data.cleaning.max_tokens} tokens left out): "
        f"{train['source_tokens']:,} source and {train['target_tokens']:,} target tokens, "
        f"{tokenizer.target_vocab_size:,} pieces"
    )


def is_prepared(recipe: Recipe, workspace: Workspace) -> bool:
    """Returns whether the workspace holds this recipe's data, from input files unchanged since."""
    path = workspace.data / "prepared.json"
    if not path.is_file():
        return False
    facts = read_json(path)
    return bool(
        facts.get("format_version") == _FORMAT_VERSION
        and facts["fingerprint"] == _fingerprint(recipe)
        and facts["inputs"] == _describe_inputs(recipe)
    )


@dataclass(frozen=True)
class PreparedData:
    """What `prepare` left.

    Attributes:
        tokenizer: The run's tokenizer.
        train: Training pairs as tokens.
        dev: The development set as tokens, for its loss.
        dev_text: Its source and target lines, for its score.
        digest: Digest of all that tokenizer, training and development data depend on, contents too.
    """

    tokenizer: SubwordTokenizer
    train: TokenStore
    dev: TokenStore
    dev_text: tuple[list[str], list[str]]
    digest: str


def open_prepared(recipe: Recipe, workspace: Workspace) -> PreparedData:
    """Returns the workspace's data.

    Raises:
        MtkitError: They aren't there, or were prepared from another recipe.
    """
    path = workspace.data / "prepared.json"
    if not path.is_file():
        raise MtkitError(f"{workspace.data}: no prepared data", "run `mtkit prepare` first")
    facts = read_json(path)
    if facts.get("format_version") != _FORMAT_VERSION:
        raise MtkitError(
            f"{workspace.data} was prepared by another version of mtkit",
            "run `mtkit prepare` again",
        )
    if facts["fingerprint"] != _fingerprint(recipe):
        raise MtkitError(
            f"{workspace.data} was prepared from another recipe: data, tokenizer or seed differ "
            f"(compare {workspace.recipe_file})",
            "run `mtkit prepare` again, or keep both runs apart with --workspace",
        )
    return PreparedData(
        SubwordTokenizer.load(workspace.tokenizer),
        TokenStore(workspace.data / "train"),
        TokenStore(workspace.data / "dev"),
        (_read_side(workspace, "source"), _read_side(workspace, "target")),
        _digest_of(facts),
    )


def read_digest(workspace: Workspace) -> str:
    """Returns the digest of the workspace's data, whatever their recipe; empty without data."""
    path = workspace.data / "prepared.json"
    facts = read_json(path) if path.is_file() else {}
    return _digest_of(facts) if facts.get("format_version") == _FORMAT_VERSION else ""


def _digest_of(facts: dict[str, Any]) -> str:
    return digest([facts["fingerprint"], facts["train"]["digests"], facts["dev"]["digest"]])


def _read_side(workspace: Workspace, side: str) -> list[str]:
    # Bytes: reading as text would take a lone "\r" for the end of a line.
    content = (workspace.data / "dev" / f"{side}.txt").read_bytes().decode("utf-8")
    return content.split("\n")[:-1]


def _fingerprint(recipe: Recipe) -> str:
    """Returns a digest of what the prepared data depend on, but for the corpora's contents.

    Where the corpora lie doesn't count: a project's folder may move.
    """
    chosen = recipe.model_dump(mode="json", include={"data", "tokenizer", "seed"})
    root = chosen["data"].pop("data_root")
    return digest(json.loads(json.dumps(chosen).replace(json.dumps(f"{root}/")[1:-1], "")))


def _describe_inputs(recipe: Recipe) -> list[dict[str, Any]]:
    """Returns size and time of each corpus file, by which a change is noticed."""
    files: list[Path] = []
    for corpus in (*recipe.data.train, recipe.data.dev):
        if isinstance(corpus, FileCorpus):
            files += [corpus.source, corpus.target]
        elif isinstance(corpus, HubCorpus):
            # A name on the hub is no folder, and nothing is found in it.
            files += sorted(path for path in Path(corpus.dataset).rglob("*") if path.is_file())
    return [
        {"name": path.name, "size": path.stat().st_size, "modified_ns": path.stat().st_mtime_ns}
        if path.is_file()
        else {"name": path.name}
        for path in files
    ]


def _pairs(recipe: Recipe, corpus: AnyCorpus, split: str) -> Iterator[Pair]:
    return read_pairs(
        corpus,
        phrasebook_split=split,
        source_language=recipe.data.source_language,
        target_language=recipe.data.target_language,
    )


def _training_pairs(recipe: Recipe) -> Iterator[Pair]:
    for corpus in recipe.data.train:
        yield from _pairs(recipe, corpus, "train")


def _train_tokenizer_on_sample(recipe: Recipe) -> tuple[SubwordTokenizer, dict[str, str]]:
    """Returns a tokenizer, and the digests of both sides of the training text it read."""
    digests = {"source": hashlib.sha256(), "target": hashlib.sha256()}

    def digested(pairs: Iterable[Pair]) -> Iterator[Pair]:
        for source, target in pairs:
            digests["source"].update(f"{source}\n".encode())
            digests["target"].update(f"{target}\n".encode())
            yield source, target

    pairs = drop_blank(digested(_training_pairs(recipe)), Counter())
    sample = _draw(pairs, max(1, recipe.tokenizer.max_training_sentences // 2), seed=recipe.seed)
    if not sample:
        raise MtkitError(
            "data.train: no pair with text on both sides", "are these the right files?"
        )
    say(f"training the tokenizer on {len(sample):,} pairs")
    tokenizer = train_tokenizer(
        recipe.tokenizer,
        (source for source, _ in sample),
        (target for _, target in sample),
        seed=recipe.seed,
    )
    return tokenizer, {side: running.hexdigest() for side, running in digests.items()}


def _draw(pairs: Iterable[Pair], size: int, *, seed: int) -> list[Pair]:
    """Returns `size` pairs drawn evenly, or all where there are fewer (Vitter 1985, R)."""
    generator = np.random.Generator(np.random.PCG64([seed, _TOKENIZER_SAMPLE_STREAM]))
    drawn: list[Pair] = []
    for number, pair in enumerate(pairs):
        if number < size:
            drawn.append(pair)
        elif (place := int(generator.integers(number + 1))) < size:
            drawn[place] = pair
    return drawn


def _tokenize(
    pairs: Iterable[Pair], tokenizer: SubwordTokenizer, recipe: Recipe, folder: Path
) -> dict[str, Any]:
    """Writes a token store; returns what was read, kept and dropped."""
    folder.mkdir()
    dropped: Counter[str] = Counter(blank=0, too_long=0)
    usable = drop_blank(pairs, dropped)
    vocab_size = max(tokenizer.source_vocab_size, tokenizer.target_vocab_size)
    num_source_tokens = num_target_tokens = 0
    with TokenStoreWriter(folder, vocab_size) as store:
        while chunk := list(islice(usable, _PAIRS_AT_ONCE)):
            sources = tokenizer.encode_source([source for source, _ in chunk])
            targets = tokenizer.encode_target([target for _, target in chunk])
            for source, target in zip(sources, targets, strict=True):
                if is_too_long(source, target, recipe.data.cleaning.max_tokens):
                    dropped["too_long"] += 1
                    continue
                store.append(source, target)
                num_source_tokens += len(source)
                num_target_tokens += len(target)
    if not store.num_pairs:
        raise MtkitError(
            f"{folder.name}: no pair left: {dropped['blank']:,} with a blank side, "
            f"{dropped['too_long']:,} longer than data.cleaning.max_tokens = "
            f"{recipe.data.cleaning.max_tokens}",
            "are these the right files?",
        )
    return {
        "read": store.num_pairs + dropped.total(),
        "kept": store.num_pairs,
        "dropped": dict(dropped),
        "source_tokens": num_source_tokens,
        "target_tokens": num_target_tokens,
    }


def _tokenize_dev(tokenizer: SubwordTokenizer, recipe: Recipe, draft: Path) -> dict[str, Any]:
    """Writes the development set as tokens, for its loss, and as text, for its score."""
    pairs = list(_pairs(recipe, recipe.data.dev, "dev"))
    facts = _tokenize(pairs, tokenizer, recipe, draft / "dev")
    for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        write_atomically(draft / "dev" / f"{side}.txt", "".join(f"{line}\n" for line in lines))
    return {**facts, "digest": digest(pairs)}
