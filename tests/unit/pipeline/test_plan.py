"""What `mtkit plan` says, against the paper's figures, hand arithmetic and what training does."""

import json
import subprocess
import sys

import pytest

from mtkit.data.prepared import open_prepared
from mtkit.errors import MtkitError
from mtkit.pipeline.plan import Setup, TrainingPlan, plan
from mtkit.recipe import load_recipe, shipped_recipes
from mtkit.training.distributed import Processes, choose_device
from mtkit.training.objective import TranslationObjective
from mtkit.training.plan import build_model
from mtkit.workspace import Workspace


def plan_of(recipe: str, tmp_path, *overrides: str, **options) -> TrainingPlan:
    return plan(load_recipe(recipe, overrides), Workspace(tmp_path), **options)


def setup_of(planned: TrainingPlan, num_gpus: int) -> Setup:
    [found] = [setup for setup in planned.setups if setup.num_gpus == num_gpus]
    return found


@pytest.mark.parametrize(
    ("recipe", "num_weights", "rule"),
    # 6 x 63,082,496 x 25,000 x 100,000, and 6 x 214,245,376 x 25,000 x 300,000.
    [("wmt14-en-de-base", 63_082_496, 0.946e18), ("wmt14-en-de-big", 214_245_376, 9.641e18)],
)
def test_the_rule_of_six_operations_a_weight_and_token(
    tmp_path, recipe: str, num_weights: int, rule: float
) -> None:
    planned = plan_of(recipe, tmp_path)
    assert planned.weights.total == num_weights
    assert planned.rule_of_thumb == pytest.approx(rule, rel=1e-3)
    # Source tokens pass by the decoder, target tokens by the encoder; both sides are alike here, so
    # that products come to the rule but for biases and norms.
    products = planned.operations_per_update * planned.num_updates
    assert products == pytest.approx(planned.rule_of_thumb, rel=2e-3)


def test_base_on_eight_p100_as_the_paper_counts(tmp_path) -> None:
    # 12 hours, 0.4 s a step (section 5.2); 3.3e18 operations are 12 h x 8 x 9.5 TFLOP/s (section
    # 6.1), where the data sheet has 10.6. The share of the peak is that of 0.4 s a step: 6 x
    # 63,082,496 x 25,000 / (0.4 x 8 x 10.6e12).
    planned = plan_of("wmt14-en-de-base", tmp_path, hardware="p100", share=0.279)
    setup = setup_of(planned, 8)
    assert setup.seconds_per_update == pytest.approx(0.4, rel=0.05)
    assert setup.seconds / 3600 == pytest.approx(12, rel=0.1)
    assert setup.possible_operations * 9.5 / 10.6 == pytest.approx(3.3e18, rel=0.1)
    # 25,000 tokens a side among eight.
    assert (setup.num_passes, setup.pass_tokens) == (1, 3_125)


def test_communication_by_hand(tmp_path) -> None:
    # A ring of 8 sends 2 x 7/8 of 63,082,496 x 4 bytes, at 450 GB/s.
    setup = setup_of(plan_of("wmt14-en-de-base", tmp_path), 8)
    assert setup.communication_seconds == pytest.approx(441_577_472 / 450e9)
    assert setup_of(plan_of("wmt14-en-de-base", tmp_path), 1).communication_seconds == 0.0


def test_passes_are_bounded_as_the_recipe_says(tmp_path) -> None:
    planned = plan_of("wmt14-en-de-base", tmp_path, "training.micro_batch_tokens=4000", num_gpus=2)
    passes = {setup.num_gpus: (setup.num_passes, setup.pass_tokens) for setup in planned.setups}
    # 25,000 and 12,500 and 3,125 tokens in passes of at most 4,000.
    assert passes == {1: (7, 3_572), 2: (4, 3_125), 8: (1, 3_125)}


