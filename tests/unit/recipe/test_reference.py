"""docs/reference is made from the recipe's models, and the committed pages are up to date."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = DOCS / "generate_reference.py"
    specification = importlib.util.spec_from_file_location("generate_reference", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["recipe.md", "recipe.schema.json"])
def test_page_is_up_to_date(generator: ModuleType, name: str) -> None:
    committed = (DOCS / "reference" / name).read_text(encoding="utf-8")
    assert committed == generator.render_pages()[name], "run `make docs`"
