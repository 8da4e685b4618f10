"""Links between Markdown files lead to files and headings, whose anchors are GitHub's."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
PAGES += [ROOT / "benchmarks" / "README.md"]
PAGES += sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("recipes/*/*.md")])
DECISIONS = sorted(ROOT.glob("docs/decisions/*.md"))
pytestmark = pytest.mark.skipif(not PAGES[0].is_file(), reason="installed without docs")
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")

_PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)+/?|[\w-]+\.(?:py|h|cpp|md|toml))`")


def anchors_of(page: Path) -> set[str]:
    """Returns the anchors that GitHub gives a page's headings, by the rules of html-pipeline."""
    anchors: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?)#*$", _prose(page), re.MULTILINE):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip()
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        number = next(n for n in range(1_000) if (f"{name}-{n}" if n else name) not in anchors)
        anchors.add(f"{name}-{number}" if number else name)
    return anchors


def _prose(page: Path) -> str:
    return _FENCED.sub("", page.read_text("utf-8"))


def links_of(page: Path) -> list[str]:
    text = re.sub(r"(`+)[^`].*?\1", lambda code: code[0].replace("](", "] ("), _prose(page))
    return [link for link in _LINK.findall(text) if not urlsplit(link).scheme]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    dead = []
    for link in links_of(page):
        target = urlsplit(link)
        there = (page.parent / unquote(target.path)).resolve() if target.path else page
        is_in_repository = there.is_relative_to(ROOT) and there.exists()
        if not is_in_repository or (target.fragment and target.fragment not in anchors_of(there)):
            dead.append(link)
    assert not dead


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_paths_that_a_decision_names_are_in_the_repository(page: Path) -> None:
    # `training/loss.py` is enough for `mtkit/training/loss.py`.
    named = [name.rstrip("/") for name in _PATH.findall(_prose(page))]
    assert [name for name in named if f"/{name}\n" not in list_paths()] == []


@cache
def list_paths() -> str:
    """Returns the repository's files and folders of code and text, a line each."""
    folders = ("mtkit", "tests", "docs", "recipes", "benchmarks")
    paths = [path for name in folders for path in (ROOT / name).rglob("*")]
    return "".join(f"/{path.relative_to(ROOT)}\n" for path in [*paths, *ROOT.iterdir()])


def test_the_readme_leads_somewhere() -> None:
    assert len(links_of(ROOT / "README.md")) > 10


_GENERATED = ROOT / "docs" / "reference"
_WRITTEN_IN_LONG_LINES = ROOT / "docs" / "log.md", ROOT / "CHANGELOG.md"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_can_be_read_in_a_terminal(page: Path) -> None:
    """Tables, code and pictures aside, no line is much longer than what `less` shows at once."""
    if page.parent == _GENERATED or page in _WRITTEN_IN_LONG_LINES:
        return
    lines = _prose(page).splitlines()
    assert [
        line for line in lines if len(line) > 130 and not line.startswith(("|", "!", "#", "    "))
    ] == []


def test_the_log_has_an_index_in_its_order_newest_first() -> None:
    log = ROOT / "docs" / "log.md"
    index = re.findall(r"^\| (\d{4}-\d\d-\d\d) \| \[.*?\]\(#(.*?)\)", _prose(log), re.MULTILINE)
    dates = re.findall(r"^## (\d{4}-\d\d-\d\d): ", _prose(log), re.MULTILINE)
    assert dates == sorted(dates, reverse=True)
    assert [date for date, _ in index] == dates
    assert {anchor for _, anchor in index} <= anchors_of(log)
    assert len({anchor for _, anchor in index}) == len(dates)
