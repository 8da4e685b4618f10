"""Releases checkpoints to `model/`, with the head that alignments are read from.

The end of a training releases the best.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mtkit.data.batches.micro_batches import cut_micro_batches
from mtkit.data.batches.ragged import Indices
from mtkit.data.batches.token_store import TokenStore
from mtkit.inference.engines.torch_engine import pad
from mtkit.model.adapter import AdapterConfig
from mtkit.model.alignment_head import AlignmentHead, Position
from mtkit.model.build import build
from mtkit.model.config import ModelConfig, is_adapter
from mtkit.model.folder import save_model_folder
from mtkit.model.weights import load_weights, read_weights
from mtkit.network import EncoderDecoder
from mtkit.network.device import find_device
from mtkit.network.layouts import RecordingLayout
from mtkit.recipe.guided_alignment import GuidedAlignment
from mtkit.recipe.inference import Inference
from mtkit.recipe.lora import Lora
from mtkit.text.token_ids import BOS
from mtkit.text.widths import measure_width
from mtkit.training.averaging.model_record import ModelRecord, TrainingRecord
from mtkit.training.checkpoint import (
    Checkpoint,
    TrainingState,
    choose_comparable_best,
    describe_training,
    list_steps,
)
from mtkit.training.checkpoint_folder import CheckpointFolder
from mtkit.training.progress import show_summary
from mtkit.training.start_from import describe_start, find_start_licence
from mtkit.training.training_run import TrainingRun
from mtkit.training.whole_weights import find_base
from mtkit.workspace import Workspace

_MAX_PAIRS = 1_000
_MAX_TOKENS = 2_048
"""Tokens of either side in one pass, which keeps the weights of all layers and heads."""
_PRIOR = 1.0
"""Prior links of a source token, spread over all target tokens by frequency."""


def find_alignment_head(
    config: ModelConfig,
    guided: GuidedAlignment | None,
    store: TokenStore,
    weights: Mapping[str, Tensor],
) -> AlignmentHead | None:
    """Returns the head to read alignments from; None for a model without alignments.

    Args:
        config: What the model is built from.
        guided: How a head has learned alignments, if one has.
        store: The development set.
        weights: By name, in fp32.
    """
    is_translator = config.objective == "translation" and config.linearization is None
    if not is_translator or config.model.architecture == "decoder-only":
        return None
    if guided is not None:
        # The head that learned alignments needs no search.
        layer = guided.choose_layer(config.model.num_decoder_layers)
        return AlignmentHead(layer=layer, head=guided.head, at=guided.at)
    device = find_device("auto")
    network = build(config, has_initial_weights=False)
    assert isinstance(network, EncoderDecoder)
    load_weights(network, weights, origin="the weights of a checkpoint")
    return choose_head(network.to(device).eval(), store, device)


def choose_head(
    network: EncoderDecoder, store: TokenStore, device: torch.device
) -> AlignmentHead | None:
    """Returns the head whose links predict linked words best; None without pairs.

    Each head, and the mean of each layer's heads, links every target token to the source token that
    it attends to most, at either position. The best predicts target tokens best by the relative
    frequencies of its own other links: a head that attends at random, or always to the same token,
    predicts no more than a token's frequency. This needs no manual alignment. `network` is in
    evaluation mode and on `device`.
    """
    num_pairs = min(len(store), _MAX_PAIRS)
    if not num_pairs:
        return None
    rows = np.arange(num_pairs) * len(store) // num_pairs
    linked: dict[AlignmentHead, list[NDArray[np.int64]]] = {}
    targets = []
    for sources, target_tokens, weights in _attend(network, store, rows, device):
        targets.append(target_tokens)
        for layer, of_layer in enumerate(weights, start=1):
            # A head comes before the mean: it wins a tie.
            for number in (*range(1, of_layer.shape[0] + 1), None):
                chosen = of_layer.mean(axis=0) if number is None else of_layer[number - 1]
                for at in get_args(Position):
                    head = AlignmentHead(layer=layer, head=number, at=at)
                    rows_of = chosen[head.first_row :][: len(target_tokens)]
                    linked.setdefault(head, []).append(sources[rows_of.argmax(axis=1)])
    if not targets:
        return None
    all_targets = np.concatenate(targets)
    scores = {
        head: measure_links(np.concatenate(found), all_targets) for head, found in linked.items()
    }
    return max(scores, key=lambda head: scores[head])


def measure_links(sources: Indices, targets: Indices) -> float:
    """Returns the mean log-probability of target tokens given their linked source tokens.

    The i-th link is `sources[i]`, `targets[i]`. The probability is estimated from all other links,
    with add-one smoothing towards target frequencies.
    """
    _, pairs, pair_counts = np.unique(
        np.stack((sources, targets)), axis=1, return_inverse=True, return_counts=True
    )
    of_source, of_target = np.bincount(sources), np.bincount(targets)
    frequency = of_target[targets] / len(targets)
    together = pair_counts[pairs.ravel()] - 1 + _PRIOR * frequency
    return float(np.log(together / (of_source[sources] - 1 + _PRIOR)).mean())


def _attend(
    network: EncoderDecoder, store: TokenStore, rows: Indices, device: torch.device
) -> Iterator[tuple[Indices, Indices, list[NDArray[np.float32]]]]:
    """Yields each pair's tokens, without `</s>`, and of each layer [heads, inputs, sources]."""
    lengths = store.lengths(rows)
    order = np.lexsort((lengths["source"], lengths["target"]))
    batches = cut_micro_batches(order, lengths["source"], lengths["target"], max_tokens=_MAX_TOKENS)
    for batch in batches:
        tokens = store.gather(rows[batch])
        sources, targets = tokens["source"].to_lists(), tokens["target"].to_lists()
        for each in _attend_together(network, sources, targets, device):
            if len(each[0]) and len(each[1]):
                yield each


