"""Entry point of `mtkit translate`: opens a model, a classifier or a server.

Training code is loaded only for a checkpoint: a model folder starts without it.
"""

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit.errors import MtkitError
from mtkit.files import digest_file
from mtkit.inference.translator import Translator
from mtkit.llm import is_llm_file
from mtkit.model.config import CONFIG_FILE, WEIGHTS_FILE, ModelConfig, read_config, read_settings
from mtkit.model.digest import digest_model
from mtkit.recipe.synthesis import is_address
from mtkit.remote_files import mask_secrets
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.workspace import Workspace

if TYPE_CHECKING:
    from mtkit.inference.classify import LineClassifier
    from mtkit.network import Network
    from mtkit.recipe import Recipe
    from mtkit.recipe.inference import Inference

_OF_SPEED = {"engine", "precision", "allow_int8", "batch_tokens", "processes"}
"""Settings that `identify` resolves, or that change no output."""


def load_run(
    settings: "Inference",
    workspace: Workspace,
    *,
    device: str = "auto",
    source_language: str = "",
    target_language: str = "",
) -> Translator:
    """Returns a translator with a run's model.

    Args:
        settings: The recipe's section.
        workspace: The run.
        device: `cpu`, `cuda` or `auto` (a GPU if there is one).
        source_language: The default source language of a multilingual model.
        target_language: The default target language.
    """
    return Translator(
        workspace.model,
        device=device,
        settings=with_length_ratio(settings, workspace.model),
        source_language=source_language,
        target_language=target_language,
    )


def with_length_ratio(settings: "Inference", folder: Path) -> "Inference":
    """Returns settings whose flags have the length ratio saved with a model, if any."""
    if settings.flags is None or settings.flags.length_ratio is not None:
        return settings
    saved = read_settings(folder).flags
    if saved is None:
        return settings
    flags = settings.flags.model_copy(update={"length_ratio": saved.length_ratio})
    return settings.model_copy(update={"flags": flags})


def load_models(
    models: Sequence[Path],
    overrides: Sequence[str] = (),
    *,
    device: str = "auto",
    source_language: str = "",
    target_language: str = "",
) -> Translator:
    """Returns a translator with a model folder, a checkpoint, or an ensemble of model folders.

    `overrides` change the first one's decoding defaults. The languages are a multilingual model's
    defaults.
    """
    if any(_is_checkpoint(model) for model in models):
        if len(models) > 1:
            raise MtkitError("checkpoints can't be ensembled", "average them first: mtkit average")
        if source_language or target_language:
            raise MtkitError(
                f"{models[0]} is a checkpoint, which only translates its recipe's languages",
                "leave out --from and --to, or make a model folder of it with `mtkit average`",
            )
        return _load_checkpoint(models[0], overrides, device)
    settings = read_settings(models[0])
    if overrides:
        from mtkit.recipe.override_section import override_section

        settings = override_section(settings, "inference", overrides)
    return Translator(
        models,
        device=device,
        settings=settings,
        source_language=source_language,
        target_language=target_language,
    )


def open_models(
    models: Sequence[str],
    overrides: Sequence[str] = (),
    *,
    device: str = "auto",
    source_language: str = "",
    target_language: str = "",
) -> Translator:
    """Returns a translator for the values of `--model`.

    These are model folders or a checkpoint (`load_models`), a server's address (`open_remote`), or
    the file of a large language model (`open_llm`); the last two stand alone.
    """
    languages = {"source_language": source_language, "target_language": target_language}
    special = next((each for each in models if is_address(each) or is_llm_file(each)), None)
    if special is None:
        return load_models(list(map(Path, models)), overrides, device=device, **languages)
    if len(models) > 1:
        raise MtkitError(f"--model {special}: it can't be part of an ensemble", "give it alone")
    if is_address(special):
        return open_remote(special, overrides, **languages)
    # Imported here: few translators ask one.
    from mtkit.llm.open_llm import open_llm

    return Translator(open_llm(Path(special), overrides, **languages))


