"""Every shipped recipe goes from corpora to a validated checkpoint, on a sliver and in small."""

import gzip
import json
import math
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from mtkit.data.phrasebook import generate_pairs
from mtkit.data.prepare import prepare
from mtkit.data.sources.corpora import read_corpus_pairs, read_corpus_text
from mtkit.recipe import Recipe, load_recipe, shipped_recipes
from mtkit.recipe.corpora import FileCorpus, HubCorpus, PairedFileCorpus
from mtkit.recipe.parsing import TreeCorpus
from mtkit.recipe.text_corpora import TextCorpus
from mtkit.training.train import train
from mtkit.workspace import Workspace

NAMES = sorted(shipped_recipes())
SIZES = {"train": 300, "dev": 12, "test": 4}
CYRILLIC = {
    first + index: chr(cyrillic + index)
    for first, cyrillic in ((ord("a"), ord("а")), (ord("A"), ord("А")))
    for index in range(26)
}
HUB_SPLITS = {"train": "train", "dev": "validation", "test": "test"}

# Narrow, but with the recipe's layers, heads, norms, activation, positions and ties.
SMALL = [
    "tokenizer.vocab_size=400",
    "training.max_steps=2",
    "training.batch_tokens=128",
    "training.length_groups=2",
    "training.micro_batch_tokens=128",
    "training.checkpoint_every=2",
    "training.log_every=2",
    "training.precision=fp32",
    "inference.max_extra_tokens=2",
]


def _local_files(name: str) -> list[str]:
    """Returns the `--set` list with which a recipe's header says to read other files."""
    lines = shipped_recipes()[name].read_text("utf-8").splitlines()
    options = [shlex.split(line[1:]) for line in lines if line.startswith("#   --set ")]
    return [override for _, override in options]


def _small(name: str, *overrides: str) -> Recipe:
    model = load_recipe(name).model
    narrow = [
        f"model.d_model={4 * model.num_heads}",
        f"model.d_ff={8 * model.num_heads}",
        "model.d_key=4",
        "model.d_value=4",
    ]
    is_text = load_recipe(name).data.is_text
    narrow += ["data.block_tokens=64" if is_text else "data.cleaning.max_tokens=64"]
    if load_recipe(name).training.masked.short_tokens is not None:
        narrow += ["training.masking.short_tokens=32"]
    if name == "phrasebook-en-de":
        narrow += [f"data.train.0.sentences={SIZES['train']}", f"data.dev.sentences={SIZES['dev']}"]
        narrow += [f"evaluation.test_sets.0.sentences={SIZES['test']}"]
    return load_recipe(name, [*overrides, *SMALL, *narrow])


def _corpora(recipe: Recipe) -> Iterator[tuple[str, object]]:
    """Yields each corpus of a recipe with the split of the phrasebook that stands in for it."""
    yield from (("train", corpus) for corpus in recipe.data.train)
    yield "dev", recipe.data.dev
    yield from (("test", test_set) for test_set in recipe.evaluation.test_sets)


def _write_corpora(recipe: Recipe, root: Path) -> None:
    """Leaves English as the first of a recipe's languages, and German as the second."""
    languages = (recipe.data.source_language, recipe.data.target_language)
    for split, corpus in _corpora(recipe):
        pairs = list(generate_pairs(split, SIZES[split]))
        if isinstance(corpus, FileCorpus):
            for path, language, side in zip(
                (corpus.source, corpus.target), languages, zip(*pairs, strict=True), strict=True
            ):
                written = "".join(f"{line}\n" for line in side)
                # Lines in another script than the language's are dropped.
                text = written.translate(CYRILLIC if language.endswith("_Cyrl") else {}).encode()
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        elif isinstance(corpus, PairedFileCorpus):
            corpus.path.parent.mkdir(parents=True, exist_ok=True)
            corpus.path.write_text("".join("\t".join(pair) + "\n" for pair in pairs))
        elif isinstance(corpus, TextCorpus):
            # Documents of six sentences, which are lines of their own where lines are documents.
            lines = [german for _, german in pairs]
            text = "\n".join("\n".join((*lines[n : n + 6], "")) for n in range(0, len(lines), 6))
            corpus.text.parent.mkdir(parents=True, exist_ok=True)
            corpus.text.write_bytes(gzip.compress(text.encode()))
        elif isinstance(corpus, TreeCorpus):
            trees = "".join(
                f"( (S {' '.join(map(_as_leaf, text.split()))}) )\n" for text, _ in pairs
            )
            corpus.trees.parent.mkdir(parents=True, exist_ok=True)
            is_packed = corpus.trees.suffix == ".gz"
            corpus.trees.write_bytes(gzip.compress(trees.encode()) if is_packed else trees.encode())
        elif isinstance(corpus, HubCorpus):
            assert corpus.split == HUB_SPLITS[split]
            rows = [dict(zip(languages, pair, strict=True)) for pair in pairs]
            _write_hub_split(corpus, rows, root / corpus.dataset)


