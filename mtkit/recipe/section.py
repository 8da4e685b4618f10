"""The base of all sections of a recipe, and types of their values.

The docstrings under keys are read from the source on demand:
pydantic's own `use_attribute_docstrings` reads the source of every section whenever mtkit starts,
which takes an eighth of a second; nothing but the reference and the JSON schema needs it.
"""

import ast
import inspect
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
)
from pydantic_core import PydanticKnownError, core_schema

from mtkit.paths import expand_home

_MAX_NUMBER = 1_000_000_000
Seed = Annotated[int, Field(ge=0, lt=2**63)]
"""Seed of a random number generator."""
DATA_ROOT = "data_root"
"""Key of the validation's context: the folder that a recipe's relative paths start from."""
NumProcesses = Annotated[int, Field(ge=1, le=1_024)] | Literal["auto"]
_SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")


def read_docstrings(section: type) -> dict[str, str]:
    """Returns the docstring under each key of a class, those of its bases included."""
    found: dict[str, str] = {}
    for each in reversed(section.__mro__):
        if "__annotations__" in vars(each) and not each.__module__.startswith("pydantic"):
            found |= _read_module(each.__module__).get(each.__name__, {})
    return found


@cache
def _read_module(name: str) -> dict[str, dict[str, str]]:
    """Returns the docstrings of a module's classes by key; none where it came without source."""
    try:
        source = inspect.getsource(sys.modules[name])
    except OSError:
        return {}
    return {
        definition.name: dict(_read_keys(definition))
        for definition in ast.parse(source).body
        if isinstance(definition, ast.ClassDef)
    }


def _read_keys(definition: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for key, text in pairwise(definition.body):
        match key, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(docstring))),
            ):
                yield name, inspect.cleandoc(docstring)


def refuse_boundless(number: float) -> float:
    """Returns a number that can't overflow anything; the limit is far beyond any run's values.

    Raises:
        ValueError: It is larger.
    """
    if number > _MAX_NUMBER:
        raise ValueError(f"expected a number up to {_MAX_NUMBER:,}, found a larger number")
    return number


Share = Annotated[float, Field(ge=0.0, le=1.0)]
Count = Annotated[PositiveInt, AfterValidator(refuse_boundless)]
"""A number of steps, tokens or the like."""
CountFromZero = Annotated[NonNegativeInt, AfterValidator(refuse_boundless)]
Strength = Annotated[PositiveFloat, AfterValidator(refuse_boundless)]
"""A rate, a factor or a time."""
StrengthFromZero = Annotated[NonNegativeFloat, AfterValidator(refuse_boundless)]


def start_from_data_root(path: Path, info: ValidationInfo) -> Path:
    """Returns an absolute path; the path as it is where no recipe is read."""
    root: Path | None = (info.context or {}).get(DATA_ROOT)
    return path if root is None else root / expand_home(path)


def _find_folder(name: str, info: ValidationInfo) -> str:
    folder = start_from_data_root(Path(name), info)
    return str(folder) if folder.is_dir() else name


RecipePath = Annotated[Path, AfterValidator(start_from_data_root)]
"""A path relative to `data.data_root`; absolute once a recipe is read."""
NameOrFolder = Annotated[str, AfterValidator(_find_folder)]
"""A name, or the path of a folder relative to it."""


class WordOrFolder:
    """Annotates a string that is one of some words, or a folder's path, which has a slash.

    A path is relative to `data.data_root`.
    """

    def __init__(self, *words: str) -> None:
        self._words = words

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Returns pydantic's schema of the string."""
        return core_schema.with_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        """Returns the JSON schema of the string."""
        words = {"enum": list(self._words), "type": "string"}
        return {"anyOf": [words, {"pattern": "/", "type": "string"}]}

    def _check(self, name: str, info: ValidationInfo) -> str:
        if "/" in name:
            path = str(start_from_data_root(Path(name), info))
            # `./bleu` is no word.
            return path if "/" in path else f"./{path}"
        if name not in self._words:
            with suppress(OSError, RuntimeError):
                if start_from_data_root(Path(name), info).is_dir():
                    raise ValueError(f"{name} is a folder here, which needs a slash: ./{name}")
            expected = " or ".join(map(repr, self._words))
            raise PydanticKnownError("literal_error", {"expected": expected})
        return name


def refuse_special(symbol: str) -> str:
    """Returns a symbol that can be one piece of a vocabulary.

    Raises:
        ValueError: It is a special piece already, or holds a space.
    """
    if symbol in _SPECIAL_PIECES:
        raise ValueError(f"{symbol} is a special piece of every vocabulary: choose another name")
    if any(character.isspace() for character in symbol):
        raise ValueError(f"{symbol!r} contains a space, but a piece can't span two words")
    return symbol


class Section(BaseModel):
    """A frozen set of keys that rejects unknown ones; the docstring under a key documents it."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        # A section inside another needs no validator of its own.
        defer_build=True,
    )

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        """Returns the section's JSON schema; the docstring under a key is its description."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for key, docstring in read_docstrings(cls).items():
            properties.get(key, {}).setdefault("description", docstring)
        return schema
