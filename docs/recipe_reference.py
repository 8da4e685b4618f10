"""The page of every key of a recipe, made from the recipe's models."""

import json
from typing import Any

from mtkit.recipe import Recipe
from mtkit.recipe.invalidation import Declaration
from mtkit.recipe.tables import WHOLE_RECIPE

_INTRODUCTION = """\
# Every key of a recipe

Made from the models in `mtkit/recipe/` by `docs/generate_reference.py`; edit those.

A recipe is one TOML file. Keys without a default are required. A section that is off by default is
turned on by writing its header. On the command line, `--set section.key=value` overrides a key,
`--set list.0.key=value` a key of a list's first entry, and `--set '~section'` removes a section.
With [recipe.schema.json](recipe.schema.json) an editor completes and checks keys. With Taplo (Even
Better TOML in VS Code) the recipe's first line is `#:schema path/to/recipe.schema.json`.

What changing a key invalidates:

* `data`: `mtkit prepare` repeats the stages that depend on it, and training refuses the old data.
  Training on other data is another run.
* `run`: a training with another value is another run, which can't resume from these checkpoints.
* `updates`: a training can resume with another value. It prints a note, and its result differs.
* `updates with a cosine or linear schedule`: as `updates` with these schedules, which end at
  `max_steps`; otherwise nothing.
* `scores`: earlier development scores can't be compared with later ones.
* `results`: only the mean of checkpoints, translations or scores; `mtkit run` computes them again.
* `nothing`: the key can be changed at any time.
"""

Schema = dict[str, Any]


def read_schema() -> Schema:
    """Returns the JSON schema of a recipe."""
    schema = Recipe.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def render_recipe(schema: Schema) -> str:
    """Returns the page."""
    parts = [_INTRODUCTION, "## Top level\n", _render_table(schema, schema["$defs"], WHOLE_RECIPE)]
    for name, field in schema["properties"].items():
        inner = WHOLE_RECIPE.of_key(name)
        parts += _render_sections(name, field, schema["$defs"], inner, level=2)
    return "\n".join(parts)


def _render_sections(
    key: str, field: Schema, definitions: Schema, declared: Declaration, *, level: int
) -> list[str]:
    """Returns the parts of the page on the sections that a key can hold, and on those inside."""
    sections = _sections_in(field, definitions)
    if not sections:
        return []
    heading = f"`[[{key}]]`" if _is_list(field) else f"`[{key}]`"
    parts = [f"{'#' * min(level, 4)} {heading}\n"]
    if len(sections) > 1:
        parts.append(f"{field['description']} One of these kinds:\n")
    for _, section in sections:
        table = _render_table(section, definitions, declared)
        parts += [f"{_one_line(section['description'])}\n", table]
    # Kinds share sections inside them.
    inside = {
        name: inner for _, section in sections for name, inner in section["properties"].items()
    }
    for name, inner in inside.items():
        parts += _render_sections(
            f"{key}.{name}", inner, definitions, declared.of_key(name), level=level + 1
        )
    return parts


def _render_table(section: Schema, definitions: Schema, declared: Declaration) -> str:
    rows = ["| key | value | default | invalidates | meaning |", "|---|---|---|---|---|"]
    required = section.get("required", [])
    for name, field in section["properties"].items():
        cells = (
            f"`{name}`",
            _describe_value(field, definitions),
            _describe_default(field, is_required=name in required),
            _describe_invalidated(declared.of_key(name)),
            _one_line(_find_description(field, definitions)),
        )
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def _sections_in(field: Schema, definitions: Schema) -> list[tuple[str, Schema]]:
    """Returns the sections, with their names, that may stand at a key or in its list."""
    if "$ref" in field:
        name = field["$ref"].rsplit("/", 1)[1]
        return [(name, definitions[name])]
    if field.get("type") == "array":
        return _sections_in(field["items"], definitions)
    options = field.get("oneOf", []) + field.get("anyOf", [])
    return [section for option in options for section in _sections_in(option, definitions)]


def _is_list(field: Schema) -> bool:
    """Checks that a key holds a list, perhaps an optional one."""
    return "array" in [option.get("type") for option in (field, *field.get("anyOf", []))]


def _find_description(field: Schema, definitions: Schema) -> str:
    # pydantic drops a field's description where it is that of its section.
    own = field.get("description") or _sections_in(field, definitions)[0][1]["description"]
    return str(own)


def _describe_value(field: Schema, definitions: Schema) -> str:
    """Returns what kind of value a key takes, with its bounds."""
    if field.get("type") == "array":
        entry = _describe_value(field["items"], definitions)
        return "list of " + ("sections" if entry == "section" else entry)
    if _sections_in(field, definitions):
        return "list of sections" if _is_list(field) else "section"
    if words := field.get("enum", [field["const"]] if "const" in field else []):
        return ", ".join(f'`"{word}"`' for word in words)
    if field.get("format") == "path":
        return "path"
    if options := [option for option in field.get("anyOf", []) if option["type"] != "null"]:
        return " or ".join(_describe_value(option, definitions) for option in options)
    return "`true`, `false`" if field["type"] == "boolean" else _describe_simple(field)


def _describe_simple(field: Schema) -> str:
    """Returns the type of a number or string, with its bounds, or of a table of these."""
    if isinstance(values := field.get("additionalProperties"), dict):
        return f"table of {_describe_simple(values)}"
    bounds = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    described = [
        f"{word} {_write_number(field[bound])}" for bound, word in bounds.items() if bound in field
    ]
    return " ".join([str(field["type"]), ", ".join(described)]).strip()


def _write_number(number: float) -> str:
    return f"{int(number):,}" if number == int(number) else f"{number:g}"


def _describe_default(field: Schema, *, is_required: bool) -> str:
    if is_required:
        return "must be given"
    if "default" not in field:
        return "computed"
    default = field["default"]
    if default is None:
        return "off"
    if isinstance(default, dict):
        return f"kind `{default['kind']}`" if "oneOf" in field else "as below"
    if field.get("format") == "path":
        return f"`{json.dumps(str(default))}`"
    return f"`{json.dumps(default)}`"


def _describe_invalidated(declared: Declaration) -> str:
    if declared.sections:
        return "as below"
    return ", ".join(declared.describe() or ["nothing"])


def _one_line(text: str) -> str:
    return " ".join(text.split())
