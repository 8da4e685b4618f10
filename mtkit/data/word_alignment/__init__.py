"""Which words of a pair are translations of each other, found by statistics of many pairs."""
