"""From labels to what is released: `mtkit calibrate`, then lines, PO, XLIFF and Python."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import polib
import pytest
from lxml import etree

from mtkit import Translator
from mtkit.recipe.inference import Quality
from mtkit.training.metrics_log import MetricsLog

from ..command import run_here

SHORT, LONG = "The dog sleeps.", "The old dog and the young cat sleep in the small house."
SET = ["--set", "inference.quality.path=q.json", "--set", "inference.quality.risk=0.1"]


@pytest.fixture(autouse=True, scope="module")
def no_pictures() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetricsLog, "draw", lambda _: None)
        yield


@pytest.fixture
def folder(tiny_run, kept: Path, tmp_path: Path) -> Path:
    """A folder with the model of a training of two updates, and labels: short texts are right.

    The recipe names a file of quality, which isn't there yet.
    """
    run = tiny_run(
        "training.max_steps=2", "training.checkpoint_every=2", "inference.quality.path=later.json"
    )
    run.train_once(kept)
    (tmp_path / "options.json").write_text(json.dumps(run.options))
    shutil.copytree(run.workspace.model, tmp_path / "model")
    lines = []
    for number in range(150):
        lines.append(f"{SHORT} {number % 7}\tDer Hund schläft. {number % 5}\tok\n")
        lines.append(f"{LONG} {number % 7}\t{'Der alte Hund und so weiter ' * 3}\tbad\n")
    (tmp_path / "labels.tsv").write_text("".join(lines))
    return tmp_path


def test_from_labels_to_what_is_released(folder: Path) -> None:
    done = run_here(folder, "calibrate", "labels.tsv", "--model", "model", "--output", "q.json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("300 labels, 150 wrong: 120 fit the estimate, 180 test it; area")
    rows = {line.split()[0]: line for line in done.stdout.splitlines()[3:]}
    # All right ones are told from all wrong ones. None wrong of about 90 released ones bounds 5 %
    # (59 are enough), but not 2 %, which takes 149: ln 0.05 / ln 0.98 = 148.3, of 60 % of 249.
    assert " 0 of " in rows["5%"]
    assert rows["5%"].endswith("<- inference.quality.risk")
    assert "nothing     at least 249 labels, about " in rows["2%"]
    assert "wrote" in done.stderr

    # The order of the labels is of no matter.
    labels = (folder / "labels.tsv").read_text().splitlines(keepends=True)
    (folder / "labels.tsv").write_text("".join(labels[::-1]))
    first = (folder / "q.json").read_text()
    assert run_here(folder, "calibrate", "labels.tsv", "--model", "model", "-o", "q.json").stdout
    assert (folder / "q.json").read_text() == first

    # By the run, whose recipe isn't about the labels.
    options = json.loads((folder / "options.json").read_text())
    done = run_here(folder, "calibrate", "labels.tsv", *options, "--output", "run.json")
    assert done.returncode == 0, done.stderr
    assert (folder / "run.json").read_text() == first
    done = run_here(folder, "translate", *options, text="a\n")
    assert "later.json: no such file (inference.quality.path)" in done.stderr

    # Given translations, one after the other and together.
    pairs = f"{SHORT}\tDer Hund schläft.\n{LONG}\t{'Der alte Hund und so weiter ' * 3}\n\n"
    options = ["--model", "model", "--json", *SET]
    done = run_here(folder, "translate", "--score-only", *options, text=pairs)
    right, wrong, blank = map(json.loads, done.stdout.splitlines())
    assert (right["released"], wrong["released"], blank["released"]) == (True, False, True)
    assert right["quality"] > 0.9 > 0.1 > wrong["quality"]
    _translates(folder, wrong["quality"])
    _translates_documents(folder)
    _rejects_another_model(folder)


def _translates(folder: Path, wrong: float) -> None:
    done = run_here(folder, "translate", "--model", "model", "--json", *SET, text=f"{SHORT}\n\n")
    found, blank = map(json.loads, done.stdout.splitlines())
    assert 0.0 <= found["quality"] <= 1.0
    assert blank["released"] is True
    quality = Quality(path=folder / "q.json", risk=0.1)
    settings = Translator(folder / "model").settings.model_copy(update={"quality": quality})
    translator = Translator(folder / "model", settings=settings)
    text = "Der alte Hund und so weiter " * 3
    assert translator.score([(LONG, text)])[0].quality == wrong
    again = translator.search([LONG, SHORT])[1]
    assert (again.quality, again.released) == (found["quality"], found["released"])


def _translates_documents(folder: Path) -> None:
    # Nothing is released at a risk that no label can show.
    strict = ["--model", "model", "--set", "inference.quality={path='q.json', risk=0.001}"]
    (folder / "a.po").write_text(f'msgid ""\nmsgstr ""\n\nmsgid "{SHORT}"\nmsgstr ""\n')
    done = run_here(folder, "translate", "a.po", "--output", "b.po", *strict)
    assert done.returncode == 0, done.stderr
    assert "not released: an estimated quality of " in done.stderr
    (entry,) = polib.pofile(str(folder / "b.po"))
    assert (entry.msgstr != "", entry.flags) == (True, ["fuzzy"])
    (folder / "a.xlf").write_text(
        '<xliff version="1.2"><file source-language="en"><body><trans-unit id="1">'
        f"<source>{SHORT}</source></trans-unit></body></file></xliff>"
    )
    run_here(folder, "translate", "a.xlf", "--output", "b.xlf", *strict)
    (target,) = etree.parse(folder / "b.xlf").iter("target")
    assert target.get("state") == "needs-review-translation"


def _rejects_another_model(folder: Path) -> None:
    shutil.copytree(folder / "model", folder / "other")
    weights = folder / "other" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    done = run_here(folder, "translate", "--model", "other", "--json", *SET, text="a\n")
    assert (done.returncode, done.stdout) == (1, "")
    assert "q.json: was fitted for another model" in done.stderr
    done = run_here(folder, "translate", "--model", "model", *SET[:1], text="a\n")
    assert done.returncode == 2
    reverse = ["--set", "inference.quality.reverse=other"]
    done = run_here(folder, "calibrate", "labels.tsv", "--model", "model", "-o", "r.json", *reverse)
    assert done.returncode == 1
    assert "inference.quality.reverse = other: this model doesn't read" in done.stderr
