"""The compiled library of the C++ engine.

`hatch_build.py` compiles `cpp/` once per kind of CPU. Without a compiler, or if the source has
changed since, there is no library, and PyTorch does the work.
"""

import ctypes
import hashlib
import weakref
from collections.abc import Callable
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_float,
    c_int32,
    c_int64,
    c_void_p,
)
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent / "cpp"
KINDS = "amx", "avx512-bf16", "avx512-vnni", "avx2", "neon-dot", "plain"
"""The instruction sets that libraries are compiled for, fastest first."""


class NormWeights(Structure):
    """Weights of a layer normalisation."""

    _fields_: ClassVar = [("weight", c_void_p), ("bias", c_void_p), ("epsilon", c_float)]


class Layer(Structure):
    """Parts of a layer; cross-attention's are null without a source."""

    _fields_: ClassVar = [
        *((name, NormWeights) for name in ("self_norm", "cross_norm", "feed_forward_norm")),
        *(
            (name, c_void_p)
            for name in (
                "query_key_value",
                "self_output",
                "cross_query",
                "cross_key_value",
                "cross_output",
                "inner",
                "outer",
            )
        ),
    ]


class StackShape(Structure):
    """Widths of a stack's layers."""

    _fields_: ClassVar = [
        *((name, c_int64) for name in ("d_model", "num_heads", "d_key", "d_value")),
        ("norm_first", c_int32),
        ("activation", c_int32),
    ]


class Embedding(Structure):
    """Token vectors, [num_tokens, d_model], their scale, and a norm or null."""

    _fields_: ClassVar = [
        ("tokens", c_void_p),
        ("num_tokens", c_int64),
        ("scale", c_float),
        ("norm", POINTER(NormWeights)),
    ]


class Positions(Structure):
    """Vectors of positions, [count, d_model]."""

    _fields_: ClassVar = [("vectors", c_void_p), ("count", c_int64)]


class Network(Structure):
    """A network as a search uses it; see `cpp/decoder.h`."""

    _fields_: ClassVar = [
        ("encoder", c_void_p),
        ("decoder", c_void_p),
        ("projection", c_void_p),
        ("source_positions", Positions),
        ("target_positions", Positions),
        ("fusion_weight", c_float),
        ("watched_layer", c_int64),
        ("watched_head", c_int64),
    ]


class Ragged(Structure):
    """Concatenated lists: list i has values [starts[i], starts[i + 1])."""

    _fields_: ClassVar = [("values", c_void_p), ("starts", c_void_p)]


class RaggedPhrases(Structure):
    """Phrases of sentences: those of sentence i have numbers [starts[i], starts[i + 1])."""

    _fields_: ClassVar = [("tokens", Ragged), ("starts", c_void_p)]


class Requests(Structure):
    """Sentences to search; see `cpp/search.h`."""

    _fields_: ClassVar = [
        ("count", c_int64),
        ("sources", Ragged),
        ("prompts", Ragged),
        ("prefixes", Ragged),
        ("num_certain", c_void_p),
        ("limits", c_void_p),
        ("required", RaggedPhrases),
        ("forbidden", RaggedPhrases),
        ("random", Ragged),
    ]


class SearchSettings(Structure):
    """Settings of a search; see `cpp/search.h`."""

    _fields_: ClassVar = [
        *(
            (name, c_int64)
            for name in (
                "beam_size",
                "num_outputs",
                "stop_margin",
                "min_length",
                "no_repeat_ngram",
                "max_repeated",
                "top_k",
            )
        ),
        *((name, c_double) for name in ("top_p", "epsilon", "temperature", "penalty_alpha")),
        *((name, c_int32) for name in ("has_power_penalty", "is_sampling")),
        ("coverage_penalty", c_float),
    ]


class Cancelled(Exception):  # noqa: N818 (no error)
    """A call was cancelled."""


def check_status(status: int) -> None:
    """Raises IndexError, MemoryError or Cancelled for a call's status (see engine.cpp)."""
    match status:
        case 1:
            raise IndexError("a token or position for which the network has no vector")
        case 2:
            raise MemoryError("out of memory for a batch: lower inference.batch_tokens")
        case 3:
            raise Cancelled


