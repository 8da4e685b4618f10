"""Three real corpora go through `mtkit prepare` with its defaults, and their reports make sense."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from .. import warm

pytestmark = [
    pytest.mark.skipif("MTKIT_TEST_DATA" not in os.environ, reason="MTKIT_TEST_DATA isn't set"),
    pytest.mark.slow,
]

RECIPE = """\
name = "real"
[data]
source_language = "en"
target_language = "{language}"
data_root = "{folder}"
[[data.train]]
source = "train.en.gz"
target = "train.{language}.gz"
[data.dev]
source = "{dev}.en.gz"
target = "{dev}.{language}.gz"
"""
TEST_SET = """\
[[evaluation.test_sets]]
name = "test"
source = "test.en.gz"
target = "test.{language}.gz"
"""


def prepare(project: Path, name: str, language: str, *, dev: str, has_test: bool) -> dict:
    folder = Path(os.environ["MTKIT_TEST_DATA"]) / name
    text = RECIPE + TEST_SET if has_test else RECIPE
    (project / "mtkit.toml").write_text(text.format(language=language, folder=folder, dev=dev))
    subprocess.run([*warm.command(), "prepare"], cwd=project, check=True)
    report = json.loads((project / "runs" / "real" / "data" / "report.json").read_text())
    [corpus] = report["corpora"]
    assert corpus["read"] == corpus["kept"] + sum(corpus["dropped"].values())
    assert corpus["misaligned"] == []
    for side in ("source", "target"):
        facts = report["tokens"][side]
        assert sum(facts["lengths"]) == corpus["kept"]
        assert (
            sum(length * count for length, count in enumerate(facts["lengths"])) == facts["tokens"]
        )
        assert facts["unknown_tokens"] == 0
    return report


def test_tokenised_web_text(tmp_path: Path) -> None:
    report = prepare(tmp_path, "opennmt_sample_en_de", "de", dev="val", has_test=False)
    [corpus] = report["corpora"]
    assert corpus["read"] == 10_000
    # Its README says that one line of train.en is empty.
    assert corpus["dropped"]["blank"] == 1
    assert 0.95 < corpus["kept"] / corpus["read"] < 0.97
    assert corpus["repaired"]["c1_control"] > 0


@pytest.mark.patient
def test_a_script_without_spaces(tmp_path: Path) -> None:
    report = prepare(tmp_path, "python_docs_en_zh", "zh", dev="dev", has_test=True)
    [corpus] = report["corpora"]
    assert corpus["read"] == 45_635
    assert corpus["kept"] / corpus["read"] > 0.97
    # Most of what goes has hardly a Chinese character: names of functions and their arguments.
    assert max(corpus["dropped"], key=corpus["dropped"].__getitem__) == "script"
    assert report["corpora"][0]["dropped"]["overlap"] > 0


@pytest.mark.patient
def test_short_sentences(tmp_path: Path) -> None:
    report = prepare(tmp_path, "tatoeba_en_fr", "fr", dev="dev", has_test=True)
    [corpus] = report["corpora"]
    assert corpus["read"] == 136_286
    assert corpus["kept"] / corpus["read"] > 0.999
