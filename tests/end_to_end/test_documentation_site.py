"""The documentation site builds without a warning, its links lead somewhere, it needs no net."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]


class _Page(HTMLParser):
    """What a page names and where it leads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if name := found.get("id"):
            self.anchors.add(name)
        if tag == "a" and (target := found.get("href")):
            self.links.append(target)
        is_style = tag == "link" and found.get("rel") in ("stylesheet", "shortcut icon")
        if target := found.get("href") if is_style else found.get("src"):
            self.loaded.append(target)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "properdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, _Page]:
    return {path: _Page(path.read_text("utf-8")) for path in site.rglob("*.html")}


def test_every_page_is_there(site: Path) -> None:
    sources = {path.relative_to(ROOT / "docs") for path in ROOT.glob("docs/**/*.md")}
    expected = {
        path.with_name("index.md") if path.name == "README.md" else path for path in sources
    }
    expected |= {
        Path("recipes", f"{path.parent.name}-{path.name}".replace("-README", ""))
        for path in ROOT.glob("recipes/*/*.md")
    }
    expected |= {Path("changelog.md"), Path("benchmarks.md"), Path("404.md"), Path("search.md")}
    assert {path.relative_to(site) for path in site.rglob("*.html")} == {
        path.with_suffix(".html") for path in expected
    }


def test_every_link_leads_to_a_page_and_a_place_in_it(site: Path, pages: dict[Path, _Page]) -> None:
    dead = []
    for path, page in pages.items():
        if path.name in ("404.html", "search.html"):
            # Their links start from where a server would have the site.
            continue
        for link in page.links:
            target = urlsplit(link)
            if target.scheme or target.netloc:
                continue
            there = (path.parent / unquote(target.path)).resolve() if target.path else path
            known = pages[there].anchors if there in pages else set()
            if not there.is_file() or (target.fragment and unquote(target.fragment) not in known):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert not dead


def test_nothing_is_loaded_from_the_net(site: Path, pages: dict[Path, _Page]) -> None:
    loaded = {target for page in pages.values() for target in page.loaded}
    assert loaded
    assert not [target for target in loaded if urlsplit(target).netloc]
    styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert not re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//", styles)


def test_markdown_is_taken_for_what_it_is(site: Path, pages: dict[Path, _Page]) -> None:
    """Lists, tables and fences that the renderer doesn't know as such stay in the text."""
    left = re.compile(r"<p>(?:(?!</p>).)*?^(?:\* |- |\d+\. |\||```)", re.DOTALL | re.MULTILINE)
    found = [
        f"{path.relative_to(site)}: {match[0]}"
        for path in pages
        for match in left.finditer(path.read_text("utf-8"))
    ]
    found += [str(path) for path in pages if "\\|" in path.read_text("utf-8")]
    assert not found
