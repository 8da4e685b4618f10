"""Reads weights that another program wrote: safetensors, in one file or several, or a pickle.

Tensors are read one at a time, so that a network's weights are in memory only once. No code in a
pickle is ever run: `torch.load` with `weights_only` rejects everything except tensors.
"""

import pickle
import re
import warnings
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from mtkit.errors import MtkitError, shorten
from mtkit.files import read_json
from mtkit.model.config import WEIGHTS_FILE
from mtkit.model.importers.source_folder import SourceFolder
from mtkit.model.parameters import Shape
from mtkit.model.weight_files import read_shapes
from mtkit.model.weights import read_weight

_INDEX_FILE = "model.safetensors.index.json"
_PICKLE = "pytorch_model.bin"
_PICKLE_INDEX = "pytorch_model.bin.index.json"
_MAX_INDEX_BYTES = 8 << 20
_MAX_PARTS = 1_000
_COPY_AGAIN = "copy the complete folder again from where it came from"


class ForeignWeights(ABC):
    """Tensors by name, read one at a time; `origin` is for messages."""

    shapes: Mapping[str, Shape]
    origin: str

    @abstractmethod
    def read(self, name: str) -> Tensor:
        """Returns a tensor in the file's dtype."""


def open_weights(folder: SourceFolder) -> ForeignWeights:
    """Returns the weights in a folder: safetensors if there are any, else a pickle."""
    if path := folder.find(WEIGHTS_FILE):
        return _Safetensors([path], f"{folder.origin}/{WEIGHTS_FILE}")
    if index := folder.find(_INDEX_FILE):
        return _Safetensors(_find_parts(folder, index), f"{folder.origin}/{_INDEX_FILE}")
    if path := folder.find(_PICKLE):
        return _Pickle([path], f"{folder.origin}/{_PICKLE}")
    if index := folder.find(_PICKLE_INDEX):
        return _Pickle(_find_parts(folder, index), f"{folder.origin}/{_PICKLE_INDEX}")
    raise MtkitError(
        f"{folder.origin}: no weights here (no {WEIGHTS_FILE} or {_PICKLE})", _COPY_AGAIN
    )


def _find_parts(folder: SourceFolder, index: Path) -> list[Path]:
    """Returns the files that an index names."""
    of_tensors = read_json(index, max_bytes=_MAX_INDEX_BYTES).get("weight_map")
    if not isinstance(of_tensors, dict) or not of_tensors:
        raise MtkitError(f"{index}: no files named in weight_map", _COPY_AGAIN)
    names = sorted({str(name) for name in of_tensors.values()})
    if len(names) > _MAX_PARTS or any(set(name) & {"/", "\\", "\0"} for name in names):
        fault = f"weight_map names files outside this folder, or more than {_MAX_PARTS:,} files"
        raise MtkitError(f"{index}: {fault}", _COPY_AGAIN)
    return [folder.need(name) for name in names]


class _Safetensors(ForeignWeights):
    def __init__(self, paths: list[Path], origin: str) -> None:
        self.origin = origin
        self.shapes = {}
        self._paths: dict[str, Path] = {}
        for path in paths:
            shapes = read_shapes(path)
            self.shapes |= shapes
            self._paths |= dict.fromkeys(shapes, path)

    def read(self, name: str) -> Tensor:
        """Returns a tensor; freeing it unmaps its pages of the file."""
        return read_weight(self._paths[name], name)


class _Pickle(ForeignWeights):
    def __init__(self, paths: list[Path], origin: str) -> None:
        self.origin = origin
        self.shapes = {}
        self._paths: dict[str, Path] = {}
        self._held: dict[str, Tensor] = {}
        for path in paths:
            content, is_mapped = unpickle(path, origin)
            tensors = check_tensors(content, origin)
            check_storages(tensors, path, origin)
            self.shapes |= {name: tuple(tensor.shape) for name, tensor in tensors.items()}
            self._paths |= dict.fromkeys(tensors, path)
            if not is_mapped:
                self._held |= tensors

    def read(self, name: str) -> Tensor:
        """Returns a tensor; pages of a mapped file are freed with it."""
        if name in self._held:
            return self._held[name]
        # A mapped file would keep everything read from it in memory.
        return check_tensors(unpickle(self._paths[name], self.origin)[0], self.origin)[name]


def unpickle(path: Path, origin: str) -> tuple[object, bool]:
    """Returns a pickle's tensors and plain values, and whether they are mapped from the file."""

    def load(*, mmap: bool) -> object:
        with warnings.catch_warnings():
            # About newer pickle protocols, which are read or rejected anyway.
            warnings.simplefilter("ignore", UserWarning)
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)

    is_mapped = True
    try:
        try:
            content = load(mmap=True)
        except RuntimeError:
            # From PyTorch before 1.6, which can't be mapped.
            content, is_mapped = load(mmap=False), False
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL (\S+)", str(error))
        reason = f"it names {named[1]}" if named else str(error).partition("\n")[0]
        raise MtkitError(
            f"{origin}: damaged, or a pickle with code in it, which is never run: "
            f"{shorten(reason, 200)}",
            "look for the same model as model.safetensors",
        ) from error
    except Exception as error:
        # A pickle calls allowed functions with any arguments.
        raise _damaged(origin, str(error)) from error
    return content, is_mapped


def check_tensors(content: object, origin: str) -> dict[str, Tensor]:
    """Returns a pickle's content, which must be tensors of floats by their names."""
    if not isinstance(content, dict):
        raise _damaged(origin, f"a {type(content).__name__}, expected tensors by their names")
    for name, tensor in content.items():
        if not isinstance(name, str):
            raise _damaged(origin, f"a name that is a {type(name).__name__}")
        if not isinstance(tensor, Tensor):
            raise _damaged(origin, f"{shorten(name, 80)} isn't a tensor")
        if tensor.layout != torch.strided or tensor.is_meta:
            raise _damaged(origin, f"{shorten(name, 80)} isn't a dense tensor in memory")
        if not tensor.is_floating_point():
            raise _damaged(origin, f"{shorten(name, 80)} has type {tensor.dtype}, expected floats")
    return content


def check_storages(tensors: Mapping[str, Tensor], path: Path, origin: str) -> None:
    """Checks that tensors claim no more bytes than a pickle stores: mapped ones could overlap."""
    storages = {each.untyped_storage().data_ptr(): each for each in tensors.values()}
    claimed = sum(each.untyped_storage().nbytes() for each in storages.values())
    stored = path.stat().st_size
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            parts = [each for each in archive.infolist() if "/data/" in each.filename]
            stored = sum(part.file_size for part in parts)
    if claimed > stored:
        raise _damaged(origin, f"its tensors claim {claimed:,} bytes, but it stores {stored:,}")


def _damaged(origin: str, reason: str) -> MtkitError:
    return MtkitError(f"{origin}: damaged: {shorten(reason, 200)}", _COPY_AGAIN)
