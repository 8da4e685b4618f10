"""Writes the pages of docs/reference that are made from the code: `make docs`."""

import json
from pathlib import Path

from command_reference import render_commands
from python_reference import render_python
from recipe_reference import read_schema, render_recipe
from settings_reference import render_llm, render_serving

FOLDER = Path(__file__).parent / "reference"


def render_pages() -> dict[str, str]:
    """Returns the text of each generated file, by name."""
    schema = read_schema()
    return {
        "commands.md": render_commands(),
        "python.md": render_python(),
        "recipe.md": render_recipe(schema),
        "llm.md": render_llm(),
        "serving.md": render_serving(),
        "recipe.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n",
    }


def main() -> None:
    """Leaves every generated page as the code has it."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in render_pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