_SIGNATURES: dict[str, tuple[list[Any], Any]] = {
    "mtkit_made_of": ([], c_char_p),
    "mtkit_instructions": ([], c_char_p),
    "mtkit_supports": ([c_char_p], c_int32),
    "mtkit_new_linear": ([c_char_p, c_int64, c_int64, c_void_p, c_void_p], c_void_p),
    "mtkit_free_linear": ([c_void_p], None),
    "mtkit_apply_linear": ([c_void_p, c_void_p, c_int64, c_void_p, c_int32], c_int32),
    "mtkit_new_stack": (
        [POINTER(StackShape), POINTER(Embedding), POINTER(Layer), c_int64, POINTER(NormWeights)],
        c_void_p,
    ),
    "mtkit_free_stack": ([c_void_p], None),
    "mtkit_search": (
        [
            POINTER(Network),
            c_int64,
            POINTER(Requests),
            POINTER(SearchSettings),
            POINTER(c_int32),
            c_int32,
            POINTER(c_int32),
        ],
        c_void_p,
    ),
    "mtkit_count_outputs": ([c_void_p, c_void_p], None),
    "mtkit_measure_outputs": ([c_void_p, c_void_p, c_void_p], None),
    "mtkit_copy_outputs": ([c_void_p, c_void_p, c_void_p, c_void_p, c_void_p], None),
    "mtkit_free_outputs": ([c_void_p], None),
    "mtkit_score": (
        [
            POINTER(Network),
            c_int64,
            POINTER(Requests),
            c_void_p,
            c_void_p,
            c_void_p,
            c_void_p,
            c_void_p,
            POINTER(c_int32),
            c_int32,
        ],
        c_int32,
    ),
}


def open_library(kind: str) -> ctypes.CDLL | None:
    """Returns the library for a kind of CPU; None if it is missing or can't be used here."""
    found = _try_library(kind)
    return None if isinstance(found, str) else found


def _try_library(kind: str) -> ctypes.CDLL | str:
    """Returns the library for a kind of CPU, or the reason why it can't be used here."""
    path = library_path(kind)
    if not path.exists():
        return "not compiled"
    try:
        library = ctypes.CDLL(str(path))
        for name, (arguments, result) in _SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, result
    except (OSError, AttributeError):
        return "for another system or version"
    # Structures must match the sources: with others the library would access wrong memory.
    digest, *_ = library.mtkit_made_of().split()
    return library if digest == _digest_sources() else "compiled from other sources"


def _digest_sources() -> bytes:
    """Returns the digest that a library of the current sources has."""
    sources = sorted([*FOLDER.glob("*.h"), *FOLDER.glob("*.cpp")])
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources))
    return digest.hexdigest().encode()


def library_path(kind: str) -> Path:
    """Returns the path of the library for a kind of CPU."""
    return FOLDER / f"{kind}.so"


@cache
def choose_library() -> ctypes.CDLL | None:
    """Returns the fastest library for this CPU; None without one."""
    return next(filter(None, map(open_library, _list_kinds())), None)


def _list_kinds() -> list[str]:
    """Returns the kinds that this CPU can run, fastest first; the plain library says which."""
    plain = open_library("plain")
    return [] if plain is None else [kind for kind in KINDS if plain.mtkit_supports(kind.encode())]


def describe_library() -> str:
    """Returns which library is used, and the reason if it isn't the fastest or there is none."""
    fastest = next(iter(_list_kinds()), "plain")
    found = _try_library(fastest)
    if not isinstance(found, str):
        return fastest
    used = find_instructions() or "none"
    hint = "install mtkit again" if used != "none" else "install mtkit again with a C++ compiler"
    return f"{used}: {library_path(fastest)} is {found}; {hint}"


def find_instructions() -> str:
    """Returns the instruction set of this CPU's library; empty without a library."""
    library = choose_library()
    return "" if library is None else library.mtkit_instructions().decode()


class Handle:
    """An object of the library, freed with the last reference to this."""

    # `pointer` is None if the library was out of memory. `keeps` must live as long as the object.

    def __init__(self, pointer: int | None, free: Callable[[int], None], *keeps: object) -> None:
        if pointer is None:
            raise MemoryError("out of memory: the model doesn't fit")
        self.pointer = pointer
        self._keeps = keeps
        weakref.finalize(self, free, pointer)


def address(array: NDArray[Any], dtype: type = np.float32) -> int:
    """Returns the address of an array's numbers, which must be contiguous."""
    assert array.dtype == dtype, f"{array.dtype}, expected {dtype}"
    assert array.flags.c_contiguous
    return array.ctypes.data
