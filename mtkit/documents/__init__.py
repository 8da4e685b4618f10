"""Files and markup around inference: text is taken out of a document, translated and put back."""
