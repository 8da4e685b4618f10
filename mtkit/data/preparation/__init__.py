"""The stages of `prepare`, and the report on them."""
