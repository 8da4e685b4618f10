"""The page of mtkit's public names, made from their signatures and docstrings."""

import ast
import inspect
import re
from importlib import import_module
from typing import Any

import mtkit

_INTRODUCTION = """\
# From Python

Made from the docstrings of mtkit's public names by `docs/generate_reference.py`; edit those.

`import mtkit` loads nothing else; a name loads its package on first use. What a command does,
a function does:

```python
from mtkit import Translator, Workspace, average, load_recipe, prepare, score, train

recipe = load_recipe("phrasebook-en-de", ["training.max_steps=300"])
workspace = Workspace.of(recipe.name)
prepare(recipe, workspace)
train(recipe, workspace)
average(recipe, workspace, choose="last", num_checkpoints=2)
score(recipe, workspace)
print(Translator(workspace.model).translate("The old man buys three red apples."))
```

An error that the user can fix is an `MtkitError`, which says what is wrong and what to do.
"""

# The classes of what a translator answers, and the error, lie in their rooms.
_PUBLIC = [
    "mtkit.Translator",
    "mtkit.RemoteTranslator",
    "mtkit.LineClassifier",
    "mtkit.Request",
    "mtkit.Term",
    "mtkit.Translation",
    "mtkit.inference.translation.Hypothesis",
    "mtkit.inference.translation.ScoredPiece",
    "mtkit.inference.translation.LineWarning",
    "mtkit.load_recipe",
    "mtkit.Workspace",
    "mtkit.prepare",
    "mtkit.train",
    "mtkit.average",
    "mtkit.translate",
    "mtkit.score",
    "mtkit.errors.MtkitError",
]

_WIDTH = 88
_SECTIONS = {
    "Args": "Arguments",
    "Attributes": "Attributes",
    "Returns": "Returns",
    "Yields": "Yields",
    "Raises": "Raises",
}
_LISTS = ("Args", "Attributes", "Raises")


def render_python() -> str:
    """Returns the page."""
    unnamed = set(mtkit.__all__) - {name.removeprefix("mtkit.") for name in _PUBLIC}
    assert not unnamed, f"{unnamed} have no place in _PUBLIC"
    parts = [_INTRODUCTION]
    for path in _PUBLIC:
        room, name = path.rsplit(".", 1)
        parts.append(f"## {name}\n")
        if room != "mtkit":
            parts.append(f"`from {room} import {name}`\n")
        found = getattr(import_module(room), name)
        parts += _render_class(found) if inspect.isclass(found) else _render_function(found)
    return "\n".join(parts)


def _render_class(found: type) -> list[str]:
    node = _find_node(found)
    assert isinstance(node, ast.ClassDef)
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    makers = [each for each in _functions_in(node) if each.name == "__init__"]
    arguments = [ast.unparse(field).replace("'", '"') for field in fields]
    arguments = arguments or [each for maker in makers for each in _spell_arguments(maker, found)]
    parts = [_block(f"class {found.__name__}", arguments, ""), f"{_read_docstring(found)}\n"]
    methods = [each for each in _functions_in(node) if not each.name.startswith("_")]
    for name in dict.fromkeys(method.name for method in methods):
        parts.append(f"### {found.__name__}.{name}\n")
        parts += _render_method(found, [each for each in methods if each.name == name])
    return parts


def _render_method(found: type, nodes: list[ast.FunctionDef | ast.AsyncFunctionDef]) -> list[str]:
    """Returns the parts of the page on a method; its overloads, if any, say how it is called."""
    method = inspect.getattr_static(found, nodes[0].name)
    kinds = {property: "@property", classmethod: "@classmethod", staticmethod: "@staticmethod"}
    kind = kinds.get(type(method), "")
    function = method.fget if isinstance(method, property) else getattr(method, "__func__", method)
    spelled = [_spell(node, function) for node in nodes[:-1] or nodes]
    text = "\n".join([kind, *spelled] if kind else spelled)
    return [f"```python\n{text}\n```\n", f"{_read_docstring(function)}\n"]


def _render_function(found: Any) -> list[str]:
    node = _find_node(found)
    assert isinstance(node, ast.FunctionDef)
    return [f"```python\n{_spell(node, found)}\n```\n", f"{_read_docstring(found)}\n"]


def _find_node(found: Any) -> ast.stmt:
    """Returns a class or function as its source has it."""
    source = inspect.getsource(import_module(found.__module__))
    return next(
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == found.__name__
    )


def _functions_in(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]


def _spell(node: ast.FunctionDef | ast.AsyncFunctionDef, function: Any) -> str:
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {_unquote(node.returns)}" if node.returns is not None else ""
    return _lay_out(f"{word} {node.name}", _spell_arguments(node, function), returns)


def _spell_arguments(node: ast.FunctionDef | ast.AsyncFunctionDef, function: Any) -> list[str]:
    """Returns a function's arguments as its source has them, with the values of named defaults."""
    signature = inspect.signature(function)
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    named = list(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))
    spelled = []
    for argument, default in [*zip(plain, defaults, strict=True), (None, None), *named]:
        if argument is None:
            spelled += ["*"] if arguments.kwonlyargs else []
        elif argument.arg not in ("self", "cls"):
            value = signature.parameters[argument.arg].default
            text = (
                repr(value) if isinstance(default, ast.Name) else default and ast.unparse(default)
            )
            kind = f": {_unquote(argument.annotation)}" if argument.annotation else ""
            given = f" = {text}".replace("'", '"') if text is not None else ""
            spelled.append(f"{argument.arg}{kind}{given}")
    return spelled


def _unquote(annotation: ast.expr) -> str:
    """Returns a type as it is written where nothing has to be imported for it."""
    quoted = isinstance(annotation, ast.Constant) and isinstance(annotation.value, str)
    return str(annotation.value) if quoted else ast.unparse(annotation).replace("'", '"')


def _lay_out(head: str, arguments: list[str], tail: str) -> str:
    line = f"{head}({', '.join(arguments)}){tail}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{head}(", *(f"    {argument}," for argument in arguments), f"){tail}"])


def _block(head: str, arguments: list[str], tail: str) -> str:
    return f"```python\n{_lay_out(head, arguments, tail)}\n```\n"


def _read_docstring(found: Any) -> str:
    """Returns a docstring as Markdown, its sections (`Args:` and so on) as lists."""
    lines, section = [], ""
    for line in inspect.cleandoc(found.__doc__ or "").splitlines():
        heading = re.fullmatch(r"(Args|Attributes|Returns|Yields|Raises):", line)
        if heading:
            section = heading[1]
            lines.append(f"**{_SECTIONS[section]}**\n")
        elif section in _LISTS and (entry := re.fullmatch(r" {4}(\w+): (.*)", line)):
            lines.append(f"* `{entry[1]}`: {entry[2]}")
        else:
            lines.append(f"  {line.strip()}".rstrip() if section in _LISTS else line)
            if section and section not in _LISTS:
                lines[-1] = line.strip()
    return "\n".join(lines)