def test_auto_halves_passes_until_they_fit(tmp_path) -> None:
    options = ["training.batch_tokens=2000000"]
    planned = plan_of("wmt14-en-de-big", tmp_path, *options, hardware="v100")
    setup = setup_of(planned, 1)
    assert setup.num_passes > 1
    assert setup.num_passes & (setup.num_passes - 1) == 0
    assert setup.fits
    assert setup.pass_tokens * setup.num_passes >= 2_000_000
    too_much = plan_of(
        "wmt14-en-de-big",
        tmp_path,
        *options,
        "training.micro_batch_tokens=2000000",
        hardware="v100",
    )
    assert not setup_of(too_much, 1).fits


def test_prepared_data_are_counted_as_training_counts_them(tiny_run) -> None:
    run = tiny_run()
    data = open_prepared(run.recipe, run.workspace)
    device = choose_device("cpu")
    objective = TranslationObjective(
        build_model(run.recipe, data), data, run.recipe, Processes(0, 1, device).device
    )
    updates = objective.plan_epoch(0)
    lengths = [data.train.lengths(examples) for examples in updates]
    source = sum(int(sides[0].sum()) for sides in lengths)
    target = sum(int(sides[1].sum()) for sides in lengths)
    pairs = [(int((s * s).sum()), int((t * (t + 1) // 2 + t * s).sum())) for s, t in lengths]

    planned = plan(run.recipe, run.workspace)

    assert planned.is_prepared
    assert planned.updates_per_epoch == len(updates)
    assert planned.source_tokens == pytest.approx(source / len(updates))
    assert planned.target_tokens == pytest.approx(target / len(updates))
    per_token = planned.operations
    # Two encoder layers, one decoder layer.
    attended = sum(2 * s + t for s, t in pairs)
    assert planned.operations_per_update * len(updates) == pytest.approx(
        per_token.per_source_token * source
        + per_token.per_target_token * target
        + per_token.per_attended_pair * attended
    )


def test_data_of_another_recipe_are_left_alone(tiny_run) -> None:
    run = tiny_run()
    other = load_recipe("multi30k-en-de")
    planned = plan(other, run.workspace)
    assert not planned.is_prepared
    assert planned.target_tokens == other.training.batch_tokens
    assert planned.updates_per_epoch is None


def test_unknown_hardware_and_shares_that_are_none(tmp_path) -> None:
    with pytest.raises(MtkitError, match=r"--hardware h10: .*did you mean 'h100'\?"):
        plan_of("wmt14-en-de-base", tmp_path, hardware="h10")
    for share in (0.0, 1.5):
        with pytest.raises(MtkitError, match="expected a number above 0, at most 1"):
            plan_of("wmt14-en-de-base", tmp_path, share=share)


@pytest.mark.parametrize("name", sorted(shipped_recipes()))
def test_every_shipped_recipe_can_be_planned(tmp_path, name: str) -> None:
    planned = plan_of(name, tmp_path)
    assert [setup.num_gpus for setup in planned.setups] == [1, 8]
    one, eight = planned.setups
    assert one.fits
    assert eight.fits
    assert one.seconds > eight.seconds > 0


def run_plan(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mtkit", "plan", "--recipe", "wmt14-en-de-base", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_prints_a_plan(tmp_path) -> None:
    done = run_plan("--gpus", "4", "--hardware", "A100", "--workspace", str(tmp_path / "new"))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].endswith("worked out from the recipe; data aren't prepared")
    assert "63,082,496 parameters: encoder 18,914,304, decoder 25,224,192" in done.stdout
    assert [line.split()[0] for line in lines[-3:]] == ["1", "4", "8"]
    assert not (tmp_path / "new").exists()


def test_the_command_prints_json_without_torch(tmp_path) -> None:
    options = ["--json", "--share", "0.4", "--workspace", str(tmp_path)]
    printed = json.loads(run_plan(*options).stdout)
    assert printed["weights"] == {
        "encoder": 18_914_304,
        "decoder": 25_224_192,
        "embeddings": 18_944_000,
    }
    assert printed["share"] == 0.4
    code = (
        "import sys; from mtkit.cli.app import app; "
        "app(['plan', '--recipe', 'wmt14-en-de-base'], standalone_mode=False); "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0
