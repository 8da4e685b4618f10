"""Commands, recipes and Python in the documentation have names, options and keys that exist."""

import ast
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import mtkit
from mtkit.cli.app import app
from mtkit.llm.prompts import Prompter
from mtkit.llm.settings import read_llm_settings
from mtkit.recipe import load_recipe
from mtkit.recipe.loading import check_recipe, shipped_recipes
from mtkit.recipe.override_section import override_section
from mtkit.serving.settings import Serving

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "benchmarks" / "README.md"]
PAGES += sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("recipes/*/*.md")])
GROUP = get_command(app)
_ENDS = {"|", "<", ">", "&&", "&", ";"}
# Run the command that follows them.
_RUNNERS = {"srun", "-m"}
# Stand for what a reader puts in their place.
_PLACEHOLDERS = {"NAME", "RECIPE", "KEY=VALUE", "training.max_steps=...", "section.key=value"}


def commands_in(page: Path) -> list[list[str]]:
    """Returns the arguments of each `mtkit` command in a page's shell blocks and code spans."""
    text = page.read_text("utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    # Indented blocks, but the reference's usage lines.
    blocks += re.findall(r"^ {4}((?:\$ )?mtkit (?!.*\[[A-Z]+\]).*\n)", prose, flags=re.MULTILINE)
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]*)`", prose)]
    # A command may go on in the next line.
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    found = [arguments for line in lines for arguments in _commands_of(line)]
    for span in spans:
        try:
            found += _commands_of(span)
        except ValueError:
            # A code span with one apostrophe is no shell command.
            continue
    return found


def _commands_of(line: str) -> list[list[str]]:
    words = shlex.split(line, comments=True)
    starts = [index for index, word in enumerate(words) if Path(word).name == "mtkit"]
    found = []
    for start in starts:
        # A path such as `mtkit/recipe` is no command, nor is a word after another command's name.
        if start and words[start - 1] not in _ENDS | _RUNNERS:
            continue
        rest = words[start + 1 :]
        end = next((index for index, word in enumerate(rest) if word in _ENDS), len(rest))
        found.append(rest[:end])
    return found


COMMANDS = [
    pytest.param(arguments, id=f"{page.relative_to(ROOT)}: {shlex.join(arguments)}")
    for page in PAGES
    for arguments in commands_in(page)
    if arguments
]


def test_the_documentation_has_commands() -> None:
    assert {param.values[0][0] for param in COMMANDS} >= {
        "init", "prepare", "train", "average", "translate", "score", "run"
    }  # fmt: skip


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_documented_command_is_understood(arguments: list[str]) -> None:
    # Shell variables in the documentation are numbers.
    numbers = [re.sub(r"\$\w+", "2", argument) for argument in arguments]
    name, *options = ["2" if argument == "N" else argument for argument in numbers]
    if name in {"--version", "--help"}:
        return
    assert name in GROUP.commands
    if not options:
        # A span that names the command.
        return
    values = GROUP.commands[name].make_context(name, options).params
    recipe = values.get("recipe") or "multi30k-en-de"
    # A file is the reader's own.
    if recipe not in _PLACEHOLDERS and not recipe.endswith(".toml"):
        assert recipe in shipped_recipes()
        overrides = [o for o in values.get("overrides") or [] if o not in _PLACEHOLDERS]
        of_server = [o for o in overrides if name == "serve" and o.startswith("serve.")]
        override_section(Serving(), "serve", of_server)
        load_recipe(recipe, [o for o in overrides if o not in of_server])


RECIPES = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}, block {number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"```toml\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL), start=1
    )
]


def put_over(below: dict[str, Any], tables: dict[str, Any]) -> dict[str, Any]:
    """Returns tables with the keys that they lack taken from those below."""
    merged = dict(below)
    for key, value in tables.items():
        both = isinstance(value, dict) and isinstance(below.get(key), dict)
        merged[key] = put_over(below[key], value) if both else value
    return merged


@pytest.mark.parametrize("block", RECIPES)
def test_a_documented_recipe_loads(block: str, tmp_path: Path) -> None:
    tables = tomllib.loads(block)
    if "url" in tables:
        path = tmp_path / "llm.toml"
        path.write_text(block, encoding="utf-8")
        body = Prompter(read_llm_settings(path), "the page").write(["A man."], ("en", "de"))
        assert "A man." in body["messages"][-1]["content"]
        return
    if "name" not in tables:
        below = tomllib.loads(shipped_recipes()["multi30k-en-de"].read_text("utf-8"))
        tables = put_over(below, tables)
    assert check_recipe(tables, "the page", tmp_path)


# The page of Python's reference has signatures, which are made from the code, after one example.
EXAMPLES = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}, block {number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL), start=1
    )
    if page.name != "python.md" or number == 1
]


@pytest.mark.parametrize("block", EXAMPLES)
def test_documented_python_names_what_mtkit_has(block: str) -> None:
    tree = ast.parse(block)
    names = {
        name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "mtkit"
        for name in node.names
    }
    assert names <= set(mtkit.__all__)
    called = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.value.id == "translator"
    }
    assert called <= set(dir(mtkit.Translator))
