"""Means of weights against hand arithmetic; files that don't go together."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from mtkit.errors import MtkitError
from mtkit.training.averaging.evaluate_weights import mean_weights


def write(folder: Path, *values: list[float]) -> list[Path]:
    files = []
    for number, numbers in enumerate(values):
        files.append(folder / f"{number}.safetensors")
        save_file({"layer.weight": torch.tensor([numbers])}, files[-1])
    return files


def test_the_mean_by_hand(tmp_path: Path) -> None:
    files = write(tmp_path, [1.0, 2.0], [4.0, -2.0], [1.0, 3.0])
    mean = mean_weights(files)
    assert mean.keys() == {"layer.weight"}
    assert mean["layer.weight"].tolist() == [[2.0, 1.0]]
    assert mean["layer.weight"].dtype == torch.float32


def test_sums_are_in_double_precision(tmp_path: Path) -> None:
    # In fp32, 2^24 + 1 is 2^24: the ones would be lost.
    files = write(tmp_path, [2.0**24], [1.0], [1.0], [1.0], [1.0])
    assert mean_weights(files)["layer.weight"].item() == pytest.approx((2**24 + 4) / 5, rel=1e-7)


def test_files_of_different_models(tmp_path: Path) -> None:
    files = write(tmp_path, [1.0])
    save_file({"other": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(MtkitError, match="its weights have other names than those in"):
        mean_weights([*files, tmp_path / "other.safetensors"])


@pytest.mark.parametrize("fault", ["missing", "damaged"])
def test_a_file_that_cannot_be_read(tmp_path: Path, fault: str) -> None:
    files = write(tmp_path, [1.0], [2.0])
    if fault == "missing":
        files[1].unlink()
    else:
        files[1].write_bytes(files[1].read_bytes()[:20])
    with pytest.raises(MtkitError, match=r"1\.safetensors: damaged or missing"):
        mean_weights(files)


def test_weights_of_another_shape(tmp_path: Path) -> None:
    files = write(tmp_path, [1.0, 2.0], [1.0])
    with pytest.raises(MtkitError, match=r"layer\.weight has a different shape in"):
        mean_weights(files)


def test_sums_begin_with_the_newest_file(tmp_path: Path) -> None:
    # 4 + 2^-22 is halfway between two sums whose quarters fp32 can hold, and 2^-51 is half of the
    # last place of 4 in fp64: added to 4 one by one they are lost, added up first they aren't.
    files = write(tmp_path, [2.0**-51], [2.0**-51], [2.0**-22], [4.0])
    assert mean_weights(files)["layer.weight"].item() == 1.0
    assert mean_weights(files[::-1])["layer.weight"].item() == 1.0 + 2.0**-23
