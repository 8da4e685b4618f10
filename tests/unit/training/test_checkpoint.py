"""Where training stands."""

from mtkit.training.checkpoint import TrainingState


def test_patience_counts_checkpoints_since_the_best() -> None:
    state = TrainingState()
    for score, best, waited in ((3.0, 3.0, 0), (3.0, 3.0, 1), (2.0, 3.0, 2), (4.0, 4.0, 0)):
        state = state.after_validation(score)
        assert (state.best_score, state.num_without_best) == (best, waited)
