"""docs/reference is made from the code, and the committed pages are up to date."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def pages() -> Iterator[dict[str, str]]:
    """The generated pages; the generator finds its own modules in docs/, as when it is run."""
    sys.path.insert(0, str(DOCS))
    known = set(sys.modules)
    try:
        yield _load_generator().render_pages()
    finally:
        sys.path.remove(str(DOCS))
        for name in set(sys.modules) - known:
            if name.endswith("_reference"):
                del sys.modules[name]


def _load_generator() -> ModuleType:
    path = DOCS / "generate_reference.py"
    specification = importlib.util.spec_from_file_location("generate_reference", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "name", ["commands.md", "python.md", "recipe.md", "recipe.schema.json", "llm.md", "serving.md"]
)
def test_page_is_up_to_date(pages: dict[str, str], name: str) -> None:
    committed = (DOCS / "reference" / name).read_text(encoding="utf-8")
    assert committed == pages[name], "run `make docs`"


def test_every_page_that_is_generated_is_looked_at(pages: dict[str, str]) -> None:
    assert set(pages) == {path.name for path in (DOCS / "reference").iterdir()}
