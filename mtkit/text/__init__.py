"""Text processing: lines, words, and subword pieces."""
