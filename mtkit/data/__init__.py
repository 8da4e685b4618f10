"""Text in, batches out; numpy throughout, torch in batches/collate.py alone."""
