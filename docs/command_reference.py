"""The page of the commands and their options, made from the command line's own."""

import inspect
from typing import Any, get_args

from typer.core import TyperArgument
from typer.main import get_command

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
    commands = get_command(app).commands  # type: ignore[attr-defined]
    parts = [_INTRODUCTION]
    for name, command in commands.items():
        parts += _render_command(name, command)
    return "\n".join(parts)


def _render_command(name: str, command: Any) -> list[str]:
    """Returns the parts of the page on a command: what it does, how it is called, its options."""
    arguments = [each for each in command.params if isinstance(each, TyperArgument)]
    options = [each for each in command.params if each not in arguments]
    usage = ["mtkit", name, *map(_name_argument, arguments), *(["[OPTIONS]"] if options else [])]
    rows = [(f"`{_name_argument(each)}`", _explain(each)) for each in arguments]
    rows += [(_name_option(each), _explain(each)) for each in options if each.name != "help"]
    table = ["| option | meaning |", "|---|---|"]
    table += [f"| {left} | {right} |" for left, right in rows]
    return [
        f"## {name}\n",
        f"    {' '.join(usage)}\n",
        f"{inspect.cleandoc(command.callback.__doc__ or '')}\n",
        "\n".join(table) + "\n",
    ]


def _name_argument(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _name_option(option: Any) -> str:
    """Returns an option with all its names and what is put behind it."""
    *others, last = sorted(option.opts, key=len)
    value = "" if option.is_flag else option.metavar or "|".join(_list_choices(option))
    value = value.replace("|", "\\|")
    spelled = f"`{last} {value}`" if value else f"`{last}`"
    return ", ".join([*(f"`{other}`" for other in others), spelled])


def _explain(parameter: Any) -> str:
    parts = [" ".join((parameter.help or "").split())]
    if parameter.multiple:
        parts.append("May be given several times.")
    default = parameter.default
    if parameter.show_default and not isinstance(default, bool) and default not in (None, "", []):
        parts.append(f"Default: `{default}`.")
    spans = " ".join(parts).replace("|", "\\|").split("`")
    # A word in angle brackets would be taken for HTML, but not in code, which is every second part.
    return "`".join(
        span if number % 2 else span.replace("<", "&lt;") for number, span in enumerate(spans)
    )


def _list_choices(option: Any) -> list[str]:
    """Returns the words that an option takes, where they are few."""
    kind = option.type_descriptor.annotation
    inside = [word for each in (kind, *get_args(kind)) for word in get_args(each)]
    return [word for word in inside if isinstance(word, str)]
