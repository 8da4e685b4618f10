"""Text in, batches out; numpy throughout, torch in collate.py and examples.py of batches alone."""
