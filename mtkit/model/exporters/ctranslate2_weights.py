"""Checks CTranslate2's file of weights before the library reads it.

The library trusts the sizes in the file. Wrong ones would make it read and write outside its
memory.
"""

import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import BinaryIO

from mtkit.errors import MtkitError, shorten
from mtkit.foreign_files import check_file
from mtkit.model.alignment_head import AlignmentHead, default_head
from mtkit.model.exporters.ctranslate2_files import EXPORT_AGAIN, MODEL_FILE, is_of_export
from mtkit.model.exporters.ctranslate2_names import check_convertible, list_exported
from mtkit.model.parameters import Shape
from mtkit.recipe.model import Model

_BINARY_VERSION = 6
_ITEM_BYTES = (4, 1, 2, 4, 2, 2)
_FLOATS, _MATRICES = (0, 4, 5), (0, 1, 2, 4, 5)
"""Indices of float32, int8, int16, int32, float16, bfloat16: those of vectors, and those of
matrices, which may be quantized."""
_QUANTIZED = (1, 2)
_SCALE = "weight_scale"
_MAX_NAME_BYTES = 1_000
_MAX_RANK = 2
_LARGEST_CHOICE = 10
"""Maximum of a one-byte scalar, such as the number of an activation."""
_LAST_LAYER = -1


@dataclass(frozen=True)
class _Variable:
    """A variable in the file; `kind` is its type's number, `value` that of a scalar."""

    shape: Shape
    kind: int
    value: int = 0


def check_engine_folder(folder: Path) -> None:
    """Checks that a folder holds only an export's files, and that their sizes are consistent.

    A file that is a link to another place is an error.
    """
    for path in folder.iterdir():
        # The library would also look for other names, such as a map of the vocabulary.
        if not is_of_export(path) and not path.name.startswith("."):
            raise MtkitError(f"{path}: not a file of an exported model", EXPORT_AGAIN)
        check_file(path, inside=folder.parent)
    _read_variables(folder / MODEL_FILE)


def check_network(
    path: Path,
    model: Model,
    vocab_sizes: tuple[int, int],
    max_tokens: int,
    alignment_head: AlignmentHead | None = None,
) -> None:
    """Checks that a file holds exactly the weights of a network, in the right shapes.

    `max_tokens` is the number of positions in its config. Without `alignment_head` the library must
    return the mean of the last layer's heads.
    """
    check_convertible(model)
    expected = {weight.name: weight.shape for weight in list_exported(model, vocab_sizes)}
    for side in ("encoder", "decoder"):
        # One more than in the config: mtkit/model/exporters/ctranslate2.py.
        expected[f"{side}/position_encodings/encodings"] = (max_tokens + 1, model.d_model)
    found = _read_variables(path)
    for name, shape in expected.items():
        variable = found.pop(name, None)
        if variable is None or variable.shape != shape:
            has = "is missing" if variable is None else f"has shape {list(variable.shape)}"
            raise _damaged(path, f"{name} {has}, expected {list(shape)}")
        if variable.kind not in (_MATRICES if name.endswith("/weight") else _FLOATS):
            raise _damaged(path, f"{name} has a type that weights can't have")
        if name.endswith("/weight"):
            scale = found.pop(name.removesuffix("weight") + _SCALE, None)
            is_scaled = scale is not None and scale.shape in ((), shape[:1]) and scale.kind == 0
            if is_scaled != (variable.kind in _QUANTIZED):
                raise _damaged(path, f"{name} doesn't match its scale")
    for name, variable in found.items():
        known = _is_known(
            name.rpartition("/")[2], variable, model, alignment_head or default_head(model)
        )
        if variable.shape or not known:
            raise _damaged(path, f"{name} doesn't belong in an export")


def _damaged(path: Path, reason: str) -> MtkitError:
    return MtkitError(f"{path}: damaged: {shorten(reason, 200)}", EXPORT_AGAIN)


def _is_known(name: str, scalar: _Variable, model: Model, head: AlignmentHead) -> bool:
    """Checks that an export of this network may have such a scalar."""
    if name == "num_heads":
        return scalar.value == model.num_heads
    if name == "alignment_heads":
        return scalar.value == (model.num_heads if head.head is None else 1)
    if name == "scale_embeddings":
        return scalar.value == int(model.scale_embeddings)
    if name == "alignment_layer":
        is_last = head.layer == model.num_decoder_layers
        return scalar.value == (_LAST_LAYER if is_last else head.layer - 1)
    return scalar.kind == 1 and 0 <= scalar.value <= _LARGEST_CHOICE


def _read_variables(path: Path) -> dict[str, _Variable]:
    """Returns each variable of a file, by each of its names, without the weights' values."""
    left = check_file(path, inside=path.parent.parent)
    found: dict[str, _Variable] = {}

    def add(name: str, variable: _Variable | None) -> None:
        if name in found or variable is None:
            raise _damaged(path, f"{name} appears twice, or refers to nothing")
        found[name] = variable

    try:
        with path.open("rb") as stream:
            if (version := _read_number(stream, "I")) != _BINARY_VERSION:
                raise MtkitError(
                    f"{path}: version {version}, expected {_BINARY_VERSION}", EXPORT_AGAIN
                )
            _read_name(stream)
            _read_number(stream, "I")
            for _ in range(_read_number(stream, "I")):
                name = _read_name(stream)
                rank = _read_number(stream, "B")
                if rank > _MAX_RANK:
                    raise _damaged(path, f"{name} has {rank} dimensions")
                shape = tuple(_read_number(stream, "I") for _ in range(rank))
                kind = _read_number(stream, "B")
                num_bytes = _read_number(stream, "I")
                if kind >= len(_ITEM_BYTES) or num_bytes != prod(shape) * _ITEM_BYTES[kind]:
                    raise _damaged(path, f"{name}: {num_bytes:,} bytes for shape {list(shape)}")
                value = 0
                if shape:
                    stream.seek(num_bytes, 1)
                else:
                    value = int.from_bytes(stream.read(num_bytes), "little", signed=True)
                add(name, _Variable(shape, kind, value))
                if stream.tell() > left:
                    raise _damaged(path, "it is truncated")
            for _ in range(_read_number(stream, "I")):
                name, of_name = _read_name(stream), _read_name(stream)
                add(name, found.get(of_name))
                # The library does the same for a weight's scale.
                if (scale := found.get(f"{of_name}_scale")) is not None:
                    add(f"{name}_scale", scale)
    except (struct.error, UnicodeDecodeError) as error:
        raise _damaged(path, f"truncated or invalid: {error}") from error
    return found


def _read_number(stream: BinaryIO, form: str) -> int:
    content = stream.read(struct.calcsize(f"<{form}"))
    number: int = struct.unpack(f"<{form}", content)[0]
    return number


def _read_name(stream: BinaryIO) -> str:
    """Returns a string that is stored after its length and ends with a zero."""
    length = _read_number(stream, "H")
    if length > _MAX_NAME_BYTES:
        raise struct.error(f"a name of {length} bytes")
    return stream.read(length)[:-1].decode("utf-8")
