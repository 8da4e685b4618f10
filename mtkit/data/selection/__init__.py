"""Text that is like one's own, or pairs that are translations, by models, which come from above."""
