"""What the docstring under a key says, read from the source when somebody asks.

pydantic's own `use_attribute_docstrings` reads the source of every section whenever mtkit starts,
which takes an eighth of a second; nothing but the reference and the JSON schema needs it.
"""

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise


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
