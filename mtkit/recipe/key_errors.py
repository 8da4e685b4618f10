"""Faults that pydantic finds in a recipe, reported by key and in the recipe's own words."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from mtkit.errors import MtkitError, shorten, suggest

Part = TypeVar("Part", bound=BaseModel)
_HINT = "--set section.key=value overrides a key for one command"

# pydantic speaks of Python's types, a recipe has TOML's.
_EXPECTED = {
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "a string in quotes",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "model_type": "a section",
    "model_attributes_type": "a section",
    "dict_type": "a section",
    "tuple_type": "a list",
    "list_type": "a list",
    "string_pattern_mismatch": "letters, digits, '.', '_' and '-', the first a letter or a digit",
}

# Where a key has a form of its own.
_CODE = 'an ISO 639 code of two or three letters, such as "de" for German'
_FORMS = {
    "tag": 'a tag in angle brackets without spaces, such as "<BT>"',
    "part": "a number and how many, such as 3/64",
    "translated_by": 'a model folder, a recipe, "reverse" or "pairs", or a list of folders',
    "source_language": _CODE,
    "target_language": _CODE,
    "language": _CODE,
}

_LONGEST_VALUE = 200
_SECTION_WORDS = {"properties", "items", "oneOf", "anyOf"}
_CORPUS_KEYS = {"source", "target", "path", "dataset", "builtin"}
_ADVICE = {"translated_by": ": development and test sets need translations by people"}
"""For keys that are unknown in their section."""
_KIND = re.compile(r"int|float|str|bool|.*[^\w].*")
"""What pydantic calls a kind of value; no key is written so."""
_TAGS = ("files", "side")
_CORPUS_KINDS = (
    "no corpus given: set `source` and `target` (two text files), `path` (one file with both "
    "sides: .tsv, .jsonl, .parquet, .tmx or .zip), `dataset` and `split` (of the datasets "
    'library), or `builtin = "phrasebook"`'
)


def validate_tables(
    section: type[Part],
    tables: dict[str, object],
    *,
    origin: str,
    name: str = "",
    changed: Mapping[str, str] | None = None,
    context: Mapping[str, object] | None = None,
) -> Part:
    """Returns a section that parsed TOML tables describe.

    Args:
        section: The section's kind.
        tables: The section as nested dictionaries.
        origin: Where they come from.
        name: Name of the section in a recipe; empty for a whole recipe.
        changed: Where the value of a key, or of a whole section, comes from instead.
        context: For the section's validators.

    Raises:
        MtkitError: Every faulty key, with a suggestion for an unknown one.
    """
    try:
        # Strict JSON input keeps "5" from passing as 5, yet lets text be a path.
        text = json.dumps(tables, default=str)
        return section.model_validate_json(text, context=context)
    except ValidationError as error:
        raise _explain(error, origin, tables, section, name=name, changed=changed) from error


def _explain(
    error: ValidationError,
    origin: str,
    tables: dict[str, object],
    section: type[BaseModel],
    *,
    name: str,
    changed: Mapping[str, str] | None,
) -> MtkitError:
    # What a default is computed from failed: that is reported already.
    faults = [
        fault
        for fault in error.errors(include_url=False)
        if fault["type"] != "default_factory_not_called"
    ]
    locations = [fault["loc"] for fault in faults]
    lines = []
    hint = _HINT
    for fault in faults:
        location = fault["loc"]
        # A list is reported to be too short after its only entry failed: that is no second fault.
        if any(
            len(other) > len(location) and other[: len(location)] == location for other in locations
        ):
            continue
        steps = [*([name] if name else []), *_path_in_tables(location, tables)]
        if fault["type"] in ("value_error", "model_type") and steps and steps[-1] in _TAGS:
            # A check of a whole corpus is located at the tag of its kind.
            steps = steps[:-1]
        known = known_keys(section, location)
        message = _describe(fault, known)
        is_unknown = fault["type"] == "extra_forbidden" and location[-1] not in known
        if is_unknown and hint == _HINT:
            hint = list_keys(".".join(steps[:-1]) or "a recipe", known)
        if message == _CORPUS_KINDS:
            steps = steps[:-1]
        if fault["type"].startswith("union_tag"):
            steps = [*steps, _discriminator(fault)]
        key = ".".join(steps)
        # Only an unknown section can have come into being by an override of a key inside it.
        found_in = find_origin(key, changed or {}, origin, reaches_in=is_unknown)
        # A check of several keys names them itself.
        is_named = not key or message.startswith(f"{key}.")
        lines.append(f"{found_in}: {message}" if is_named else f"{found_in}: {key}: {message}")
    # No hint for a file other than a recipe, or if an override is at fault.
    if hint == _HINT and (changed is None or any(line.startswith("--set ") for line in lines)):
        hint = ""
    return MtkitError("\n  ".join(dict.fromkeys(lines)), hint)


def list_keys(section: str, known: Sequence[str]) -> str:
    """Returns the sentence that lists the keys of a section."""
    return f"{section} has these keys: " + ", ".join(known)


def known_keys(section: type[BaseModel], location: Sequence[int | str]) -> list[str]:
    """Returns the keys that can be combined with the one at a location in a section's tables."""
    schema = _schema_of(section)
    definitions = schema.get("$defs", {})
    sections = [schema]
    for step in location[:-1]:
        children = [child for parent in sections for child in _children(parent, step)]
        inner = [_resolve(child, definitions) for child in children]
        # A step that leads to no section is a tag with which pydantic tells a union's kinds apart.
        sections = [child for child in inner if _SECTION_WORDS & child.keys()] or sections
    return sorted({key for parent in sections for key in parent.get("properties", {})})


