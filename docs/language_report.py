"""Counts words that `style.md` avoids, docstring lines per line of code, and words of pages.

    python docs/language_report.py [--list] [--tree FOLDER]

`--list` also prints each avoided word with its file and line. Messages and help are checked by a
test; the rest is reported here. The log and the decisions are history and left out.
"""

import argparse
import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from list_messages import list_messages

ROOT = Path(__file__).parents[1]
AVOIDED = re.compile(
    r"\b(?:in place of|anew|stands? for|by (?:it|them)sel(?:f|ves)|in vain|whoever|nobody|"
    r"processors?|taken over|is no UTF-8|(?:tells?|told)(?! apart))\b",
    re.IGNORECASE,
)
_PAGES = {
    "README": ("README.md",),
    "index": ("docs/index.md",),
    "guides": ("docs/guides/*.md",),
    "other pages": ("docs/*.md", "docs/concepts/*.md", "CONTRIBUTING.md"),
    "recipes and benchmarks": ("recipes/*/README.md", "benchmarks/README.md"),
    "changelog": ("CHANGELOG.md",),
}
_HISTORY = {"log.md", "style.md", "index.md"}
Text = tuple[str, int, str]  # A file, a line's number, and its text.


def list_texts(tree: Path) -> Iterator[tuple[str, Text]]:
    """Yields every line of text with its kind: a page's, a message, a docstring or a comment."""
    for kind, patterns in _PAGES.items():
        for path in sorted(path for pattern in patterns for path in tree.glob(pattern)):
            if path.name not in _HISTORY or kind == "index":
                for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
                    yield kind, (path.relative_to(tree).as_posix(), number, line)
    yield from (("messages", text) for text in list_message_texts(tree))
    for path in sorted((tree / "mtkit").rglob("*.py")):
        name, text = path.relative_to(tree).as_posix(), path.read_text("utf-8")
        for node in _docstrings(ast.parse(text)):
            lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
            for number, line in enumerate(lines, start=node.lineno):
                yield "docstrings", (name, number, line)
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield "comments", (name, token.start[0], token.string)


def list_message_texts(tree: Path) -> Iterator[Text]:
    """Yields every message without the values in it, as line 0 of its file."""
    for name, message in list_messages(tree):
        yield name, 0, re.sub(r"\{[^{}]*\}", "", message)


def _docstrings(module: ast.Module) -> Iterator[ast.Expr]:
    for node in ast.walk(module):
        is_constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_constant and isinstance(node.value.value, str):
            yield node


def measure_docstrings(tree: Path) -> float:
    """Returns the lines of docstrings per line of code, without blank lines and comments."""
    num_lines = num_docstring_lines = 0
    for path in (tree / "mtkit").rglob("*.py"):
        text = path.read_text("utf-8")
        shown = (line.strip() for line in text.splitlines())
        num_lines += sum(not line.startswith("#") for line in shown if line)
        num_docstring_lines += sum(
            (node.end_lineno or node.lineno) - node.lineno + 1
            for node in _docstrings(ast.parse(text))
        )
    return num_docstring_lines / (num_lines - num_docstring_lines)


def main() -> None:
    """Prints the report."""
    parser = argparse.ArgumentParser(description="Counts words that docs/style.md avoids.")
    parser.add_argument("--tree", type=Path, default=ROOT, metavar="FOLDER")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    avoided, words = Counter[str](), Counter[str]()
    for kind, (name, number, line) in list_texts(arguments.tree):
        words[kind] += len(line.split())
        found = AVOIDED.findall(line)
        avoided[kind] += len(found)
        if found and arguments.list:
            print(f"{name}:{number}: {', '.join(found)}: {line.strip()}")
    print("| place | words | avoided |\n|---|---|---|")
    for kind, count in words.items():
        print(f"| {kind} | {count:,} | {avoided[kind]} |")
    print(f"docstrings: {measure_docstrings(arguments.tree):.3f} lines for each line of code")


if __name__ == "__main__":
    main()