def translate(
    recipe: "Recipe", workspace: Workspace, lines: Iterable[str], *, device: str = "auto"
) -> Iterator[str]:
    """Yields the translation of each line by a run's model, in order."""
    return load_run(recipe.inference, workspace, device=device).stream(lines)


def _is_checkpoint(path: Path) -> bool:
    """Checks whether a path is a run's checkpoint, or weights in one."""
    # A folder named `checkpoints` may also contain model folders.
    folder = path.parent if path.is_file() else path
    return (
        folder.parent.name == "checkpoints"
        and not (folder / CONFIG_FILE).is_file()
        and any(folder.glob("*.safetensors"))
    )


def _load_checkpoint(path: Path, overrides: Sequence[str], device: str) -> Translator:
    """Returns a translator with the weights of a checkpoint, of a run that may be resumed."""
    from mtkit.inference.engines.open_torch_engine import check_generates, engine_of_network
    from mtkit.network.device import find_device, limit_threads
    from mtkit.recipe import load_recipe

    folder, file = (path.parent, path) if path.is_file() else (path, path / WEIGHTS_FILE)
    workspace = Workspace(folder.parent.parent)
    recipe = load_recipe(workspace.recipe_file, overrides)
    if recipe.objective == "classification":
        raise MtkitError(
            f"{path} is a classifier's checkpoint, and labels need a model folder",
            "make a model folder of it with `mtkit average`",
        )
    rerank = recipe.inference.rerank
    for key in ("fusion", "quality", "rerank"):
        is_named = rerank is not None and bool(rerank.folders)
        if is_named if key == "rerank" else getattr(recipe.inference, key) is not None:
            raise MtkitError(
                f"{path} is a checkpoint, and inference.{key} only works with model folders",
                f"make a model folder of it with `mtkit average`, or remove inference.{key}",
            )
    _check_its_data(folder, workspace)
    tokenizer = SubwordTokenizer.load(workspace.tokenizer)
    config = ModelConfig.of(recipe, tokenizer)
    try:
        network = _load_network(recipe, config, tokenizer, file)
    except MtkitError as error:
        earlier = (one for one in folder.parent.glob("step-*") if one.name < folder.name)
        older = [str(one) for one in earlier if (one / WEIGHTS_FILE).is_file()]
        hint = f"take an earlier one: --model {shlex.quote(max(older))}" if older else error.hint
        raise MtkitError(error.message, hint) from error
    limit_threads()
    chosen = find_device(device)
    generating = check_generates(network, config).to(chosen)
    return Translator.of(
        engine_of_network(generating, recipe.inference, chosen),
        tokenizer,
        recipe.inference,
        source_language=recipe.data.source_language,
        target_language=recipe.data.target_language,
        continues=recipe.objective == "causal-lm",
        linearization=recipe.data.linearization,
    )


def _load_network(
    recipe: "Recipe", config: ModelConfig, tokenizer: SubwordTokenizer, path: Path
) -> "Network":
    """Returns a run's network with the weights in a checkpoint's file."""
    from mtkit.model.folder import fill_network, load_network
    from mtkit.model.weight_files import check_weights
    from mtkit.model.weights import read_weights

    if recipe.training.lora is None:
        return load_network(config, path)
    from mtkit.training.checkpoint import read_checkpoint
    from mtkit.training.whole_weights import WholeWeights, list_checkpoint_shapes

    check_weights(path, list_checkpoint_shapes(config, recipe.training.lora))
    whole = WholeWeights(config, recipe.training, tokenizer, seed=recipe.seed)
    weights = whole.of(read_weights(path), read_checkpoint(path.parent).base_digest)
    return fill_network(config, weights, origin=path)