@cache
def _schema_of(section: type[BaseModel]) -> dict[str, Any]:
    return section.model_json_schema()


def find_origin(key: str, changed: Mapping[str, str], origin: str, *, reaches_in: bool) -> str:
    """Returns where a key was written: in an override of it or of a section around it, or not."""
    # Of several, the last one counts.
    for override_key, override in reversed(list(changed.items())):
        is_around = f"{key}.".startswith(f"{override_key}.")
        is_inside = f"{override_key}.".startswith(f"{key}.")
        if is_around or (reaches_in and is_inside):
            return override
    return origin


def _describe(fault: Mapping[str, Any], known: list[str]) -> str:
    """Returns what is wrong with one key."""
    kind, found, context = fault["type"], fault["input"], fault.get("ctx", {})
    last = str(fault["loc"][-1]) if fault["loc"] else ""
    match kind:
        case "value_error":
            message = str(fault["msg"]).removeprefix("Value error, ")
        case "extra_forbidden":
            message = (
                f"'{last}' can't be combined with the keys next to it, which are of another kind"
                if last in known
                else f"unknown key '{last}'{suggest(last, known)}{_ADVICE.get(last, '')}"
            )
        case "missing" if last in ("source", "target") and not _CORPUS_KEYS & found.keys():
            message = _CORPUS_KINDS
        case "missing" if last in ("source", "target") and fault["loc"][:2] == ("data", "train"):
            message = (
                f"this key is missing; if a translator is to write the {last} side, name it: "
                "translated_by"
            )
        case "missing" | "union_tag_not_found":
            message = "this key is missing"
        case "union_tag_invalid":
            message = _list_choices(context["tag"], context["expected_tags"])
        case "literal_error":
            message = _list_choices(found, context["expected"])
            if isinstance(found, str) and found.lower() == "comet":
                message += "; COMET is the path of a folder that `mtkit import` wrote"
        case "too_short":
            message = f"expected {context['min_length']} or more entries, found {len(found)}"
        case "string_pattern_mismatch" | "tuple_type" if last in _FORMS:
            message = f"expected {_FORMS[last]}, found {_toml(found)}"
        case _ if kind in _EXPECTED:
            message = f"expected {_EXPECTED[kind]}, found {_toml(found)}"
        case _:
            expected = str(fault["msg"]).replace("Input should be", "expected a value")
            message = f"{expected}, found {_toml(found)}"
    return message


def _discriminator(fault: Mapping[str, Any]) -> str:
    """Returns the key that tells a section's kinds apart."""
    return str(fault["ctx"]["discriminator"]).strip("'")


def _list_choices(found: Any, choices: str) -> str:
    """Returns which words a key takes, as TOML spells them, and the one probably meant."""
    known = choices.split("'")[1::2]
    spelled = " or ".join(f'"{word}"' for word in known)
    guess = suggest(found, known) if isinstance(found, str) else ""
    return f"expected {spelled}, found {_toml(found)}{guess}"


def _toml(value: Any) -> str:
    """Returns a value as one would write it in a recipe, a long one by its kind."""
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, list):
        return "a list"
    return shorten(json.dumps(value, ensure_ascii=False, default=str), _LONGEST_VALUE)


def _path_in_tables(location: tuple[int | str, ...], tables: dict[str, object]) -> list[str]:
    """Returns a fault's location less the union tags that pydantic puts into it."""
    steps: list[str] = []
    node: Any = tables
    for index, step in enumerate(location):
        is_last = index == len(location) - 1
        if isinstance(node, list):
            child = node[step] if isinstance(step, int) and step < len(node) else None
        else:
            child = node.get(step) if isinstance(node, dict) else None
        # The tag of a kind may spell like a key, but nothing lies inside that key's value.
        if isinstance(child, dict | list):
            node = child
        elif child is not None and _KIND.fullmatch(str(location[-1])):
            # What follows are kinds of a value, such as `constrained-int` and `literal['auto']`.
            return [*steps, str(step)]
        elif child is not None and index == len(location) - 2 and location[-1] in _TAGS:
            # A value where a section of that kind belongs.
            return [*steps, str(step)]
        elif not is_last:
            continue
        steps.append(str(step))
    return steps


def _children(schema: dict[str, Any], step: int | str) -> list[dict[str, Any]]:
    """Returns the schemas that one step into a section's or list's schema can lead to."""
    inside = schema if isinstance(step, int) else schema.get("properties", {})
    child = inside.get("items" if isinstance(step, int) else step)
    if child is None:
        return []
    return [option for key in ("oneOf", "anyOf") for option in child.get(key, [])] or [child]


def _resolve(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    found: dict[str, Any] = definitions[schema["$ref"].rsplit("/", 1)[1]]
    return found
