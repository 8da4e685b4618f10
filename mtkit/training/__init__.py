"""From data to checkpoints to one model."""
