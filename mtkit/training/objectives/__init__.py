"""What each objective learns from; losses are in `loss.py`, validators in `validators.py`."""
