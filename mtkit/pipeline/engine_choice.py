"""Chooses the engine for a run's model under `inference.engine = "auto"`."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from mtkit.devices import has_torch
from mtkit.errors import MtkitError
from mtkit.inference.engines.features import list_missing, list_uses
from mtkit.inference.terms import choose_way
from mtkit.model.config import (
    CONFIG_FILE,
    ModelConfig,
    check_translates,
    read_config,
    read_settings,
)
from mtkit.model.digest import digest_model
from mtkit.model.exporters.ctranslate2_files import (
    ENGINE_FOLDER,
    EXPORT_AGAIN,
    read_names,
    read_origin,
)
from mtkit.model.exporters.ctranslate2_library import load_library, parse_device
from mtkit.model.exporters.ctranslate2_names import check_convertible
from mtkit.recipe.inference import GlossarySection, Inference
from mtkit.recipe.precision import MIN_WIDTH_IN_BFLOAT16
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.workspace import Workspace

_MANY_BYTES = 500_000
"""Of text: some 8,000 captions. With half of that, both engines take as long (docs/log.md)."""


@dataclass(frozen=True)
class ChosenEngine:
    """The engine for a run's model.

    Attributes:
        folder: The run's model, or its export.
        settings: The recipe's decoding settings, with engine `torch` or `ctranslate2`.
        reason: Why `auto` chose it, for users; empty without a choice.
    """

    folder: Path
    settings: Inference
    reason: str = ""


def choose_engine(
    settings: Inference,
    workspace: Workspace,
    device: str = "auto",
    *,
    input_bytes: int | None = None,
    answers_requests: bool = False,
) -> ChosenEngine:
    """Returns the engine for a run's model: the recipe's, or for `auto` the fastest.

    On a CPU that is CTranslate2 if it is installed, the run's model was exported for it, and it has
    every feature that is or may be requested. It is torch if that computes in bf16 and the export
    isn't in integers, or if there is so much text that compiled passes make up for PyTorch's later
    start, unless the export is in integers and torch isn't. `auto` never uses an export of another
    model.

    Args:
        settings: The recipe's section.
        workspace: The run.
        device: `cpu`, `cuda` or `auto` (a GPU if there is one).
        input_bytes: Size of the text, if known.
        answers_requests: Whether requests may have their own terms, as on a server.
    """
    if settings.engine == "ctranslate2":
        if not (workspace.export / CONFIG_FILE).is_file():
            raise MtkitError(
                f"{workspace.export}: no model exported for CTranslate2", "run `mtkit export`"
            )
        return ChosenEngine(workspace.export, settings)
    ours = settings.model_copy(update={"engine": "torch"})
    if settings.engine == "torch" or not (workspace.export / ENGINE_FOLDER).is_dir():
        return ChosenEngine(workspace.model, ours)
    obstacle = _find_first(
        chain(
            _list_losses(workspace, settings, device=device, answers_requests=answers_requests),
            _list_stale(workspace, settings),
            _list_slow(workspace, settings, input_bytes),
        )
    )
    if obstacle:
        return ChosenEngine(workspace.model, ours, f"engine: torch, since {obstacle}")
    exported = settings.model_copy(update={"engine": "ctranslate2"})
    reason = (
        f"engine: ctranslate2 ({workspace.export}), since the model is exported in "
        f"{read_quantization(workspace)}"
    )
    if answers_requests and _constrains_terms(workspace.model, settings):
        reason += "; requests with a glossary are rejected: --set inference.engine=torch takes them"
    return ChosenEngine(workspace.export, exported, reason)


def with_length_ratio(settings: Inference, folder: Path) -> Inference:
    """Returns settings whose flags have the length ratio saved with a model, if any."""
    if settings.flags is None or settings.flags.length_ratio is not None:
        return settings
    saved = read_settings(folder).flags
    if saved is None:
        return settings
    flags = settings.flags.model_copy(update={"length_ratio": saved.length_ratio})
    return settings.model_copy(update={"flags": flags})


def gains(workspace: Workspace, settings: Inference, quantization: str, device: str) -> bool:
    """Checks whether `auto` uses CTranslate2 for a run's model with these settings, here."""
    return not _find_first(_list_losses(workspace, settings, quantization, device=device))


def _find_first(obstacles: Iterator[str]) -> str:
    """Returns the first reason against an export; empty without any."""
    try:
        return next(obstacles, "")
    except MtkitError as error:
        # CTranslate2 is missing or can't run the model, or the export is damaged.
        return _describe(error)


def _describe(error: MtkitError) -> str:
    return "; ".join(filter(None, (error.message, error.hint)))


