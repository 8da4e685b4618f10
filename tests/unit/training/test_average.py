"""The mean of checkpoints against hand arithmetic, and which ones are taken."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from mtkit.errors import MtkitError
from mtkit.recipe.inference import Inference
from mtkit.training.average import average, is_averaged, mean_weights


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
    with pytest.raises(MtkitError, match="holds other weights than"):
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


@pytest.fixture
def trained(tiny_run):
    """A run with checkpoints at steps 2, 4, 6 and 8, whose scores are then set by hand."""
    run = tiny_run("training.max_steps=8", "training.checkpoint_every=2", "training.keep_best=4")
    assert run.train()
    for folder, score in zip(
        sorted(run.workspace.checkpoints.iterdir()), (30.0, 40.0, None, 35.0), strict=True
    ):
        state = folder / "state.json"
        state.write_text(json.dumps({**json.loads(state.read_text()), "score": score}))
    return run


@pytest.mark.parametrize(
    # Step 6 has no score: it was saved at a stop, between two regular checkpoints.
    ("choose", "count", "steps"),
    [("last", 2, [4, 8]), ("best", 2, [4, 8]), ("best", 1, [4]), ("last", 3, [2, 4, 8])],
)
def test_which_checkpoints(trained, choose: str, count: int, steps: list[int]) -> None:
    average(trained.recipe, trained.workspace, choose=choose, num_checkpoints=count)
    expected = mean_weights(
        [trained.workspace.checkpoints / f"step-{s:08d}" / "model.safetensors" for s in steps]
    )
    model = load_file(trained.workspace.model / "model.safetensors")
    assert model.keys() == expected.keys()
    assert all(torch.equal(model[name], expected[name]) for name in model)
    record = trained.workspace.read_manifest()["model"]
    assert (record["made_by"], record["steps"]) == ("average", steps)


def test_fewer_than_wanted_is_said(trained, capsys: pytest.CaptureFixture[str]) -> None:
    average(trained.recipe, trained.workspace, choose="last", num_checkpoints=9)
    assert "warning: 9 checkpoints wanted, 3 found" in capsys.readouterr().err


def test_up_to_date_once_made(trained) -> None:
    assert not is_averaged(trained.recipe, trained.workspace)
    averaging = trained.recipe.training.averaging
    chosen = {"choose": averaging.choose, "num_checkpoints": averaging.num_checkpoints}
    average(trained.recipe, trained.workspace, **chosen)
    assert is_averaged(trained.recipe, trained.workspace)
    average(trained.recipe, trained.workspace, choose="best", num_checkpoints=1)
    assert not is_averaged(trained.recipe, trained.workspace)


def test_other_decoding_defaults_make_it_out_of_date(trained) -> None:
    averaging = trained.recipe.training.averaging
    chosen = {"choose": averaging.choose, "num_checkpoints": averaging.num_checkpoints}
    average(trained.recipe, trained.workspace, **chosen)
    changed = trained.recipe.model_copy(update={"inference": Inference(beam_size=7)})
    assert not is_averaged(changed, trained.workspace)


def test_checkpoints_of_another_model_are_refused(tiny_run) -> None:
    # Four heads have the shapes of two: nothing but the recipe tells them apart.
    tiny_run("training.max_steps=1").train()
    other = tiny_run("model.num_heads=4")
    with pytest.raises(MtkitError, match=r"another run: .*model\.num_heads was 2, now 4"):
        average(other.recipe, other.workspace, choose="last", num_checkpoints=1)


def test_the_best_beyond_those_kept_are_warned_of(trained, capsys) -> None:
    average(trained.recipe, trained.workspace, choose="best", num_checkpoints=3)
    assert "warning" not in capsys.readouterr().err
    recipe = trained.recipe.model_copy(
        update={"training": trained.recipe.training.model_copy(update={"keep_best": 2})}
    )
    average(recipe, trained.workspace, choose="best", num_checkpoints=3)
    assert "only the best 2 of all are sure to have been kept" in capsys.readouterr().err


def test_before_the_first_validation_there_is_nothing_to_average(tiny_run) -> None:
    run = tiny_run("training.max_steps=1")
    assert run.train()
    [state] = run.workspace.checkpoints.glob("*/state.json")
    state.write_text(json.dumps({**json.loads(state.read_text()), "score": None}))
    model = (run.workspace.model / "model.safetensors").read_bytes()
    with pytest.raises(MtkitError, match="no checkpoint with a development score yet"):
        average(run.recipe, run.workspace, choose="last", num_checkpoints=2)
    assert (run.workspace.model / "model.safetensors").read_bytes() == model


def test_weights_of_another_shape(tmp_path: Path) -> None:
    files = write(tmp_path, [1.0, 2.0], [1.0])
    with pytest.raises(MtkitError, match=r"layer\.weight is of another shape than in"):
        mean_weights(files)


def test_before_training(tiny_run) -> None:
    run = tiny_run()
    with pytest.raises(MtkitError, match="no checkpoints") as caught:
        average(run.recipe, run.workspace, choose="last", num_checkpoints=2)
    assert caught.value.hint == "run `mtkit train` first"
