"""Large language models behind an address, as translators of lines."""
