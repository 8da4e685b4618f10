"""Work on a real Ray cluster of three nodes: the same bytes as on one machine, whatever dies."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mtkit.data.phrasebook import generate_pairs
from tests.command import run_here
from tests.file_server import serve_files
from tests.ray_cluster import ROOT, Nodes, start_nodes

pytest.importorskip("ray", reason="Ray isn't installed")

SCRIPT = """
import json, sys
from functools import partial
from pathlib import Path
from mtkit.errors import MtkitError
from mtkit.pipeline.ray_executor import RayExecutor
from tests import ray_jobs
address, folder, items, options = sys.argv[1], Path(sys.argv[2]), *map(json.loads, sys.argv[3:])
executor = RayExecutor(address, folder, skips=options.pop("skips", False))
build = partial(ray_jobs.build, folder)
try:
    found = executor.run(build, items, on_loss=lambda item: ["left out", item], **options)
    print(json.dumps(list(found)))
except (MtkitError, OSError) as error:
    print(json.dumps(str(error)))
"""


@pytest.fixture(scope="module")
def nodes():
    with start_nodes(3) as started:
        yield started


@pytest.fixture(scope="module")
def two_nodes():
    """What is enough for tests that aren't `patient`: each takes seconds to start."""
    with start_nodes(2) as started:
        yield started


def run_jobs(nodes: Nodes, folder: Path, items: list[int], **options: Any) -> Any:
    """Returns results, each with its process, or an error's message."""
    arguments = [nodes.address, folder, json.dumps(items), json.dumps(options)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def prepare(folder: Path, name: str, *options: str, root: Path = ROOT) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "mtkit", "prepare", "-r", "r.toml", "--workspace", name, *options],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )


def finish(process: subprocess.Popen[str]) -> str:
    """Returns what a command printed on stderr; it must succeed."""
    _, printed = process.communicate(timeout=300)
    assert process.returncode == 0, printed
    return printed


def write_recipe(folder: Path, num_pairs: int) -> None:
    """Writes a recipe that learns word alignments, and its corpus."""
    text = "".join(f"the {number % 97} cats of {number} are near\n" for number in range(num_pairs))
    (folder / "a.en").write_text(text)
    (folder / "a.de").write_text(text.replace("cats", "Katzen").replace("near", "nah"))
    (folder / "dev.en").write_text("a cat\n")
    (folder / "dev.de").write_text("EINE KATZE\n")
    (folder / "r.toml").write_text(RECIPE)


RECIPE = """\
name = "r"
[data]
source_language = "en"
target_language = "de"
word_aligner = true
[[data.train]]
source = "a.en"
target = "a.de"
[data.dev]
source = "dev.en"
target = "dev.de"
[tokenizer]
vocab_size = 200
[training.guided_alignment]
"""
REPORTS = ("report.html", "report.json", "stage.json")
"""Files with times in them."""


def read_data(workspace: Path) -> dict[str, bytes]:
    """Returns all prepared files, except for those with times."""
    data = workspace / "data"
    return {
        str(path.relative_to(data)): path.read_bytes()
        for path in sorted(data.rglob("*"))
        if path.is_file() and path.name not in REPORTS
    }


@pytest.mark.patient
def test_results_are_in_order_from_several_nodes(nodes: Nodes, tmp_path: Path) -> None:
    found = run_jobs(nodes, tmp_path, list(range(40)))
    assert [square for square, _ in found] == [number * number for number in range(40)]
    assert len({process for _, process in found}) == 3
    assert list(tmp_path.iterdir()) == []


TWO_RUNS = """
import sys
from functools import partial
from pathlib import Path
import ray
from mtkit.executor import WorkerNeeds
from mtkit.pipeline.ray_executor import RayExecutor
from tests import ray_jobs
def count_actors():
    return sum(each["State"] == "ALIVE" for each in ray._private.state.actors().values())
build = partial(ray_jobs.build, Path(sys.argv[2]))
executor = RayExecutor(sys.argv[1], Path(sys.argv[2]))
first, second = ({process for _, process in executor.run(build, range(40))} for _ in range(2))
print(first == second, count_actors())
# One worker is enough for what runs behind an address; the others end.
list(executor.fit(WorkerNeeds(is_remote=True)).run(build, range(4)))
print(count_actors())
del executor
print(count_actors())
"""


@pytest.mark.patient
def test_workers_stay_for_the_next_run_and_end_with_the_executor(
    nodes: Nodes, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWO_RUNS, nodes.address, tmp_path],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.split() == ["True", "3", "1", "0"], done.stderr


@pytest.mark.patient
def test_a_jobs_own_error_comes_through(nodes: Nodes, tmp_path: Path) -> None:
    assert run_jobs(nodes, tmp_path, [1, 2, -2, 3]) == "[Errno 5] the disk failed"


@pytest.mark.patient
def test_an_item_that_kills_three_workers_is_named(nodes: Nodes, tmp_path: Path) -> None:
    found = run_jobs(nodes, tmp_path, [1, 2, 3, -1, 4, 5])
    assert found == "3 workers were killed by -1"
    assert (tmp_path / "killed").read_text() == "xxx"
    found = run_jobs(nodes, tmp_path, [1, 2, 3, -1, 4, 5], skips=True)
    assert [first for first, _ in found] == [1, 4, 9, "left out", 16, 25]
    assert found[3] == ["left out", -1]


