"""What `mtkit plan` says, against the paper's figures, hand arithmetic and what training does."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mtkit.data.phrasebook import generate_pairs
from mtkit.data.prepare import prepare
from mtkit.data.prepared import open_prepared
from mtkit.errors import MtkitError
from mtkit.pipeline.hardware import ACCELERATORS
from mtkit.pipeline.plan import GpuSetup, TrainingPlan, default_hardware, plan
from mtkit.recipe import load_recipe, shipped_recipes
from mtkit.training.distributed import ProcessGroup
from mtkit.training.objectives.stored import TranslationBatches
from mtkit.training.training_run import TrainingRun
from mtkit.workspace import Workspace

from ... import warm

TINY = Path(__file__).parents[2] / "tiny.toml"


def plan_of(recipe: str, tmp_path, *overrides: str, **options) -> TrainingPlan:
    return plan(load_recipe(recipe, overrides), Workspace(tmp_path), **options)


def setup_of(planned: TrainingPlan, num_gpus: int) -> GpuSetup:
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


def test_the_paper_s_hours_and_what_it_counts_from_them(tmp_path) -> None:
    # 0.4 and 1.0 s a step, 12 hours and 3.5 days (section 5.2); 3.3e18 and 2.3e19 operations are
    # these hours x 8 x 9.5 TFLOP/s (section 6.1), where the data sheet has 10.6. Both models at one
    # share of the peak, between those that the two reached (0.28 and 0.38).
    shares = {"hardware": "p100", "share": 0.33}
    for recipe, step, hours, operations in (
        ("wmt14-en-de-base", 0.4, 12, 3.3e18),
        ("wmt14-en-de-big", 1.0, 84, 2.3e19),
    ):
        setup = setup_of(plan_of(recipe, tmp_path, **shares), 8)
        assert setup.seconds_per_update == pytest.approx(step, rel=0.25)
        assert setup.seconds / 3600 == pytest.approx(hours, rel=0.25)
        assert setup.possible_operations * 9.5 / 10.6 == pytest.approx(operations, rel=0.25)


def test_a_v100_in_fp32_as_nvidia_measured_it(tmp_path) -> None:
    # DeepLearningExamples, Transformer-big on one V100 in fp32: 8,742 tokens/s.
    setup = setup_of(plan_of("wmt14-en-de-big", tmp_path, hardware="v100"), 1)
    assert setup.target_tokens_per_second == pytest.approx(8_742, rel=0.2)


def test_communication_by_hand(tmp_path) -> None:
    # A ring of 8 sends 2 x 7/8 of 63,082,496 x 4 bytes, at 450 GB/s.
    setup = setup_of(plan_of("wmt14-en-de-base", tmp_path), 8)
    assert setup.communication_seconds == pytest.approx(441_577_472 / 450e9)
    assert setup_of(plan_of("wmt14-en-de-base", tmp_path), 1).communication_seconds == 0.0


def test_passes_are_bounded_as_the_recipe_says(tmp_path) -> None:
    planned = plan_of("wmt14-en-de-base", tmp_path, "training.micro_batch_tokens=4000", num_gpus=2)
    passes = {setup.num_gpus: (setup.num_passes, setup.pass_tokens) for setup in planned.setups}
    # 25,000 and 12,500 tokens in passes of at most 4,000; 3,125 and, since sentences are dealt out
    # whole, up to 15 % more, in one.
    assert passes == {1: (7, 4_000), 2: (4, 4_000), 8: (1, 3_594)}


@pytest.mark.parametrize("limit", ["auto", "2000000"])
def test_passes_are_halved_until_they_fit(tmp_path, limit: str) -> None:
    options = ["training.batch_tokens=2000000", f"training.micro_batch_tokens={limit}"]
    setup = setup_of(plan_of("wmt14-en-de-big", tmp_path, *options, hardware="v100"), 1)
    assert setup.fits
    assert setup.num_passes > 1
    assert setup.num_passes == -(-2_000_000 // setup.pass_tokens)
    # Twice as large it wouldn't have fitted.
    assert 2 * setup.memory_bytes > 32e9


def test_a_pass_holds_the_longest_sentence(tmp_path) -> None:
    # 24 layers of 8,192: the weights alone take more than there is.
    huge = ["model.num_encoder_layers=24", "model.d_model=8192", "model.d_ff=32768"]
    setup = setup_of(plan_of("wmt14-en-de-big", tmp_path, *huge, hardware="t4"), 1)
    assert not setup.fits
    assert setup.pass_tokens == 256
    little = plan_of(
        "wmt14-en-de-base",
        tmp_path,
        "training.batch_tokens=100",
        "training.length_groups=1",
        "data.cleaning.max_tokens=100",
    )
    assert setup_of(little, 8).pass_tokens == 100


def test_precision_is_the_recipe_s(tmp_path) -> None:
    half = plan_of("wmt14-en-de-base", tmp_path)
    single = plan_of("wmt14-en-de-base", tmp_path, "training.precision=fp32")
    assert (half.precision, single.precision) == ("bf16", "fp32")
    ratio = setup_of(single, 1).seconds_per_update / setup_of(half, 1).seconds_per_update
    # 989 x 0.3 against 66.9 x 0.6 TFLOP/s.
    assert ratio == pytest.approx(7.4, rel=0.05)
    assert setup_of(single, 1).memory_bytes > setup_of(half, 1).memory_bytes
    with pytest.raises(MtkitError, match="V100: it doesn't support bf16"):
        plan_of("wmt14-en-de-base", tmp_path, "training.precision=bf16", hardware="v100")


def test_fp16_is_for_gpus_without_bf16(tmp_path, monkeypatch) -> None:
    half, single = (
        plan_of("wmt14-en-de-base", tmp_path, f"training.precision={precision}", hardware="t4")
        for precision in ("fp16", "auto")
    )
    assert (half.precision, single.precision) == ("fp16", "fp32")
    products = half.setups[0].possible_operations / half.setups[0].seconds
    # The T4's data sheet: 65 TFLOP/s in fp16, 8.1 in fp32.
    assert products == pytest.approx(65e12)
    assert single.setups[0].possible_operations / single.setups[0].seconds == pytest.approx(8.1e12)
    with pytest.raises(MtkitError, match=r"this CPU .* doesn't support fp16"):
        plan_of("wmt14-en-de-base", tmp_path, "training.precision=fp16", hardware="cpu")


def test_recomputed_layers_keep_their_inputs_alone(tmp_path) -> None:
    usual, again = (
        plan_of("wmt14-en-de-base", tmp_path, f"training.recompute={value}")
        for value in ("false", "true")
    )
    assert again.operations_per_update == usual.operations_per_update * 4 // 3
    less = setup_of(usual, 1).memory_bytes - setup_of(again, 1).memory_bytes
    assert setup_of(usual, 1).pass_tokens == setup_of(again, 1).pass_tokens
    # By hand, for layers of 512 and 2,048 with 8 heads in bf16. Of five encoder layers it saves
    # all but the input: 2 * (512 + 4 * 512 + 512 + 2 * 512 + 2,048) + 32 + 2 * 512 - 1,024 bytes
    # per source token, and keys and values for five decoder layers, 2 * 1,024. Per target token,
    # five times 2 * (2 * 3,072 - 1,024 + 3,072) + 64 + 3 * 512 - 1,024.
    of_source = 5 * (2 * (3_072 + 3_072) + 32 + 1_024 - 1_024) + 5 * 2_048
    of_target = 5 * (2 * (2 * 3_072 - 1_024 + 3_072) + 64 + 1_536 - 1_024)
    tokens = setup_of(usual, 1).pass_tokens
    assert less == pytest.approx((of_source + of_target) * tokens, rel=0.02)


def test_frozen_weights_cost_no_moments_and_no_communication(tmp_path) -> None:
    whole = plan_of("wmt14-en-de-base", tmp_path)
    part = plan_of("wmt14-en-de-base", tmp_path, "training.freeze=['encoder', 'embeddings']")
    assert part.num_trainable == 25_224_192
    times = [setup_of(each, 8).communication_seconds for each in (part, whole)]
    assert times[0] / times[1] == pytest.approx(25_224_192 / 63_082_496)


def test_shards_of_moments_on_eight_gpus(tmp_path) -> None:
    whole, sharded = (
        plan_of("wmt14-en-de-base", tmp_path, f"training.shard={shard}")
        for shard in ("false", "true")
    )
    assert setup_of(sharded, 1) == setup_of(whole, 1)
    # By hand, of each weight: 8 bytes of moments become 1, and 4 of the gradients' flat copy none.
    saved = setup_of(whole, 8).memory_bytes - setup_of(sharded, 8).memory_bytes
    assert saved == 11 * 63_082_496
    # Adam moves 34 bytes of each weight that is a GPU's own.
    quicker = setup_of(whole, 8).seconds_per_update - setup_of(sharded, 8).seconds_per_update
    assert quicker == pytest.approx(34 * 63_082_496 * 7 / 8 / whole.hardware.bytes_per_second)


def test_r_drop_runs_each_batch_twice(tmp_path) -> None:
    once, twice = (
        plan_of("wmt14-en-de-base", tmp_path, *settings)
        for settings in ((), ("training.r_drop.alpha=5",))
    )
    assert twice.operations_per_update == 2 * once.operations_per_update
    fixed = 2 * setup_of(once, 1).memory_bytes - setup_of(twice, 1).memory_bytes
    # Weights, gradients and moments of 63,082,496 weights, and little else, don't double.
    assert 0 < fixed < 20 * 63_082_496 + 2**30


def test_the_vocabulary_is_that_of_the_model_it_starts_from(tiny_run, tmp_path) -> None:
    run = tiny_run()
    run.train()
    tags = ['data.train.0.tag="<new>"', f"training.start_from.model={run.workspace.model}"]
    planned = plan(load_recipe("phrasebook-en-de", tags), Workspace(tmp_path))
    # 400 pieces, and the tag; the recipe asks for 2,000.
    assert (planned.source_vocab_size, planned.target_vocab_size) == (401, 401)
    missing = load_recipe("phrasebook-en-de", ["training.start_from.model=nothere"])
    with pytest.raises(MtkitError, match="nothere: no model here"):
        plan(missing, Workspace(tmp_path))


@pytest.mark.parametrize("weight", [1.0, 0.25])
@pytest.mark.parametrize("window", [None, 2])
def test_prepared_data_are_counted_as_training_counts_them(
    tmp_path, weight: float, window: int | None
) -> None:
    # Short pairs, and long ones that are seen more rarely.
    pairs = sorted(generate_pairs("train", 200), key=lambda pair: len(pair[0]))
    for name, part in (("short", pairs[:100]), ("long", pairs[100:])):
        lines = "".join(f"{source}\t{target}\n" for source, target in part)
        (tmp_path / f"{name}.tsv").write_text(lines, "utf-8")
    corpora = (
        f'data.train=[{{path="{tmp_path}/short.tsv"}}, '
        f'{{path="{tmp_path}/long.tsv", weight={weight}}}]'
    )
    windows = [] if window is None else [f"model.attention_window={window}"]
    small = ["tokenizer.vocab_size=300", "training.batch_tokens=200", "data.cleaning.max_tokens=80"]
    recipe = load_recipe(TINY, [corpora, *windows, *small])
    workspace = Workspace(tmp_path / "run")
    prepare(recipe, workspace)
    data = open_prepared(recipe, workspace)
    alone = ProcessGroup(0, 1, torch.device("cpu"))
    run = TrainingRun(recipe, workspace, data)
    batches = TranslationBatches(run, alone, dtype=torch.float32, packs=False)
    updates = batches.plan_epoch(0)
    lengths = [tuple(data.train.lengths(examples).values()) for examples in updates]
    source = sum(int(sides[0].sum()) for sides in lengths)
    target = sum(int(sides[1].sum()) for sides in lengths)
    in_encoder, in_decoder = 0.0, 0.0
    for sources, targets in lengths:
        for s, t in zip(sources.tolist(), targets.tolist(), strict=True):
            reach = max(s, t) if window is None else window
            in_encoder += s * min(s, 2 * reach + 1)
            in_decoder += t * min((t + 1) / 2, reach + 1) + t * s

    planned = plan(recipe, workspace)

    assert planned.is_prepared
    assert planned.updates_per_epoch == len(updates)
    assert planned.source_tokens == pytest.approx(source / len(updates))
    assert planned.target_tokens == pytest.approx(target / len(updates))
    per_token = planned.operations
    # Two encoder layers, one decoder layer.
    assert planned.operations_per_update * len(updates) == pytest.approx(
        per_token.per_source_token * source
        + per_token.per_target_token * target
        + per_token.per_attended_pair * (2 * in_encoder + in_decoder)
    )


def test_a_stage_without_pairs_is_an_error(tmp_path) -> None:
    """All pairs of the second corpus are duplicates of the first."""
    pairs = generate_pairs("train", 60)
    (tmp_path / "a.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    corpora = ", ".join(f'{{name="{name}", path="{tmp_path}/a.tsv"}}' for name in ("a", "b"))
    stages = "training.stages=[{steps=5, weights={b=0}}, {weights={a=0}}]"
    small = ["tokenizer.vocab_size=200", "data.cleaning.max_tokens=80"]
    recipe = load_recipe(TINY, [f"data.train=[{corpora}]", stages, *small])
    workspace = Workspace(tmp_path / "run")
    prepare(recipe, workspace)
    with pytest.raises(MtkitError, match=r"training\.stages\.1\.weights: no pairs"):
        plan(recipe, workspace)


def test_a_classifier_predicts_no_token(tmp_path) -> None:
    planned = plan_of(str(TINY.with_name("tiny-classification.toml")), tmp_path)
    # 2 layers: queries, keys, values and what joins heads, each 16 x 16; d_ff is 32. 600 tokens.
    assert planned.operations_per_update == 6 * 600 * 2 * (4 * 16 * 16 + 2 * 16 * 32)


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
    for share in (0.0, 1e-320, 1.5):
        with pytest.raises(MtkitError, match=r"expected a number from 0\.001 to 1"):
            plan_of("wmt14-en-de-base", tmp_path, share=share)


@pytest.mark.parametrize("name", sorted(shipped_recipes()))
def test_every_shipped_recipe_can_be_planned(tmp_path, name: str) -> None:
    # A public model isn't here: its number of pieces is given in place of it.
    has_start = load_recipe(name).training.start_from is not None
    pieces = ["training.start_from.vocabulary=new", "tokenizer.vocab_size=40000"]
    planned = plan_of(name, tmp_path, *(pieces if has_start else []))
    assert [setup.num_gpus for setup in planned.setups] == [1, 8]
    one, eight = planned.setups
    assert one.fits
    assert eight.fits
    assert one.seconds > eight.seconds > 0


def test_the_help_names_every_kind_of_hardware() -> None:
    shown = " ".join(run_plan("--help").stdout.split())
    named = re.search(r"--hardware KIND GPU: (.*?);", shown)[1]
    assert set(re.split(r", | or ", named)) == set(ACCELERATORS)


def run_plan(*options: str) -> subprocess.CompletedProcess[str]:
    command = [*warm.command(), "plan", "--recipe", "wmt14-en-de-base", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_prints_a_plan(tmp_path) -> None:
    done = run_plan("--gpus", "4", "--hardware", "A100", "--workspace", str(tmp_path / "new"))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].endswith("estimated from the recipe (no prepared data)")
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
        "output": 0,
    }
    assert printed["share"] == 0.4
    code = (
        "import sys; from mtkit.cli.app import app; "
        "app(['plan', '--recipe', 'wmt14-en-de-base', '--gpus', '1'], standalone_mode=False); "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0


BACK_TRANSLATION = [
    'data.train=[{source="a.en", target="a.de"}, {target="b.de", translated_by="reverse"}]',
    'data.dev={source="dev.en", target="dev.de"}',
    "evaluation.test_sets=[]",
    "training.max_steps=10",
]


def test_translators_that_are_trained_first_come_first(tmp_path) -> None:
    options = ["--gpus", "1", "--workspace", str(tmp_path / "x")]
    options += [part for change in BACK_TRANSLATION for part in ("--set", change)]
    done = run_plan(*options)
    assert (done.returncode, done.stderr) == (0, "")
    names = [line.partition(",")[0] for line in done.stdout.splitlines() if "estimated" in line]
    assert names == ["wmt14-en-de-base-reverse", "wmt14-en-de-base"]
    printed = json.loads(run_plan("--json", *options).stdout)
    assert [each["name"] for each in printed["teachers"]] == names[:1]
    assert printed["teachers"][0]["num_updates"] == printed["num_updates"] == 10
    (tmp_path / "x-reverse" / "model").mkdir(parents=True)
    assert json.loads(run_plan("--json", *options).stdout)["teachers"] == []


def test_a_cpu_is_measured_at_the_network_s_width(tmp_path, monkeypatch) -> None:
    # A layer of 512 has 12 x 512^2 weights in matrices; 512 tokens in 2 s on each of 3 cores.
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr("mtkit.pipeline.cpu_rate.time.process_time", lambda: next(clock))
    monkeypatch.setattr("mtkit.pipeline.cpu_rate.count_threads", lambda: 3)
    monkeypatch.setattr("mtkit.pipeline.cpu_rate.choose_fastest_precision", lambda _: "fp32")
    planned = plan_of("wmt14-en-de-base", tmp_path, hardware="CPU")
    rate = planned.hardware.operations_per_second("fp32")
    assert rate == pytest.approx(3 * 6 * 12 * 512**2 * 512 / 2)
    assert (planned.precision, planned.share) == ("fp32", 1.0)
    [setup] = planned.setups
    # All products at that rate, and Adam's 34 bytes a weight at 10 GB/s.
    products = planned.operations_per_update / rate
    assert setup.seconds_per_update == pytest.approx(products + 34 * 63_082_496 / 10e9)
    assert setup.communication_seconds == 0.0


@pytest.mark.parametrize(
    ("device", "wants_gpus", "expected"),
    [("cpu", False, "cpu"), ("cpu", True, "h100"), ("cuda", False, "h100")],
)
def test_this_machine_is_planned_unless_it_has_a_gpu(
    monkeypatch, device: str, wants_gpus: bool, expected: str
) -> None:
    monkeypatch.setattr("mtkit.network.device.find_device", lambda _: torch.device(device))
    assert default_hardware(wants_gpus=wants_gpus) == expected
