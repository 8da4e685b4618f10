"""Lists every message that a user can meet, with its file, or what changed.

    python docs/list_messages.py [--tree FOLDER]
    python docs/list_messages.py --compare FOLDER [--tree FOLDER]

FOLDER is a checkout. Listed are errors and hints, what is printed, the help of options, headers of
tables, the docstrings of recipe keys, and the words of HTML pages. Values are in braces. A text of
two words or more is listed wherever it is: many are put together before they are printed.
"""

import argparse
import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

ROOT = Path(__file__).parents[1]
_SINKS = {  # Even a single word is shown.
    "MtkitError", "LineError", "ValueError", "say", "warn", "print_line", "add_column", "add_row",
    "Option", "Argument", "declare_option", "declare_count", "command",
}  # fmt: skip
_WORDS = re.compile(r"[^\W\d_]{2,}[,:;.)]* +\(?[^\W\d_]{2,}")
_PAIRED_FROM = 0.35  # Similarity, of 1, from which a text is the new form of another.
Message = tuple[str, str]  # A file, relative to the checkout, and a text.


def list_messages(tree: Path) -> list[Message]:
    """Returns the messages of a checkout, in the order of its files."""
    found = []
    for path in sorted((tree / "mtkit").rglob("*")):
        name = path.relative_to(tree).as_posix()
        # The embedded corpus is sentences, no messages.
        if "phrasebook" in path.parts:
            continue
        if path.suffix == ".py":
            texts = _in_module(ast.parse(path.read_text("utf-8")), path)
        elif path.suffix in (".html", ".jinja"):
            texts = iter(re.split(r"<[^>]*>|{[%#{].*?[%#}]}|\n", path.read_text("utf-8")))
        else:
            continue
        lines = (" ".join(text.split()) for text in texts)
        found += [(name, line) for line in lines if re.search(r"[^\W\d_]{2}", line)]
    return found


def _in_module(module: ast.Module, path: Path) -> Iterator[str]:
    is_recipe, is_command = path.parent.name == "recipe", path.parent.name == "cli"
    for node in ast.walk(module):
        if is_command and isinstance(node, ast.FunctionDef) and node.name == path.stem:
            yield (ast.get_docstring(node) or "").split("\n\n")[0]
        if is_recipe and isinstance(node, ast.ClassDef):
            yield from (_render(item.value) for item in node.body if _is_text(item))
    yield from _in_code(module, is_shown=False)


def _is_text(node: ast.AST) -> bool:
    """Returns whether a statement is a text alone: a docstring."""
    return isinstance(node, ast.Expr) and bool(_render(node.value))


def _in_code(node: ast.AST, *, is_shown: bool) -> Iterator[str]:
    """Yields texts below a node; those of one word only where they are certainly shown."""
    if _is_text(node) or isinstance(node, ast.Assert):
        return
    text = _render(node)
    if text:
        if is_shown or _WORDS.search(text):
            yield text
        return
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        # A pattern is no message.
        if name.startswith("re."):
            return
        is_shown = name.rpartition(".")[2] in _SINKS
    for field, value in ast.iter_fields(node):
        # Shapes of tensors.
        if field == "returns" or (field == "slice" and "Annotated" not in ast.unparse(node)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _in_code(child, is_shown=is_shown)


def _render(node: ast.AST) -> str:
    """Returns a literal, an f-string or a sum of them as text; empty for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            _render(part) or f"{{{ast.unparse(getattr(part, 'value', part))}}}"
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = [(_render(side), side) for side in (node.left, node.right)]
        if any(text for text, _ in sides):
            return "".join(text or f"{{{ast.unparse(side)}}}" for text, side in sides)
    return ""


def compare(before: list[Message], after: list[Message]) -> list[tuple[str, str, str]]:
    """Returns a file, a text before and one after for each change; empty where there is none."""
    # A text that went to another file is no change.
    gone = Counter(text for _, text in before) - Counter(text for _, text in after)
    new = Counter(text for _, text in after) - Counter(text for _, text in before)
    files: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for side, messages, changed in ((0, before, gone), (1, after, new)):
        for file, text in messages:
            if changed[text] > 0:
                changed[text] -= 1
                files[file][side].append(text)
    rows = []
    for file, (olds, news) in sorted(files.items()):
        partners: dict[int, int] = {}
        places = [(i, j) for i in range(len(olds)) for j in range(len(news))]
        ratios = [(SequenceMatcher(None, olds[i], news[j], False).ratio(), i, j) for i, j in places]
        for ratio, i, j in sorted(ratios, reverse=True):
            if ratio >= _PAIRED_FROM and i not in partners and j not in partners.values():
                partners[i] = j
        rest = [i for i in range(len(olds)) if i not in partners]
        others = [j for j in range(len(news)) if j not in partners.values()]
        if len(rest) == len(others):
            partners |= zip(rest, others, strict=True)
        now = {i: news[j] for i, j in partners.items()}
        rows += [(file, old, now.get(i, "")) for i, old in enumerate(olds)]
        rows += [(file, "", new) for j, new in enumerate(news) if j not in partners.values()]
    return rows


def main() -> None:
    """Prints the list, or the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tree", type=Path, default=ROOT, metavar="FOLDER")
    parser.add_argument("--compare", type=Path, metavar="FOLDER")
    chosen = parser.parse_args()
    messages = list_messages(chosen.tree)
    if not chosen.compare:
        print("\n".join(f"{file}: {text}" for file, text in messages))
        return
    print("| file | before | after |\n|---|---|---|")
    for file, old, new in compare(list_messages(chosen.compare), messages):
        cells = [cell.replace("|", "\\|") for cell in (old or "(new)", new or "(gone)")]
        print(f"| `{file}` | {cells[0]} | {cells[1]} |")


if __name__ == "__main__":
    main()
