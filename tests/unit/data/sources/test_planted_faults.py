"""Planted faults: what each kind changes, and what it leaves."""

from pathlib import Path

import pytest

from mtkit.data.phrasebook import generate_pairs
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import PlantedTrainingCorpus
from mtkit.recipe.text_corpora import PlantedCorpus

from ....corpus_rows import read_rows

PAIRS = [
    (f"{english} number {number}", f"{german} Nummer {number}")
    for number, (english, german) in enumerate(generate_pairs("train", 2_500))
]


def write(folder: Path, pairs: list[tuple[str, str]]) -> dict[str, Path]:
    paths = {"source": folder / "a.en", "target": folder / "a.de"}
    for path, lines in zip(paths.values(), zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return paths


def plant(folder: Path, pairs: list[tuple[str, str]], *kinds: str, **keys):
    corpus = PlantedTrainingCorpus(**write(folder, pairs), planted_faults=kinds, **keys)
    return read_rows(corpus)


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list]:
    folder = tmp_path_factory.mktemp("planted")
    return {kind: plant(folder, PAIRS, kind) for kind in ("shuffled", "truncated", "perturbed")}


@pytest.mark.parametrize("kind", ["shuffled", "truncated", "perturbed"])
def test_each_pair_stands_beside_its_fault(every, kind: str) -> None:
    right, faults = every[kind][::2], every[kind][1::2]
    assert [(row.text, row.second) for row in right] == PAIRS
    assert {row.label for row in right} == {"translation"}
    assert {row.label for row in faults} == {"fault"}
    assert [row.number for row in right] == [row.number for row in faults] == [*range(1, 2_501)]
    assert all((row.text, row.second) not in PAIRS for row in faults)


def test_shuffled_targets_are_others_of_about_the_same_length(every) -> None:
    targets = {target for _, target in PAIRS}
    ratios = []
    for (source, target), row in zip(PAIRS, every["shuffled"][1::2], strict=True):
        assert row.text == source
        assert row.second in targets - {target}
        ratios.append(len(row.second) / len(target))
    assert 0.95 < sum(ratios) / len(ratios) < 1.05
    assert sum(0.8 < ratio < 1.25 for ratio in ratios) > 0.9 * len(ratios)


def test_one_side_is_cut(every) -> None:
    num_sources = 0
    for pair, row in zip(PAIRS, every["truncated"][1::2], strict=True):
        [(whole, cut)] = [
            (before.split(), after.split())
            for before, after in zip(pair, (row.text, row.second), strict=True)
            if before != after
        ]
        assert cut in (whole[: len(cut)], whole[-len(cut) :])
        assert len(whole) / 3 - 0.5 <= len(cut) <= len(whole) * 2 / 3 + 0.5
        num_sources += row.text != pair[0]
    # Either side as often: three standard deviations are 75.
    assert abs(num_sources - 1_250) < 75


def test_words_are_replaced(every) -> None:
    for (source, target), row in zip(PAIRS, every["perturbed"][1::2], strict=True):
        assert row.text == source
        before, after = target.split(), row.second.split()
        assert len(before) == len(after)
        num_changed = sum(map(str.__ne__, before, after))
        assert 1 <= num_changed <= 0.5 * len(before) + 0.5


def test_kinds_take_turns(tmp_path: Path) -> None:
    faults = plant(tmp_path, PAIRS[:600], "shuffled", "truncated")[1::2]
    is_shuffled = [(row.text, len(row.second.split())) for row in faults]
    targets = {target for _, target in PAIRS[:600]}
    shuffled = [row.second in targets and row.text == PAIRS[row.number - 1][0] for row in faults]
    assert len(is_shuffled) == 600
    assert shuffled == [row.number % 2 == 0 for row in faults]


def test_the_same_every_time_and_of_the_first_pairs_alone(tmp_path: Path, every) -> None:
    assert plant(tmp_path, PAIRS, "perturbed") == every["perturbed"]
    # The first thousand pairs are drawn from among themselves.
    assert plant(tmp_path, PAIRS[:1_000], "perturbed") == every["perturbed"][:2_000]
    assert plant(tmp_path, PAIRS, "perturbed", max_pairs=7) != []
    assert len(plant(tmp_path, PAIRS, "perturbed", max_pairs=7)) == 14


def test_text_without_spaces_is_cut_by_characters(tmp_path: Path) -> None:
    pairs = [
        (f"sentence {number} about a cat", f"关于猫的第{number}句话而不是狗")
        for number in range(50)
    ]
    for kind in ("truncated", "perturbed"):
        rows = plant(tmp_path, pairs, kind)
        assert len(rows) == 100
        assert all(" " not in row.second for row in rows)


def test_what_is_too_short_gets_another_fault_or_none(tmp_path: Path) -> None:
    pairs = [("Yes.", "Ja."), ("No.", "Nein."), (" ", "Nichts"), ("Maybe.", "Vielleicht.")]
    rows = plant(tmp_path, pairs, "truncated")
    assert [row.label for row in rows] == ["translation"] * 3
    rows = plant(tmp_path, pairs, "truncated", "shuffled")
    assert [row.label for row in rows] == ["translation", "fault"] * 3
    assert [row.number for row in rows[::2]] == [1, 2, 4]
    [alone] = plant(tmp_path, pairs[:1], "shuffled", "truncated", "perturbed")
    assert alone.label == "translation"


def test_wrong_files_are_named(tmp_path: Path) -> None:
    paths = write(tmp_path, PAIRS[:3])
    corpus = PlantedCorpus(**paths, planted_faults=("shuffled",))
    paths["target"].write_text("eins\nzwei\n")
    with pytest.raises(MtkitError, match=r"a\.en"):
        read_rows(corpus)
    paths["target"].write_bytes(b"eins\nzwei\n\xff\n")
    with pytest.raises(MtkitError, match=r"a\.de:3: .*invalid UTF-8"):
        read_rows(corpus)
    paths["target"].unlink()
    with pytest.raises(MtkitError, match=r"a\.de"):
        read_rows(corpus)
