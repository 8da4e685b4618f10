"""Injects a fault into one process of a training; Python imports this by itself at its start.

MTKIT_TEST_FAULT is `kind:rank:first-last`, of steps, each of which the fault strikes once:

    oom     a GPU's out-of-memory error in the loss of a micro-batch
    nan     a loss of NaN
    sleep   the process hangs for ever
    die     the process is killed
    freeze  the process is stopped, its threads too
"""

import os
import signal
import time


def _inject(kind: str, steps: set[int]) -> None:
    import torch

    from mtkit.training import update
    from mtkit.training.update import Objective

    seed_step = update.seed_step
    at_step = [0]

    def note_step(seed: int, step: int, rank: int) -> None:
        at_step[0] = step
        seed_step(seed, step, rank)

    def wrap(loss):
        return lambda self, batch: fail(loss, self, batch)

    def fail(loss, self, batch):
        sums = loss(self, batch)
        if at_step[0] not in steps:
            return sums
        steps.discard(at_step[0])
        match kind:
            case "oom":
                raise torch.OutOfMemoryError("CUDA out of memory: injected")
            case "nan":
                return sums._replace(loss=sums.loss * torch.nan)
            case "sleep":
                time.sleep(10_000)
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "freeze":
                os.kill(os.getpid(), signal.SIGSTOP)
        return sums

    update.seed_step = note_step
    Objective.loss = wrap(Objective.loss)


_fault = os.environ.get("MTKIT_TEST_FAULT", "")
# Workers that are started again are spared, and so is the launcher.
if _fault and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
    _kind, _rank, _steps = _fault.split(":")
    if os.environ.get("RANK", "0") == _rank and ("RANK" in os.environ or _kind != "die"):
        _first, _, _last = _steps.partition("-")
        _inject(_kind, set(range(int(_first), int(_last or _first) + 1)))
