"""Terms by alignments, from the recipe to the lexicon and the store of tokens."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mtkit.data import phrasebook
from mtkit.data.augmentation.aligned_terms import TermLexicon
from mtkit.data.phrasebook.lexicon import NOUNS
from mtkit.data.preparation.collect_terms import LEXICON_FILE, add_up
from mtkit.data.prepare import is_prepared, prepare
from mtkit.data.prepared import PreparedData, open_prepared
from mtkit.errors import MtkitError
from mtkit.executor import LocalExecutor
from mtkit.recipe import Recipe, load_recipe
from mtkit.text.term_forms import TERM_SYMBOLS
from mtkit.workspace import Workspace

RECIPE = """\
name = "terms"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
source = "train.en"
target = "train.de"
[data.dev]
source = "dev.en"
target = "dev.de"
[data.augment.terms]
rate = 0.8
[tokenizer]
vocab_size = 600
"""
_ANNOTATED = re.compile(r"<term0> ?(.+?) ?<term1> ?(.+?) ?<term2>")


@pytest.fixture(scope="module")
def pairs():
    return list(phrasebook.generate_pairs("train", 3_000))


@pytest.fixture
def project(tmp_path: Path, pairs) -> Path:
    (tmp_path / "mtkit.toml").write_text(RECIPE)
    write(tmp_path, "train", pairs)
    write(tmp_path, "dev", list(phrasebook.generate_pairs("dev", 10)))
    return tmp_path


def write(folder: Path, split: str, pairs) -> None:
    for language, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"{split}.{language}").write_text(text, encoding="utf-8")


def load(folder: Path, *settings: str, name: str = "run") -> tuple[Recipe, Workspace]:
    return load_recipe(folder / "mtkit.toml", list(settings)), Workspace(folder / name)


def read_annotated(data: PreparedData) -> list[tuple[str, str]]:
    """Returns the terms of the annotated sources in a store, with their translations."""
    rows = data.train.gather(np.arange(len(data.train)))["source"].to_lists()
    pieces = data.tokenizer.source_vocabulary.pieces
    lines = ["".join(pieces[token] for token in row[:-1]).replace("▁", " ") for row in rows]
    return [found for line in lines for found in _ANNOTATED.findall(line)]


def test_nouns_are_annotated_by_a_form_of_their_translation(project: Path) -> None:
    """The phrasebook's lexicon tells the translation of each noun, and its forms."""
    recipe, workspace = load(project)
    prepare(recipe, workspace)
    data = open_prepared(recipe, workspace)
    (facts,) = json.loads((workspace.data / "train" / "stage.json").read_text())["facts"]["corpora"]
    assert len(data.train) == facts["kept"] + facts["augmented"]["terms"]
    # 0.8 of the pairs, nearly all of which have a word that isn't common.
    assert facts["augmented"]["terms"] > 0.7 * facts["kept"]
    assert data.train.columns == ("source", "target")

    counts = Counter[str]()
    for source, target in read_annotated(data):
        for noun in NOUNS:
            if source in (noun.english, noun.english_plural) and noun.german != "-":
                counts["all"] += 1
                counts["base"] += target == noun.german
                counts["right"] += target.startswith((noun.german, noun.german_plural))
    assert counts["all"] > 500
    # Of 3,000 pairs an aligner that has nothing else knows most words, and nouns stand mostly in
    # the singular.
    assert counts["right"] > 0.9 * counts["all"]
    assert counts["base"] > 0.7 * counts["all"]

    lexicon = TermLexicon.load(workspace.data / "terms" / LEXICON_FILE)
    assert {"the", "a", "is"} <= set(lexicon.common[0])
    assert {"der", "die", "das"} <= set(lexicon.common[1])
    assert is_prepared(recipe, workspace)


def test_any_number_of_workers_and_a_preparation_that_was_interrupted(
    project: Path, pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, "train", pairs[:400])
    found = []
    for workers in (1, 2):
        recipe, workspace = load(project, name=f"run{workers}")
        prepare(recipe, workspace, executor=LocalExecutor(workers))
        found.append(read_stages(workspace))
    assert found[0] == found[1]

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    recipe, workspace = load(project, name="stopped")
    with monkeypatch.context() as context:
        context.setattr("mtkit.data.preparation.tokenize_pairs.PairTokenizer.__call__", stop)
        with pytest.raises(KeyboardInterrupt):
            prepare(recipe, workspace)
    with monkeypatch.context() as context:
        # What was finished isn't done again.
        for name in ("align_text.PartAligner", "collect_terms.PartTerms"):
            context.setattr(f"mtkit.data.preparation.{name}.__call__", stop)
        prepare(recipe, workspace)
    assert read_stages(workspace) == found[0]


