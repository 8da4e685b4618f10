"""What the documentation site has beyond docs/: a hook of properdocs, which properdocs.yml names.

Pages that lie elsewhere in the repository become pages of the site, links between them are turned
to where they are there, patterns in the navigation are replaced by the pages that fit them, and a
long page gets a list of its sections. So a link is written once, as it works in the repository.
"""

import json
import posixpath
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from properdocs.config.defaults import ProperDocsConfig
from properdocs.structure.files import File, Files
from properdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
LONG_PAGE = 1_200
"""Words beyond which a page has a list of its sections."""
SOUGHT_AS = {
    "training.html#faults": "error crash OOM CUDA out of memory NaN infinity divergence "
    "damaged corrupt checkpoint disk full hang freeze killed",
    "training.html#stopping-and-resuming": "resume continue restart interrupt pause",
    "data.html#cleaning": "invalid UTF-8 encoding mojibake",
    "scoring.html#is-it-real": "significance p-value bootstrap",
    "tour.html#1-install": "setup pip",
}
"""Words that people look for a section by, in addition to its own; by where it is on the site."""
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)(?=[)#])")
_CODE = re.compile(r"`[^`]*`")
_FENCED = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def find_pages() -> dict[str, str]:
    """Returns where each page outside docs/ is on the site, by its path in the repository."""
    places = {
        "CHANGELOG.md": "changelog.md",
        "CONTRIBUTING.md": "contributing.md",
        "benchmarks/README.md": "benchmarks.md",
    }
    for page in sorted(ROOT.glob("recipes/*/*.md")):
        folder = page.parent.name
        name = folder if page.stem == "README" else f"{folder}-{page.stem}"
        places[f"recipes/{folder}/{page.name}"] = f"recipes/{name}.md"
    return places


def on_files(files: Files, config: ProperDocsConfig) -> Files:
    """Adds the pages outside docs/, and writes out the navigation's patterns."""
    for path, place in find_pages().items():
        text = (ROOT / path).read_text("utf-8")
        files.append(File.generated(config, place, content=text))
    pages = sorted(file.src_uri for file in files.documentation_pages())
    named = {entry for entry in _leaves(config.nav) if "*" not in entry}
    config.nav = _write_out(config.nav, [page for page in pages if page not in named])
    return files


def on_page_markdown(markdown: str, page: Page, config: ProperDocsConfig, files: Files) -> str:
    """Returns a page's text with links to where their targets are on the site.

    A bar in a table's code is escaped for GitHub; the site's renderer would show the backslash.
    """
    place = page.file.src_uri
    origins = {there: here for here, there in find_pages().items()}
    folder = posixpath.dirname(origins.get(place, f"docs/{place}"))

    def turn(match: re.Match[str]) -> str:
        if "://" in match[1]:
            return match[1]
        target = _on_site(posixpath.normpath(posixpath.join(folder, match[1])))
        return posixpath.relpath(target, posixpath.dirname(place) or ".") if target else match[1]

    lines = [
        _CODE.sub(lambda code: code[0].replace("\\|", "|"), line) if line[:1] == "|" else line
        for line in markdown.split("\n")
    ]
    parts = _FENCED.split("\n".join(lines))
    # Every second part is a block of code.
    return "".join(
        part if number % 2 else _LINK.sub(turn, part) for number, part in enumerate(parts)
    )


def on_page_content(html: str, page: Page, config: ProperDocsConfig, files: Files) -> str:
    """Returns a page with a list of its sections, where it is long and has no list of its own."""
    if page.file.src_uri == "reference/recipe.md":
        # A phone shows each of its rows as a paragraph.
        html = html.replace("<table>", '<table class="keys">')
    sections = page.toc.items[0].children if page.toc.items else []
    if len(sections) < 3:
        sections = [part for section in sections for part in (section, *section.children)]
    before, heading, rest = html.partition("<h2")
    # One of the links is the title's own.
    has_own = before.count('href="#') - 1 >= len(sections) / 2
    if len((page.markdown or "").split()) <= LONG_PAGE or len(sections) < 3 or has_own:
        return html
    links = "".join(f'<li><a href="{section.url}">{section.title}</a></li>' for section in sections)
    contents = f'<nav class="page-contents"><p>On this page</p><ul>{links}</ul></nav>\n'
    return before + contents + heading + rest


def on_post_build(config: ProperDocsConfig) -> None:
    """Writes the search index as a script too, since a page opened from disk may load no JSON.

    To some sections it adds words that people look for them by.
    """
    folder = Path(config.site_dir) / "search"
    index = json.loads((folder / "search_index.json").read_text("utf-8"))
    sections = {section["location"]: section for section in index["docs"]}
    for location, words in SOUGHT_AS.items():
        sections[location]["sought_as"] = words
    text = f"var searchIndex = {json.dumps(index, ensure_ascii=False)};\n"
    (folder / "search_index.js").write_text(text, "utf-8")


def _on_site(path: str) -> str:
    """Returns where something in the repository is on the site; empty if it isn't there."""
    if (ROOT / path).is_dir():
        path = f"{path}/README.md"
    outside = find_pages()
    return outside.get(path, path.removeprefix("docs/") if path.startswith("docs/") else "")


def _leaves(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav
    return [leaf for entry in entries for leaf in _leaves(entry)]


def _write_out(nav: Any, unnamed: list[str]) -> Any:
    """Returns a navigation with each pattern replaced by the pages that no other entry names."""
    if isinstance(nav, dict):
        return {title: _write_out(entry, unnamed) for title, entry in nav.items()}
    if not isinstance(nav, list):
        return nav
    written: list[Any] = []
    for entry in nav:
        if isinstance(entry, str) and "*" in entry:
            depth = entry.count("/")
            written += [
                page for page in unnamed if fnmatch(page, entry) and page.count("/") == depth
            ]
        else:
            written.append(_write_out(entry, unnamed))
    return written
