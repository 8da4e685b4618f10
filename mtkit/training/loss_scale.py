"""Dynamic scaling of the loss in fp16, where small gradients would be 0 (arXiv 1710.03740, 3.2)."""

from typing import NamedTuple

_FIRST = 2.0**16
_LARGEST = 2.0**24
_NUM_UPDATES_TO_GROW = 2_000


class LossScale(NamedTuple):
    """A power of two by which the loss is multiplied before a backward pass.

    Attributes:
        factor: 1 where the loss isn't scaled.
        num_updates: Updates applied in a row with this factor.
    """

    factor: float = 1.0
    num_updates: int = 0

    @classmethod
    def resume(cls, factor: float, num_updates: int) -> "LossScale":
        """Returns the scale that a training's state has; before the first update that is 0."""
        return cls(factor or _FIRST, num_updates)

    def after_overflow(self) -> "LossScale":
        """Returns half the scale, for gradients that were too large for fp16."""
        return LossScale(self.factor / 2)

    def after_update(self) -> "LossScale":
        """Returns the scale after an update that was applied: every so often twice as large."""
        if self.num_updates + 1 < _NUM_UPDATES_TO_GROW:
            return LossScale(self.factor, self.num_updates + 1)
        return LossScale(min(2 * self.factor, _LARGEST))