def _check_its_data(folder: Path, workspace: Workspace) -> None:
    """Checks that a checkpoint was trained on the workspace's data."""
    from mtkit.data.prepared import read_digest
    from mtkit.training.checkpoint import STATE_FILE, read_checkpoint

    if not (folder / STATE_FILE).is_file():
        return
    wanted, found = read_digest(workspace), read_checkpoint(folder).data_digest
    if wanted and found != wanted:
        raise MtkitError(
            f"{folder} was trained on different data than {workspace.data} now contains, so its "
            "tokenizer may differ",
            "prepare again the data that it was trained on",
        )


def describe_translator(
    models: Sequence[str], device: str, settings: "Inference"
) -> dict[str, Any]:
    """Returns what a translation depends on: models (values of `--model`), and search settings.

    Files that the settings name are digests.
    """
    from mtkit.inference.identity import identify

    found: dict[str, Any] = _digest_paths(settings.model_dump(exclude=_OF_SPEED))
    if settings.rerank is not None and settings.rerank.is_learned:
        found["rerank"]["metric"] = digest_model(Path(settings.rerank.metric))
    identities: list[Any] = []
    for model, path in zip(models, map(Path, models), strict=True):
        if is_address(model):
            identities.append(mask_secrets(model))
        elif is_llm_file(model):
            identities.append(digest_file(path))
        elif _is_checkpoint(path):
            from mtkit.network.device import find_device

            weights = digest_file(path / WEIGHTS_FILE if path.is_dir() else path)
            identities.append([weights, find_device(device).type, settings.precision])
        else:
            identities.append(asdict(identify(path, settings, device)))
    return {"model": identities, "inference": found}


def _digest_paths(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _digest_paths(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_digest_paths, value))
    if isinstance(value, Path):
        return digest_model(value) if value.is_dir() else digest_file(value)
    return value


def open_remote(
    address: str,
    overrides: Sequence[str] = (),
    *,
    source_language: str = "",
    target_language: str = "",
) -> Translator:
    """Returns a translator that calls a server; its key is in MTKIT_API_KEY.

    Only `inference.beam_size`, `inference.n_best` and `inference.paragraphs` may be overridden. If
    a language is empty, the server detects the source's, and the target is the model's own.
    """
    from mtkit.recipe.inference import Inference
    from mtkit.recipe.override_section import override_section
    from mtkit.recipe.overrides import override_key
    from mtkit.serving.client import RemoteTranslator

    allowed = tuple(
        f"inference.{key}" for key in ("beam_size=", "n_best=", "paragraphs=", "paragraphs.")
    )
    for override in overrides:
        if override.startswith("inference.glossary."):
            raise MtkitError(
                "--glossary doesn't work with a server",
                "give one with --model FOLDER; Python's Request takes terms for a server, too",
            )
        if not override.startswith(allowed):
            raise MtkitError(
                f"--set {override}: a server has settings of its own",
                "only inference.beam_size, n_best and paragraphs can be set in a request",
            )
    settings = None
    if overrides:
        asked = override_section(Inference(), "inference", overrides)
        given = {override_key(override).split(".")[1] for override in overrides}
        settings = Inference.model_construct(given, **dict(asked))
    return RemoteTranslator(
        address,
        key=os.environ.get("MTKIT_API_KEY"),
        source=source_language or None,
        target=target_language or None,
        settings=settings,
    )


def open_classifier(
    models: Sequence[Path], *, device: str, score_only: bool = False
) -> "LineClassifier | None":
    """Returns the classifier of a model folder; None for another model."""
    is_classifier = [
        (folder / CONFIG_FILE).is_file() and read_config(folder).objective == "classification"
        for folder in models
    ]
    if not any(is_classifier):
        return None
    if len(models) > 1:
        raise MtkitError("classifiers can't be ensembled", "name one model folder")
    if score_only:
        raise MtkitError(
            f"{models[0]} is a classifier, and --score-only scores translations",
            "--json has the probabilities of labels",
        )
    # Imported here: checking for a classifier needs no torch.
    from mtkit import LineClassifier

    return LineClassifier(models[0], device=device)
