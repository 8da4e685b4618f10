"""`mtkit tune`: tunes the weights of `inference.rerank`."""

import sys

from mtkit.cli.options import DeviceOption, RunOptions, with_run
from mtkit.standard_streams import check_stdout


@with_run
def tune(*, run: RunOptions, device: DeviceOption = "auto") -> None:
    """Tune the weights of inference.rerank on the development set.

    Prints the section with the weights as TOML, for the recipe.
    """
    check_stdout("mtkit tune")
    from mtkit.pipeline.tune import tune as tune_run

    recipe, workspace = run.open()
    sys.stdout.write(tune_run(recipe, workspace, device=device))
    sys.stdout.flush()
