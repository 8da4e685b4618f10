"""The page of the commands and their options, made from the command line's own."""

import inspect
from enum import Enum
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from mtkit.cli.app import app

_INTRODUCTION = """\
# The commands

Made from the options in `mtkit/cli/` by `docs/generate_reference.py`; edit those.

`--help` after a command prints the same. A run is described by its [recipe](recipe.md), so commands
have few options. stdout carries only data: translations, scores, JSON. Progress, logs and errors
go to stderr.

## Exit codes

| code | when |
|---|---|
| 0 | success, or nothing to do |
| 1 | an error: a line `error:` says what is wrong, usually with a line `hint:` on what to do |
| 2 | the command line has an unknown command or option, or options that can't be combined |
| 75 | training was stopped by Ctrl-C or SIGTERM, and has saved: the same command resumes it |
| 130 | Ctrl-C stopped any other command, or came twice |
| 141 | the reader of the output has closed it, as `head` does |
"""


def render_commands() -> str:
    """Returns the page."""
    parts = [_INTRODUCTION]
    for command in app.registered_commands:
        assert command.callback is not None
        parts += _render_command(command.callback)
    return "\n".join(parts)


def _render_command(function: Any) -> list[str]:
    """Returns the parts of the page on a command: what it does, how it is called, its options."""
    name = function.__name__
    hints = get_type_hints(function, include_extras=True)
    rows, words = [], []
    for key, parameter in inspect.signature(function).parameters.items():
        if hints[key] is typer.Context:
            continue
        assert get_origin(hints[key]) is Annotated
        kind, info = get_args(hints[key])[:2]
        if isinstance(info, ArgumentInfo):
            words.append(str(info.metavar))
            rows.append((f"`{info.metavar}`", _one_line(info.help or "")))
        else:
            rows.append((_name_option(kind, info), _explain_option(kind, info, parameter.default)))
    usage = " ".join(["mtkit", name, *words, "[OPTIONS]" if len(rows) > len(words) else ""])
    table = ["| option | meaning |", "|---|---|"]
    table += [f"| {left} | {right} |" for left, right in rows]
    return [
        f"## {name}\n",
        f"    {usage.strip()}\n",
        f"{inspect.cleandoc(function.__doc__ or '')}\n",
        "\n".join(table) + "\n",
    ]


def _name_option(kind: Any, info: OptionInfo) -> str:
    """Returns an option with all its names and what is put behind it."""
    # What stands first in `Annotated[..., typer.Option("--name", "-n")]` typer keeps as a default.
    *others, last = sorted([info.default, *(info.param_decls or [])], key=len)
    value = str(info.metavar or "|".join(_choices(kind))).replace("|", "\\|")
    spelled = f"`{last} {value}`" if value else f"`{last}`"
    return ", ".join([*(f"`{other}`" for other in others), spelled])


def _explain_option(kind: Any, info: OptionInfo, default: Any) -> str:
    parts = [_one_line(info.help or "")]
    if get_origin(kind) is list or list in map(get_origin, get_args(kind)):
        parts.append("May be given several times.")
    if info.show_default and default is not False:
        parts.append(f"Default: `{default.value if isinstance(default, Enum) else default}`.")
    spans = " ".join(parts).replace("|", "\\|").split("`")
    # A word in angle brackets would be taken for HTML, but not in code, which is every second part.
    return "`".join(
        span if number % 2 else span.replace("<", "&lt;") for number, span in enumerate(spans)
    )


def _choices(kind: Any) -> list[str]:
    """Returns the words that an option takes, where they are few."""
    kinds = [kind, *get_args(kind)]
    return [
        choice.value
        for each in kinds
        if isinstance(each, type) and issubclass(each, Enum)
        for choice in each
    ]


def _one_line(text: str) -> str:
    return " ".join(text.split())