@torch.no_grad()
def _attend_together(
    network: EncoderDecoder,
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
    device: torch.device,
) -> Iterator[tuple[Indices, Indices, list[NDArray[np.float32]]]]:
    source_tokens, source_layout = pad(sources)
    inputs, target_layout = pad([[BOS, *target[:-1]] for target in targets])
    recorded = RecordingLayout(target_layout.to(device).is_token)
    network(source_tokens.to(device), source_layout.to(device), inputs.to(device), recorded)
    # Each layer has the weights of its self-attention, then those of its cross-attention.
    weights = [each.cpu().numpy() for each in recorded.weights[1::2]]
    for index, (source, target) in enumerate(zip(sources, targets, strict=True)):
        yield (
            np.array(source[:-1], np.int64),
            np.array(target[:-1], np.int64),
            [each[index, :, : len(target), : len(source) - 1] for each in weights],
        )


def save_model(
    run: TrainingRun,
    chosen: Sequence[Checkpoint],
    weights: Mapping[str, Tensor],
    *,
    record: ModelRecord,
    remark: str = "",
) -> None:
    """Fills `model/` with the mean of some checkpoints, and records that in manifest and card.

    Args:
        run: The run.
        chosen: One checkpoint or more, oldest first.
        weights: Their mean; with LoRA, of the learned weights.
        record: The manifest's, without the digest.
        remark: Added to their steps on the model's card.
    """
    recipe, workspace, data = run.recipe, run.workspace, run.data
    names = ", ".join(map(str, record.steps))
    several = f"the average of the checkpoints of steps {names}"
    origin = several if len(chosen) > 1 else f"the checkpoint of step {names}"
    noun = "sentence pairs"
    if recipe.data.is_text:
        noun = "texts" if recipe.objective == "classification" else "blocks of text"
    training, adapter, base_digest = recipe.training, None, chosen[-1].base_digest
    whole = run.whole_weights.of(weights, base_digest)
    if training.lora is not None and training.lora.release == "adapter":
        base = find_base(training)
        adapter = AdapterConfig.of(base, workspace.model, training.lora, base_digest)
    save_model_folder(
        workspace.model,
        recipe=recipe.model_copy(update={"inference": _with_length_ratio(run)}),
        weights=whole if adapter is None else weights,
        adapter=adapter,
        tokenizer=data.tokenizer,
        labels=data.labels,
        origin=origin + remark,
        licence=find_start_licence(training.start_from),
        alignment_head=find_alignment_head(
            run.model_config, training.guided_alignment, data.dev, whole
        ),
        word_aligner=data.word_aligner,
        training_facts=describe_start(training.start_from, str(recipe.data.data_root))
        | _describe_teachers(workspace)
        | describe_training(chosen[-1].state, len(data.train), noun)
        | record.list_facts(),
        record=lambda _: record.write(workspace),
    )


