"""Counts of a tree's structure: what an update, a line and a corpus pass through; what is where.

    python benchmarks/structure.py [--tree FOLDER]

The first three are traced in real runs of a small recipe: files of `mtkit/` of which a function is
entered or left, and types of `mtkit` of which an object is made.

update  between the ends of two updates of `mtkit train`, on the CPU, with prefetching threads
line    from reading a line to writing its translation, in a running `mtkit translate`
corpus  what `mtkit prepare`, in one process, does more often for a corpus twice as large
"""

import argparse
import ast
import importlib
import inspect
import io
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

_RECIPE = """
name = "structure"
[data]
source_language = "en"
target_language = "de"
train = [{{ source = "{train}.en", target = "{train}.de" }}]
dev = {{ source = "dev.en", target = "dev.de" }}
[tokenizer]
vocab_size = 400
[model]
num_encoder_layers = 1
num_decoder_layers = 1
d_model = 32
d_ff = 64
num_heads = 2
[training]
max_steps = 12
batch_tokens = 1024
length_groups = 1
micro_batch_tokens = 1024
checkpoint_every = 12
log_every = 1000
"""
_TRACED_UPDATES = (4, 9)
_NUM_PAIRS = 9_000
"""More than a block of `prepare`."""
_LAYOUT = re.compile(r"(Packed|Packing|Grid|Padded|Dense|Ragged)\w*|\w*Layout")
_SPECIAL_ID = re.compile(r"(PAD|UNK|BOS|EOS)(_ID)?")


class Trace:
    """Which files of `mtkit` are entered or left while it records, and which types are made."""

    def __init__(self, tree: Path) -> None:
        self.is_recording = False
        self.files: Counter[str] = Counter()
        self.types: Counter[str] = Counter()
        self._root = f"{tree / 'mtkit'}/"
        # Those that were started by the traced code too: data are prefetched in one.
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_OPTIMIZED
        if not self.is_recording or not is_function or event not in ("call", "return"):
            return
        if code.co_filename.startswith(self._root):
            self.files[code.co_filename.removeprefix(self._root)] += 1
        if event == "call" and code.co_argcount and code.co_name in ("__init__", "__new__"):
            made = frame.f_locals.get(code.co_varnames[0])
            kind = made if isinstance(made, type) else type(made)
            if kind.__module__.startswith("mtkit."):
                self.types[f"{kind.__module__.removeprefix('mtkit.')}.{kind.__qualname__}"] += 1


def trace_update(trace: Trace) -> None:
    """Trains, and records some updates."""
    optimizer = importlib.import_module("torch.optim.optimizer")
    num_updates = 0

    def note_update(*_: Any) -> None:
        nonlocal num_updates
        num_updates += 1
        trace.is_recording = _TRACED_UPDATES[0] <= num_updates < _TRACED_UPDATES[1]

    optimizer.register_optimizer_step_post_hook(note_update)
    run_command("train", "--workspace", "first", "--recipe", "first.toml", "--processes", "1")


def trace_line(trace: Trace) -> None:
    """Translates two lines, one after the other, and records the second."""
    readable, writable = os.pipe()
    num_reads = 0

    class Input(io.FileIO):
        """A pipe that gets a line when it is read."""

        def readinto(self, buffer: Any, /) -> int:
            nonlocal num_reads
            num_reads += 1
            if num_reads <= 2:
                os.write(writable, b"the second line is a line\n")
            elif num_reads == 3:
                os.close(writable)
            trace.is_recording = num_reads == 2
            return super().readinto(buffer)

    class Output(io.FileIO):
        """A file; once it has been written to, a line has passed."""

        def write(self, data: Any, /) -> int:
            trace.is_recording = False
            return super().write(data)

    sys.stdin = io.TextIOWrapper(io.BufferedReader(Input(readable)))
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(Output(os.devnull, "wb")))
    run_command("translate", "--workspace", "first", "--recipe", "first.toml", "--device", "cpu")


def trace_corpus(trace: Trace) -> None:
    """Prepares a corpus, and one twice as large, and records what is done more often."""
    for name in ("first", "large"):
        before = trace.files.copy(), trace.types.copy()
        trace.is_recording = True
        run_command("prepare", "-r", f"{name}.toml", "-w", name, "--workers", "1")
        trace.is_recording = False
        trace.files -= before[0]
        trace.types -= before[1]
        if name == "first":
            first = trace.files.copy(), trace.types.copy()
    trace.files -= first[0]
    trace.types -= first[1]


_TRACED: dict[str, Callable[[Trace], None]] = {
    "corpus": trace_corpus,
    "update": trace_update,
    "line": trace_line,
}
"""In order: later ones need what earlier ones write."""


def run_command(*arguments: str) -> None:
    """Runs an `mtkit` command in this process."""
    sys.argv = ["mtkit", *arguments]
    try:
        importlib.import_module("mtkit.cli.app").main()
    except SystemExit as end:
        if end.code:
            raise


def write_project() -> None:
    """Writes random corpora and their recipes into the current folder."""
    draw = random.Random(1)
    words = ["".join(draw.choices("aeioudlmnrst", k=draw.randint(2, 7))) for _ in range(2_000)]
    for name, num_pairs in {"first": _NUM_PAIRS, "large": 2 * _NUM_PAIRS, "dev": 20}.items():
        for side in ("en", "de"):
            lines = (" ".join(draw.choices(words, k=draw.randint(6, 9))) for _ in range(num_pairs))
            Path(f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines))
        Path(f"{name}.toml").write_text(_RECIPE.format(train=name))


