"""COMET (Rei et al. 2022, aclanthology.org/2022.wmt-1.52) by its own command.

Its package needs older versions of numpy and protobuf than mtkit, so it can't share an environment
with mtkit: it is installed in a separate one, and called.
"""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from mtkit.errors import MtkitError
from mtkit.evaluation.statistics import Statistics
from mtkit.programs import find_program
from mtkit.recipe.evaluation import Comet

_INSTALL = (
    "python -m venv comet && comet/bin/pip install unbabel-comet, then "
    "--set evaluation.comet.command=comet/bin/comet-score"
)
_OF_ITS_MAKERS = re.compile(r"(Unbabel/)?[A-Za-z0-9][A-Za-z0-9._-]*(?<!\.ckpt)")
"""Models that a recipe file may name: those of COMET's authors on their hub, and older ones."""

_LARGEST_SCORE = 1e6
"""Models give about 0 to 1; sums in single precision must stay finite."""
_LONGEST_SHOWN = 40


def check_comet(comet: Comet, sources: Sequence[str] | None) -> str:
    """Returns the path of COMET's program, after all checks that are possible in advance."""
    # A program or checkpoint that only a recipe file names is rejected.
    if sources is None:
        raise MtkitError(
            "evaluation.comet: COMET needs the source text", "give it with --source FILE"
        )
    command = comet.command
    if command != Comet.model_fields["command"].default:
        reason = "isn't run, since a recipe may come from a stranger"
        _refuse_of_file(comet, "command", reason)
    # A typed path is relative to the current folder, as in a shell.
    found = find_program(command) if Path(command).name == command else shutil.which(command)
    if found is None:
        raise MtkitError(f"evaluation.comet.command: can't run {command}", _INSTALL)
    if _OF_ITS_MAKERS.fullmatch(comet.model) is None:
        reason = (
            "isn't opened, since a checkpoint can contain code and a recipe may come from a "
            "stranger"
        )
        _refuse_of_file(comet, "model", reason)
    return found


def _refuse_of_file(comet: Comet, key: str, reason: str) -> None:
    if key in comet.keys_of_file:
        shown = shlex.quote(getattr(comet, key))
        raise MtkitError(
            f"evaluation.comet.{key}: the recipe names {shown}, which {reason}",
            f"if you trust it, give it on the command line: --set evaluation.comet.{key}={shown}",
        )


def measure_comet(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[str],
    sources: Sequence[str],
    comet: Comet,
) -> dict[str, Statistics]:
    """Returns each system's COMET: the mean of its sentences' scores, times 100."""
    # There is one reference per sentence: COMET takes no more. The command most often fails because
    # its model is missing and can't be downloaded.
    command = check_comet(comet, sources)
    with TemporaryDirectory() as name:
        folder = Path(name)
        found = folder / "scores.json"
        files = {
            system: _write_lines(folder / f"system{index}", lines)
            for index, (system, lines) in enumerate(systems.items())
        }
        _run(
            [
                command,
                *("--sources", str(_write_lines(folder / "sources", sources))),
                *("--references", str(_write_lines(folder / "references", references))),
                "--translations",
                *map(str, files.values()),
                *("--model", comet.model, "--gpus", str(comet.gpus)),
                *("--to_json", str(found), "--quiet", "--only_system"),
            ],
            comet,
        )
        try:
            tables = list(json.loads(found.read_text("utf-8")).values())
            scores = [[sentence["COMET"] for sentence in table] for table in tables]
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise _unknown_form(comet) from error
    if [len(of_system) for of_system in scores] != [len(lines) for lines in systems.values()]:
        raise _unknown_form(comet)
    return {
        system: _as_statistics(_check_scores(of_system, system), comet)
        for system, of_system in zip(systems, scores, strict=True)
    }


def _check_scores(scores: Sequence[Any], system: str) -> list[float]:
    """Returns a system's sentence scores, after a check that all are plausible numbers."""
    for number, score in enumerate(scores, start=1):
        is_number = isinstance(score, int | float) and not isinstance(score, bool)
        # Not `>`, which is false for NaN too.
        if not (is_number and abs(score) <= _LARGEST_SCORE):
            raise MtkitError(
                f"evaluation.comet: the score of sentence {number:,} of {system} is "
                f"{json.dumps(score)[:_LONGEST_SHOWN]}, not a valid score",
                f"check line {number:,} of the translations, the source and the references; if "
                "nothing is wrong there, COMET's model overflows: use another "
                "evaluation.comet.model, or evaluation.comet.gpus=0",
            )
    return [float(score) for score in scores]


def _unknown_form(comet: Comet) -> MtkitError:
    return MtkitError(
        f"evaluation.comet.command: {comet.command} didn't write scores in the format of "
        "comet-score (unbabel-comet 2.2)",
        _INSTALL,
    )


def _run(command: Sequence[str], comet: Comet) -> None:
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise MtkitError(
            f"evaluation.comet.command: can't run {comet.command}: {error}", _INSTALL
        ) from error
    if ended.returncode:
        last = "\n".join(ended.stderr.strip().splitlines()[-3:])
        raise MtkitError(
            f"COMET with model {comet.model} failed:\n{last}",
            "a model is downloaded at its first use; without a network, use a local "
            "checkpoint: --set evaluation.comet.model=FOLDER/checkpoints/model.ckpt",
        )


def _as_statistics(scores: Sequence[float], comet: Comet) -> Statistics:
    values = np.array(scores, dtype=np.float64)
    per_sentence = np.stack((values, np.ones_like(values)), axis=1)
    model: Any = Path(comet.model).name if Path(comet.model).is_file() else comet.model
    return Statistics(
        metric="comet",
        name="COMET",
        signature=f"model:{model}|mean|x100",
        higher_is_better=True,
        value=100.0 * float(values.mean()),
        per_sentence=per_sentence,
    )


def _write_lines(path: Path, lines: Sequence[str]) -> Path:
    # COMET's command also ends lines at carriage returns.
    path.write_text("".join(line.replace("\r", " ") + "\n" for line in lines), "utf-8")
    return path
