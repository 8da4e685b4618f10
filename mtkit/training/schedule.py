"""The learning rate of each step."""

import math

from mtkit.recipe.training import (
    ConstantSchedule,
    CosineSchedule,
    InverseSquareRootSchedule,
    LinearSchedule,
    PaperSchedule,
    Schedule,
)


def learning_rate(schedule: Schedule, step: int, *, d_model: int, max_steps: int) -> float:
    """Returns the learning rate of an update, for `step` from 1.

    The paper's schedule scales with `d_model`. Cosine and linear schedules end at `max_steps`.
    """
    match schedule:
        case PaperSchedule():
            # arXiv 1706.03762, section 5.3, equation 3.
            slope = min(step**-0.5, step * schedule.warmup_steps**-1.5)
            return float(schedule.factor * d_model**-0.5 * slope)
        case InverseSquareRootSchedule():
            return schedule.peak * min(
                step / schedule.warmup_steps, math.sqrt(schedule.warmup_steps / step)
            )
        case CosineSchedule():
            share = 0.5 * (1.0 + math.cos(math.pi * _progress(schedule, step, max_steps)))
        case LinearSchedule():
            share = 1.0 - _progress(schedule, step, max_steps)
        case ConstantSchedule():
            return schedule.peak * min(1.0, step / max(1, schedule.warmup_steps))
    if step < schedule.warmup_steps:
        return schedule.peak * step / schedule.warmup_steps
    return schedule.final + (schedule.peak - schedule.final) * share


def note_warmup(schedule: Schedule, *, max_steps: int) -> str:
    """Returns a warning if warm-up doesn't end before a falling schedule; else an empty string."""
    if not isinstance(schedule, CosineSchedule | LinearSchedule):
        return ""
    if schedule.warmup_steps < max_steps:
        return ""
    return (
        f"training.schedule.warmup_steps = {schedule.warmup_steps:,}: warm-up doesn't end before "
        f"training.max_steps = {max_steps:,}, so the learning rate never decays to "
        f"training.schedule.final = {schedule.final:g}; set a shorter warm-up or more steps"
    )


def _progress(schedule: CosineSchedule | LinearSchedule, step: int, max_steps: int) -> float:
    """Returns the progress from the end of the warm-up to the last step, in [0, 1]."""
    span = max(1, max_steps - schedule.warmup_steps)
    return min(1.0, max(0.0, (step - schedule.warmup_steps) / span))
