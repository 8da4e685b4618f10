"""Selects in-domain text, or pairs that are translations, by models that the caller provides."""