@pytest.mark.slow
def test_prepared_data_are_those_of_one_machine(two_nodes: Nodes, tmp_path: Path) -> None:
    # Two blocks of 10,000.
    write_recipe(tmp_path, 11_000)
    done = run_here(tmp_path, "prepare", "-r", "r.toml", "--workspace", "here")
    assert done.returncode == 0, done.stderr
    (tmp_path / "there").mkdir()
    left = tmp_path / "there" / ".0123.probe"  # by a command that was killed
    left.touch()
    os.utime(left, (0, 0))
    finish(prepare(tmp_path, "there", "--set", f"cluster.address={two_nodes.address}"))
    here = read_data(tmp_path / "here")
    assert len(here) > 10
    assert read_data(tmp_path / "there") == here
    assert not list((tmp_path / "there").glob(".*probe"))


@pytest.mark.slow
def test_a_file_is_translated_as_on_one_machine(two_nodes: Nodes, tmp_path: Path, tiny_run) -> None:
    run = tiny_run("training.max_steps=1", "inference.max_extra_tokens=2")
    assert run.train()
    # Blank lines take no time.
    line = "The old man buys three red apples.\n" + f"{' ' * 499}\n" * 100
    (tmp_path / "a.en").write_text(line * 60)
    command = ["translate", "a.en", "--input", "lines", "--model", "run/model", "--output"]
    at = f"cluster.address={two_nodes.address}"
    there = subprocess.run(
        [sys.executable, "-m", "mtkit", *command, "there", "--set", at],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    for output, done in (("here", run_here(tmp_path, *command, "here")), ("there", there)):
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert f"{output}: 3 blocks, 0 cached, 3 translated" in done.stderr
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()
    assert (tmp_path / "here").read_text().count("\n") == 60 * 101


def test_a_cluster_that_isnt_there_is_an_error(tmp_path: Path) -> None:
    write_recipe(tmp_path, 10)
    process = prepare(tmp_path, "there", "--set", "cluster.address=127.0.0.1:1")
    _, printed = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "no Ray cluster of this version at 127.0.0.1:1" in printed
    assert "Traceback" not in printed


@pytest.mark.patient
def test_another_server_isnt_a_cluster(tmp_path: Path) -> None:
    write_recipe(tmp_path, 10)
    with serve_files(tmp_path) as (address, _):
        port = address.rpartition(":")[2]
        process = prepare(tmp_path, "there", "--set", f"cluster.address=127.0.0.1:{port}")
        _, printed = process.communicate(timeout=120)
    assert process.returncode == 1
    assert f"no Ray cluster of this version at 127.0.0.1:{port}" in printed


@pytest.mark.patient
def test_models_work_on_nodes(nodes: Nodes, tmp_path: Path, tiny_run_of) -> None:
    """A corpus that a translator completes, and rows that language models select."""
    assert tiny_run_of("translation", "training.max_steps=2", name="mt").train()
    assert tiny_run_of("causal-lm", "training.max_steps=2", name="general").train()
    assert tiny_run_of("causal-lm", "training.max_steps=4", name="ours").train()
    write_recipe(tmp_path, 15_000)
    text = "".join(f"{source}\n" for source, _ in generate_pairs("train", 5_000))
    (tmp_path / "b.en").write_text(text)
    selection = """[data.cleaning.selection]
in_domain_source = "ours/model"
general_source = "general/model"
keep = 0.5
[[data.train]]
source = "b.en"
translated_by = "mt/model"
synthesis = { beam_size = 1 }
[data.dev]"""
    recipe = RECIPE.replace("[data.dev]", selection)
    (tmp_path / "r.toml").write_text(recipe)
    finish(prepare(tmp_path, "here"))
    finish(prepare(tmp_path, "there", "--set", f"cluster.address={nodes.address}"))
    here = read_data(tmp_path / "here")
    assert any("synthetic" in name for name in here)
    assert any("selection" in name for name in here)
    assert read_data(tmp_path / "there") == here


@pytest.mark.patient
def test_another_version_on_a_node_is_refused(nodes: Nodes, tmp_path: Path) -> None:
    # Not in the working directory, which Ray's workers search first.
    other = tmp_path / "other"
    shutil.copytree(ROOT / "mtkit", other / "mtkit")
    version = other / "mtkit" / "version.py"
    version.write_text(version.read_text().replace('__version__ = "', '__version__ = "9'))
    write_recipe(tmp_path, 10)
    process = prepare(tmp_path, "there", "--set", f"cluster.address={nodes.address}", root=other)
    _, printed = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "and this machine 9" in printed
    assert not (tmp_path / "there" / "data").exists()


@pytest.mark.patient
def test_a_node_killed_at_any_moment_changes_nothing(tmp_path: Path) -> None:
    write_recipe(tmp_path, 100_000)
    finish(prepare(tmp_path, "here"))
    here = read_data(tmp_path / "here")
    with start_nodes(3) as nodes:
        for moment in range(10):
            process = prepare(
                tmp_path, f"there{moment}", "--set", f"cluster.address={nodes.address}"
            )
            time.sleep(3 + 1.5 * moment)
            nodes.tell(f"kill {moment % 2}")
            finish(process)
            assert read_data(tmp_path / f"there{moment}") == here, moment
            nodes.tell("add")


@pytest.mark.patient
def test_a_driver_killed_at_any_moment_goes_on(nodes: Nodes, tmp_path: Path) -> None:
    write_recipe(tmp_path, 100_000)
    finish(prepare(tmp_path, "here"))
    here = read_data(tmp_path / "here")
    for moment in range(5):
        arguments = (tmp_path, f"there{moment}", "--set", f"cluster.address={nodes.address}")
        process = prepare(*arguments)
        time.sleep(4 + 3 * moment)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        finish(prepare(*arguments))
        assert read_data(tmp_path / f"there{moment}") == here, moment
