"""The one folder that holds all a recipe produces; no other file knows its layout."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mtkit.files import as_json_text, read_json, write_atomically
from mtkit.locks import locked
from mtkit.programs import find_program

_RECORDED_PACKAGES = (
    "mtkit", "torch", "sentencepiece", "sacrebleu", "numpy", "pyarrow", "safetensors", "ctranslate2"
)  # fmt: skip


class Workspace:
    """Paths of a run's parts; none exists until a stage creates it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.recipe_file = root / "recipe.toml"
        self.manifest_file = root / "manifest.json"
        self.data = root / "data"
        self.data_draft = root / ".data.draft"
        self.tokenizer = self.data / "tokenizer"
        self.checkpoints = root / "checkpoints"
        self.metrics_file = root / "metrics.jsonl"
        self.curves = root / "curves.png"
        self.tensorboard = root / "tensorboard"
        self.model = root / "model"
        self.export = root / "export"
        self.transformers = root / "transformers"
        self.translations = root / "translations"
        self.scores_file = root / "scores.json"

    @classmethod
    def of(cls, recipe_name: str, workspace: Path | None = None) -> "Workspace":
        """Returns the workspace in a folder, by default `runs/<recipe name>`."""
        return cls(workspace if workspace is not None else Path("runs") / recipe_name)

    @property
    def has_checkpoints(self) -> bool:
        """Whether a training has saved a checkpoint here."""
        return any(self.checkpoints.glob("step-*"))

    def read_manifest(self) -> dict[str, Any]:
        """Returns what the stages have recorded so far; empty before the first."""
        if not self.manifest_file.exists():
            return {}
        hint = "remove the file: what earlier commands recorded in it is lost, but nothing else"
        stages = read_json(self.manifest_file, hint=hint).items()
        return {stage: facts for stage, facts in stages if isinstance(facts, dict)}

    def record(self, stage: str, facts: dict[str, Any]) -> None:
        """Adds a stage's facts, and the versions it ran with, to the manifest."""
        entry = {**facts, "environment": _environment()}
        self.root.mkdir(parents=True, exist_ok=True)
        with locked(self.manifest_file):
            manifest = {**self.read_manifest(), stage: entry}
            write_atomically(self.manifest_file, as_json_text(manifest))


def _environment() -> dict[str, str]:
    """Returns the versions that a result depends on."""
    versions = {"python": platform.python_version(), "machine": platform.machine()}
    for package in _RECORDED_PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    commit = _git_commit()
    return {**versions, "git_commit": commit} if commit else versions


def _git_commit() -> str:
    """Returns the commit of the working directory's repository; empty outside one."""
    git = find_program("git")
    if git is None:
        return ""
    try:
        found = subprocess.run(
            [git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""
