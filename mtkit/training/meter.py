"""Loss and speed between two log lines."""

import math
import time

from mtkit.training.update import Outcome


class Meter:
    """Loss and speed since the last log line."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begins again at nothing."""
        self._sums = [0.0, 0.0]
        self._num_target_tokens = 0
        self._num_seen_tokens = 0
        self._num_tokens = 0
        self._num_slots = 0
        self._gradient_norm = math.nan
        self._started_at = time.monotonic()

    def leave_out(self, seconds: float) -> None:
        """Takes time that no update was made in out of the speed."""
        self._started_at += seconds

    def add(self, outcome: Outcome) -> None:
        """Takes an update in; of a skipped one, its tokens alone."""
        self._num_seen_tokens += outcome.num_target_tokens
        self._num_tokens += outcome.num_tokens
        self._num_slots += outcome.num_slots
        if outcome.is_applied:
            self._sums[0] += outcome.loss
            self._sums[1] += outcome.negative_log_likelihood
            self._num_target_tokens += outcome.num_target_tokens
            self._gradient_norm = outcome.gradient_norm

    def means(self) -> dict[str, float]:
        """Returns means since the last log line, for the log; NaN without an update."""
        count = self._num_target_tokens
        loss, nll = (total / count if count else math.nan for total in self._sums)
        elapsed_seconds = time.monotonic() - self._started_at
        return {
            "loss": loss,
            "nll": nll,
            "perplexity": math.exp(min(nll, 700.0)),
            "gradient_norm": self._gradient_norm,
            "target_tokens_per_second": self._num_seen_tokens / elapsed_seconds,
            "padding": 1.0 - self._num_tokens / max(1, self._num_slots),
        }
