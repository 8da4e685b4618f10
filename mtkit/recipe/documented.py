"""What the docstring under a key says, read from the source when somebody asks.

pydantic's own `use_attribute_docstrings` reads the source of every section whenever mtkit starts,
which takes an eighth of a second; nothing but the reference and the JSON schema needs it.
"""

import ast
import inspect
import textwrap
from itertools import pairwise


def read_docstrings(section: type) -> dict[str, str]:
    """Returns the docstring under each key of a class, those of its bases included."""
    found: dict[str, str] = {}
    for each in reversed(section.__mro__):
        if "__annotations__" not in vars(each) or each.__module__.startswith("pydantic"):
            continue
        try:
            source = inspect.getsource(each)
        except OSError:
            # Installed without sources.
            continue
        (definition,) = ast.parse(textwrap.dedent(source)).body
        assert isinstance(definition, ast.ClassDef)
        for key, text in pairwise(definition.body):
            match key, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(docstring))),
                ):
                    found[name] = inspect.cleandoc(docstring)
    return found