def _as_leaf(word: str) -> str:
    return f"(NP (NN {word}))"


def _write_hub_split(corpus: HubCorpus, rows: list[dict[str, str]], folder: Path) -> None:
    """Leaves a split as the hub has it: Parquet with a `translation` column.

    A repository has a card, which names the files of each configuration and split; one
    configuration of the hub's converted branch is a folder of splits.
    """
    if corpus.configuration == "default":
        path = folder / corpus.split / "0000.parquet"
    else:
        path = folder / corpus.configuration / f"{corpus.split}-00000-of-00001.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    data_set = import_module("datasets").Dataset.from_dict({"translation": rows})
    data_set.to_parquet(str(path))
    if corpus.configuration != "default":
        files = "".join(
            f"  - split: {split}\n    path: {corpus.configuration}/{split}-*\n"
            for split in HUB_SPLITS.values()
        )
        (folder / "README.md").write_text(
            f"---\nconfigs:\n- config_name: {corpus.configuration}\n  data_files:\n{files}---\n"
        )


def _run_in(folder: Path, name: str, *overrides: str) -> None:
    """Prepares, makes two updates, and finds a validation and readable test sets."""
    # A recipe finds a data set's folder when it is read, so the folder comes first.
    _write_corpora(load_recipe(name, overrides), folder / "data")
    if load_recipe(name, overrides).data.target_language == "tyv":
        # The phrasebook's German isn't in its script.
        overrides = (*overrides, "data.target_language=de")
    if load_recipe(name, overrides).training.start_from is not None:
        overrides = (*overrides, _train_start(folder / "start", name, *overrides))
    recipe, workspace = _small(name, *overrides), Workspace(folder / "run")
    for _, corpus in _corpora(recipe):
        assert not isinstance(corpus, HubCorpus) or Path(corpus.dataset).is_dir()
    prepare(recipe, workspace)
    assert train(recipe, workspace, device="cpu")
    metrics = [json.loads(line) for line in workspace.metrics_file.read_text("utf-8").splitlines()]
    [validation] = [line for line in metrics if line["kind"] == "dev"]
    assert validation["step"] == 2
    assert math.isfinite(validation["loss"])
    for test_set in recipe.evaluation.test_sets:
        if isinstance(test_set, TextCorpus):
            lines, _ = read_corpus_text(test_set)
            assert len(lines) == SIZES["test"]
            continue
        pairs = read_corpus_pairs(
            test_set,
            phrasebook_split="test",
            languages=recipe.data.languages,
            linearization=recipe.data.linearization,
        )
        assert sum(1 for _ in pairs) == SIZES["test"]


def _train_start(folder: Path, name: str, *overrides: str) -> str:
    """Trains what stands in for a recipe's public model; returns the override that names it."""
    without = ["~training.start_from"]
    if load_recipe(name, overrides).training.lora is not None:
        without.append("~training.lora")
    recipe, workspace = _small(name, *overrides, *without), Workspace(folder)
    prepare(recipe, workspace)
    assert train(recipe, workspace, device="cpu")
    return f"training.start_from.model={workspace.model}"


# But for numbers that are small here, each is the smaller recipe of its folder.
LARGER = {"bert-large", "wmt14-en-de-big", "wmt14-en-fr-big"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.patient] if name in LARGER else []) for name in NAMES],
)
def test_it_runs(name: str, tmp_path: Path) -> None:
    _run_in(tmp_path, name, f"data.data_root={tmp_path}/data")


WITH_OTHER_FILES = [name for name in NAMES if _local_files(name)]


def test_whatever_reads_the_hub_reads_files_too() -> None:
    assert {name for name in NAMES if isinstance(load_recipe(name).data.dev, HubCorpus)} <= set(
        WITH_OTHER_FILES
    )


@pytest.mark.parametrize("name", WITH_OTHER_FILES)
def test_its_header_names_other_files_for_every_corpus(name: str) -> None:
    recipe = load_recipe(name, _local_files(name))
    kinds = {isinstance(corpus, HubCorpus) for _, corpus in _corpora(recipe)}
    assert kinds == {not isinstance(load_recipe(name).data.dev, HubCorpus)}
    unchanged = {"name", "tokenizer", "model", "training", "inference"}
    assert recipe.model_dump(include=unchanged) == load_recipe(name).model_dump(include=unchanged)


# Those of one folder have the same header.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["iwslt14-de-en", "ted-pt-en", "wmt14-en-de-base"])
def test_it_runs_from_the_other_files_that_its_header_names(name: str, tmp_path: Path) -> None:
    overrides = _local_files(name)
    assert overrides[0] == "data.data_root=FOLDER"
    overrides[0] = f"data.data_root={tmp_path}/data"
    _run_in(tmp_path, name, *overrides)