def _list_losses(
    workspace: Workspace,
    settings: Inference,
    quantization: str | None = None,
    *,
    device: str,
    answers_requests: bool = False,
) -> Iterator[str]:
    """Yields what CTranslate2 lacks for a run's model, or where it is slower; see `gains`."""
    quantization = read_quantization(workspace) if quantization is None else quantization
    folder = workspace.model
    config = read_config(folder)
    check_translates(config, "CTranslate2")
    check_convertible(config.model)
    uses = list_uses(
        settings,
        constrains_terms=settings.glossary is not None and _constrains_terms(folder, settings),
        is_parser=config.linearization is not None,
    )
    for use in list_missing("ctranslate2", uses):
        yield use.describe()
    is_float = not is_in_integers(quantization)
    is_as_fast = is_float or settings.allow_int8
    if answers_requests and is_as_fast and _constrains_terms(folder, settings):
        yield "requests may have glossaries, and CTranslate2 can't search for given phrases"
    if settings.precision != "auto":
        yield f'inference.precision = "{settings.precision}" is an arithmetic of torch'
    if settings.coverage_penalty:
        yield "CTranslate2 is slow with inference.coverage_penalty"
    kind, _ = parse_device(device, load_library())
    if kind != "cpu":
        yield "on a GPU the export is taken only if it is asked for"
    if is_float and _computes_in_bfloat16(config, settings):
        yield "it computes in bf16 here, faster than CTranslate2 in float32"


def is_in_integers(quantization: str) -> bool:
    """Checks whether an export's products are of integers, so that some translations differ."""
    return quantization.startswith("int")


def read_quantization(workspace: Workspace) -> str:
    """Returns the number type of a run's export; empty without one that names its model."""
    if not (workspace.export / ENGINE_FOLDER).is_dir():
        return ""
    made_from, quantization = read_origin(workspace.export / ENGINE_FOLDER)
    return quantization if made_from else ""


def find_export_fault(workspace: Workspace) -> MtkitError | None:
    """Returns an error if a run's export was made from another model than the present one.

    None also if that is unknown: the export doesn't name its model, or the run has none.
    """
    if not workspace.model.is_dir() or not (workspace.export / ENGINE_FOLDER).is_dir():
        return None
    made_from, quantization = read_origin(workspace.export / ENGINE_FOLDER)
    if made_from in ("", digest_model(workspace.model)):
        return None
    command = ["mtkit", "export", "--workspace", str(workspace.root), "-q", quantization]
    return MtkitError(
        f"{workspace.export} was exported from a different model than {workspace.model}",
        f"export it again: {shlex.join(command)}",
    )


def _constrains_terms(folder: Path, settings: Inference) -> bool:
    """Checks whether terms need a constrained search, which not all engines have."""
    way = choose_way(settings.glossary or GlossarySection(), SubwordTokenizer.load(folder))
    return way != "annotation"


def _list_stale(workspace: Workspace, settings: Inference) -> Iterator[str]:
    """Yields reasons why a run's export is outdated, or takes shorter lines than the settings."""
    fault = find_export_fault(workspace)
    if fault is not None:
        yield _describe(fault)
    if not read_quantization(workspace):
        yield f"{workspace.export} doesn't say of which model it is; {EXPORT_AGAIN}"
    max_tokens, *_ = read_names(workspace.export / ENGINE_FOLDER)
    if settings.max_source_tokens + settings.max_extra_tokens > max_tokens:
        yield (
            f"{workspace.export} takes {max_tokens} tokens, and inference.max_source_tokens and "
            f"inference.max_extra_tokens allow more; {EXPORT_AGAIN}"
        )


def _list_slow(workspace: Workspace, settings: Inference, input_bytes: int | None) -> Iterator[str]:
    """Yields a reason if torch's compiled passes gain more than its later start costs."""
    if input_bytes is None or input_bytes < _MANY_BYTES or not has_torch():
        return
    if is_in_integers(read_quantization(workspace)) and not settings.allow_int8:
        return
    from mtkit.network.cpu.compiled_translator import can_compile  # noqa: PLC0415
    from mtkit.network.cpu.quantized import is_compiled_fastest  # noqa: PLC0415

    if is_compiled_fastest() and can_compile(read_config(workspace.model).model):
        yield f"its compiled passes are faster for {input_bytes / 1e6:,.1f} MB of text"


def _computes_in_bfloat16(config: ModelConfig, settings: Inference) -> bool:
    """Checks whether torch would run a model in bf16 on this CPU."""
    if config.model.d_model < MIN_WIDTH_IN_BFLOAT16 or not has_torch():
        return False  # Without loading torch.
    from mtkit.inference.engines.open_torch_engine import choose_precision  # noqa: PLC0415
    from mtkit.network.device import find_device as find_torch_device  # noqa: PLC0415

    ours = settings.model_copy(update={"allow_int8": False})
    return choose_precision(ours, find_torch_device("cpu"), config.model) == "bf16"
