"""Imports a language model from a folder of transformers' GPT or BERT classes.

Tokens are SentencePiece's with mtkit's ids. WordPiece and GPT's own BPE are rejected: they need
another library to segment text, aren't reversible, and number `<pad>`, `<s>` and `</s>` differently
from every network and vocabulary of mtkit.
"""

from pathlib import Path

from pydantic import ValidationError

from mtkit.errors import MtkitError, shorten
from mtkit.files import describe_fault, read_json
from mtkit.model.build import build
from mtkit.model.config import CONFIG_FILE, WEIGHTS_FILE, ModelConfig
from mtkit.model.exporters.transformers import TOKENIZER_FILE
from mtkit.model.folder import LoadedModel
from mtkit.model.transformers_config import BertConfig, GptConfig, MtkitKeys
from mtkit.model.transformers_names import (
    SECOND_NAMES,
    convert_shapes,
    convert_to_mtkit,
    list_counterparts,
)
from mtkit.model.weight_files import check_weights, read_shapes
from mtkit.model.weights import load_weights, read_weights
from mtkit.network import Network
from mtkit.recipe.inference import Inference
from mtkit.recipe.objective import Objective
from mtkit.text.sentencepiece_segmenter import read_model
from mtkit.text.tokenizer import SubwordTokenizer

_MAX_CONFIG_BYTES = 1 << 20
_UNDETERMINED = "und"
"""ISO 639's code for an unknown language."""
_PAIR_HEAD = "cls.seq_relationship.weight"
_OTHER_TOKENIZERS = {
    "vocab.txt": "WordPiece",
    "merges.txt": "byte-level BPE",
    "tokenizer.json": "one of the tokenizers library",
}
_OTHER_WEIGHTS = ("model.safetensors.index.json", "pytorch_model.bin", "tf_model.h5")


def load_transformers_folder(
    folder: Path, *, tokenizer: SubwordTokenizer | None = None
) -> LoadedModel:
    """Returns the model in a folder of `OpenAIGPTLMHeadModel`, `BertForPreTraining` or the like.

    The weights must be one safetensors file. `tokenizer` replaces the folder's; its tokens are the
    rows of the embedding.
    """
    objective, theirs = _read_config(folder)
    keys = theirs.mtkit or MtkitKeys(recipe=folder.resolve().name, language=_UNDETERMINED)
    path = _find_weights(folder)
    if tokenizer is None:
        tokenizer = _read_tokenizer(folder, keys)
    if tokenizer.vocab_sizes != dict.fromkeys(("source", "target"), theirs.vocab_size):
        raise MtkitError(
            f"{folder}: the tokenizer has {tokenizer.target_vocab_size:,} pieces, but the model "
            f"has {theirs.vocab_size:,}",
            "the tokenizer must be the one that the model was trained with",
        )
    try:
        config = ModelConfig(
            recipe=keys.recipe,
            objective=objective,
            next_sentence=_PAIR_HEAD in read_shapes(path),
            source_language=keys.language,
            target_language=keys.language,
            source_vocab_size=theirs.vocab_size,
            target_vocab_size=theirs.vocab_size,
            model=theirs.to_model(),
        )
    except ValidationError as error:
        raise _unknown_network(folder, describe_fault(error)) from error
    return LoadedModel(tokenizer, Inference(), config, _load_network(config, path))


def _read_config(folder: Path) -> tuple[Objective, GptConfig | BertConfig]:
    """Returns a model's objective and config."""
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise MtkitError(f"{folder}: no transformers model here (no {CONFIG_FILE})")
    content = read_json(path, max_bytes=_MAX_CONFIG_BYTES)
    try:
        match content.get("model_type"):
            case "openai-gpt":
                return "causal-lm", GptConfig.model_validate(content)
            case "bert":
                return "masked-lm", BertConfig.model_validate(content)
    except ValidationError as error:
        raise _unknown_network(folder, describe_fault(error)) from error
    kind = shorten(str(content.get("model_type")), 40)
    raise _unknown_network(folder, f'model_type = "{kind}", expected "openai-gpt" or "bert"')


def _unknown_network(folder: Path, fault: str) -> MtkitError:
    return MtkitError(f"{folder / CONFIG_FILE}: mtkit doesn't support this network: {fault}")


def _find_weights(folder: Path) -> Path:
    path = folder / WEIGHTS_FILE
    if path.is_file():
        return path
    others = [name for name in _OTHER_WEIGHTS if (folder / name).is_file()]
    raise MtkitError(
        f"{folder}: no {WEIGHTS_FILE} here" + (f", only {others[0]}" if others else ""),
        "load the model with transformers, then save_pretrained(..., max_shard_size='100GB')"
        if others
        else "copy the whole folder again from where it came from",
    )


def _read_tokenizer(folder: Path, keys: MtkitKeys) -> SubwordTokenizer:
    """Returns the tokenizer in a folder."""
    path = folder / TOKENIZER_FILE
    if not path.is_file():
        others = [kind for name, kind in _OTHER_TOKENIZERS.items() if (folder / name).is_file()]
        found = f"; its tokenizer is {others[0]}, which mtkit doesn't have" if others else ""
        raise MtkitError(
            f"{folder}: no {TOKENIZER_FILE} here{found}",
            f"mtkit segments text with SentencePiece: copy {TOKENIZER_FILE} from the folder that "
            "mtkit wrote, if it did",
        )
    model = read_model(path)
    try:
        tokenizer = SubwordTokenizer(model, model, punctuation=keys.punctuation)
        # SentencePiece accepts pieces of any bytes, but Python only UTF-8.
        _ = tokenizer.target_vocabulary
    except (RuntimeError, TypeError, UnicodeDecodeError) as error:
        raise MtkitError(f"{path}: damaged tokenizer: {error}") from error
    return tokenizer


def _load_network(config: ModelConfig, path: Path) -> Network:
    """Returns a network with the weights of a transformers file, in evaluation mode."""
    counterparts = list_counterparts(config)
    expected = convert_shapes(config.list_shapes(), counterparts)
    tied = {name: second for name, second in SECOND_NAMES.items() if name in expected}
    check_weights(
        path, expected, optional={second: expected[name] for name, second in tied.items()}
    )
    tensors = read_weights(path)
    for name, second in tied.items():
        if second in tensors and not tensors[second].equal(tensors[name]):
            raise MtkitError(
                f"{path}: {second} differs from {name}, but mtkit's network has one for both"
            )
    network = build(config, has_initial_weights=False)
    load_weights(network, convert_to_mtkit(tensors, counterparts), origin=path)
    return network.eval()
