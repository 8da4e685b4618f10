"""Pairs keep their word alignments from the corpus to the token store."""

from pathlib import Path

import numpy as np
import pytest

from mtkit.data import phrasebook
from mtkit.data.batches.token_store import ALIGNMENT_COLUMN
from mtkit.data.prepare import is_prepared, prepare
from mtkit.data.prepared import PreparedData, open_prepared
from mtkit.errors import MtkitError
from mtkit.executor import LocalExecutor
from mtkit.recipe import Recipe, load_recipe
from mtkit.text.words import find_between_spaces, find_owners
from mtkit.workspace import Workspace

RECIPE = """\
name = "aligned"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
source = "train.en"
target = "train.de"
alignments = "train.align"
tag = "<t>"
[data.dev]
source = "dev.en"
target = "dev.de"
[tokenizer]
vocab_size = 300
[training.guided_alignment]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a recipe, and pairs whose words are linked from the last to the first."""
    (tmp_path / "mtkit.toml").write_text(RECIPE)
    pairs = list(phrasebook.generate_pairs("train", 300))
    # A repeated pair, a blank one, and one with an address of its own, which is dropped.
    pairs[10] = pairs[5]
    pairs[20] = (pairs[20][0], "")
    pairs[30] = (pairs[30][0] + " http://a.example", pairs[30][1])
    write(tmp_path, "train", pairs)
    write(tmp_path, "dev", list(phrasebook.generate_pairs("dev", 10)))
    (tmp_path / "train.align").write_text("".join(turn_around(*pair) + "\n" for pair in pairs))
    return tmp_path


def turn_around(source: str, target: str) -> str:
    counts = len(source.split()), len(target.split())
    return " ".join(f"{index}-{counts[1] - 1 - index}" for index in range(min(counts)))


def write(folder: Path, split: str, pairs) -> None:
    for language, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
        (folder / f"{split}.{language}").write_text("".join(line + "\n" for line in lines))


def prepare_project(folder: Path, *settings: str, num_workers: int = 1) -> PreparedData:
    recipe, workspace = load(folder, *settings)
    prepare(recipe, workspace, executor=LocalExecutor(num_workers))
    assert is_prepared(recipe, workspace)
    return open_prepared(recipe, workspace)


def load(folder: Path, *settings: str) -> tuple[Recipe, Workspace]:
    recipe = load_recipe(folder / "mtkit.toml", list(settings))
    return recipe, Workspace(folder / "runs" / "aligned")


def link_words(data: PreparedData, row: int) -> tuple[str, str, set[tuple[int, int]]]:
    """Returns a row's text, and which words its tokens are linked across."""
    found = data.train.gather(np.array([row]))
    owners, lines = [], []
    for side, num_before in (("source", 1), ("target", 0)):
        tokens = found[side].tokens.tolist()[num_before:-1]
        vocabulary = (
            data.tokenizer.source_vocabulary
            if side == "source"
            else data.tokenizer.target_vocabulary
        )
        pieces = [vocabulary.pieces[token].replace("▁", " ") for token in tokens]
        line = "".join(pieces)
        ends = np.cumsum([len(piece) for piece in pieces]).tolist()
        words = find_between_spaces(line)
        spans = list(zip([0, *ends[:-1]], ends, strict=True))
        owners.append([-1] * num_before + find_owners(spans, words))
        lines.append(line.strip())
    numbers = found[ALIGNMENT_COLUMN].tokens.tolist()
    links = {
        (owners[0][source], owners[1][target])
        for source, target in zip(numbers[::2], numbers[1::2], strict=True)
    }
    return lines[0], lines[1], links


def test_links_follow_their_pairs(project: Path) -> None:
    data = prepare_project(project)
    assert data.train.columns == ("source", "target", "alignment")
    # Three of 300 are gone: as no others.
    assert len(data.train) == 297
    for row in range(len(data.train)):
        source, target, links = link_words(data, row)
        expected = {
            tuple(map(int, link.split("-"))) for link in turn_around(source, target).split()
        }
        assert links == expected, (source, target)


def test_joined_pairs_have_no_links(project: Path) -> None:
    data = prepare_project(project, "data.augment.joined={rate=1.0, max_sentences=2}")
    lengths = data.train.lengths(np.arange(len(data.train)))[ALIGNMENT_COLUMN]
    # 297 pairs, and 296 that join each one but the last with the next.
    assert [bool(length) for length in lengths] == [True] * 297 + [False] * 296


def test_links_are_by_target_token_and_each_stands_once(project: Path) -> None:
    data = prepare_project(project)
    for row in data.train.gather(np.arange(50))[ALIGNMENT_COLUMN].to_lists():
        pairs = list(zip(row[1::2], row[::2], strict=True))
        assert pairs == sorted(set(pairs))


def test_any_number_of_workers_and_mtkits_own_aligner(project: Path) -> None:
    text = (project / "mtkit.toml").read_text()
    own = text.replace('alignments = "train.align"\n', "")
    (project / "mtkit.toml").write_text(own)
    digests = []
    for num_workers in (1, 2):
        data = prepare_project(project, num_workers=num_workers)
        digests.append(data.digest)
        _, workspace = load(project)
        for path in sorted(workspace.data.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
    assert digests[0] == digests[1]
    assert len(data.train) == 297


def test_other_alignments_are_other_data(project: Path) -> None:
    before = prepare_project(project).digest
    recipe, workspace = load(project)
    path = project / "train.align"
    lines = path.read_text().splitlines()
    lines[0] = ""
    path.write_text("\n".join(lines) + "\n")
    assert not is_prepared(recipe, workspace)
    assert prepare_project(project).digest != before


def test_weight_and_head_are_no_matter_of_data(project: Path) -> None:
    prepare_project(project)
    recipe, workspace = load(
        project, "training.guided_alignment.weight=0.5", "training.guided_alignment.at=input"
    )
    assert is_prepared(recipe, workspace)


def test_without_the_section_nothing_is_aligned(project: Path) -> None:
    with pytest.raises(MtkitError, match=r"data\.train\.0\.alignments"):
        load(project, "~training.guided_alignment")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training.guided_alignment.layer=7", "decoder has 6 layers"),
        ("training.guided_alignment.head=9", "8 heads"),
        ("tokenizer.sampling.alpha=0.1", "sampling"),
        ("model.architecture=decoder-only", "encoder"),
    ],
)
def test_a_head_that_can_learn_them(project: Path, setting: str, message: str) -> None:
    with pytest.raises(MtkitError, match=message):
        load(project, setting)
