"""What a person reads when a training begins and when it ends."""

import dataclasses
from pathlib import Path

import pytest
import sacrebleu
import torch

from mtkit.recipe import load_recipe
from mtkit.training.checkpoint import Checkpoint, TrainingState
from mtkit.training.progress import show_summary, warn_of_slow_arithmetic
from mtkit.training.training_run import TrainingRun
from mtkit.workspace import Workspace

STATE = TrainingState(step=800, epoch=3, target_tokens=1_234_567, elapsed_seconds=905.0)
OPTIONS = ["--recipe", "my recipe.toml"]


def summarise(
    root: Path, *overrides: str, score: float | None, state: TrainingState = STATE
) -> None:
    recipe = load_recipe("phrasebook-en-de", ["training.max_steps=800", *overrides])
    best = None
    if score is not None:
        best = Checkpoint(root / "step-00000600", TrainingState(step=600), score, True, {}, "", {})
    show_summary(TrainingRun(recipe, Workspace(root), None), state, best, options=OPTIONS)


def test_a_finished_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "curves.png").touch()
    state = dataclasses.replace(STATE, num_skipped=2)
    summarise(tmp_path, score=27.314, state=state)
    # sacreBLEU's own signature, for its defaults.
    scorer = sacrebleu.BLEU()
    scorer.corpus_score(["a"], [["a"]])
    assert capsys.readouterr().err.splitlines() == [
        "finished at step 800",
        "  updates     800, 3 epochs, 1,234,567 target tokens",
        "  time        15 min 05 s",
        "  skipped     2 updates with a loss or gradient of NaN or infinity",
        f"  best score  BLEU 27.31 ({scorer.get_signature()}), at step 600",
        f"  model       {tmp_path / 'model'}, the checkpoint of step 600",
        f"  curves      {tmp_path / 'curves.png'}",
        "next:",
        "  mtkit average --recipe 'my recipe.toml'",
        "  echo \"...\" | mtkit translate --recipe 'my recipe.toml'",
    ]


@pytest.mark.parametrize(
    ("overrides", "score", "words"),
    [
        (["training.validation.metric=chrf"], 55.5, "chrF2 55.50 (nrefs:1|case:mixed|"),
        (["evaluation.tokenize=zh", "evaluation.lowercase=true"], 31.0, "case:lc|eff:no|tok:zh|"),
        (["training.validation.metric=loss"], -3.5, "loss 3.5000 per target token"),
    ],
)
def test_the_best_score_is_in_its_own_measure(tmp_path, capsys, overrides, score, words) -> None:
    summarise(tmp_path, *overrides, score=score)
    assert words in capsys.readouterr().err


def test_a_training_out_of_patience_says_so(tmp_path, capsys) -> None:
    state = dataclasses.replace(STATE, num_without_best=5)
    summarise(
        tmp_path,
        "training.max_steps=1000",
        "training.early_stopping.patience=5",
        score=1.0,
        state=state,
    )
    assert "finished at step 800: the development score has stopped improving" in (
        capsys.readouterr().err
    )


def test_a_stopped_training_says_how_to_go_on(tmp_path, capsys) -> None:
    state = TrainingState(step=100, target_tokens=5_000, elapsed_seconds=3.0)
    summarise(tmp_path, score=None, state=state)
    assert capsys.readouterr().err.splitlines() == [
        "stopped at step 100 of 800; a checkpoint was saved, and the same command resumes from it",
        "  updates     100, 5,000 target tokens",
        "  time        3 s",
    ]


def test_imitated_arithmetic_is_warned_of(capsys, monkeypatch) -> None:
    for is_supported in (True, False):
        monkeypatch.setattr(
            torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda answer=is_supported: answer
        )
        warn_of_slow_arithmetic("bf16", torch.device("cpu"))
        assert ("bf16 is emulated" in capsys.readouterr().err) is not is_supported
        warn_of_slow_arithmetic("fp16", torch.device("cpu"))
        assert "fp16 is emulated" in capsys.readouterr().err
    for is_auto in (True, False):
        warn_of_slow_arithmetic("fp32", torch.device("cuda"), is_auto=is_auto)
        assert ("fp16 may be several times" in capsys.readouterr().err) is is_auto
    warn_of_slow_arithmetic("bf16", torch.device("cuda"), is_auto=True)
    assert not capsys.readouterr().err
