"""Several checkpoints become one model."""
