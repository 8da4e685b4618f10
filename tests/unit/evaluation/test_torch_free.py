"""Scores need no torch, which takes seconds to load and isn't there for who scores files alone."""

import subprocess
import sys

PROGRAM = """
import importlib, pkgutil, sys
import mtkit.evaluation
from mtkit.recipe.evaluation import Evaluation

found = pkgutil.walk_packages(mtkit.evaluation.__path__, "mtkit.evaluation.")
names = [each.name for each in found]
modules = {name: importlib.import_module(name) for name in names}
import mtkit.pipeline.score_files, mtkit.pipeline.score_report
settings = Evaluation(metrics=("bleu", "chrf", "chrf++", "ter"))
modules["mtkit.evaluation.scores"].score_corpus(["a b c d"], [["a b c d"]], settings)
print(len(names) > 20, "sacrebleu" in sys.modules, "torch" in sys.modules)
"""


def test_no_module_of_the_room_loads_torch_nor_does_sacrebleu() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True True False\n"