def count_statically(tree: Path) -> Iterator[tuple[str, int, str]]:
    """Yields counts of what is written in `mtkit/`: a name, a number, and where."""
    paths = sorted((tree / "mtkit").rglob("*.py"))
    text = {str(path.relative_to(tree)): path.read_text() for path in paths}
    parsed = {name: ast.parse(content) for name, content in text.items()}
    checks, builds, special, untyped = (Counter[str]() for _ in range(4))
    for name, module in parsed.items():
        untyped[name] = text[name].count("dict[str, Any]")
        for node in ast.walk(module):
            if isinstance(node, ast.Name | ast.alias | ast.Attribute):
                word = node.attr if isinstance(node, ast.Attribute) else _name_of(node)
                special[name] += bool(_SPECIAL_ID.fullmatch(word))
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                builds[name] += called == "EncoderDecoder"
                if called == "isinstance":
                    words = re.findall(r"\w+", ast.unparse(node.args[1]))
                    checks[name] += any(map(_LAYOUT.fullmatch, words))
    circles = list(find_circles(parsed))
    yield "isinstance on layouts", checks.total(), _list(+checks)
    yield "sites that build a network", builds.total(), _list(+builds)
    yield "files that name PAD, UNK, BOS or EOS", len(+special), _list(+special)
    takers = Counter({name: count_recipe_parameters(module) for name, module in parsed.items()})
    yield "circles of files' imports", len(circles), "; ".join(map(_list, circles))
    yield "dict[str, Any]", untyped.total(), ""
    yield "functions with a parameter of the type Recipe", takers.total(), _list(+takers)
    yield (
        "files that name a key of a section",
        len(_list_key_files(text)),
        _list(_list_key_files(text)),
    )
    yield "files", len(text), ""
    yield "lines", sum(content.count("\n") for content in text.values()), ""
    yield "lines of code", sum(map(count_code_lines, text.values())), ""
    longest = max(text, key=lambda name: text[name].count("\n"))
    yield "lines of the longest file", text[longest].count("\n"), _list([longest])


def count_code_lines(text: str) -> int:
    """Returns the number of lines with code: without docstrings, comments and blank lines."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else []:
            is_text = isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
            if is_text and isinstance(each.value.value, str):
                documented |= set(range(each.lineno, each.end_lineno + 1))
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    skipped.add(tokenize.ENDMARKER)
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


def count_recipe_parameters(module: ast.Module) -> int:
    """Returns how many functions take a whole recipe."""
    return sum(
        any(
            each.annotation is not None and re.search(r"\bRecipe\b", ast.unparse(each.annotation))
            for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        )
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def _list_key_files(text: dict[str, str]) -> list[str]:
    """Returns the files that name a key: `inference.stop_margin`, as a new key of the search is."""
    return [name for name, content in text.items() if re.search(r"\bstop_margin\b", content)]


def find_circles(parsed: dict[str, ast.Module]) -> Iterator[list[str]]:
    """Yields files that import each other, those in functions counted, of type checks not."""
    by_module = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name
        for name in parsed
    }
    reached = {
        name: {by_module[each] for each in _list_imports(module, by_module)} - {name}
        for name, module in parsed.items()
    }
    is_growing = True
    while is_growing:
        is_growing = False
        for name, others in reached.items():
            further = set().union(*(reached[other] for other in others)) - others
            reached[name] = others | further
            is_growing |= bool(further)
    circles = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in parsed
        if name in reached[name]
    }
    yield from map(list, sorted(circles))


def _list_imports(node: ast.AST, modules: Container[str]) -> Iterator[str]:
    """Yields the modules that are imported, a package only where a name of its own is."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        imported: list[str] = []
        if isinstance(child, ast.Import):
            imported = [alias.name for alias in child.names]
        elif isinstance(child, ast.ImportFrom):
            parts = [f"{child.module}.{alias.name}" for alias in child.names]
            imported = [part if part in modules else child.module or "" for part in parts]
        yield from (module for module in imported if module in modules)
        yield from _list_imports(child, modules)


def _name_of(node: ast.Name | ast.alias) -> str:
    return node.id if isinstance(node, ast.Name) else node.name


def _list(names: Any) -> str:
    return " ".join(name.removeprefix("mtkit/") for name in names)


def main() -> None:
    """Prints a table of counts, a line each: what, how many, where."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--only", choices=_TRACED, help=argparse.SUPPRESS)
    options = parser.parse_args()
    tree = options.tree.resolve()
    if options.only:
        sys.path[0] = str(tree)
        stdout = sys.stdout
        trace = Trace(tree)
        _TRACED[options.only](trace)
        sys.setprofile(None)
        for kind, counts in (("files", trace.files), ("types", trace.types)):
            what = f"{kind} of {options.only}"
            print(f"{what}\t{len(+counts)}\t{' '.join(sorted(+counts))}", file=stdout)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_project()
        for only in _TRACED:
            command = [sys.executable, __file__, "--tree", str(tree), "--only", only]
            environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                sys.exit(f"{only}: {done.stderr}")
            print(done.stdout, end="")
    for what, count, where in count_statically(tree):
        print(f"{what}\t{count}\t{where}")


if __name__ == "__main__":
    main()
