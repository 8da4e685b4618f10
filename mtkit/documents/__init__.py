"""Files and markup around inference: extracts a document's text, and puts its translation back."""
