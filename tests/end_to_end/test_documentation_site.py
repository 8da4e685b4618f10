"""The documentation site builds without a warning, its links lead somewhere, it needs no net."""

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]

# Words beyond which nobody should have to scroll for a section.
_LONG_PAGE = 1_200
_RANK = """
const fs = require("fs"), vm = require("vm"), [folder, ...queries] = process.argv.slice(1);
const run = (name) => vm.runInThisContext(fs.readFileSync(`${folder}/search/${name}`, "utf8"));
["search_index.js", "ranking.js"].forEach(run);
const rank = openRanking(require(`${folder}/search/lunr.js`), searchIndex);
console.log(JSON.stringify(queries.map((query) => rank(query).map((section) => section.location))));
"""


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
    others = ("changelog", "contributing", "benchmarks", "404", "search")
    expected |= {Path(f"{name}.md") for name in others}
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


SOUGHT = [
    ("resume", "training.html#stopping-and-resuming"),
    ("out of memory", "training.html#faults"),
    ("CUDA out of memory", "training.html#faults"),
    ("damaged checkpoint", "training.html#faults"),
    ("corrupt checkpoint", "training.html#faults"),
    ("NaN", "training.html#faults"),
    ("disk full", "training.html#faults"),
    ("invalid UTF-8", "data.html#cleaning"),
    ("significance", "scoring.html#is-it-real"),
    ("fine-tuning", "fine-tuning.html"),
    ("slurm", "guides/slurm.html"),
    ("install", "tour.html#1-install"),
    # While somebody types.
    ("damaged check", "training.html#faults"),
]
NOTHING = ["", " - ", "zzyzx"]


@pytest.fixture(scope="module")
def ranked(site: Path) -> dict[str, list[str]]:
    """What the site's own script, run by Node, finds for each query."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node")
    queries = [*dict(SOUGHT), *NOTHING]
    found = subprocess.check_output([node, "-e", _RANK, str(site), *queries], text=True)
    return dict(zip(queries, json.loads(found), strict=True))


@pytest.mark.parametrize(("query", "expected"), SOUGHT)
def test_the_search_finds_what_is_sought(
    ranked: dict[str, list[str]], query: str, expected: str
) -> None:
    first = ranked[query][:2]
    assert any(location == expected or location.split("#")[0] == expected for location in first)


def test_a_search_for_nothing_finds_nothing(ranked: dict[str, list[str]]) -> None:
    assert [ranked[query] for query in NOTHING] == [[], [], []]


def test_a_long_page_begins_with_its_sections(pages: dict[Path, _Page]) -> None:
    """The menu lists them too, but a phone hides the menu."""
    lacking, num_long = [], 0
    for path in pages:
        body = path.read_text("utf-8").partition('itemprop="articleBody">')[2]
        sections = re.findall(r'<h2 id="([^"]+)"', body)
        if len(sections) < 3:
            sections = re.findall(r'<h[23] id="([^"]+)"', body)
        if len(re.sub(r"<[^>]+>", " ", body).split()) <= _LONG_PAGE or len(sections) < 3:
            continue
        num_long += 1
        listed = set(re.findall(r'href="#([^"]+)"', body.partition("<h2")[0]))
        if len(listed.intersection(sections)) < len(sections) / 2:
            lacking.append(path.name)
    assert num_long > 5
    assert not lacking


def test_pictures_are_described(site: Path, pages: dict[Path, _Page]) -> None:
    pictures = [
        picture for path in pages for picture in re.findall(r"<img [^>]*>", path.read_text("utf-8"))
    ]
    assert pictures
    assert not [picture for picture in pictures if not re.search(r'alt="[^"]{10,}"', picture)]
