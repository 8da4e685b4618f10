"""The batches of each objective; losses are in `loss.py`, validators in `validators.py`."""
