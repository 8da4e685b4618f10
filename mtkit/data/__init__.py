"""From text to batches; only collate.py and examples.py of batches use torch, the rest numpy."""
