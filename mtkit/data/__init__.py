"""Text in, batches out; numpy throughout, torch in two files of batches: collate.py, examples.py."""