def read_stages(workspace: Workspace) -> dict[str, bytes]:
    return {
        str(path.relative_to(workspace.data)): path.read_bytes()
        for stage in ("alignment", "terms", "train")
        for path in sorted((workspace.data / stage).rglob("*"))
        if path.is_file()
    }


def test_links_of_tokens_are_stored_where_attention_is_guided(project: Path, pairs) -> None:
    write(project, "train", pairs[:300])
    recipe, workspace = load(project)
    prepare(recipe, workspace)
    both, _ = load(project, "training.guided_alignment={}")
    assert not is_prepared(both, workspace)
    num_rows = len(open_prepared(recipe, workspace).train)
    prepare(both, workspace)
    data = open_prepared(both, workspace)
    assert data.train.columns == ("source", "target", "alignment")
    # The same examples, without links of their own.
    assert len(data.train) == num_rows
    links = data.train.gather(np.arange(num_rows))["alignment"].to_lists()
    sources = data.train.gather(np.arange(num_rows))["source"].to_lists()
    symbol = data.tokenizer.source_vocabulary.ids[TERM_SYMBOLS[0]]
    assert any(symbol in source for source in sources)
    assert not any(row for row, source in zip(links, sources, strict=True) if symbol in source)


def test_a_corpus_may_bring_its_alignments(project: Path, pairs) -> None:
    """Each word is linked to the one that it isn't written like, which no aligner would do."""
    # Sixty words on either side of a space, each in one pair of sixty: less than 2 %.
    ends = [first + second for first in "bcdfghklmn" for second in "aeiouy"]
    ways = [
        (first, ends[(number + step) % 60])
        for number, first in enumerate(ends)
        for step in range(15)
    ]
    pairs = [(f"s{one} z{two}", f"s{one} z{two}!") for one, two in ways]
    write(project, "train", pairs)
    (project / "train.align").write_text("0-1 1-0\n" * len(pairs))
    text = (project / "mtkit.toml").read_text()
    (project / "mtkit.toml").write_text(
        text.replace('target = "train.de"\n', 'target = "train.de"\nalignments = "train.align"\n')
    )
    recipe, workspace = load(
        project, "data.cleaning.identical.enabled=false", "tokenizer.vocab_size=200"
    )
    prepare(recipe, workspace)
    found = read_annotated(open_prepared(recipe, workspace))
    kinds = Counter((source[0], target[0]) for source, target in found if " " not in source)
    assert set(kinds) == {("s", "z"), ("z", "s")}
    both = {(source, target) for source, target in found if " " in source}
    assert both
    assert all(source == target for source, target in both)


def test_pairs_whose_words_are_all_common_have_no_terms(project: Path) -> None:
    # Eleven words on either side, each in one pair of eleven.
    ends = "bcdfghklmnp"
    write(
        project, "train", [(f"s{one}a x{two}a", f"t{one}a y{two}a") for one in ends for two in ends]
    )
    recipe, workspace = load(project)
    with pytest.raises(MtkitError, match="found no words in 121 pairs"):
        prepare(recipe, workspace)


def test_too_few_pairs_are_refused(project: Path, pairs) -> None:
    write(project, "train", pairs[:60])
    recipe, workspace = load(project)
    with pytest.raises(MtkitError, match="60 are too few: it needs at least 100") as refused:
        prepare(recipe, workspace)
    assert "data.augment.terms.dictionary" in (refused.value.hint or "")


def test_with_a_dictionary_no_pair_is_aligned(project: Path, pairs) -> None:
    write(project, "train", pairs[:60])
    (project / "dictionary.tsv").write_text("man\tMann\nwoman\tFrau\n", encoding="utf-8")
    recipe, workspace = load(project, "data.augment.terms.dictionary=dictionary.tsv")
    prepare(recipe, workspace)
    assert not (workspace.data / "alignment").exists()
    assert not (workspace.data / "terms").exists()


def test_counts_that_are_too_many_lose_the_rare_ones() -> None:
    def count(**numbers: int) -> Counter[tuple[str, str]]:
        return Counter({("x", key): number for key, number in numbers.items()})

    assert add_up([count(a=2, b=1), count(a=1, c=1)], max_counts=3) == count(a=3, b=1, c=1)
    # Four are too many: what was seen once goes; then what was seen twice.
    parts = [count(a=3, b=1), count(c=2, d=1), count(e=2, f=2, g=1)]
    assert add_up(parts, max_counts=3) == count(a=3)
