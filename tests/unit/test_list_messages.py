"""The list of messages: what counts as one, and how two versions are put side by side."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "list_messages.py"
pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="installed without docs")

_LOOP = '''
"""A docstring is for those who read the code."""
PATTERN = re.compile(r"some words here")

def load(path, values: Float[Tensor, "batch length"]):
    """Loads something."""
    assert path, "a fault of our own"
    if path.bad:
        raise MtkitError(f"{path}: no " + "rows", "try again")
    table.add_column("score")
    log["loss"] = describe("kept the last")
'''
_SECTION = '''
class Data(Section):
    """The corpora."""

    seed: int = 1
    """Seed of the sample."""
'''
_COMMAND = '''
def train(fast: Annotated[bool, typer.Option(help="Quick.")] = False):
    """Train a model.

    How it does so.
    """
'''


def write_tree(root: Path, **modules: str) -> Path:
    for name, text in modules.items():
        path = root / "mtkit" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".py").write_text(text, "utf-8")
    return root


def run(*arguments: str | Path) -> list[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_what_a_user_can_meet_is_listed(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, loop=_LOOP, recipe__data=_SECTION, cli__train=_COMMAND)
    page = tree / "mtkit" / "page.html.jinja"
    page.write_text("<h1>Scores</h1>{% if many %}<p>of all {{ name }}</p>{% endif %}", "utf-8")
    assert set(run("--tree", tree)) == {
        "mtkit/cli/train.py: Train a model.",
        "mtkit/cli/train.py: Quick.",
        "mtkit/loop.py: {path}: no rows",
        "mtkit/loop.py: try again",
        "mtkit/loop.py: score",
        "mtkit/loop.py: kept the last",
        "mtkit/page.html.jinja: Scores",
        "mtkit/page.html.jinja: of all",
        "mtkit/recipe/data.py: The corpora.",
        "mtkit/recipe/data.py: Seed of the sample.",
    }


def test_two_versions_are_compared(tmp_path: Path) -> None:
    old = 'warn("checkpoint is no folder")\nsay("all is well | fine")\nsay("moved elsewhere")'
    new = 'warn("checkpoint is not a folder")\nsay("wrote curves.png to RUN")\nsay("BLEU = 100")'
    before = write_tree(tmp_path / "before", here=old)
    after = write_tree(tmp_path / "after", here=new, there='say("moved elsewhere")')
    assert run("--tree", after, "--compare", before) == [
        "| file | before | after |",
        "|---|---|---|",
        "| `mtkit/here.py` | checkpoint is no folder | checkpoint is not a folder |",
        "| `mtkit/here.py` | all is well \\| fine | (gone) |",
        "| `mtkit/here.py` | (new) | wrote curves.png to RUN |",
        "| `mtkit/here.py` | (new) | BLEU = 100 |",
    ]


def test_what_is_left_in_a_file_is_paired_in_its_order(tmp_path: Path) -> None:
    before = write_tree(tmp_path / "before", here='say("mend that")')
    after = write_tree(tmp_path / "after", here='say("fix it, then run it")')
    assert run("--tree", after, "--compare", before)[2:] == [
        "| `mtkit/here.py` | mend that | fix it, then run it |"
    ]


def test_this_checkouts_messages_avoid_what_the_style_avoids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    report = import_module("language_report")
    texts = list(report.list_message_texts(report.ROOT))
    assert any(name == "mtkit/recipe/loading.py" for name, _, _ in texts)
    assert sum(len(text.split()) for _, _, text in texts) > 20_000
    assert [text for text in texts if report.AVOIDED.search(text[2])] == []