def _name_publicly(model: str) -> str:
    """Returns a model's name without the folders of this machine: `base/model`."""
    path = Path(model)
    return "/".join(path.parts[-2:]) if path.is_absolute() else model


def _describe_teachers(workspace: Workspace) -> dict[str, str]:
    """Returns a model card's fact on the models that translated its corpora; empty without any."""
    teachers = workspace.read_manifest().get("prepare", {}).get("teachers", {})
    phrases = []
    for name, teacher in teachers.items():
        licences = ", ".join(dict.fromkeys(teacher["licences"].values()))
        models = ", ".join(f"`{_name_publicly(model)}`" for model in teacher["names"])
        phrases.append(f"{name} by {models}" + (f" (licence {licences})" if licences else ""))
    return {"translated text": "; ".join(phrases)} if phrases else {}


def _with_length_ratio(run: TrainingRun) -> Inference:
    """Returns settings whose flags have the length ratio of the development set's translations."""
    inference = run.recipe.inference
    flags = inference.flags
    if flags is None or flags.length_ratio is not None or run.recipe.data.is_text:
        return inference
    # Imported here: scoring takes a while to load, and most recipes have no flags.
    from mtkit.checks.text import measure_length_ratio  # noqa: PLC0415

    pairs = zip(*run.data.dev_text, strict=True)
    ratio = round(measure_length_ratio(pairs, lambda line: measure_width(line.strip())), 4)
    flags = flags.model_copy(update={"length_ratio": ratio})
    return inference.model_copy(update={"flags": flags})


def is_released(run: TrainingRun, checkpoints: CheckpointFolder) -> bool:
    """Checks that `model/` is the best checkpoint, or was made with `average`."""
    record = ModelRecord.read(run.workspace)
    best = list_steps(choose_comparable_best(checkpoints.list()))
    is_best = bool(best) and record.steps == best
    has_form = has_wanted_form(run.workspace, run.recipe.training.lora)
    return has_form and (record.made_by == "average" or is_best)


def has_wanted_form(workspace: Workspace, lora: Lora | None) -> bool:
    """Checks that `model/` exists, as an adapter if and only if the recipe releases one."""
    wants_adapter = lora is not None and lora.release == "adapter"
    return workspace.model.is_dir() and is_adapter(workspace.model) == wants_adapter


def release(run: TrainingRun, state: TrainingState, *, options: Sequence[str]) -> None:
    """Fills `model/` with the best checkpoint, and prints a summary of the training."""
    saved = CheckpointFolder(run.workspace.checkpoints).list()
    best = choose_comparable_best(saved)
    if best:
        best[0].check(run.model_config.list_shapes().values())
        save_model(
            run,
            best,
            read_weights(best[0].weights_file),
            record=ModelRecord(
                made_by="train", steps=list_steps(best), training=TrainingRecord.of(saved[-1])
            ),
            remark=", the best on the development set",
        )
    show_summary(run, state, best[0] if best else None, options=options)
